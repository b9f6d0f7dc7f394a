"""Reading which jobs of some people are over for good: what is told to them at the end of a job.

A job is over when it has an end and none of its attempts runs. It waits a little longer until that is told: a job that
is requeued looks over for a moment, and where only scripts on the nodes spoke, the scheduler's own word on its state
is still to come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import connection

from jobs import report_waste
from jobs.models import Goodput, Grant
from jobs.waste import CAUSES, Cause

__all__ = ["SETTLED", "UNTOLD", "InVain", "Over", "in_vain", "over", "people_with_grants"]

SETTLED: Final = timedelta(minutes=2)
"""So long after its end a job counts as over."""
UNTOLD: Final = timedelta(hours=1)
"""The same where only scripts on the nodes told of its end."""
_ONLY_SCRIPTS: Final = "hook"
_PEOPLE: Final = "SELECT id FROM events_person WHERE shard = %(shard)s AND name = ANY(%(names)s)"
_OVER: Final = """
    SELECT j.id, p.name, j."end", l.start_at, l.sources
    FROM (SELECT DISTINCT x.job FROM jobs_attempt x
          WHERE x.end_at >= %(since)s AND x.user_id = ANY(%(people)s)) t
    JOIN jobs_job j ON j.id = t.job
    JOIN events_person p ON p.shard = %(shard)s AND p.id = j.user_id
    CROSS JOIN LATERAL (
        SELECT x.start_at, x.lost, x.sources FROM jobs_attempt x WHERE x.job = j.id ORDER BY x.number DESC LIMIT 1) l
    WHERE j."end" >= %(since)s AND j."end" <= %(until)s AND j.user_id = ANY(%(people)s) AND NOT l.lost
      AND NOT EXISTS (SELECT 1 FROM jobs_attempt x WHERE x.job = j.id AND x.end_at IS NULL)
    ORDER BY j."end", j.id"""
_IN_VAIN: Final = "SELECT {sums}, count(not_judged) FROM ({judged}) t"


@dataclass(frozen=True, slots=True)
class Over:
    """A job that is over. user: name of its person; last_start: of its last attempt."""

    job: UUID
    user: str
    end: datetime
    last_start: datetime


def over(names: Collection[str], since: datetime, now: datetime) -> list[Over]:
    """Jobs of people, as their scheduler names them, that ran and ended in [since, now), the earliest first.

    Left out are those that ended a moment ago, and those whose end nobody told (`lost`). No scope: whoever asks tells
    each person of its own jobs only. Cost: the attempts that ended since, by the index of ends.
    """
    with connection.cursor() as cursor:
        cursor.execute(_PEOPLE, {"shard": settings.SHARD, "names": sorted(names)})
        people = [id_ for (id_,) in cursor.fetchall()]
        if not people:
            return []
        until = now - SETTLED
        cursor.execute(_OVER, {"shard": settings.SHARD, "people": people, "since": since, "until": until})
        found = cursor.fetchall()
    return [
        Over(job, user, end, start)
        for job, user, end, start, sources in found
        if not _scripts_only(sources) or end <= now - UNTOLD
    ]


def _scripts_only(sources: str) -> bool:
    return all(source.partition(":")[0] == _ONLY_SCRIPTS for source in sources.split(","))


@dataclass(frozen=True, slots=True)
class InVain:
    """What a job held in vain: GPU-seconds by cause, without those of 0.

    told: attempts whose programs told where the time went. not_judged: attempts of which nobody knows what was lost.
    """

    causes: Mapping[Cause, int]
    told: int
    not_judged: int


def in_vain(job: UUID) -> InVain:
    """By the rules of the report `waste`. The caller must have a right to the job."""
    sums = ", ".join(f"coalesce(sum(t.{cause}), 0)" for cause in CAUSES)
    judged = report_waste.judged("x.job = %(job)s", limit="NULL::bigint")
    with connection.cursor() as cursor:
        cursor.execute(_IN_VAIN.format(sums=sums, judged=judged), {"job": job})
        *seconds, not_judged = cursor.fetchone()
        cursor.execute("SELECT id FROM jobs_attempt WHERE job = %s", [job])
        attempts = [id_ for (id_,) in cursor.fetchall()]
    found = {cause: int(value) for cause, value in zip(CAUSES, seconds, strict=True) if value}
    return InVain(found, Goodput.objects.filter(attempt__in=attempts).count(), int(not_judged))


def people_with_grants() -> set[int]:
    """Keys of the people who were granted a project."""
    return set(Grant.objects.values_list("user_id", flat=True))
