"""Reading what waits now and for whom: every waiting job, why, since when, until when, and what stands before it.

Scope (what the caller may see) is a required argument. A job lies where its account belongs today. What the caller may
not see is counted and never named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Max

from events import queries as log
from events.access import Scope
from events.reports import BadParameter
from fleet.queries import site
from fleet.queries_nodes import stood
from jobs import queries, waitsfor
from jobs.filters import WAITING
from jobs.models import Attempt, Job, Look
from jobs.queries_nodes import gpus_in_use
from jobs.waiting import CAUSES
from jobs.waiting_around import WITH_NODES, Around, Open
from jobs.waiting_now import CauseSum, Others, Stretch, Total, Waited, Waiting, WaitingJob
from jobs.waitsfor import Running

__all__ = [
    "ORDERINGS",
    "QUESTION",
    "Question",
    "last_look",
    "read_question",
    "waiting_job",
    "waiting_jobs",
    "waits_of_job",
    "waits_of_run",
]

ORDERINGS: Final = ("-waited", "waited", "project", "-project", "cause", "-cause", "gpus", "-gpus", "expected",
                    "-expected")  # fmt: skip
MOST_LETTERS: Final = 200
_PLACE: Final = """
    LEFT JOIN jobs_accountplace p ON p.cluster = r.cluster AND p.account = r.account
        AND (%(cut)s AT TIME ZONE %(zone)s)::date >= p.from_day AND (%(cut)s AT TIME ZONE %(zone)s)::date < p.to_day
    LEFT JOIN jobs_projectplace x ON x.project = p.project
        AND (%(cut)s AT TIME ZONE %(zone)s)::date >= x.from_day AND (%(cut)s AT TIME ZONE %(zone)s)::date < x.to_day"""
_PATH: Final = "coalesce(x.path, ARRAY[coalesce(p.project, 'unmapped/' || r.account)])"
_WAITING: Final = f"""
    SELECT r.id, r.run, r.run_name, r.generation, r.cluster, r.job_id, r.array_job_id, r.array_task, r.het_job_id,
           r.het_offset, coalesce(p.project, 'unmapped/' || r.account), {_PATH}, r.account, r.user_id, r.partition,
           r.qos, r.asked_nodes, r.asked_cpus, r.asked_gpus, r.limit_seconds, r.dependency, r.attempts,
           coalesce(e.end_at, r.submit), CASE WHEN r.attempts = 0 THEN r.eligible END, w.cause,
           coalesce(w.reason, r.reason), w.start_at, l.at, l.expected
    FROM (SELECT j.* FROM jobs_run o JOIN jobs_job j ON j.run = o.id
          WHERE o.end_at IS NULL AND j."end" IS NULL AND j.state = ANY(%(states)s)) r {_PLACE}
    LEFT JOIN LATERAL (
        SELECT max(y.end_at) AS end_at FROM jobs_attempt y WHERE y.job = r.id AND r.attempts > 0) e ON true
    LEFT JOIN LATERAL (
        SELECT y.cause, y.reason, y.start_at FROM jobs_wait y
        WHERE y.job = r.id AND y.number = r.attempts + 1 AND y.start_at <= %(cut)s
        ORDER BY y.seq DESC LIMIT 1) w ON true
    LEFT JOIN LATERAL (
        SELECT y.at, y.expected FROM jobs_look y
        WHERE y.stream = r.stream AND y.at >= coalesce(e.end_at, r.submit) - interval '2 seconds'
        ORDER BY y.at DESC LIMIT 1) l ON true"""
_RUNNING: Final = f"""
    SELECT r.job, j.job_id, r.cluster, r.partition, coalesce(p.project, 'unmapped/' || r.account), r.account, r.user_id,
           r.qos, j.array_job_id, s.gpus, s.cpus, r.start_at + make_interval(secs => j.limit_seconds),
           r.node_list <> '', {_PATH}
    FROM jobs_segment s JOIN jobs_attempt r ON r.id = s.attempt JOIN jobs_job j ON j.id = r.job {_PLACE}
    WHERE s.end_at IS NULL"""

# Stretches as they are stored, and of attempts that nobody looked at those that jobs.reports counts: before it was
# eligible an attempt waited for a dependency, a hold or a time, by the meaning of the word; of the rest nobody knows.
_STRETCHES: Final = """
    SELECT w.job, w.number, w.seq, w.cause, w.reason, w.start_at, w.end_at, w.since_eligible, w.since_submit,
           w.attempt IS NOT NULL AS begun
    FROM jobs_wait w WHERE w.{key} = %(value)s AND w.start_at < %(cut)s
    UNION ALL
    SELECT a.job, a.number, c.seq, CASE WHEN c.start_at < a.eligible THEN 'dependency_or_hold' ELSE 'unknown' END, '',
           c.start_at, c.end_at, coalesce(c.start_at >= a.eligible, false), coalesce(c.start_at >= a.submit, false),
           true
    FROM jobs_attempt a
    CROSS JOIN LATERAL (
        SELECT row_number() OVER w AS seq, p.at AS start_at, coalesce(lead(p.at) OVER w, a.start_at) AS end_at
        FROM (SELECT DISTINCT y.at FROM (VALUES (a.submit), (a.eligible)) y (at) WHERE y.at < a.start_at) p
        WINDOW w AS (ORDER BY p.at)) c
    WHERE a.{key} = %(value)s AND a.start_at < %(cut)s
      AND EXISTS (SELECT 1 FROM jobs_wait x WHERE x.{key} = %(value)s)
      AND NOT EXISTS (SELECT 1 FROM jobs_wait x WHERE x.{key} = %(value)s AND x.attempt = a.id)"""
_FIRST: Final = """
    SELECT w.job, w.number, w.cause, w.reason, w.start_at, w.end_at, w.since_eligible, w.since_submit, w.begun
    FROM ({stretches}) w ORDER BY w.start_at, w.job, w.number, w.seq LIMIT %(most)s"""
_LASTED: Final = "floor(extract(epoch FROM least(w.end_at, %(cut)s) - w.start_at))"
_SUMS: Final = f"""
    SELECT w.cause, count(*), sum({_LASTED})::bigint,
           coalesce(sum({_LASTED}) FILTER (WHERE w.since_eligible), 0)::bigint,
           coalesce(sum({_LASTED}) FILTER (WHERE w.since_submit), 0)::bigint
    FROM ({{stretches}}) w GROUP BY 1"""


@dataclass(frozen=True, slots=True)
class Question:
    """Which of what waits, and in which order. project: with what is below it; user: a name or an id; '' is all.

    ordering: one of ORDERINGS, `-` before it for the largest first.
    """

    project: str = ""
    cause: str = ""
    cluster: str = ""
    user: str = ""
    ordering: str = ORDERINGS[0]


QUESTION: Final = tuple(one.name for one in fields(Question))


def read_question(given: Mapping[str, str]) -> Question:
    """The question of a request. Raises BadParameter."""
    told = {name: text.strip() for name, text in given.items() if name in QUESTION and text.strip()}
    for name, text in told.items():
        if "\0" in text or len(text) > MOST_LETTERS:
            raise BadParameter(name, f"at most {MOST_LETTERS} characters, none of them NUL")
    asked = Question(**told)
    if asked.cause and asked.cause not in CAUSES:
        raise BadParameter("cause", f"{asked.cause!r} is none of {', '.join(CAUSES)}")
    if asked.ordering not in ORDERINGS:
        raise BadParameter("ordering", f"{asked.ordering!r} is none of {', '.join(ORDERINGS)}")
    return asked


def waiting_jobs(scope: Scope, asked: Question | None = None, cut: datetime | None = None) -> Waiting:
    """What waits at an instant (now) in scope, and for whom. Cost: all that waits and runs."""
    return _waiting(scope, asked or Question(), cut or datetime.now(UTC))


def waiting_job(scope: Scope, job: UUID, cut: datetime) -> WaitingJob | None:
    """One job that waits, and what for; None where it does not, or where the caller may not see it. Cost: the same."""
    return next(iter(_waiting(scope, Question(), cut, job).rows), None)


def _waiting(scope: Scope, asked: Question, cut: datetime, only: UUID | None = None) -> Waiting:
    arguments = {"cut": cut, "zone": site().timezone, "states": list(WAITING)}
    open_jobs = [Open(*row) for row in _read(_WAITING, arguments)]
    running = [_running(row, scope) for row in _read(_RUNNING, arguments)]
    seen = [one for one in open_jobs if _inside(scope, one.path)]
    people = {asked.user, *log.ids_of_person(asked.user)} if asked.user else set()
    wanted = [one for one in seen if only in (None, one.id) and _wanted(one, asked, people)]
    nodes = stood(scope) if any(one.cause in WITH_NODES for one in wanted) else []
    used = {node: use.count for node, use in gpus_in_use(scope, cut).items()} if nodes else {}
    around = Around(cut, open_jobs, running, _named_by(scope, wanted), nodes, used)
    names = log.people({one.user for one in wanted})
    rows = _ordered([_row(one, around, names.get(one.user, one.user)) for one in wanted], asked.ordering)
    hidden = [one for one in open_jobs if not _inside(scope, one.path)]
    others = Others(len(hidden), sum(one.gpus or 0 for one in hidden))
    projects = sorted({one.project for one in seen})
    return Waiting(cut, projects, rows, _totals(rows), others, around.partitions(wanted))


def waits_of_job(scope: Scope, job: UUID, cut: datetime, most: int) -> Waited:
    """Why a job waited until an instant; empty where the caller may not see it. most: stretches told one by one."""
    visible = queries.jobs(scope).filter(id=job).exists()
    return _waited("job", job, cut, most) if visible else Waited((), ())


def waits_of_run(scope: Scope, run: UUID, cut: datetime, most: int) -> Waited:
    """The same of all jobs of a run."""
    visible = queries.runs(scope).filter(id=run).exists()
    return _waited("run", run, cut, most) if visible else Waited((), ())


def _waited(key: str, value: UUID, cut: datetime, most: int) -> Waited:
    stretches = _STRETCHES.format(key=key)
    given = {"value": value, "cut": cut, "most": most}
    found = [_stretch(cut, *row) for row in _read(_FIRST.format(stretches=stretches), given)]
    return Waited(found, [CauseSum(*row) for row in _read(_SUMS.format(stretches=stretches), given)])


def _stretch(
    cut: datetime, job: UUID, number: int, cause: str, reason: str, start: datetime, end: datetime | None, *marks: bool
) -> Stretch:
    until = cut if end is None else min(end, cut)
    return Stretch(job, number, cause, reason, start, until, end is None or end > cut, *marks)


def last_look(scope: Scope, job: Job) -> Look | None:
    """What its scheduler last said of a job that waits, of this wait alone; None where it said nothing."""
    if not queries.jobs(scope).filter(id=job.id).exists():
        return None
    ended = Attempt.objects.filter(job=job.id).aggregate(last=Max("end"))["last"]
    begun = ended or job.submit or job.eligible
    rows = Look.objects.filter(stream=job.stream)
    if begun is not None:
        rows = rows.filter(at__gte=begun - timedelta(seconds=2))
    return rows.order_by("-at").first()


def _read(query: str, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return list(cursor.fetchall())


def _inside(scope: Scope, path: Sequence[str]) -> bool:
    return scope.projects is None or not scope.projects.isdisjoint(path)


def _running(row: tuple[Any, ...], scope: Scope) -> Running:
    *told, path = row
    found = Running(*told)
    return found if _inside(scope, path) else found._replace(project=None)


def _wanted(one: Open, asked: Question, people: Collection[str]) -> bool:
    return (
        (not asked.project or asked.project in one.path)
        and (not asked.cause or (one.cause or "unknown") == asked.cause)
        and (not asked.cluster or one.cluster == asked.cluster)
        and (not people or one.user in people)
    )


def _row(one: Open, around: Around, user: str) -> WaitingJob:
    name = one.run_name + (f" #{one.generation}" if one.run_name and one.generation > 1 else "")
    waited = None if one.since is None else max(0, (around.cut - one.since) // timedelta(seconds=1))
    return WaitingJob(
        one.id, one.run, name, one.cluster, one.job_id, one.array_job_id, one.array_task, one.het_job_id,
        one.het_offset, one.project, one.account, user, one.partition, one.qos, one.nodes, one.cpus, one.gpus,
        one.limit_seconds, one.attempts, one.since, waited, one.eligible, one.cause or "unknown", one.reason,
        one.cause_since, one.looked_at, one.expected, around.waits_for(one),
    )  # fmt: skip


def _ordered(rows: list[WaitingJob], ordering: str) -> list[WaitingJob]:
    name, largest = ordering.removeprefix("-"), ordering.startswith("-")
    rows.sort(key=lambda row: (-(row.waited_seconds or 0), row.cluster, row.job_id))
    known = [row for row in rows if _key(row, name) is not None]
    known.sort(key=lambda row: _key(row, name), reverse=largest)
    return known + [row for row in rows if _key(row, name) is None]


def _key(row: WaitingJob, name: str) -> Any:
    """What rows are ordered by; None where it is unknown, which comes last either way."""
    return {"waited": row.waited_seconds, "project": row.project, "cause": CAUSES.index(row.cause),
            "gpus": row.gpus, "expected": row.expected}[name]  # fmt: skip


def _totals(rows: Collection[WaitingJob]) -> list[Total]:
    grouped: defaultdict[tuple[str, str], list[WaitingJob]] = defaultdict(list)
    for row in rows:
        grouped[row.project, row.cause].append(row)
    found = [
        Total(
            project, cause, len(some), sum(row.gpus or 0 for row in some), sum(row.waited_seconds or 0 for row in some)
        )
        for (project, cause), some in grouped.items()
    ]
    return sorted(found, key=lambda one: (one.project, CAUSES.index(one.cause)))


def _named_by(scope: Scope, wanted: Collection[Open]) -> dict[tuple[str, str], tuple[UUID, str]]:
    """(cluster, job id) -> key and state of the jobs that waiting ones depend on, as far as the caller may see them."""
    streams = {
        f"job/{one.cluster}/{other.job_id}"
        for one in wanted
        for other in waitsfor.dependencies(one.dependency)
        if other.job_id
    }
    if not streams:
        return {}
    rows = queries.jobs(scope).filter(stream__in=streams).order_by("seq")
    return {(row.cluster, row.job_id): (row.id, row.state) for row in rows}
