"""What one run or job cost at list price: its stretches cut at the site's midnights, at the price of each day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.money import MICRO_PER_CENT, SECONDS_PER_HOUR, decimal_cents, largest_remainder
from events.access import Scope
from events.reports import Params, midnight
from events.sqlfiles import statements
from fleet.queries import site
from jobs import windows

__all__ = ["Priced", "RunCost", "cost_of_job", "cost_of_run"]

# By an array, so that it is looked up by attempt and the table is not read.
_STRETCHES: Final = "x.attempt = ANY(ARRAY(SELECT t.id FROM jobs_attempt t WHERE t.{key} = %(id)s))"
_SUMS: Final = """
    SELECT f.resource_class, p.micro_per_hour, min(f.day), max(f.day), sum(f.unit_seconds)
    FROM ({facts}) AS f
    LEFT JOIN billing_price p ON p.resource_class = f.resource_class AND f.day >= p.from_day AND f.day < p.to_day
        AND p.currency = %(currency)s
    WHERE f.unit_seconds > 0 GROUP BY 1, 2 ORDER BY 1, 3, 2"""


@dataclass(frozen=True, slots=True)
class Priced:
    """What was used of one resource class at one price. micro_per_hour, amount: None where there is no price."""

    resource_class: str
    micro_per_hour: int | None
    unit_seconds: int
    amount: str | None


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of a run or job; parts add up to `amount` (decimal text with cents), None where nothing has a price."""

    currency: str
    parts: Sequence[Priced]
    amount: str | None

    @property
    def unpriced(self) -> list[Priced]:
        """Use that has no price and is not in the amount."""
        return [part for part in self.parts if part.micro_per_hour is None]


def cost_of_run(scope: Scope, run: UUID, start: datetime, cut: datetime) -> RunCost | None:
    """What the attempts of a run cost until `cut`; None for a caller who may not see money.

    start: of its first attempt. The caller must have found the run in `jobs.queries` with the same scope. Cents
    are given out by largest remainder, as in the report `costs`, whose total for the same use is the same.
    """
    return _cost_of("run", run, start, cut) if scope.money else None


def cost_of_job(scope: Scope, job: UUID, start: datetime, cut: datetime) -> RunCost | None:
    """The same of one job."""
    return _cost_of("job", job, start, cut) if scope.money else None


def _cost_of(key: str, id_: UUID, start: datetime, cut: datetime) -> RunCost:
    place = site()
    first = start.astimezone(place.zone).date()
    last = max(start, cut).astimezone(place.zone).date()
    params = Params(midnight(first, place.zone), midnight(last + timedelta(days=1), place.zone), place.zone, cut=cut)
    found = windows.window(params, place.zone)
    pieces, _, _, sums, _ = statements("jobs", "report_usage")
    facts = sums.format(pieces=pieces.format(running=_STRETCHES.format(key=key)))
    with connection.cursor() as cursor:
        arguments = {**found.arguments, "id": id_, "currency": place.currency}
        cursor.execute(_SUMS.format(facts=facts), arguments)
        return _cost(cursor.fetchall(), place.currency)


def _cost(rows: Sequence[tuple[Any, ...]], currency: str) -> RunCost:
    exact = [0 if micro is None else int(seconds) * int(micro) for _, micro, _, _, seconds in rows]
    cents = largest_remainder(exact, SECONDS_PER_HOUR * MICRO_PER_CENT)
    parts = [
        Priced(name, None, int(seconds), None) if micro is None
        else Priced(name, int(micro), int(seconds), decimal_cents(each))
        for (name, micro, _, _, seconds), each in zip(rows, cents, strict=True)
    ]  # fmt: skip
    priced = not parts or any(part.micro_per_hour is not None for part in parts)
    return RunCost(currency, parts, decimal_cents(sum(cents)) if priced else None)
