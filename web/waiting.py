"""The page of what waits now: every waiting job, why, until when, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.reports import BadParameter
from fleet.queries import site
from jobs.queries import scope_of
from jobs.queries_estimates import Estimates, last_month
from jobs.queries_fairshare import clusters_of
from jobs.queries_waiting import QUESTION, Question, read_question, waiting_jobs
from jobs.waiting import CAUSES
from jobs.waiting_now import Waiting
from web import charts, figures, waittables
from web.bundle import bundle_url
from web.charts import Series, Stack
from web.frame import frame
from web.history import counted
from web.lists import Seen
from web.rights import page
from web.state import one_state
from web.tables import Link
from web.usagecharts import Key
from web.usagefigs import Figure
from web.waitparts import CAUSE_WORDS, SLOTS, guessed

__all__ = ["waiting"]

OFFERED: Final = tuple(cause for cause in CAUSES if cause != "fragmented")
"""Causes that a job can have now: `fragmented` is never stored, see docs/waiting.md."""
MOST_BARS: Final = 20
"""Projects that the chart shows; the table holds all of them."""


@page
def waiting(request: HttpRequest) -> HttpResponse:
    """GET /waiting/."""
    scope, here, cut = scope_of(request.user), site(), datetime.now(UTC)
    given = {name: request.GET.get(name, "")[:200] for name in QUESTION}
    context: dict[str, Any] = {"given": given, "causes": [(cause, CAUSE_WORDS[cause].short) for cause in OFFERED]}
    with one_state():
        as_of = log.as_of(cut)
        try:
            asked = read_question(request.GET.dict())
            found = waiting_jobs(scope, asked, cut)
            seen = Seen(scope, here, cut, more={"shares": clusters_of(scope)})
            context |= _page(found, asked, seen, last_month(scope, cut))
            context["projects"] = sorted({*found.projects, asked.project} - {""})
        except BadParameter as bad:
            context["wrong"] = bad.text
        around = frame(request, "waiting", as_of, here)
    status = 400 if context.get("wrong") else 200
    return render(request, "web/waiting.html", {**around, **context, "live": True}, status=status)


def _page(found: Waiting, asked: Question, seen: Seen, guesses: Estimates) -> dict[str, Any]:
    filtered = replace(asked, ordering=Question().ordering) != Question()
    empty = "filter" if filtered else "all" if not found.rows else ""
    context: dict[str, Any] = {
        "found": found, "figs": _figures(found, seen, guesses, filtered=filtered), "others": _others(found),
        "estimates": waittables.estimates(guesses), "guessed": guessed(guesses.total), "empty": empty,
        "unseen": bool(found.rows) and not any(row.looked_at for row in found.rows),
    }  # fmt: skip
    if not found.rows:
        return context
    return {
        **context, "rows": waittables.rows(found, asked, seen, _tools(asked)), "totals": waittables.totals(found),
        "depends": waittables.dependencies(found), "limits": waittables.limits(found),
        "rooms": waittables.rooms(found, seen), **_chart(found), "bundle_url": bundle_url(),
    }  # fmt: skip


def _figures(found: Waiting, seen: Seen, guesses: Estimates, *, filtered: bool) -> list[Figure]:
    rows = found.rows
    gpus = sum(row.gpus or 0 for row in rows)
    untold = sum(row.gpus is None for row in rows)
    asks = f"{counted(untold, 'job')} of them without a size" if untold else "asked for by all of them together"
    longest = max(rows, key=lambda row: row.waited_seconds or 0, default=None)
    return [
        Figure("Jobs that wait", figures.thousands(len(rows)), "", "waiting tasks of an array count as one"),
        Figure("GPUs asked for", figures.thousands(gpus), "", asks),
        _longest(longest.waited_seconds if longest else None, longest.project if longest else ""),
        _next(found, seen, "these jobs" if filtered or seen.scope.projects is None else "your waiting jobs"),
        _miss(guesses),
    ]


def _longest(seconds: int | None, project: str) -> Figure:
    if seconds is None:
        return Figure("Longest wait", "—", "", "nothing waits")
    value, _, unit = figures.duration(seconds).partition(" ")
    plain = " " in unit
    return Figure("Longest wait", figures.duration(seconds) if plain else value, "" if plain else unit, project)


def _next(found: Waiting, seen: Seen, whose: str) -> Figure:
    """The earliest start that a scheduler expects. whose: how the page calls its jobs."""
    told = [row.expected for row in found.rows if row.expected is not None]
    if not told:
        note = f"none of {whose} has an estimate" if found.rows else "nothing waits"
        return Figure("Next start expected", figures.NO_DATA, "", note, css="nodata")
    local = min(told).astimezone(seen.site.zone)
    note = f"{figures.day(local.date())}; {counted(len(told), 'job')} with an estimate"
    return Figure("Next start expected", f"{local:%H:%M}", "", note)


def _miss(guesses: Estimates) -> Figure:
    within = guesses.total.half_within
    if within is None:
        return Figure("Estimates missed by", figures.NO_DATA, "", "none in the last 30 days", "#estimates", "nodata")
    note = f"or less, half of {figures.thousands(guesses.total.count)} in 30 days"
    value, _, unit = figures.duration(within).partition(" ")
    return Figure("Estimates missed by", value if " " not in unit else figures.duration(within),
                  unit if " " not in unit else "", note, "#estimates")  # fmt: skip


def _others(found: Waiting) -> str:
    """What waits in projects that the caller may not see."""
    if not found.others.jobs:
        return ""
    gpus = f", which ask for {counted(found.others.gpus, 'GPU')}" if found.others.gpus else ""
    return f"Besides these, {counted(found.others.jobs, 'job')} of other projects wait{gpus}."


def _tools(asked: Question) -> Sequence[Link]:
    """The same from the door for machines."""
    query = {name: getattr(asked, name) for name in QUESTION if getattr(asked, name)}
    api = reverse("api-waiting")
    files = [Link(form.upper(), f"{api}?{urlencode({**query, 'format': form})}") for form in ("csv", "xlsx")]
    return [*files, Link("API", f"{api}?{urlencode(query)}")]


def _chart(found: Waiting) -> dict[str, Any]:
    """Waiting jobs by project and cause, as bars across."""
    jobs: dict[str, dict[str, int]] = {}
    for total in found.totals:
        jobs.setdefault(total.project, {})[total.cause] = total.jobs
    projects = sorted(jobs, key=lambda project: (-sum(jobs[project].values()), project))[:MOST_BARS]
    causes = [cause for cause in CAUSES if any(cause in jobs[project] for project in jobs)]
    series = [
        Series(SLOTS[cause], CAUSE_WORDS[cause].short, [jobs[project].get(cause) for project in projects])
        for cause in causes
    ]
    text = f"Waiting jobs of {counted(len(projects), 'project')} by cause; figures in the table By project and cause"
    stack = Stack(text, "Jobs that wait", "Project", "Cause", projects, series, scale="owner")
    sums = {cause: sum(by.get(cause, 0) for by in jobs.values()) for cause in causes}
    legend = [Key(f"k-{SLOTS[cause]}", CAUSE_WORDS[cause].short, figures.thousands(sums[cause])) for cause in causes]
    spec = charts.across(stack)
    most = max(sum(jobs[project].values()) for project in projects)
    ticks = {"tickMinStep": 1, "tickCount": min(6, most), "format": "d"}  # there are no halves of jobs
    spec["encoding"]["x"]["axis"] |= ticks
    return {"stack": stack, "spec": spec, "legend": legend}
