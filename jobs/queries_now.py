"""Reading what stands now: what runs, what waits, and the days on which anything ran.

Scope (what the caller may see) is a required argument. What runs or waits now is charged to where its account
belongs today.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection

from events import queries as log
from events.access import Scope
from fleet.queries import site
from jobs.filters import WAITING
from jobs.places import UNMAPPED
from jobs.queries import may_choose

__all__ = ["ActiveRun", "Standing", "Waiting", "active_runs", "days_with_use", "last_days", "lost_attempts",
           "standing", "unmapped_accounts", "use_span", "waiting"]  # fmt: skip

_TODAY: Final = "(now() AT TIME ZONE %(zone)s)::date"
# Project and path of a row `r` that has a cluster and an account, as they are today.
_PLACE: Final = f"""
    LEFT JOIN jobs_accountplace a ON a.cluster = r.cluster AND a.account = r.account
        AND {_TODAY} >= a.from_day AND {_TODAY} < a.to_day
    LEFT JOIN jobs_projectplace p ON p.project = a.project AND {_TODAY} >= p.from_day AND {_TODAY} < p.to_day"""
_PROJECT: Final = "coalesce(a.project, 'unmapped/' || r.account)"
_RUNNING: Final = """
    SELECT s.cluster, s.account, s.run, s.gpus, s.nodes, s.attempt FROM jobs_segment s WHERE s.end_at IS NULL"""
_WAITING: Final = """
    SELECT j.cluster, j.account, j.id, j.reason, coalesce(j.eligible, j.submit) AS since
    FROM jobs_run o JOIN jobs_job j ON j.run = o.id
    WHERE o.end_at IS NULL AND j."end" IS NULL AND j.state = ANY(%(states)s)"""

# Where projects hung, as stretches of days, as far as wanted: looked up in the index of the roll-up by project and day.
_PLACES: Final = """
    SELECT p.project, p.from_day, p.to_day, p.path FROM jobs_projectplace p
    UNION ALL
    SELECT c, date '0001-01-01', date '9999-12-31', ARRAY[c]
    FROM unnest(%(projects)s::text[] || ARRAY[%(project)s]) AS c
    WHERE c <> '' AND NOT EXISTS (SELECT 1 FROM jobs_projectplace p WHERE p.project = c)"""
_INSIDE: Final = """(%(everything)s OR {path} && %(projects)s::text[])
    AND (%(project)s = '' OR {path} @> ARRAY[%(project)s])"""
_RUNNING_SPAN: Final = f"""
    SELECT (min(r.start_at) AT TIME ZONE %(zone)s)::date AS first, CASE WHEN count(*) > 0 THEN {_TODAY} END AS last
    FROM (SELECT * FROM jobs_segment WHERE end_at IS NULL) r {_PLACE}
    WHERE {_INSIDE.format(path=f"coalesce(p.path, ARRAY[{_PROJECT}])")}"""
_SPAN: Final = f"""
    SELECT min(first), max(last) FROM (
        SELECT u.first, u.last FROM ({_PLACES}) d CROSS JOIN LATERAL (
            SELECT min(x.day) AS first, max(x.day) AS last FROM jobs_usageday x
            WHERE x.project = d.project AND x.day >= d.from_day AND x.day < d.to_day) u
        WHERE {_INSIDE.format(path="d.path")}
        UNION ALL {_RUNNING_SPAN}) s"""
_WHOLE_SPAN: Final = f"""
    SELECT min(first), max(last) FROM (
        SELECT min(day) AS first, max(day) AS last FROM jobs_usageday UNION ALL {_RUNNING_SPAN}) s"""
_LAST_DAYS: Final = f"""
    SELECT code, max(u.day) FROM (
        SELECT * FROM ({_PLACES}) d WHERE {_INSIDE.format(path="d.path")}
        UNION ALL
        SELECT c, date '0001-01-01', date '9999-12-31', ARRAY[c] FROM unnest(%(codes)s::text[]) AS c) d
    CROSS JOIN LATERAL (
        SELECT max(x.day) AS day FROM jobs_usageday x
        WHERE x.project = d.project AND x.day >= d.from_day AND x.day < d.to_day) u
    CROSS JOIN unnest(d.path) AS code WHERE u.day IS NOT NULL GROUP BY code"""


class Standing(NamedTuple):
    """What is held and waited for now."""

    gpus: int
    nodes: int
    attempts: int
    runs: int


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run that holds something now. since: start of its oldest running attempt."""

    id: UUID
    name: str
    project: str
    user: str
    gpus: int
    attempts: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs of a project that wait. since: when the longest waiting one became eligible; reason: the commonest."""

    project: str
    jobs: int
    since: datetime | None
    reason: str


def standing(scope: Scope) -> Standing:
    """GPUs, nodes, attempts and runs that run now."""
    query = f"""SELECT coalesce(sum(r.gpus), 0), coalesce(sum(r.nodes), 0), count(DISTINCT r.attempt),
                       count(DISTINCT r.run) FROM ({_RUNNING}) r {{place}} WHERE {{inside}}"""
    [row] = _read(query, scope)
    return Standing(*map(int, row))


def active_runs(scope: Scope, most: int) -> list[ActiveRun]:
    """Runs that hold something now, the largest first."""
    query = f"""
        SELECT u.run, CASE WHEN NOT o.named THEN j.cluster || '/' || j.job_id
                           WHEN o.generation > 1 THEN o.name || ' #' || o.generation ELSE o.name END,
               u.project, o.user_id, u.gpus, u.attempts,
               (SELECT min(t.start_at) FROM jobs_attempt t WHERE t.run = u.run AND t.end_at IS NULL)
        FROM (SELECT r.run, min({_PROJECT}) AS project, sum(r.gpus) AS gpus, count(DISTINCT r.attempt) AS attempts
              FROM ({_RUNNING}) r {{place}} WHERE {{inside}} GROUP BY r.run ORDER BY gpus DESC, r.run
              LIMIT %(most)s) u
        JOIN jobs_run o ON o.id = u.run LEFT JOIN jobs_job j ON j.id = u.run ORDER BY u.gpus DESC, u.run"""
    found = _read(query, scope, most=most)
    people = log.people(row[3] for row in found)
    return [
        ActiveRun(id_, name, project, people.get(user, user), int(gpus), int(attempts), since)
        for id_, name, project, user, gpus, attempts, since in found
    ]


def waiting(scope: Scope) -> list[Waiting]:
    """Projects whose jobs wait, the most jobs first."""
    query = f"""SELECT {_PROJECT}, count(*), min(r.since), mode() WITHIN GROUP (ORDER BY r.reason)
                FROM ({_WAITING}) r {{place}} WHERE {{inside}} GROUP BY 1 ORDER BY 2 DESC, 1"""
    return [
        Waiting(str(row[0]), int(row[1]), row[2], row[3] or "") for row in _read(query, scope, states=list(WAITING))
    ]


def lost_attempts(scope: Scope) -> int:
    """Attempts whose end nobody told: charged to when they were last seen."""
    [(number,)] = _read("SELECT count(*) FROM jobs_attempt r {place} WHERE r.lost AND {inside}", scope)
    return int(number)


def use_span(scope: Scope, project: str = "") -> tuple[date, date] | None:
    """The site's first and last day with use in scope, of a project or of all; today where something runs."""
    if project and not may_choose(scope, project):
        return None
    with connection.cursor() as cursor:
        arguments = {"zone": site().timezone, **_wanted(scope, project)}
        cursor.execute(_WHOLE_SPAN if scope.projects is None and not project else _SPAN, arguments)
        first, last = cursor.fetchone()
    return None if first is None else (first, last)


def last_days(scope: Scope, accounts: Collection[str] = ()) -> dict[str, date]:
    """Last day with use of every project and of what is above it; what runs now is not looked at.

    accounts: accounts without project, to be looked up as well.
    """
    arguments = _wanted(scope, "") | {"codes": [f"{UNMAPPED}{account}" for account in accounts]}
    with connection.cursor() as cursor:
        cursor.execute(_LAST_DAYS, arguments)
        return {str(code): day for code, day in cursor.fetchall()}


def _wanted(scope: Scope, project: str) -> dict[str, Any]:
    return {"everything": scope.projects is None, "projects": sorted(scope.projects or ()), "project": project}


def unmapped_accounts(scope: Scope) -> list[str]:
    """Accounts that were used on a day on which they belonged to no project: found by hopping over an index."""
    if scope.projects is not None:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            """WITH RECURSIVE hop AS (
                   SELECT min(project) AS project FROM jobs_usageday
                   UNION ALL
                   SELECT (SELECT min(u.project) FROM jobs_usageday u WHERE u.project > hop.project)
                   FROM hop WHERE hop.project IS NOT NULL)
               SELECT substr(project, 10) FROM hop WHERE project LIKE 'unmapped/%' ORDER BY 1"""
        )
        return [str(account) for (account,) in cursor.fetchall()]


def days_with_use(first: date, last: date) -> set[date]:
    """Days of [first, last] on which anybody used anything: says that the books reach there, and nothing else."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT d::date FROM generate_series(%(first)s::date, %(last)s::date, interval '1 day') d
               WHERE EXISTS (SELECT 1 FROM jobs_usageday u WHERE u.day = d::date)
               OR EXISTS (SELECT 1 FROM jobs_segment s WHERE s.end_at IS NULL
                          AND (s.start_at AT TIME ZONE %(zone)s)::date <= d::date AND d <= now())""",
            {"first": first, "last": last, "zone": site().timezone},
        )
        return {day for (day,) in cursor.fetchall()}


def _read(query: str, scope: Scope, **arguments: Any) -> Sequence[tuple[Any, ...]]:
    """Rows of a query over a relation `r`; {place} and {inside} stand for its project and the caller's scope."""
    inside, place = "true", _PLACE
    if scope.projects is not None:
        inside = f"coalesce(p.path, ARRAY[{_PROJECT}]) && %(projects)s::text[]"
        arguments["projects"] = sorted(scope.projects)
    with connection.cursor() as cursor:
        cursor.execute(query.format(place=place, inside=inside), {**arguments, "zone": site().timezone})
        return list(cursor.fetchall())
