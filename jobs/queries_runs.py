"""Reading one run or job with all that belongs to it, and what is held until an instant.

A run lies in one project, where its account belonged when it started: who may see it sees all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import F, QuerySet
from django.db.models.functions import Length

from events.access import Scope
from jobs.models import Attempt, Job, Run, Segment
from jobs.places import with_project
from jobs.queries import PLACED, jobs, runs

__all__ = ["Held", "Mean", "Odd", "Totals", "attempts_of_job", "attempts_of_run", "held_by_attempts", "held_by_jobs",
           "held_by_runs", "held_over_time", "job_named", "jobs_by_id", "jobs_of_run", "odd_jobs", "odd_runs",
           "run_named", "segments_of", "siblings", "totals_of_job", "totals_of_run"]  # fmt: skip

_SECONDS: Final = "greatest(0, extract(epoch FROM coalesce(y.end_at, %(cut)s) - y.start_at))::bigint"
"""Length of a stretch in seconds; an open one is cut at the instant."""
_HELD: Final = f"""
    SELECT {{key}}, max(y.gpus), sum({_SECONDS} * y.gpus), sum({_SECONDS} * y.nodes), sum({_SECONDS})
    FROM jobs_attempt x JOIN jobs_segment y ON y.attempt = x.id
    WHERE {{key}} = ANY(%(ids)s) AND {{which}} GROUP BY 1"""
_ODD: Final = """
    SELECT {key}, bool_or(x.lost), bool_or(x.disagree), bool_and(x.confirmed), bool_or(x.corrected)
    FROM jobs_attempt x
    WHERE {key} = ANY(%(ids)s) AND (x.lost OR x.disagree OR NOT x.confirmed OR x.corrected) GROUP BY 1"""
_TOTALS: Final = f"""
    SELECT count(*), coalesce(sum(s.wall), 0), coalesce(sum(s.gpu), 0), coalesce(sum(s.node), 0),
           coalesce(sum(s.cpu), 0), coalesce(sum(x.suspended_seconds), 0), coalesce(max(s.gpus), 0),
           coalesce(max(s.nodes), 0), count(*) FILTER (WHERE x.end_at IS NULL), count(*) FILTER (WHERE x.lost),
           count(*) FILTER (WHERE x.disagree), count(*) FILTER (WHERE NOT x.confirmed),
           count(*) FILTER (WHERE x.corrected), min(x.start_at), max(coalesce(x.end_at, %(cut)s))
    FROM jobs_attempt x
    LEFT JOIN LATERAL (
        SELECT sum({_SECONDS}) AS wall, sum({_SECONDS} * y.gpus) AS gpu, sum({_SECONDS} * y.nodes) AS node,
               sum({_SECONDS} * y.cpus) AS cpu, max(y.gpus) AS gpus, max(y.nodes) AS nodes
        FROM jobs_segment y WHERE y.attempt = x.id) s ON true
    WHERE {{key}} = %(id)s"""
# GPU-seconds in each of equal pieces of a span: a stretch is cut to the pieces that it touches.
_OVER_TIME: Final = """
    SELECT p.n, sum(greatest(0, extract(epoch FROM least(y.until, %(start)s + p.n * %(step)s)
                                                 - greatest(y.start_at, %(start)s + (p.n - 1) * %(step)s))) * y.gpus)
    FROM (SELECT s.start_at, s.gpus, coalesce(s.end_at, greatest(s.start_at, %(cut)s)) AS until
          FROM jobs_attempt x JOIN jobs_segment s ON s.attempt = x.id WHERE x.run = %(run)s) y
    CROSS JOIN LATERAL generate_series(
        greatest(1, ceil(extract(epoch FROM y.start_at - %(start)s) / extract(epoch FROM %(step)s))::int),
        least(%(pieces)s, 1 + floor(extract(epoch FROM y.until - %(start)s) / extract(epoch FROM %(step)s))::int)
    ) AS p (n)
    GROUP BY 1"""


@dataclass(frozen=True, slots=True)
class Held:
    """What something held until an instant. gpus: the most at once in one attempt."""

    gpus: int
    gpu_seconds: int
    node_seconds: int
    wall_seconds: int


@dataclass(frozen=True, slots=True)
class Odd:
    """What is odd about the attempts of something: whether any is lost, disputed or corrected; all confirmed."""

    lost: bool
    disagree: bool
    confirmed: bool
    corrected: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all attempts of a run until an instant. gpus, nodes: the most of any attempt."""

    attempts: int
    wall_seconds: int
    gpu_seconds: int
    node_seconds: int
    cpu_seconds: int
    suspended_seconds: int
    gpus: int
    nodes: int
    running: int
    lost: int
    disagree: int
    unconfirmed: int
    corrected: int
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class Mean:
    """GPU-seconds held inside [start, end)."""

    start: datetime
    end: datetime
    gpu_seconds: int


def held_by_runs(ids: Collection[UUID], cut: datetime) -> dict[UUID, Held]:
    """What the attempts that still run held until `cut`, by run; runs without such an attempt are left out."""
    return _held("x.run", "x.end_at IS NULL", ids, cut)


def held_by_jobs(ids: Collection[UUID], cut: datetime) -> dict[UUID, Held]:
    """What all attempts of jobs held until `cut`; jobs that never started are left out."""
    return _held("x.job", "true", ids, cut)


def held_by_attempts(ids: Collection[UUID], cut: datetime) -> dict[UUID, Held]:
    """What attempts held until `cut`, over all their stretches."""
    return _held("x.id", "true", ids, cut)


def _held(key: str, which: str, ids: Collection[UUID], cut: datetime) -> dict[UUID, Held]:
    if not ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_HELD.format(key=key, which=which), {"ids": list(ids), "cut": cut})
        return {id_: Held(gpus, int(gpu), int(node), int(wall)) for id_, gpus, gpu, node, wall in cursor.fetchall()}


def odd_runs(ids: Collection[UUID]) -> dict[UUID, Odd]:
    """What is odd about the attempts of runs; runs without anything odd are left out."""
    return _odd("x.run", ids)


def odd_jobs(ids: Collection[UUID]) -> dict[UUID, Odd]:
    """The same of jobs."""
    return _odd("x.job", ids)


def _odd(key: str, ids: Collection[UUID]) -> dict[UUID, Odd]:
    if not ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_ODD.format(key=key), {"ids": list(ids)})
        return {row[0]: Odd(*row[1:]) for row in cursor.fetchall()}


def jobs_by_id(ids: Collection[UUID]) -> dict[UUID, Job]:
    """Jobs by their key, without a project: for rows that the caller may see already."""
    return {job.id: job for job in Job.objects.filter(id__in=ids)} if ids else {}


def run_named(scope: Scope, id_: UUID) -> Run | None:
    """A run with its `project`, if the caller may see it."""
    return runs(scope).filter(id=id_).first()


def job_named(scope: Scope, id_: UUID) -> Job | None:
    """A job with its `project`, if the caller may see it."""
    return jobs(scope).filter(id=id_).first()


def attempts_of_run(run: Run) -> QuerySet[Attempt]:
    """The attempts of a run that the caller may see, in order of their start."""
    return with_project(Attempt.objects.filter(run=run.id), PLACED[Attempt]).order_by("start", "id")


def attempts_of_job(job: Job) -> QuerySet[Attempt]:
    """The attempts of a job that the caller may see, in order."""
    return with_project(Attempt.objects.filter(job=job.id), PLACED[Attempt]).order_by("number")


def jobs_of_run(run: Run) -> QuerySet[Job]:
    """The jobs of a run that the caller may see, in order of submission."""
    rows = Job.objects.filter(run=run.id).exclude(run_name="") if run.named else Job.objects.filter(id=run.id)
    return with_project(rows, PLACED[Job]).order_by(F("submit").asc(nulls_last=True), "id")


def totals_of_run(run: Run, cut: datetime) -> Totals:
    """Sums over all attempts of a run that the caller may see."""
    return _totals("x.run", run.id, cut)


def totals_of_job(job: Job, cut: datetime) -> Totals:
    """Sums over all attempts of a job that the caller may see."""
    return _totals("x.job", job.id, cut)


def _totals(key: str, id_: UUID, cut: datetime) -> Totals:
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS.format(key=key), {"id": id_, "cut": cut})
        row = cursor.fetchone()
    *sums, start, end = row
    return Totals(*[int(value) for value in sums], start, end)  # type: ignore[call-arg,arg-type,unused-ignore]


def held_over_time(run: Run, start: datetime, end: datetime, pieces: int, cut: datetime) -> list[Mean]:
    """GPU-seconds that a run held in each of `pieces` equal parts of [start, end)."""
    step = (end - start) / pieces
    arguments: dict[str, Any] = {"run": run.id, "cut": cut, "start": start, "step": step, "pieces": pieces}
    with connection.cursor() as cursor:
        cursor.execute(_OVER_TIME, arguments)
        found = {int(number): round(seconds) for number, seconds in cursor.fetchall()}
    return [Mean(start + n * step, start + (n + 1) * step, found.get(n + 1, 0)) for n in range(pieces)]


def segments_of(attempts: Sequence[Attempt]) -> dict[UUID, list[Segment]]:
    """The stretches of attempts in order, by attempt."""
    found: dict[UUID, list[Segment]] = {}
    rows = Segment.objects.filter(attempt__in=[attempt.id for attempt in attempts])
    for segment in rows.order_by("attempt", "seq"):
        found.setdefault(segment.attempt, []).append(segment)
    return found


def siblings(scope: Scope, job: Job) -> QuerySet[Job]:
    """Other jobs of the same array or heterogeneous job that the caller may see."""
    rows = jobs(scope).filter(cluster=job.cluster).exclude(id=job.id)
    if job.het_job_id is not None:
        return rows.filter(het_job_id=job.het_job_id).order_by("het_offset", "id")
    return rows.filter(array_job_id=job.array_job_id or "").order_by("submit", Length("array_task"), "array_task", "id")
