"""The page of use: key figures, the chart over time, its tables. GET only, so that every view has an address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs.queries import scope_of
from web import asked, book, charts, figures, ranges, usagetables
from web.asked import Asked, Wrong
from web.book import Book, Shelf
from web.bundle import bundle_url
from web.charts import OTHER, Series, Stack
from web.frame import frame
from web.tables import Link

__all__ = ["use"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure: the number first, its unit, what it is set against. css: `nodata` where it is unknown."""

    name: str
    value: str
    unit: str = ""
    note: str = ""
    href: str = ""
    css: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a chart's legend, with its total."""

    css: str
    name: str
    total: str


@login_required
@never_cache
@require_safe
def use(request: HttpRequest) -> HttpResponse:
    """What was used, by whom, when, how long it waited and what it cost."""
    scope = scope_of(request.user)
    try:
        found = book.open_book(scope, request.GET, lambda there, cut: _ask(request.GET, there, cut))
    except Wrong as wrong:
        return _mend(request, wrong)
    return render(request, "web/use.html", {**frame(request, "use", found.as_of, found.shelf.site), **_page(found)})


def _ask(given: QueryDict, there: Shelf, cut: datetime) -> Asked:
    usual = ranges.default(there.span, there.zone, cut.astimezone(there.zone).date())
    codes = [choice.code for choice in there.choices]
    return asked.read(given.dict(), usual, codes)  # type: ignore[arg-type]


def _mend(request: HttpRequest, wrong: Wrong) -> HttpResponse:
    """The form with what is wrong beside its field; no figures, since nobody knows which."""
    there = book.shelf(scope_of(request.user), "")
    given = {name: request.GET.get(name, "")[:40] for name in ("from", "to", "project", "group")}
    wrong_field = {"field": wrong.field, "text": wrong.text}
    context = {"given": given, "choices": there.choices, "wrong": wrong_field}
    return render(request, "web/use.html", {**frame(request, "use", None, there.site), **context}, status=400)


def _page(found: Book) -> dict[str, Any]:
    view = found.asked
    given = {
        "from": view.days.first.isoformat(), "to": view.days.last.isoformat(), "project": view.project,
        "group": view.group,
    }  # fmt: skip
    context = {"found": found, "given": given, "choices": found.shelf.choices, "offers": _offers(found)}
    context["groups"] = [
        Link(name, view.link(group=name, sort="", every=False), name == view.group) for name in asked.GROUPS
    ]
    context["range"] = _range_text(found)
    if found.empty:
        return {**context, "nothing": _nothing(found)}
    stack = _stack(found)
    return {
        **context,
        "figs": _figures(found),
        "gaps": _gaps(found),
        "stack": stack,
        "spec": charts.stacked(stack),
        "legend": _legend(found),
        "chart_tools": usagetables.tools(found, view.days.bucket, view.group),
        "by_group": usagetables.by_group(found),
        "by_bucket": usagetables.by_bucket(found),
        "bundle_url": bundle_url(),
    }


def _offers(found: Book) -> list[Link]:
    """Ranges one click away."""
    today = found.cut.astimezone(found.shelf.zone).date()
    view = found.asked
    return [
        Link(text, view.link(days=days, every=False), days == view.days)
        for text, days in ranges.offers(found.shelf.span, found.shelf.zone, today)
        if days.number <= ranges.MOST_DAYS
    ]


def _range_text(found: Book) -> str:
    whole = found.asked.days.params(found.shelf.zone, found.cut)
    length = round((whole.end - whole.start).total_seconds() / 3600)
    return f"{found.asked.days.text} ({figures.thousands(length)} h)"


def _figures(found: Book) -> list[Figure]:
    total, waits = found.total, found.waits.total
    used = [Figure("GPU-hours used", figures.key_hours(total["gpu_seconds"]), "", _across(found), "#by-group")]
    if not total["gpu_seconds"]:
        used = [Figure("GPU-hours used", "0", "", "no GPU was held", "#by-group")]
    used.append(
        Figure("Node-hours", figures.key_hours(total["node_seconds"]), "",
               f"{figures.key_hours(total['cpu_seconds'])} CPU-h", "#by-group")
    )  # fmt: skip
    counts = [
        Figure("Attempts started", figures.thousands(total["attempts_started"]), "",
               f"of {figures.thousands(total['jobs_started'])} jobs", "#by-time"),
        Figure("Jobs ended", figures.thousands(total["jobs_ended"]), "", _running(total), "#by-time"),
    ]  # fmt: skip
    return [*used, *counts, _wait(waits), *_cost(found)]


def _across(found: Book) -> str:
    number = sum(1 for row in found.groups.rows if row["gpu_seconds"])
    return f"by {figures.thousands(number)} {found.asked.group}{'' if number == 1 else 's'}"


def _running(total: dict[str, Any]) -> str:
    return f"{figures.thousands(total['attempts'])} attempts ran"


def _wait(waits: dict[str, Any]) -> Figure:
    median, p95 = waits["wait_seconds_p50"], waits["wait_seconds_p95"]
    if median is None:
        return Figure("Wait, median", figures.NO_DATA, "", "no start with a known wait", css="nodata")
    return Figure("Wait, median", *_split(figures.duration(median)), f"p95 {figures.duration(p95)}", "#by-group")


def _split(text: str) -> tuple[str, str]:
    """A duration of one unit as value and unit; one of two units stays together."""
    parts = text.split(" ")
    return (parts[0], parts[1]) if len(parts) == 2 else (text, "")


def _cost(found: Book) -> list[Figure]:
    if found.costs is None:
        return []
    total, currency = found.costs.total, found.shelf.site.currency
    missing = _unpriced(total)
    if total["amount"]["amount"] is None:
        return [Figure("Cost", figures.NO_PRICE, "", f"for {missing}", "#by-group", "nodata")]
    note = f"without {missing}, which have no price" if missing else "at list price"
    return [Figure("Cost", figures.whole_money(total["amount"]["amount"]), currency, note, "#by-group")]


def _unpriced(total: dict[str, Any]) -> str:
    gpu, cpu = total["unpriced_gpu_seconds"], total["unpriced_cpu_seconds"]
    parts = [f"{figures.key_hours(gpu)} GPU-h" if gpu else "", f"{figures.key_hours(cpu)} CPU-h" if cpu else ""]
    return " and ".join(part for part in parts if part)


def _gaps(found: Book) -> list[str]:
    """Use without a price, one sentence per class."""
    if found.costs is None:
        return []
    return [_gap(gap) for gap in found.costs.gaps]


def _gap(gap: dict[str, Any]) -> str:
    seconds, unit = (gap["cpu_seconds"], "CPU-h") if "cpu_seconds" in gap else (gap["gpu_seconds"], "GPU-h")
    return f"{gap['resource_class']}: {figures.hours(seconds)} {unit}, {gap['reason']}"


def _legend(found: Book) -> list[Key]:
    """Series in stacking order with their totals; small ones together as other."""
    group, main = found.asked.group, found.main
    sums = {row[group]: row[main] for row in found.groups.rows}
    slots = found.slots
    keys = [
        Key(usagetables.KEYS[slot], usagetables.group_name(name), figures.key_hours(sums[name]))
        for name, slot in slots.items()
        if slot != OTHER
    ]
    rest = [sums[name] for name, slot in slots.items() if slot == OTHER]
    other = Key(usagetables.KEYS[OTHER], f"{len(rest)} others", figures.key_hours(sum(rest)))
    return [*keys, other] if rest else keys


def _stack(found: Book) -> Stack:
    bucket, unit = found.asked.days.bucket, usagetables.LONG[found.main]
    pieces = found.pieces
    missing = [p.text for p in pieces if p.name not in found.by_bucket and not found.known(p) and p.start < found.cut]
    text = f"{unit} per {bucket} by {found.asked.group}, {found.asked.days.text}; figures in the table By {bucket}"
    heads = bucket.capitalize(), asked.GROUPS[found.asked.group]
    return Stack(text, unit, *heads, [p.text for p in pieces], _series(found), missing)


def _series(found: Book) -> Sequence[Series]:
    bucket, group, main = found.asked.days.bucket, found.asked.group, found.main
    slots = found.slots
    sums: dict[str, dict[str, int]] = {}
    for row in found.over_time.rows:
        if row[main]:
            into = sums.setdefault(slots[row[group]], {})
            into[row[bucket]] = into.get(row[bucket], 0) + row[main]
    names = {slot: usagetables.group_name(name) for name, slot in slots.items()} | {OTHER: "others"}
    return [
        Series(slot, names[slot], [round(sums[slot].get(p.name, 0) / 3600, 2) for p in found.pieces])
        for slot in dict.fromkeys(slots.values())
    ]


def _nothing(found: Book) -> dict[str, str]:
    """What to say and do where there is nothing to show."""
    shelf, view = found.shelf, found.asked
    if shelf.span is not None:
        latest = ranges.offers(shelf.span, shelf.zone, view.days.last)[-1][1]
        week = ranges.Days(ranges.default(shelf.span, shelf.zone, latest.last).first, latest.last)
        return {"why": "range", "last": figures.day(latest.last, year=True), "href": view.link(days=week),
                "show": week.text}  # fmt: skip
    if view.project:
        return {"why": "project", "href": view.link(project="")}
    return {"why": "books" if shelf.known is None else "scope"}
