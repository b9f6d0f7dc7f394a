"""The report `costs`: what use costs at the dated prices of its resource classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from django.db import connection

from billing.money import MICRO_PER_CENT, SECONDS_PER_HOUR, decimal_cents, largest_remainder
from events import queries as log
from events.access import Forbidden, Scope
from events.rebuild import read_at
from events.reports import BUCKETS, AsOf, Column, Definition, Params, Report, Row, register
from fleet.queries import Site, site
from jobs import windows
from jobs.windows import DIMENSIONS, Grouping

COLUMNS: Final = (
    Column("amount", "Cost", "money"),
    Column("gpu_seconds", "GPU-seconds", "seconds", "GPU-s"),
    Column("cpu_only_seconds", "CPU-seconds without GPU", "seconds", "CPU-s"),
    Column("unpriced_gpu_seconds", "GPU-seconds without price", "seconds", "GPU-s"),
    Column("unpriced_cpu_seconds", "CPU-seconds without price", "seconds", "CPU-s"),
)
EXTRA: Final = {"resource_class": "f.resource_class"}
GROUPINGS: Final = (*DIMENSIONS, *EXTRA, *BUCKETS)
DENOMINATOR: Final = SECONDS_PER_HOUR * MICRO_PER_CENT
"""A cost is kept as unit-seconds x micro-units per hour: exact and additive; this many make one cent."""

# Use joined with the price of its class on its day, in the currency of the books.
PRICED: Final = """
    SELECT f.*, p.micro_per_hour
    FROM ({facts}) AS f
    LEFT JOIN billing_price p ON p.resource_class = f.resource_class AND f.day >= p.from_day AND f.day < p.to_day
        AND p.currency = %(currency)s
    WHERE {condition}"""
SUMS: Final = """
    coalesce(sum(unit_seconds * micro_per_hour), 0)::numeric,
    coalesce(sum(unit_seconds) FILTER (WHERE resource_class <> 'cpu'), 0),
    coalesce(sum(unit_seconds) FILTER (WHERE resource_class = 'cpu'), 0),
    coalesce(sum(unit_seconds) FILTER (WHERE resource_class <> 'cpu' AND micro_per_hour IS NULL), 0),
    coalesce(sum(unit_seconds) FILTER (WHERE resource_class = 'cpu' AND micro_per_hour IS NULL), 0)"""
GAPS: Final = """
    SELECT resource_class, min(day), max(day), sum(unit_seconds),
           (SELECT string_agg(DISTINCT o.currency, ', ') FROM billing_price o
            WHERE o.resource_class = g.resource_class AND o.currency <> %(currency)s)
    FROM ({priced}) g WHERE micro_per_hour IS NULL AND unit_seconds > 0 GROUP BY 1 ORDER BY 1"""


def costs(scope: Scope, params: Params) -> Report:
    """Cost at list price of the use inside the window, exact to the cent over any grouping.

    Use without a price is left out of the amounts and listed in `gaps`; a row with nothing but such use has no
    amount. Cents are given out by largest remainder, so that the rows add up to the total.
    """
    if not scope.money:
        raise Forbidden("the report costs needs the right to see money")
    with read_at(params.as_known_at):
        as_of = log.as_of(params.cut) if params.as_known_at is None else AsOf(params.as_known_at, params.cut_at)
        place = site()
        by = windows.grouping(windows.window(params, place.zone), {**DIMENSIONS, **EXTRA})
        found, gaps = _read(scope, by, place.currency)
        if not found:
            windows.check_project(scope, params.project)
        keys, rows = by.in_order(found)
        whole = [] if "branch" not in params.group_by else _whole(scope, params, place)
    shown, total = _amounts(by.width, rows, place.currency)
    if whole:  # rows overlap: each is rounded by itself, and the total is none of their sum
        shown = [_amounts(by.width, [row], place.currency)[1] for row in rows]
        total = _amounts(0, whole, place.currency)[1]
    named = [{**key, **values} for key, values in zip(keys, shown, strict=True)]
    return Report("costs", params, (*by.heads(), *COLUMNS), named, total, as_of, gaps)


def _whole(scope: Scope, params: Params, place: Site) -> list[tuple[Any, ...]]:
    """The one row of everything asked for."""
    by = windows.grouping(windows.window(replace(params, group_by=()), place.zone), {**DIMENSIONS, **EXTRA})
    return _read(scope, by, place.currency, gaps=False)[0]


def _read(scope: Scope, by: Grouping, currency: str, *, gaps: bool = True) -> tuple[list[tuple[Any, ...]], list[Row]]:
    arguments = {**by.window.arguments, "currency": currency}
    condition = windows.scoped(scope, by.window.params, arguments)
    priced = PRICED.format(facts=windows.class_facts(by.window), condition=condition)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {by.select(SUMS)} FROM ({priced}) AS f {by.sql}", arguments)
        rows = cursor.fetchall()
        if not gaps or not any(row[-2] or row[-1] for row in rows):  # all has a price: no look for what has none
            return rows, []
        cursor.execute(GAPS.format(priced=priced), arguments)
        return rows, [_gap(row, currency) for row in cursor.fetchall()]


def _gap(row: tuple[Any, ...], currency: str) -> Row:
    resource_class, first, last, seconds, others = row
    unit = "cpu_seconds" if resource_class == "cpu" else "gpu_seconds"
    reason = f"priced in {others}, the books are in {currency}" if others else "no price on these days"
    return {
        "resource_class": resource_class,
        "from": first.isoformat(),
        "to": last.isoformat(),
        unit: int(seconds),
        "reason": reason,
    }


def _amounts(width: int, rows: list[tuple[Any, ...]], currency: str) -> tuple[list[Row], Row]:
    cents = largest_remainder([int(row[width]) for row in rows], DENOMINATOR)
    rows = [(*row[:width], *(int(value) for value in row[width:])) for row in rows]
    shown = [_values(row[width + 1 :], amount, currency) for row, amount in zip(rows, cents, strict=True)]
    sums = [sum(row[width + 1 + n] for row in rows) for n in range(4)]
    return shown, _values(sums, sum(cents), currency)


def _values(seconds: Any, cents: int, currency: str) -> Row:
    gpu, cpu, gpu_gap, cpu_gap = seconds
    priced = (gpu - gpu_gap) + (cpu - cpu_gap) > 0 or gpu + cpu == 0
    return {
        "amount": {"amount": decimal_cents(cents) if priced else None, "currency": currency},
        "gpu_seconds": gpu,
        "cpu_only_seconds": cpu,
        "unpriced_gpu_seconds": gpu_gap,
        "unpriced_cpu_seconds": cpu_gap,
    }


def declare() -> None:
    """Register the reports of billing."""
    register(Definition(
        "costs", "Cost of use at list price", GROUPINGS, ("project",), costs, ("price",), money=True,
        about="What did the use of projects cost at list price?", measure="amount", attempts="ran",
        mend="Publish a rate of that class for these days (an event rate.published): the cost follows by itself.",
    ))  # fmt: skip
