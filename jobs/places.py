"""Where rows belong: the project of what ran, and which rows lie in some projects.

What lies in a project is found by accounts and times instead of row by row: an account belonged to it for certain
days, and indexes know accounts and times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection
from django.db.models import F, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce, Concat, TruncDate

from events.reports import midnight
from fleet.queries import site
from jobs.dimensions import FIRST_DAY, LAST_DAY
from jobs.models import AccountPlace

__all__ = ["UNMAPPED", "Stay", "inside", "stays", "with_project"]

UNMAPPED: Final = "unmapped/"
"""Before an account that belongs to no project: the code under which its use is booked."""
_NARROWED: Final = "hallbook_stays"
"""Attribute of a query (copied with it): the stays that its rows were narrowed to."""
_STAYS: Final = """
    SELECT a.cluster, a.account, a.from_day, a.to_day FROM jobs_accountplace a WHERE a.project = ANY(%(projects)s)
    UNION ALL
    SELECT a.cluster, a.account, greatest(a.from_day, p.from_day), least(a.to_day, p.to_day)
    FROM jobs_projectplace p
    JOIN jobs_accountplace a ON a.project = p.project AND a.from_day < p.to_day AND p.from_day < a.to_day
    WHERE p.path && %(projects)s::text[] AND a.project <> ALL(%(projects)s)
    ORDER BY 1, 2, 3"""


@dataclass(frozen=True, slots=True)
class Stay:
    """The days [from_day, to_day) on which an account belonged to one of some projects."""

    cluster: str
    account: str
    from_day: date
    to_day: date


def with_project(rows: QuerySet[Any], when: Any) -> QuerySet[Any]:
    """Rows with `project`: where their account belonged on the site's day of the instant `when`."""
    rows = rows.alias(site_day=TruncDate(when, tzinfo=site().zone))
    place = AccountPlace.objects.filter(
        cluster=OuterRef("cluster"),
        account=OuterRef("account"),
        from_day__lte=OuterRef("site_day"),
        to_day__gt=OuterRef("site_day"),
    )
    unmapped = Concat(Value(UNMAPPED), F("account"), output_field=TextField())
    found: QuerySet[Any] = rows.annotate(project=Coalesce(Subquery(place.values("project")[:1]), unmapped))
    return found


def inside(rows: QuerySet[Any], when: Any, projects: Collection[str]) -> QuerySet[Any]:
    """Of rows `with_project` those in one of the projects or in what hung below one on their day.

    What was narrowed before (to a scope) is remembered with the rows, so that two choices that share nothing are
    known to be empty before any row is read.
    """
    found, before = stays(projects), getattr(rows.query, _NARROWED, None)
    known = not any(code.startswith(UNMAPPED) for code in projects)
    if known and before is not None:
        found = _shared(found, before)
    narrowed: QuerySet[Any] = rows.alias(placed_at=when).filter(_condition(found, projects))
    if known:
        setattr(narrowed.query, _NARROWED, found)
    return narrowed


def _shared(some: Iterable[Stay], others: Iterable[Stay]) -> list[Stay]:
    """The days that both have, by account."""
    by_account: dict[tuple[str, str], list[Stay]] = {}
    for stay in others:
        by_account.setdefault((stay.cluster, stay.account), []).append(stay)
    found = [
        Stay(one.cluster, one.account, max(one.from_day, two.from_day), min(one.to_day, two.to_day))
        for one in some
        for two in by_account.get((one.cluster, one.account), ())
    ]
    return [stay for stay in found if stay.from_day < stay.to_day]


def stays(projects: Collection[str]) -> list[Stay]:
    """Which accounts belonged to one of the projects, or below one, and when; what follows on is joined."""
    with connection.cursor() as cursor:
        cursor.execute(_STAYS, {"projects": sorted(projects)})
        return _joined(Stay(*row) for row in cursor.fetchall())


def _joined(found: Iterable[Stay]) -> list[Stay]:
    out: list[Stay] = []
    for stay in found:
        last = out[-1] if out else None
        if last and (last.cluster, last.account) == (stay.cluster, stay.account) and stay.from_day <= last.to_day:
            out[-1] = Stay(last.cluster, last.account, last.from_day, max(last.to_day, stay.to_day))
        else:
            out.append(stay)
    return out


def _condition(found: Collection[Stay], projects: Collection[str]) -> Q:
    """One alternative per cluster and stretch of time, so that the database can estimate how many rows it means."""
    accounts: dict[tuple[str, date, date], list[str]] = {}
    for stay in found:
        accounts.setdefault((stay.cluster, stay.from_day, stay.to_day), []).append(stay.account)
    condition = Q(pk__in=[])
    for (cluster, from_day, to_day), names in accounts.items():
        condition |= Q(cluster=cluster, account__in=names) & _between(from_day, to_day)
    unmapped = [code.removeprefix(UNMAPPED) for code in sorted(projects) if code.startswith(UNMAPPED)]
    if unmapped:
        condition |= Q(account__in=unmapped, project__in=[f"{UNMAPPED}{account}" for account in unmapped])
    return condition


def _between(from_day: date, to_day: date) -> Q:
    """Rows of the days [from_day, to_day); rows without an instant belong to no project on any day."""
    zone = site().zone
    found = Q(placed_at__isnull=False)
    if from_day > FIRST_DAY:
        found &= Q(placed_at__gte=midnight(from_day, zone))
    if to_day < LAST_DAY:
        found &= Q(placed_at__lt=midnight(to_day, zone))
    return found
