"""Home: what the hall (or what one may see of it) is doing now, the last 30 days, and what wants attention."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events import reports
from events.access import Scope
from events.reports import AsOf, Report, Row
from fleet import queries as fleet
from fleet.queries import Site
from jobs import queries_now as now_
from jobs.queries import scope_of
from jobs.queries_now import Standing, Waiting
from web import charts, figures, hometables, looseends, ranges
from web.asked import project_address
from web.bundle import bundle_url
from web.charts import OTHER, SLOTS, Series, Stack
from web.frame import frame
from web.ranges import DAY, Days
from web.rights import page
from web.state import one_state
from web.tables import Link
from web.usagecharts import Key
from web.usagefigs import Figure, change_of, wait_figure
from web.usagetables import KEYS, group_name

__all__ = ["Hall", "home"]

WEEK = 7


@dataclass(frozen=True)
class Hall:
    """What Home shows. days: the 30 days of the chart; they end today, or with the last use where that is older."""

    scope: Scope
    site: Site
    cut: datetime
    days: Days
    usage: Report
    waits: Row
    standing: Standing
    waiting: Sequence[Waiting]
    installed: int | None
    used_days: set[date]

    @property
    def today(self) -> date:
        """The site's day."""
        return self.cut.astimezone(self.site.zone).date()

    @property
    def current(self) -> bool:
        """Whether the chart reaches today."""
        return self.days.last == self.today

    @property
    def by_project(self) -> Mapping[str, int]:
        """GPU-seconds of the 30 days, the largest project first."""
        return self.used(self.days)

    def used(self, days: Days) -> dict[str, int]:
        """GPU-seconds by project over some of the 30 days, the largest first."""
        sums: dict[str, int] = defaultdict(int)
        for row in self.usage.rows:
            if days.first.isoformat() <= row["day"] <= days.last.isoformat():
                sums[row["project"]] += row["gpu_seconds"]
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def week(self, back: int) -> Days:
        """Seven full days of the 30: the last ones (0), or those before (1)."""
        last = self.days.last - DAY * (WEEK * back + (1 if self.current else 0))
        return Days(last - DAY * (WEEK - 1), last)


@page
def home(request: HttpRequest) -> HttpResponse:
    """GET /."""
    scope, cut = scope_of(request.user), datetime.now(UTC)
    with one_state():
        here, as_of = fleet.site(), log.as_of(cut)
        span = now_.use_span(scope)
        context = _page(_read(scope, here, cut, span)) if span else {"nothing": _nothing(scope, as_of)}
        ends = looseends.found(scope, here, as_of, cut)
        around = frame(request, "home", as_of, here)
    context = {**around, **context, "ends": ends, "all": scope.projects is None, "project": None, "live": True}
    return render(request, "web/home.html", context)


def _nothing(scope: Scope, as_of: AsOf) -> dict[str, str]:
    if scope.projects is None:
        return {"why": "books" if not as_of.position else "unused"}
    return {"why": "scope"}


def _read(scope: Scope, here: Site, cut: datetime, span: tuple[date, date]) -> Hall:
    today = cut.astimezone(here.zone).date()
    last = today if span[1] >= today - 29 * DAY else span[1]
    days = Days(last - 29 * DAY, last)

    def run(name: str, over: Days, *groups: str) -> Report:
        return reports.run(name, scope, over.params(here.zone, cut, *groups))

    sizes = [cluster.gpus or 0 for cluster in fleet.clusters(scope)]
    return Hall(
        scope, here, cut, days, run("usage", days, "day", "project"), run("waits", Days(last - 6 * DAY, last)).total,
        now_.standing(scope), now_.waiting(scope), sum(sizes) if sizes and all(sizes) else None,
        now_.days_with_use(days.first - 8 * DAY, days.last + 8 * DAY),
    )  # fmt: skip


def _page(hall: Hall) -> dict[str, Any]:
    drawn = _stack(hall)
    return {
        "figs": _figures(hall),
        "stack": drawn,
        "spec": charts.stacked(drawn),
        "legend": _legend(hall),
        "chart_title": f"GPU-hours per day, {hall.days.text}",
        "chart_tools": _tools(hall),
        "active": hometables.active(hall),
        "waits": hometables.waiting(hall),
        "by_project": hometables.by_project(hall),
        "bundle_url": bundle_url(),
    }


def _tools(hall: Hall) -> list[Link]:
    query = {"from": hall.days.first.isoformat(), "to": (hall.days.last + DAY).isoformat(),
             "timezone": hall.site.timezone, "group_by": "day,project"}  # fmt: skip
    address = f"{reverse('api-report', args=['usage'])}?{urlencode(query)}"
    return [Link("CSV", f"{address}&format=csv"), Link("XLSX", f"{address}&format=xlsx"), Link("API", address)]


# --- figures ---------------------------------------------------------------------------------------------------------


def _figures(hall: Hall) -> list[Figure]:
    waits = wait_figure(hall.waits, _range(hall, 6), "Wait, median, 7 days")
    return [_allocated(hall), _running(hall), _waiting(hall), *_used(hall), waits]


def _allocated(hall: Hall) -> Figure:
    held = hall.standing.gpus
    attempts = reverse("attempts") + "?running=true"
    if hall.scope.fleetwide and hall.installed:
        note = f"of {figures.thousands(hall.installed)} installed, {figures.percent(held, hall.installed)} %"
    else:
        note = f"on {figures.thousands(hall.standing.nodes)} node{'' if hall.standing.nodes == 1 else 's'}"
    return Figure("GPUs held now", figures.thousands(held), "", note, attempts)


def _running(hall: Hall) -> Figure:
    found = hall.standing
    note = f"{figures.thousands(found.attempts)} attempt{'' if found.attempts == 1 else 's'}"
    return Figure("Runs active", figures.thousands(found.runs), "", note, "#active")


def _waiting(hall: Hall) -> Figure:
    number = sum(one.jobs for one in hall.waiting)
    since = min((one.since for one in hall.waiting if one.since), default=None)
    note = f"longest {figures.duration(max(0, int((hall.cut - since).total_seconds())))}" if since else "nobody waits"
    return Figure("Jobs waiting", figures.thousands(number), "", note, reverse("waiting"))


def _used(hall: Hall) -> list[Figure]:
    """GPU-hours of today and of the last seven full days; without use lately only those of the last days used."""
    now, before = (sum(hall.used(hall.week(back)).values()) for back in (0, 1))
    change = change_of(now, before)
    note = "on the 7 days before" if change else "no use in the 7 days before"
    value = figures.key_hours(now)
    href = _address(hall.week(0))
    week = Figure("GPU-hours, 7 full days", value, "", note, href, change=change)
    if not hall.current:
        return [week]
    today = Days(hall.today, hall.today)
    so_far = f"until {figures.clock(hall.cut.astimezone(hall.site.zone))}"
    value = figures.key_hours(sum(hall.used(today).values()))
    return [Figure("GPU-hours today", value, "", so_far, _address(today)), week]


def _range(hall: Hall, back: int) -> str:
    return _address(Days(hall.days.last - back * DAY, hall.days.last))


def _address(days: Days) -> str:
    return f"{project_address('')}?{urlencode({'from': days.first.isoformat(), 'to': days.last.isoformat()})}"


# --- chart -----------------------------------------------------------------------------------------------------------


def _slots(hall: Hall) -> dict[str, str]:
    used = [name for name, seconds in hall.by_project.items() if seconds]
    return {name: SLOTS[n] if n < len(SLOTS) else OTHER for n, name in enumerate(used)}


def _legend(hall: Hall) -> list[Key]:
    sums, slots = hall.by_project, _slots(hall)
    keys = [Key(KEYS[slot], group_name(name), figures.key_hours(sums[name])) for name, slot in slots.items()
            if slot != OTHER]  # fmt: skip
    rest = [sums[name] for name, slot in slots.items() if slot == OTHER]
    return [*keys, Key(KEYS[OTHER], f"{len(rest)} others", figures.key_hours(sum(rest)))] if rest else keys


def _stack(hall: Hall) -> Stack:
    pieces, slots = ranges.pieces(hall.days, hall.site.zone), _slots(hall)
    values: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in hall.usage.rows:
        if row["gpu_seconds"]:
            values[slots[row["project"]]][row["day"]] += row["gpu_seconds"]
    names = {slot: group_name(name) for name, slot in slots.items()} | {OTHER: "others"}
    series = [
        Series(slot, names[slot], [round(values[slot].get(p.name, 0) / 3600, 2) for p in pieces])
        for slot in dict.fromkeys(slots.values())
    ]
    missing = [p.text for p in pieces if not ranges.reached(p.days.first, hall.used_days) and p.start < hall.cut]
    text = f"GPU-hours per day by project, {hall.days.text}; totals in the table By project"
    return Stack(text, "GPU-hours", "Day", "Project", [p.text for p in pieces], series, missing)
