"""The page of one job: its attempts, what each held and how it ended, who said so, and jobs that belong to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from events import queries as log
from events.reports import AsOf
from fleet.queries import site
from jobs import queries_runs
from jobs.filters import WAITING
from jobs.queries import scope_of
from jobs.queries_life import Life, life
from jobs.queries_runs import Totals
from jobs.waiting_now import OwnShare
from web import columns, figures, history, lanes, states, timeline, told, waitparts
from web.bundle import bundle_url
from web.columns import address
from web.frame import frame
from web.history import counted
from web.jobs import asked, job_name, together
from web.lists import Seen
from web.state import one_state
from web.tables import Cell, Head, Link, Table, label, number
from web.usagefigs import Figure
from web.waittables import fair_share

__all__ = ["page"]

MOST: Final = 200
"""Attempts that are shown one by one; the rest is one row that leads to the list."""
SIBLINGS: Final = 20


@dataclass(frozen=True)
class Found:
    """Everything the page shows, of one state of the books."""

    job: Any
    seen: Seen
    as_of: AsOf
    totals: Totals
    attempts: Sequence[Any]
    segments: Mapping[UUID, Sequence[Any]]
    siblings: Sequence[Any]
    life: Life | None
    whys: waitparts.Waits

    @property
    def waits(self) -> bool:
        """It waits now."""
        return self.job.end is None and self.job.state in WAITING


@login_required
@never_cache
@require_safe
def page(request: HttpRequest, key: UUID) -> HttpResponse:
    """GET jobs/KEY/."""
    with one_state():
        found = _read(request, key)
        context = frame(request, "jobs", found.as_of, found.seen.site)
    return render(request, "web/job.html", {**context, **_page(found), "live": True})


def _read(request: HttpRequest, key: UUID) -> Found:
    scope, place, cut = scope_of(request.user), site(), datetime.now(UTC)
    job = queries_runs.job_named(scope, key)
    if job is None:
        raise Http404
    attempts = list(queries_runs.attempts_of_job(job)[:MOST])
    seen = Seen(scope, place, cut, log.people([job.user]), log.texts([job.name, job.comment]))
    many = job.array_job_id is not None or job.het_job_id is not None
    return Found(
        job, seen, log.as_of(cut), queries_runs.totals_of_job(job, cut), attempts,
        queries_runs.segments_of(attempts), list(queries_runs.siblings(scope, job)[: SIBLINGS + 1]) if many else (),
        life(scope, job.stream),
        waitparts.of_job(scope, job, cut, waits=job.end is None and job.state in WAITING),
    )  # fmt: skip


def _page(found: Found) -> dict[str, Any]:
    job, totals = found.job, found.totals
    name = job_name(job)
    context: dict[str, Any] = {
        "job": job, "title": name, "state": states.of(job.state), "sentence": _sentence(found),
        "figs": _figures(found), "alerts": history.alerts(totals, job=job.id), "facts": _facts(found),
        "ids": _ids(found), "project": job.project, "project_href": reverse("project", args=[job.project]),
        "events": history.stream_of(job), "cluster": job.cluster,
    }  # fmt: skip
    if totals.attempts:
        query = {"job": job.id, "ordering": "start"}
        tools, names = history.tools_of("api-attempts", **query), {job.id: name}
        context["attempts"] = history.attempts_table(
            found.attempts,
            found.segments,
            names,
            found.seen,
            totals,
            tools,
            address("attempts", **query),
            several=False,
        )
        context["places"] = history.places_table(found.attempts, found.segments, names, several=False)
        context["stretches"] = _stretches(found)
    waiting = _waiting(found)
    if totals.attempts or waiting:
        what = f"Timeline of job {name}: " + (
            f"{counted(totals.attempts, 'attempt')}, figures in the table Attempts" if totals.attempts else "it waits"
        )
        line = lanes.timeline(
            found.attempts, found.segments, {job.id: name}, found.seen.site.zone, found.seen.cut, what, waiting
        )
        line = waitparts.drawn(line, found.whys, {job.id: name})
        context |= {"line": line, "spec": timeline.lanes(line), "bundle_url": bundle_url(), "drawn": True, "plot": "t1"}
        context |= {"why_legend": waitparts.legend(found.whys), "kinds": {bar.kind for bar in line.bars}}
        context["troubles"] = any(bar.trouble for bar in line.bars)
    context["waits"] = waitparts.stretches_table(found.whys, {job.id: name}, found.seen, several=False)
    if found.siblings:
        context["siblings"] = _siblings(found)
    if found.life is not None:
        context["told"] = told.heard(found.life, job)
        context["sources"] = told.sources_table(found.life, job, found.attempts, found.seen)
    return context


def _waiting(found: Found) -> list[tuple[str, datetime]]:
    since = found.attempts[-1].end if found.attempts else found.job.eligible or found.job.submit
    return [(job_name(found.job), since)] if found.waits and since else []


def _sentence(found: Found) -> str:
    """What follows the word of its state: since when and why."""
    job, totals, zone = found.job, found.totals, found.seen.site.zone
    after = f" after {counted(totals.attempts, 'attempt')}" if totals.attempts else ""
    if job.end is not None:
        return f"{figures.moment(job.end, zone)}{after or ' before it started'}.{_how(found)}"
    if totals.running:
        last = found.attempts[-1]
        return f"since {figures.moment(last.start, zone)}, attempt {last.number}{_until(found, last)}."
    return waitparts.sentence(job, found.whys, found.seen, found.attempts[-1].end if found.attempts else None)


def _until(found: Found, attempt: Any) -> str:
    """When the limit ends it, and how long that still is."""
    limit = found.job.limit_seconds
    if not limit:
        return ""
    left = limit - int((found.seen.cut - attempt.start).total_seconds())
    if left <= 0:
        return f"; its time limit of {figures.duration(limit)} passed {figures.duration(-left)} ago"
    return f"; its time limit of {figures.duration(limit)} ends it in {figures.duration(left)}"


def _how(found: Found) -> str:
    """What ended the last attempt."""
    last = found.attempts[-1] if found.attempts else None
    if last is None or last.lost:
        return ""
    words = [states.cause(last.state)]
    if last.exit_code or last.exit_signal:
        words.append(f"Exit code {states.explain_exit(last.exit_code, last.exit_signal)}.")
    return "".join(f" {word}" for word in words if word)


def _figures(found: Found) -> list[Figure]:
    job, totals = found.job, found.totals
    suspended = f"{figures.duration(totals.suspended_seconds)} suspended" if totals.suspended_seconds else ""
    if not totals.attempts:
        return _before(found)
    elapsed = Figure("Elapsed", *_parts(totals.wall_seconds), suspended, "#attempts" if totals.attempts else "")
    last = f"the last one: {states.of(found.attempts[-1].state).word}"
    attempts = Figure("Attempts", figures.thousands(totals.attempts), "", last, "#attempts")
    first = found.attempts[0]
    wait = history.wait_figure(first.eligible or job.submit, first.start, found.seen)
    return [*history.held_figures(totals), elapsed, attempts, wait]


def _before(found: Found) -> list[Figure]:
    """Of a job that never started: what it asked for, how long it waited, and when it is expected to start."""
    job = found.job
    size = Figure("GPUs asked for", figures.NO_DATA, "", "nobody tells", css="nodata")
    if job.asked_gpus is not None:
        nodes = f"on {counted(job.asked_nodes, 'node')}" if job.asked_nodes else ""
        size = Figure("GPUs asked for", figures.thousands(job.asked_gpus), "", nodes)
    wait = history.wait_figure(job.eligible or job.submit, job.end, found.seen)
    return [size, replace(wait, name="Wait"), *_expected(found)]


def _expected(found: Found) -> list[Figure]:
    if not found.waits:
        return []
    at = found.whys.look.expected if found.whys.look is not None else None
    if at is None:
        return [Figure("Start expected", figures.NO_DATA, "", "its scheduler gives no estimate", css="nodata")]
    local = at.astimezone(found.seen.site.zone)
    return [Figure("Start expected", f"{local:%H:%M}", "", figures.day(local.date()))]


def _parts(seconds: int) -> tuple[str, str]:
    text = figures.duration(seconds)
    value, _, unit = text.partition(" ")
    return (value, unit) if " " not in unit else (text, "")


def _facts(found: Found) -> list[tuple[str, str, str]]:
    job, seen = found.job, found.seen
    who = seen.person(job.user)
    named = job.run_title or "a run of its own"
    facts = [
        ("Run", named, reverse("run", args=[job.run])),
        *together(job),
        ("User", who, address("jobs", user=who)),
        ("Account", f"{job.account} on {job.cluster}", address("jobs", account=job.account, cluster=job.cluster)),
        ("Partition", job.partition, address("jobs", partition=job.partition)),
        ("QOS", job.qos, ""),
        ("Name", seen.text(job.name), ""),
        ("Comment", seen.text(job.comment), ""),
        *asked(job),
        *_fair_share(found),
        ("Time limit", figures.duration(job.limit_seconds) if job.limit_seconds else "", ""),
        ("Submitted", figures.moment(job.submit, seen.site.zone) if job.submit else "", ""),
        ("Could start", figures.moment(job.eligible, seen.site.zone) if job.eligible else "", ""),
    ]
    return [fact for fact in facts if fact[1]]


def _fair_share(found: Found) -> list[tuple[str, str, str]]:
    """Where one reads why others come first."""
    now = found.whys.now
    if now is None or not isinstance(now.waits_for, OwnShare) or not found.whys.shares:
        return []
    return [("Others come first", f"fair share of {now.project}", fair_share(now))]


def _ids(found: Found) -> list[tuple[str, str]]:
    """The names machines know it by."""
    job = found.job
    records = ", ".join(str(one.record) for one in found.attempts if one.record is not None)
    array = f"{job.array_job_id}, task {job.array_task}" if job.array_job_id is not None else ""
    together = f"{job.het_job_id}, part {job.het_offset}" if job.het_job_id is not None else ""
    reused = f"{job.seq}, since its scheduler gave the id again" if job.seq > 1 else ""
    ids = [
        ("Job id", job.job_id), ("Cluster", job.cluster), ("Array", array), ("Heterogeneous job", together),
        ("Accounting records", records), ("Job of this id", reused), ("Stream", job.stream), ("Key", str(job.id)),
    ]  # fmt: skip
    return [(name, value) for name, value in ids if value]


def _stretches(found: Found) -> Table | None:
    """The sizes of attempts that were resized."""
    resized = [one for one in found.attempts if len(found.segments.get(one.id, ())) > 1]
    if not resized:
        return None
    rows = [
        [
            label(str(one.number)), found.seen.moment(part.start),
            found.seen.moment(part.end) if part.end else Cell("runs", "w note"),
            columns.size(part.nodes), columns.size(part.cpus), columns.size(part.gpus),
            number(history.wall_hours(_seconds(part, found))), columns.gpu_hours(_seconds(part, found) * part.gpus),
        ]
        for one in resized for part in found.segments[one.id]
    ]  # fmt: skip
    heads = (Head("Attempt"), Head("From"), Head("To"), Head("Nodes", "n"), Head("CPUs", "n"), Head("GPUs", "n"),
             Head("Wall h", "n"), Head("GPU-h", "n"))  # fmt: skip
    caption = "An attempt that was resized goes on with another size; each stretch is charged for its own."
    return Table("stretches", "Sizes", caption, heads, rows, ())


def _seconds(part: Any, found: Found) -> int:
    return columns.seconds_between(part.start, part.end or found.seen.cut) or 0


def _siblings(found: Found) -> Table:
    job, seen = found.job, found.seen
    array = job.het_job_id is None
    rows = [
        [
            label(job_name(one), href=reverse("job", args=[one.id])), columns.state(one), seen.moment(one.submit),
            seen.moment(one.start, columns.NOT_YET), seen.moment(one.end, columns.NOT_YET), columns.size(one.attempts),
        ]
        for one in found.siblings[:SIBLINGS]
    ]  # fmt: skip
    key = "array_job_id" if array else "het_job_id"
    query = {"cluster": job.cluster, key: getattr(job, key)}
    every = address("jobs", **query)
    title = f"Other tasks of array {job.array_job_id}" if array else f"Other parts of job {job.het_job_id}"
    heads = (Head("Job"), Head("State"), Head("Submitted"), Head("Started"), Head("Ended"), Head("Attempts", "n"))
    more = Link("All of them", every) if len(found.siblings) > SIBLINGS else None
    return Table("siblings", title, "", heads, rows, (), history.tools_of("api-jobs", **query), more)
