"""The list of runs: training efforts, each the jobs of an account under one name, or one job without a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from events import queries as log
from jobs import queries_runs
from jobs.filters import RunFilter
from jobs.queries import runs
from jobs.queries_closing import closed_runs
from web import columns, lists
from web.columns import address, held
from web.jobs import job_name
from web.lists import Column, Empty, Field, List, Seen, View
from web.tables import Cell

__all__ = ["RUNS", "index"]


def _prepare(rows: Sequence[Any], seen: Seen) -> Mapping[str, Any]:
    single = queries_runs.jobs_by_id([row.id for row in rows if not row.named])
    return {
        "held": queries_runs.held_by_runs([row.id for row in rows if row.end is None and row.attempts], seen.cut),
        "odd": queries_runs.odd_runs([row.id for row in rows if row.attempts]),
        "single": single,
        "closed": closed_runs(rows),
        "names": log.texts({job.name for job in single.values()}),
    }


def _name(row: Any, seen: Seen) -> Cell:
    """What its user called it, or its one job."""
    job = seen.more["single"].get(row.id)
    called = row.title or (f"job {job_name(job)}" if job else "one job")
    return Cell(called, href=reverse("run", args=[row.id]), tag="closed" if row.id in seen.more["closed"] else "")


def _job_name(row: Any, seen: Seen) -> Cell:
    job = seen.more["single"].get(row.id)
    return Cell(seen.more["names"].get(job.name, "") if job else "", "name")


def _state(row: Any, seen: Seen) -> Cell:
    odd = seen.more["odd"].get(row.id)
    return columns.state(row, columns.marks(odd) if odd else ())


def _gpu_hours(row: Any, seen: Seen) -> Cell:
    if not row.attempts:
        return columns.gpu_hours(None)
    seconds = row.gpu_seconds + held(seen.more["held"], row.id, "gpu_seconds")
    return columns.gpu_hours(seconds, address("attempts", run=row.id))


def _gpus(row: Any, seen: Seen) -> Cell:
    """The most it held at once; of a single job that has not begun, what it asks for."""
    job = seen.more["single"].get(row.id)
    return columns.size(row.gpus) if row.attempts else columns.asked(job.asked_gpus if job else None)


def _jobs(row: Any, _: Seen) -> Cell:
    cell = columns.size(row.jobs)
    return Cell(cell.text, cell.css, href=address("jobs", run=row.id))


RUNS: Final = List(
    name="runs",
    title="Runs",
    noun=("run", "runs"),
    rows=runs,
    filters=RunFilter,
    fields=(
        columns.PROJECT,
        Field("user", "User"),
        columns.STATE,
        *columns.DATES[:2],
        Field("name", "Name contains", more=True),
        Field("named", "Named by its user", kind="yes", more=True),
        *columns.RUNS_IN,
        Field("gpus_from", "GPUs, at least", kind="number", more=True),
        *columns.DATES[2:],
        Field("lost", "Lost", kind="yes", more=True),
        Field("disagree", "Sources disagree", kind="yes", more=True),
    ),
    columns=(
        Column("Run", _name),
        Column("Job name", _job_name),
        Column("State", _state),
        Column("Project", columns.project),
        Column("User", lambda row, seen: columns.person(row, seen, "runs")),
        Column("Submitted", lambda row, seen: seen.minute(row.submit), "submit", "w", down=True),
        Column("Started", lambda row, seen: seen.minute(row.start, columns.NOT_YET), "start", "w", down=True),
        Column("Ended", lambda row, seen: seen.minute(row.end, columns.NOT_YET), "end", "w", down=True),
        Column("Submit to start", lambda row, seen: columns.waited(row, seen, row.submit), css="n"),
        Column("GPUs", _gpus, "gpus", "n", down=True),
        Column("GPU-h", _gpu_hours, "gpu_seconds", "n", down=True),
        Column("Jobs", _jobs, css="n"),
        Column("Attempts", lambda row, _: columns.size(row.attempts), "attempts", "n", down=True),
    ),
    order="-submit",
    api="api-runs",
    empty=Empty(
        "No run yet",
        "A run appears with its first job. Jobs of one account become one run when their comment names it:",
        code='sbatch --comment "run=NAME" ...',
    ),
    views=(
        View("All", ""),
        View("Running now", "running=true"),
        View("Waiting", "waiting=true"),
        View("Named", "named=true"),
        View("Lost", "lost=true"),
        View("Sources disagree", "disagree=true"),
    ),
    people=("user",),
    prepare=_prepare,
    lead="A run is the jobs of one account under one name, or one job that nobody named.",
)


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The runs that the caller may see."""
    return lists.show(request, RUNS)
