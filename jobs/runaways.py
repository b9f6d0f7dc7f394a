"""Attempts that nobody ends: charged to when they were last seen, flagged, and taken back when they show up.

A job is lost when the polls of its cluster have not shown it for UNSEEN_SECONDS although they succeeded; or, where
no poll of the cluster has succeeded for as long, when it runs PAST_LIMIT_SECONDS beyond its time limit (suspended
time apart): then it is charged to its limit, or to the last poll that showed it. Both are events with keys made of
what they say, so saying them again changes nothing; so is `job.found`, when a poll shows a lost job running.
Polls succeed again after a pause: the time in between counts for nothing, as nobody looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import connection

from events.append import Fact, append, fact
from events.derive.records import NEAR
from events.types.jobs import JobFound, JobLost
from fleet.models import Source

__all__ = ["PAST_LIMIT_SECONDS", "UNSEEN_SECONDS", "find_runaways", "say_found"]

UNSEEN_SECONDS: Final = 15 * 60
PAST_LIMIT_SECONDS: Final = 3600
SOURCE: Final = "hallbook"
ACTOR: Final = "runaways"

_UNSEEN: Final = """
SELECT a.cluster, a.job_id, extract(epoch FROM a.start_at)::bigint,
       extract(epoch FROM greatest(a.start_at, date_trunc('second', s.last_seen)))::bigint,
       extract(epoch FROM s.missing_from)::bigint
FROM jobs_seen s JOIN jobs_attempt a ON a.stream = 'job/' || s.cluster || '/' || s.job_id AND a.end_at IS NULL
    AND abs(s.start_s - extract(epoch FROM a.start_at)) <= %(near)s
JOIN unnest(%(clusters)s::text[], %(polled)s::timestamptz[]) AS p (cluster, polled_at) ON p.cluster = s.cluster
WHERE s.missing_from <= p.polled_at - %(unseen)s * interval '1 second'"""
_PAST_LIMIT: Final = """
SELECT a.cluster, a.job_id, extract(epoch FROM a.start_at)::bigint,
       greatest(extract(epoch FROM a.start_at)::bigint + j.limit_seconds + a.suspended_seconds,
                coalesce((SELECT max(floor(extract(epoch FROM coalesce(s.last_seen, p.polled_at)))) FROM jobs_seen s
                          LEFT JOIN unnest(%(clusters)s::text[], %(polled)s::timestamptz[]) AS p (cluster, polled_at)
                              ON p.cluster = s.cluster
                          WHERE s.cluster = a.cluster AND s.job_id = a.job_id
                              AND abs(s.start_s - extract(epoch FROM a.start_at)) <= %(near)s), 0)::bigint)
FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job
WHERE a.end_at IS NULL AND j.limit_seconds IS NOT NULL AND NOT a.cluster = ANY(%(polling)s)
    AND a.start_at <= %(now)s
    AND a.start_at + (j.limit_seconds + a.suspended_seconds + %(past)s) * interval '1 second' < %(now)s"""
_FOUND: Final = """
SELECT a.cluster, a.job_id, extract(epoch FROM a.start_at)::bigint, extract(epoch FROM a.end_at)::bigint
FROM jobs_attempt a JOIN unnest(%(jobs)s::text[], %(starts)s::bigint[]) AS n (job_id, start_s)
    ON n.job_id = a.job_id AND abs(n.start_s - extract(epoch FROM a.start_at)) <= %(near)s
WHERE a.lost AND a.cluster = %(cluster)s"""


def find_runaways(now: datetime | None = None) -> int:
    """Say which attempts are lost; how many new events that gave."""
    now = now or datetime.now(UTC)
    polled = dict(Source.objects.exclude(polled_at=None).order_by("polled_at").values_list("cluster", "polled_at"))
    recent = now - timedelta(seconds=UNSEEN_SECONDS)
    polling = sorted(cluster for cluster, at in polled.items() if at and at > recent)
    values: dict[str, Any] = {
        "now": now,
        "near": NEAR,
        "unseen": UNSEEN_SECONDS,
        "past": PAST_LIMIT_SECONDS,
        "clusters": list(polled),
        "polled": list(polled.values()),
        "polling": polling,
    }
    with connection.cursor() as cursor:
        cursor.execute(_UNSEEN, values)
        unseen = [_lost(row[:4], "unseen", row[4] + UNSEEN_SECONDS) for row in cursor.fetchall()]
        cursor.execute(_PAST_LIMIT, values)
        past = [_lost(row, "past_limit", row[3] + PAST_LIMIT_SECONDS) for row in cursor.fetchall()]
    return _say([*unseen, *past])


def say_found(cluster: str, shown: Iterable[tuple[str, int]], now: datetime) -> int:
    """Say which lost attempts a poll shows running: (job id, start) of all that it shows. How many new events."""
    pairs = sorted(shown)
    values: dict[str, Any] = {
        "cluster": cluster,
        "jobs": [job for job, _ in pairs],
        "starts": [start for _, start in pairs],
        "near": NEAR,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FOUND, values)
        return _say([_found(row, now) for row in cursor.fetchall()])


def _lost(row: Sequence[Any], why: Any, at: int) -> Fact:
    cluster, job_id, start, last_seen = str(row[0]), str(row[1]), int(row[2]), int(row[3])
    data = JobLost(cluster=cluster, job_id=job_id, start=start, last_seen=last_seen, why=why)
    key = f"lost/{cluster}/{job_id}/{start}/{last_seen}/{why}"
    return fact(data, type_="job.lost", source=SOURCE, source_key=key, occurred_us=at * 1_000_000, actor=ACTOR)


def _found(row: Sequence[Any], now: datetime) -> Fact:
    """Of one loss it is said once: by the end that the loss gave the attempt."""
    cluster, job_id, start, until = str(row[0]), str(row[1]), int(row[2]), int(row[3])
    data = JobFound(cluster=cluster, job_id=job_id, start=start)
    key = f"found/{cluster}/{job_id}/{start}/{until}"
    at = int(now.timestamp() * 1_000_000)
    return fact(data, type_="job.found", source=SOURCE, source_key=key, occurred_us=at, actor=ACTOR)


def _say(facts: Sequence[Fact]) -> int:
    return sum(outcome.status == "accepted" for outcome in append(facts)) if facts else 0
