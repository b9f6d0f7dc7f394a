"""The page of one run: what it used and cost, its attempts on one scale of time, where it ran and who said so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.messages import get_messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from billing.queries import RunCost, cost_of_run
from events import queries as log
from events.reports import AsOf, Row
from fleet.queries import site
from jobs import queries_runs, queries_waste
from jobs.filters import WAITING
from jobs.queries import scope_of
from jobs.queries_runs import Totals
from web import (
    closing,
    columns,
    figures,
    goodput,
    history,
    interruptions,
    lanes,
    speed,
    states,
    timeline,
    waitparts,
    waste,
)
from web.bundle import bundle_url
from web.columns import address
from web.frame import frame
from web.history import counted
from web.jobs import asked, job_name, together
from web.lists import Seen
from web.state import one_state
from web.tables import Cell, Head, Link, Table, absent, label, number
from web.timeline import Timeline
from web.usagefigs import Figure

__all__ = ["page"]

MOST: Final = 100
"""Attempts and jobs that are shown one by one; the rest is one row that leads to the list."""
SMALL: Final = 10
"""Below this amount a cost is shown with cents."""
PIECES: Final = 240
"""Parts of the span where the chart shows what was held."""


@dataclass(frozen=True)
class Found:
    """Everything the page shows, of one state of the books. attempts, jobs: the first MOST."""

    run: Any
    seen: Seen
    as_of: AsOf
    totals: Totals
    attempts: Sequence[Any]
    segments: Mapping[UUID, Sequence[Any]]
    jobs: Sequence[Any]
    names: Mapping[UUID, str]
    cost: RunCost | None
    means: Sequence[queries_runs.Mean]
    told: goodput.Told | None
    wasted: Row | None
    whys: waitparts.Waits

    @property
    def title(self) -> str:
        """What the run is called."""
        if self.run.named:
            return str(self.run.title)
        return f"of job {job_name(self.jobs[0])}" if self.jobs else "of one job"

    @property
    def zone(self) -> Any:
        """The site's zone."""
        return self.seen.site.zone


@login_required
@never_cache
@require_safe
def page(request: HttpRequest, key: UUID) -> HttpResponse:
    """GET runs/KEY/."""
    with one_state():
        found = _read(request, key)
        context = frame(request, "runs", found.as_of, found.seen.site)
    return render(request, "web/run.html", {**context, **_page(found), "live": True, "notices": get_messages(request)})


def _read(request: HttpRequest, key: UUID) -> Found:
    scope, place, cut = scope_of(request.user), site(), datetime.now(UTC)
    run = queries_runs.run_named(scope, key)
    if run is None:
        raise Http404
    totals = queries_runs.totals_of_run(run, cut)
    attempts = list(queries_runs.attempts_of_run(run)[:MOST])
    jobs = list(queries_runs.jobs_of_run(run)[:MOST])
    others = {one.job for one in attempts} - {job.id for job in jobs}
    names = {job.id: job_name(job) for job in [*jobs, *queries_runs.jobs_by_id(others).values()]}
    bodies = log.texts({text for job in jobs for text in (job.name, job.comment)})
    seen = Seen(scope, place, cut, log.people({run.user, *(job.user for job in jobs)}), bodies)
    cost = cost_of_run(scope, run.id, totals.start, cut) if totals.start else None
    drawn = lanes.drawable(attempts, totals.attempts)
    means = () if drawn else queries_runs.held_over_time(run, totals.start, totals.end, PIECES, cut)  # type: ignore[arg-type]
    segments = queries_runs.segments_of(attempts)
    told = goodput.read(run, cut)
    wasted = queries_waste.of_run(run)
    whys = waitparts.of_run(scope, run, cut)
    return Found(run, seen, log.as_of(cut), totals, attempts, segments, jobs, names, cost, means, told, wasted, whys)


def _page(found: Found) -> dict[str, Any]:
    run, totals = found.run, found.totals
    context: dict[str, Any] = {
        "run": run, "title": found.title, "sentence": _sentence(found), "figs": _figures(found),
        "alerts": history.alerts(totals, run=run.id), "facts": _facts(found), "state": states.of(run.state),
        "events": history.stream_of(found.jobs[0]) if len(found.jobs) == 1 else "",
        "project": run.project, "project_href": reverse("project", args=[run.project]),
    }  # fmt: skip
    if totals.attempts:
        query = {"run": run.id, "ordering": "start"}
        everything = address("attempts", **query)
        tools = history.tools_of("api-attempts", **query)
        context["attempts"] = history.attempts_table(
            found.attempts, found.segments, found.names, found.seen, totals, tools, everything, several=run.jobs > 1
        )
        context["places"] = history.places_table(found.attempts, found.segments, found.names, several=run.jobs > 1)
    if totals.attempts or _waiting(found):
        line = _line(found)
        context |= {"line": line, "spec": _spec(found, line), "bundle_url": bundle_url(), "drawn": not found.means}
        context["plot"] = "tall" if found.means else f"t{len(line.lanes)}"
        context |= {"pieces": PIECES, "troubles": any(bar.trouble for bar in line.bars)}
        context |= {"kinds": {bar.kind for bar in line.bars}, "why_legend": waitparts.legend(found.whys)}
    if found.told is not None:
        numbers = {one.id: (one.job, one.number) for one in found.attempts}
        context["goodput"] = goodput.parts_table(run, found.told)
        context["lost"] = goodput.attempts_table(run, found.told, found.names, numbers)
        context["interval"] = goodput.advice_table(found.told)
        context["interruptions"] = interruptions.table(run, found.told.interruptions, found.zone)
        context["speed"] = speed.speed_table(run, found.told.speed)
    context["waits"] = waitparts.stretches_table(found.whys, found.names, found.seen, several=run.jobs > 1)
    context["waste"] = waste.of_run(run, found.wasted, found.zone, found.seen.cut)
    if run.named or run.jobs > 1:
        context["jobs"] = _jobs(found)
    if run.named:
        context["closing"] = closing.block(run, found.seen)
    if found.cost is not None and found.cost.parts:
        context["cost"] = _costs(found.cost)
    return context


# --- what it is, in words and figures -----------------------------------------------------------------------------


def _sentence(found: Found) -> str:
    """What follows the word of its state: since when, after how many attempts, on how many nodes."""
    run, totals = found.run, found.totals
    how_many = counted(totals.attempts, "attempt")
    if run.jobs > 1:
        how_many += f" of {counted(run.jobs, 'job')}"
    nodes = f" on up to {counted(totals.nodes, 'node')}" if totals.nodes else ""
    if run.end is not None:
        when = figures.moment(run.end, found.zone)
        return f"{when} after {how_many}{nodes}." if totals.attempts else f"{when} before it started."
    if totals.running:
        return f"since {figures.moment(totals.start or run.start, found.zone)}, in {how_many}{nodes}."
    last = totals.end if totals.attempts else run.submit
    since = f"since {figures.moment(last, found.zone)}" if last else ""
    after = f", after {how_many}" if totals.attempts else ""
    return f"{since}{after}{_reason(found)}."


def _reason(found: Found) -> str:
    """Why a run of one job waits, as its scheduler says."""
    job = found.jobs[0] if len(found.jobs) == 1 else None
    return f". Reason: {job.reason}" if job and job.reason not in ("", "None") else ""


def _figures(found: Found) -> list[Figure]:
    held = history.held_figures(found.totals)
    return [*_money(found), *held, *goodput.key_figures(found.told), _attempt_figure(found), _wait(found)]


def _money(found: Found) -> list[Figure]:
    cost = found.cost
    if cost is None:
        return []
    if cost.amount is None:
        return [Figure("Cost", figures.NO_PRICE, "", "no rate for what it used", "#cost", "nodata")]
    note = "part of the use has no price" if cost.unpriced else _rate(cost.amount, found.totals.gpu_seconds)
    exact = f"{cost.amount} {cost.currency}"
    return [Figure("Cost", _rough(cost.amount), cost.currency, note, "#cost", exact=exact)]


def _rough(amount: str) -> str:
    """Whole units of an amount, halves up; of a small one, cents too."""
    return figures.money(amount) if abs(Decimal(amount)) < SMALL else figures.whole_money(amount)


def _rate(amount: str, gpu_seconds: int) -> str:
    """Cost per GPU-hour with three decimals, halves up."""
    if not gpu_seconds or Decimal(amount) < 1:  # what is rounded to cents says nothing of the price of an hour
        return "at list price"
    mean = (Decimal(amount) * 3600 / gpu_seconds).quantize(Decimal("0.001"), ROUND_HALF_UP)
    return f"{mean} per GPU-h, list price"


def _attempt_figure(found: Found) -> Figure:
    href = "#attempts" if found.totals.attempts else ""
    held = found.totals.suspended_seconds
    note = f"of {counted(found.run.jobs, 'job')}" + (f", {figures.duration(held)} suspended" if held else "")
    return Figure("Attempts", figures.thousands(found.totals.attempts), "", note, href)


def _wait(found: Found) -> Figure:
    """From eligible to the first start; of what never started, until now."""
    first = found.attempts[0] if found.attempts else None
    job = found.jobs[0] if found.jobs else None
    since = (first.eligible if first else job.eligible if job else None) or found.run.submit
    return history.wait_figure(since, first.start if first else found.run.end, found.seen)


def _facts(found: Found) -> list[tuple[str, str, str]]:
    """Name, value and address of what is known besides figures."""
    run, job = found.run, found.jobs[0] if found.jobs else None
    who = found.seen.person(run.user)
    facts = [
        ("User", who, address("runs", user=who) if who else ""),
        ("Account", f"{run.account} on {run.cluster}", address("runs", account=run.account, cluster=run.cluster)),
    ]
    if job is not None:
        facts += [("Partition", job.partition, ""), ("QOS", job.qos, "")]
        if not run.named:
            facts += together(job)
            facts += [("Job", job_name(job), reverse("job", args=[job.id])), ("Name", found.seen.text(job.name), "")]
        facts.append(("Comment", found.seen.text(job.comment) if not run.named else "", ""))
        limit = figures.duration(job.limit_seconds) if job.limit_seconds else ""
        facts += [*(asked(job) if not run.named else []), ("Time limit", limit, "")]
    facts.append(("Placement", "no data: the topology of the cluster is not known" if found.totals.gpus else "", ""))
    return [fact for fact in facts if fact[1]]


# --- chart and tables ---------------------------------------------------------------------------------------------


def _waiting(found: Found) -> list[tuple[str, datetime]]:
    """Jobs that wait now, and since when: a requeued one since its last attempt ended."""
    ended = {one.job: one.end for one in found.attempts}
    since = {job.id: ended.get(job.id) or job.eligible or job.submit for job in found.jobs}
    return [
        (job_name(job), since[job.id])
        for job in found.jobs
        if job.end is None and job.state in WAITING and (not job.attempts or job.id in ended) and since[job.id]
    ][: timeline.MOST_LANES]


def _line(found: Found) -> Timeline:
    totals = found.totals
    what = f"Timeline of run {found.title}: {counted(totals.attempts, 'attempt')}, figures in the table Attempts"
    if found.means:
        start, end = found.means[0].start, found.means[-1].end
        return Timeline(what, found.zone, start, end, (), found.seen.cut if totals.running else None)
    line = lanes.timeline(
        found.attempts, found.segments, found.names, found.zone, found.seen.cut, what, _waiting(found)
    )
    return waitparts.drawn(goodput.drawn(line, found.told, found.zone), found.whys, found.names)


def _spec(found: Found, line: Timeline) -> dict[str, Any]:
    if not found.means:
        return timeline.lanes(line)
    values = [
        (mean.start, mean.end, mean.gpu_seconds / max(1.0, (mean.end - mean.start).total_seconds()))
        for mean in found.means
    ]
    return timeline.held(line, values)


def _jobs(found: Found) -> Table:
    seen, run = found.seen, found.run
    rows = [
        [
            label(job_name(job), href=reverse("job", args=[job.id])),
            Cell(seen.text(job.name), "name"),
            columns.state(job),
            seen.moment(job.submit),
            seen.moment(job.start, columns.NOT_YET),
            seen.moment(job.end, columns.NOT_YET),
            columns.waited(job, seen, job.eligible),
            columns.size(job.attempts),
            label("events", href=history.stream_of(job)),
        ]
        for job in found.jobs
    ]
    every = Link(f"All {figures.thousands(run.jobs)} jobs", address("jobs", run=run.id))
    more = every if run.jobs > len(rows) else None
    heads = (Head("Job"), Head("Name"), Head("State"), Head("Submitted"), Head("Started"), Head("Ended"),
             Head("Wait", "n"), Head("Attempts", "n"), Head("Log"))  # fmt: skip
    caption = f"Times in {seen.site.timezone}."
    return Table("jobs", "Jobs", caption, heads, rows, (), history.tools_of("api-jobs", run=run.id), more, wide=True)


def _costs(cost: RunCost) -> Table:
    """Use by resource class and price; amounts add up to the run's cost."""
    rows = [
        [
            label(part.resource_class),
            number(figures.hours(part.unit_seconds)),
            _price(part.micro_per_hour),
            absent(figures.NO_PRICE) if part.amount is None else number(figures.money(part.amount)),
        ]
        for part in cost.parts
    ]
    total = absent(figures.NO_PRICE) if cost.amount is None else number(figures.money(cost.amount))
    heads = (Head("Resource class"), Head("Unit-hours", "n"), Head("Price per hour", "n"), Head(cost.currency, "n"))
    return Table("cost", "Cost at list price", "At the price of each day of the site.", heads, rows,
                 [label("cost"), Cell(), Cell(), total])  # fmt: skip


def _price(micro: int | None) -> Cell:
    if micro is None:
        return absent(figures.NO_PRICE)
    whole, rest = divmod(micro, 1_000_000)
    places = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return number(f"{figures.thousands(whole)}.{places}")
