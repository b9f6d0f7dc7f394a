"""The list of attempts: unbroken executions, and what they are charged for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs import queries_runs
from jobs.filters import AttemptFilter
from jobs.queries import attempts, scope_of
from web import columns, lists, states
from web.columns import held
from web.lists import Column, Empty, Field, List, Seen, View
from web.tables import Cell, label

__all__ = ["ATTEMPTS", "index", "one"]


def _prepare(rows: Sequence[Any], seen: Seen) -> Mapping[str, Any]:
    running = [row.id for row in rows if row.end is None]
    return {"held": queries_runs.held_by_attempts(running, seen.cut)}


def _name(row: Any, _: Seen) -> Cell:
    return label(f"{row.job_id}, attempt {row.number}", href=f"{reverse('job', args=[row.job])}#attempt-{row.number}")


def _gpu_hours(row: Any, seen: Seen) -> Cell:
    return columns.gpu_hours(
        held(seen.more["held"], row.id, "gpu_seconds") if row.gpu_seconds is None else row.gpu_seconds
    )


def _exit(row: Any, _: Seen) -> Cell:
    return Cell(states.explain_exit(row.exit_code, row.exit_signal).partition(":")[0] if row.end else "", "w")


def _sources(row: Any, _: Seen) -> Cell:
    return Cell(", ".join(source.partition(":")[0] for source in row.source_list), "w")


ATTEMPTS: Final = List(
    name="attempts",
    title="Attempts",
    noun=("attempt", "attempts"),
    rows=attempts,
    filters=AttemptFilter,
    fields=(
        columns.PROJECT,
        Field("user", "User"),
        columns.STATE,
        *columns.DATES[:2],
        Field("job_id", "Job id", more=True),
        *columns.RUNS_IN,
        Field("partition", "Partition", more=True),
        Field("gpus_from", "GPUs, at least", kind="number", more=True),
        *columns.DATES[2:],
        Field("lost", "Lost", kind="yes", more=True),
        Field("disagree", "Sources disagree", kind="yes", more=True),
        Field("confirmed", "Confirmed", kind="yes", more=True),
        Field("corrected", "Corrected", kind="yes", more=True),
    ),
    columns=(
        Column("Attempt", _name),
        Column("State", lambda row, _: columns.state(row, columns.marks(row))),
        Column("Project", columns.project),
        Column("User", lambda row, seen: columns.person(row, seen, "attempts")),
        Column("Started", lambda row, seen: seen.minute(row.start), "start", "w", down=True),
        Column("Ended", lambda row, seen: seen.minute(row.end, columns.NOT_YET), "end", "w", down=True),
        Column("Wait", lambda row, _: columns.span(columns.seconds_between(row.eligible, row.start)), css="n"),
        Column("Elapsed", columns.elapsed, css="n"),
        Column("Nodes", lambda row, _: columns.size(row.nodes), css="n"),
        Column("GPUs", lambda row, _: columns.size(row.gpus), css="n"),
        Column("GPU-h", _gpu_hours, css="n"),
        Column("Exit", _exit),
        Column("Partition", lambda row, _: Cell(row.partition, "w")),
        Column("Sources", _sources),
    ),
    order="-start",
    api="api-attempts",
    empty=Empty("No attempt yet", "An attempt appears as soon as a scheduler reports that a job has started."),
    views=(
        View("All", ""),
        View("Running now", "running=true"),
        View("Failed", "state=FAILED,NODE_FAIL,OUT_OF_MEMORY,BOOT_FAIL"),
        View("Lost", "lost=true"),
        View("Sources disagree", "disagree=true"),
        View("Unconfirmed", "confirmed=false"),
    ),
    people=("user",),
    prepare=_prepare,
    lead="One row per unbroken execution; a requeue begins another one. Wait is from eligible to start.",
)


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The attempts that the caller may see."""
    return lists.show(request, ATTEMPTS)


@login_required
@never_cache
@require_safe
def one(request: HttpRequest, key: Any) -> HttpResponse:
    """Leads from an attempt to its place on the page of its job."""
    found = attempts(scope_of(request.user)).filter(id=key).first()
    if found is None:
        raise Http404
    return HttpResponseRedirect(f"{reverse('job', args=[found.job])}#attempt-{found.number}")
