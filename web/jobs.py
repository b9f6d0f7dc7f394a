"""The list of jobs, and the way in by a scheduler's own job id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from events.access import Scope
from jobs import queries_runs
from jobs.filters import JobFilter
from jobs.queries import jobs, scope_of
from web import columns, figures, lists
from web.columns import address, held
from web.lists import Column, Empty, Field, List, Seen, View
from web.tables import Cell, label

__all__ = ["JOBS", "asked", "go", "index", "job_name", "together"]


def job_name(row: Any) -> str:
    """A job as its scheduler calls it: `412`, `400_7` in an array, `300+1` in a heterogeneous job."""
    if row.array_job_id is not None and row.array_task is not None:
        return f"{row.array_job_id}_{row.array_task}"
    if row.het_job_id is not None and row.het_offset is not None:
        return f"{row.het_job_id}+{row.het_offset}"
    return str(row.job_id)


def together(row: Any) -> list[tuple[str, str, str]]:
    """What a job is a part of: name, value and address of all of it."""
    if row.array_job_id is not None:
        query = {"cluster": row.cluster, "array_job_id": row.array_job_id}
        return [("Array", f"task {row.array_task} of array {row.array_job_id}", address("jobs", **query))]
    if row.het_job_id is not None:
        query = {"cluster": row.cluster, "het_job_id": row.het_job_id}
        return [("Heterogeneous job", f"part {row.het_offset} of job {row.het_job_id}", address("jobs", **query))]
    return []


def asked(row: Any) -> list[tuple[str, str, str]]:
    """What a job asked for while it waited, as far as its scheduler was heard then."""
    sizes = ((row.asked_gpus, "GPU"), (row.asked_cpus, "CPU"), (row.asked_nodes, "node"))
    words = [f"{figures.thousands(value)} {noun}{'' if value == 1 else 's'}" for value, noun in sizes if value]
    facts = [("Asked for", ", ".join(words), "")] if words else []
    return facts + ([("Waits for", row.dependency, "")] if row.dependency and row.end is None else [])


def _prepare(rows: Sequence[Any], seen: Seen) -> Mapping[str, Any]:
    started = [row.id for row in rows if row.attempts]
    return {"held": queries_runs.held_by_jobs(started, seen.cut), "odd": queries_runs.odd_jobs(started)}


def _state(row: Any, seen: Seen) -> Cell:
    odd = seen.more["odd"].get(row.id)
    return columns.state(row, columns.marks(odd) if odd else ())


def _run(row: Any, _: Seen) -> Cell:
    return label(row.run_title, href=reverse("run", args=[row.run])) if row.run_name else Cell()


def _elapsed(row: Any, seen: Seen) -> Cell:
    if not row.attempts:
        return columns.span(None)
    return columns.span(held(seen.more["held"], row.id, "wall_seconds"))


def _gpus(row: Any, seen: Seen) -> Cell:
    """The most it held at once; of what has not begun, what it asks for."""
    if row.attempts:
        return columns.size(held(seen.more["held"], row.id, "gpus"))
    return columns.asked(row.asked_gpus)


def _gpu_hours(row: Any, seen: Seen) -> Cell:
    seconds = held(seen.more["held"], row.id, "gpu_seconds") if row.attempts else None
    return columns.gpu_hours(seconds, address("attempts", job=row.id))


JOBS: Final = List(
    name="jobs",
    title="Jobs",
    noun=("job", "jobs"),
    rows=jobs,
    filters=JobFilter,
    fields=(
        columns.PROJECT,
        Field("user", "User"),
        columns.STATE,
        *columns.DATES[:2],
        Field("job_id", "Job id", more=True),
        *columns.RUNS_IN,
        Field("partition", "Partition", more=True),
        *columns.DATES[2:],
        Field("lost", "Lost", kind="yes", more=True),
        Field("disagree", "Sources disagree", kind="yes", more=True),
    ),
    columns=(
        Column("Job", lambda row, _: label(job_name(row), href=reverse("job", args=[row.id])), "job_id"),
        Column("Name", lambda row, seen: Cell(seen.text(row.name), "name")),
        Column("State", _state),
        Column("Project", columns.project),
        Column("User", lambda row, seen: columns.person(row, seen, "jobs")),
        Column("Submitted", lambda row, seen: seen.minute(row.submit), "submit", "w", down=True),
        Column("Started", lambda row, seen: seen.minute(row.start, columns.NOT_YET), "start", "w", down=True),
        Column("Wait", lambda row, seen: columns.waited(row, seen, row.eligible), css="n"),
        Column("Elapsed", _elapsed, css="n"),
        Column("GPUs", _gpus, css="n"),
        Column("GPU-h", _gpu_hours, css="n"),
        Column("Attempts", lambda row, _: columns.size(row.attempts), css="n"),
        Column("Run", _run),
        Column("Partition", lambda row, _: Cell(row.partition, "w")),
    ),
    order="-submit",
    api="api-jobs",
    empty=Empty(
        "No job yet",
        "Jobs appear as soon as a scheduler reports them. Read what it has recorded; the same file twice changes "
        "nothing:",
        code="python manage.py import_sacct FILE --cluster NAME --timezone ZONE",
    ),
    views=(
        View("All", ""),
        View("Running now", "running=true"),
        View("Waiting", "waiting=true"),
        View("Failed", "state=FAILED,NODE_FAIL,OUT_OF_MEMORY,BOOT_FAIL"),
        View("Lost", "lost=true"),
        View("Sources disagree", "disagree=true"),
    ),
    people=("user",),
    texts=("name",),
    prepare=_prepare,
    lead="Wait is from eligible to the first start; elapsed, GPU-h: over all attempts, running ones until now.",
)


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The jobs that the caller may see."""
    return lists.show(request, JOBS)


@login_required
@never_cache
@require_safe
def go(request: HttpRequest, cluster: str, job_id: str) -> HttpResponse:
    """Leads from a scheduler's job id (`412`, `400_7`, `300+1`) to its page; the latest job of a reused id."""
    scope = scope_of(request.user)
    found = _by_id(scope, cluster, job_id)
    if found is None:
        raise Http404
    return HttpResponseRedirect(reverse("job", args=[found.id]))


def _by_id(scope: Scope, cluster: str, job_id: str) -> Any:
    if "\0" in cluster + job_id:
        return None
    rows = jobs(scope).filter(cluster=cluster).order_by("-seq", "-submit")
    array, _, task = job_id.partition("_")
    together, _, offset = job_id.partition("+")
    if task:
        return rows.filter(array_job_id=array, array_task=task).first()
    if offset.isdecimal() and len(offset) < 7:
        return rows.filter(het_job_id=together, het_offset=int(offset)).first()
    return rows.filter(job_id=job_id).first()
