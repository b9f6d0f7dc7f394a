"""Reading how well schedulers guessed when jobs would start. Scope (what the caller may see) is a required argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from events.access import Scope
from fleet.queries import site

__all__ = ["LEADS", "Error", "Estimates", "estimates", "last_month"]

HOUR: Final = 3600
LEADS: Final = (HOUR, 6 * HOUR, 24 * HOUR)
"""Seconds ahead that part estimates into classes: up to one hour, up to six, up to a day, and further."""
# An estimate: what the scheduler last said of an attempt while its start lay in one class of distance ahead. The first
# attempt of an array's task was looked at as its array. Estimates are told of a year ahead at most.
_ERRORS: Final = """
    SELECT DISTINCT ON (r.id, r.lead) r.lead, extract(epoch FROM r.start_at - r.expected)::bigint
    FROM (
        SELECT a.id, a.cluster, a.account, a.start_at, y.at, y.expected,
               (a.start_at AT TIME ZONE %(zone)s)::date AS day,
               width_bucket(extract(epoch FROM y.expected - y.at), %(leads)s::numeric[]) AS lead
        FROM (SELECT * FROM jobs_look WHERE expected IS NOT NULL AND at < %(end)s
              AND at >= %(start)s - interval '366 days' OFFSET 0) y
        CROSS JOIN LATERAL (
            (SELECT x.* FROM jobs_attempt x WHERE x.stream = y.stream OFFSET 0)
            UNION ALL
            SELECT x.* FROM (
                SELECT i.id, i.stream FROM jobs_job i
                WHERE i.array_job_id = split_part(y.stream COLLATE "default", '/', 3)
                  AND i.cluster = split_part(y.stream, '/', 2) AND i.stream <> y.stream OFFSET 0) j
            CROSS JOIN LATERAL (
                SELECT x.* FROM jobs_attempt x WHERE x.job = j.id AND x.number = 1 OFFSET 0) x) a
        WHERE a.start_at >= %(start)s AND a.start_at < %(end)s AND y.at < a.start_at
          AND y.at >= a.submit - interval '2 seconds' AND (%(cluster)s = '' OR a.cluster = %(cluster)s)) r
    LEFT JOIN jobs_accountplace p
        ON p.cluster = r.cluster AND p.account = r.account AND r.day >= p.from_day AND r.day < p.to_day
    LEFT JOIN jobs_projectplace q ON q.project = p.project AND r.day >= q.from_day AND r.day < q.to_day
    WHERE %(everything)s
       OR coalesce(q.path, ARRAY[coalesce(p.project, 'unmapped/' || r.account)]) && %(projects)s::text[]
    ORDER BY r.id, r.lead, r.at DESC"""


@dataclass(frozen=True, slots=True)
class Error:
    """How far starts lay from estimates of one class. lead_from, lead_to: seconds ahead, to None without an end.

    median, p90: of start - expected in seconds, below 0 where it started earlier; half_within: the median of how far
    off it was either way. Observed values (percentile_disc); None where there is no estimate.
    """

    lead_from: int
    lead_to: int | None
    count: int
    median: int | None
    p90: int | None
    half_within: int | None


@dataclass(frozen=True, slots=True)
class Estimates:
    """The errors of [start, end) by class, and of all classes together."""

    start: datetime
    end: datetime
    by_lead: Sequence[Error]
    total: Error


def estimates(scope: Scope, start: datetime, end: datetime, cluster: str = "") -> Estimates:
    """Of attempts in scope that started in the window: by how much their start missed what was expected.

    Of each attempt the last estimate of each class counts once. Cost: the estimates told since a year
    before the window.
    """
    arguments: dict[str, Any] = {
        "start": start, "end": end, "cluster": cluster, "zone": site().timezone, "leads": [one + 1 for one in LEADS],
        "everything": scope.projects is None, "projects": sorted(scope.projects or ()),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_ERRORS, arguments)
        found = [(int(lead), int(error)) for lead, error in cursor.fetchall()]
    edges = [0, *LEADS, None]
    by_lead = [
        _error(edges[place] or 0, edges[place + 1], [error for lead, error in found if lead == place])
        for place in range(len(LEADS) + 1)
    ]
    return Estimates(start, end, by_lead, _error(0, None, [error for _, error in found]))


def last_month(scope: Scope, cut: datetime, cluster: str = "") -> Estimates:
    """Of the 30 days before an instant."""
    return estimates(scope, cut - timedelta(days=30), cut, cluster)


def _error(lead_from: int, lead_to: int | None, errors: Iterable[int]) -> Error:
    ordered = sorted(errors)
    off = sorted(map(abs, ordered))
    return Error(lead_from, lead_to, len(ordered), _share(ordered, 50), _share(ordered, 90), _share(off, 50))


def _share(ordered: Sequence[int], percent: int) -> int | None:
    """The smallest value that `percent` of all do not exceed (percentile_disc)."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None
