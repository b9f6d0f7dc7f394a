"""Which running attempts the polls of a cluster show: what finds runaways. Written only when something changes.

An attempt is known by its cluster, job id and start (within what sources differ). It is missing from the first poll
that does not show it on; `last_seen` is the poll before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.db import connection

from events.adapters import Draft, Refusal
from events.derive.records import NEAR
from events.types.jobs import JobReported

__all__ = ["RUNNING", "note_poll", "running_of"]

RUNNING: Final = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING"})

_SHOWN: Final = """
INSERT INTO jobs_seen (cluster, job_id, start_s)
    SELECT %(cluster)s, n.job_id, n.start_s FROM unnest(%(jobs)s::text[], %(starts)s::bigint[]) AS n (job_id, start_s)
ON CONFLICT (cluster, job_id, start_s) DO UPDATE SET last_seen = NULL, missing_from = NULL
    WHERE jobs_seen.missing_from IS NOT NULL"""
_VANISHED: Final = """
UPDATE jobs_seen s SET last_seen = greatest(to_timestamp(s.start_s), %(before)s), missing_from = %(now)s
WHERE s.cluster = %(cluster)s AND s.missing_from IS NULL AND NOT EXISTS (
    SELECT 1 FROM unnest(%(jobs)s::text[], %(starts)s::bigint[]) AS n (job_id, start_s)
    WHERE n.job_id = s.job_id AND n.start_s = s.start_s)"""
_UNSEEN: Final = """
INSERT INTO jobs_seen (cluster, job_id, start_s, last_seen, missing_from)
    SELECT a.cluster, a.job_id, extract(epoch FROM a.start_at)::bigint, a.start_at, %(now)s FROM jobs_attempt a
    WHERE a.end_at IS NULL AND a.cluster = %(cluster)s AND a.start_at <= %(now)s AND NOT EXISTS (
        SELECT 1 FROM jobs_seen s WHERE s.cluster = a.cluster AND s.job_id = a.job_id
            AND abs(s.start_s - extract(epoch FROM a.start_at)) <= %(near)s)
ON CONFLICT DO NOTHING"""
_SETTLED: Final = """
DELETE FROM jobs_seen s WHERE s.cluster = %(cluster)s AND s.missing_from IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM jobs_attempt a WHERE a.stream = 'job/' || s.cluster || '/' || s.job_id
        AND abs(s.start_s - extract(epoch FROM a.start_at)) <= %(near)s AND (a.end_at IS NULL OR a.lost))"""


def running_of(found: Iterable[Draft | Refusal]) -> set[tuple[str, int]]:
    """(job id, start in epoch seconds) of what a whole list of jobs shows as running."""
    return {
        (one.data.job_id, one.data.start)
        for one in found
        if isinstance(one, Draft)
        and isinstance(one.data, JobReported)
        and one.data.start is not None
        and one.data.state in RUNNING
    }


def note_poll(cluster: str, shown: set[tuple[str, int]], *, before: datetime | None, now: datetime) -> None:
    """Take in what one successful poll of a cluster showed, in the caller's transaction.

    before: when the poll before this one was made. An attempt of the books that no poll has ever shown is missing
    from now on, last seen at its start: somebody else told of it.
    """
    pairs = sorted(shown)
    values: dict[str, Any] = {
        "cluster": cluster,
        "jobs": [job for job, _ in pairs],
        "starts": [start for _, start in pairs],
        "before": before or now,
        "now": now,
        "near": NEAR,
    }
    with connection.cursor() as cursor:
        for statement in (_SHOWN, _VANISHED, _UNSEEN, _SETTLED):
            cursor.execute(statement, values)
