"""Key figures of the pages of use: the number first, what it is set against, and where it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from web import figures
from web.book import Book
from web.tables import Link

__all__ = ["Figure", "change_of", "costs_gaps", "key_figures", "wait_figure"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure: the number first, its unit, what it is set against. css: `nodata` where it is unknown.

    change: how much it changed, written, with `more` or `less` as its class; shown before the note. exact: the
    value in full with its unit where it is rounded, shown on hovering.
    """

    name: str
    value: str
    unit: str = ""
    note: str = ""
    href: str = ""
    css: str = ""
    change: Link | None = None
    exact: str = ""


def key_figures(book: Book) -> list[Figure]:
    """What the range amounts to."""
    share = [_share(book)] if book.whole else []
    return [_used(book), *share, *_goodput(book), _waits(book), _nodes(book), _jobs(book), *_cost(book)]


def _goodput(book: Book) -> list[Figure]:
    """Productive of the time of which programs told; nothing where none did."""
    productive, told = book.told
    if not told:
        return []
    note = f"of {figures.key_hours(told)} instrumented GPU-h of attempts that ended"
    return [Figure("Goodput", figures.percent(productive, told), "%", note)]


def _used(book: Book) -> Figure:
    seconds, days = book.total["gpu_seconds"], book.asked.days
    if not seconds:
        return Figure("GPU-hours used", "0", "", "no GPU was held", _made_of(book))
    value, exact = figures.key_hours(seconds), f"{figures.thousands(seconds)} GPU-s"
    change = change_of(seconds, book.before["gpu_seconds"])
    note = f"on {days.before_text}"
    if change is None:
        note = f"no use in {days.before_text} to compare with" if days.number > 1 else ""
    return Figure("GPU-hours used", value, "", note, _made_of(book), change=change, exact=exact)


def _made_of(book: Book) -> str:
    return "#runs" if book.asked.project else "#by-group"


def change_of(now: int, before: int) -> Link | None:
    """How much more or less than before, in per cent with one decimal; None without a before to set it against."""
    if not before:
        return None
    tenths = (abs(now - before) * 2_000 + before) // (2 * before)
    if not tenths:
        return Link("as much", "")
    return Link(f"{figures.thousands(tenths // 10)}.{tenths % 10} %", "more" if now > before else "less")


def _share(book: Book) -> Figure:
    part, whole = book.total["gpu_seconds"], book.whole["gpu_seconds"] if book.whole else 0
    note = f"of {figures.key_hours(whole)} GPU-h"
    tenths = figures.percent(part, whole)
    return Figure("Share of all used", tenths, "%" if whole else "", note, book.asked.link(project="", group="project"))


def _waits(book: Book) -> Figure:
    return wait_figure(book.waits.total, "#waits" if book.asked.project else "#by-group")


def wait_figure(waits: dict[str, Any], href: str, name: str = "Wait, median") -> Figure:
    """The median wait, with what 95 of 100 stay below (a short median can hide long waits) and how many starts."""
    median, p95, starts = waits["wait_seconds_p50"], waits["wait_seconds_p95"], waits["attempts_started"]
    if median is None:
        return Figure(name, figures.NO_DATA, "", "no start with a known wait", css="nodata")
    number = f"{figures.thousands(starts)} start{'' if starts == 1 else 's'}"
    return Figure(name, *_split(figures.duration(median)), f"p95 {figures.duration(p95)}; {number}", href)


def _split(text: str) -> tuple[str, str]:
    """A duration of one unit as value and unit; one of two units stays together."""
    parts = text.split(" ")
    return (parts[0], parts[1]) if len(parts) == 2 else (text, "")


def _nodes(book: Book) -> Figure:
    note = f"{figures.key_hours(book.total['cpu_seconds'])} CPU-h"
    seconds = book.total["node_seconds"]
    exact = f"{figures.thousands(seconds)} node-s"
    return Figure("Node-hours", figures.key_hours(seconds), "", note, "#by-time", exact=exact)


def _jobs(book: Book) -> Figure:
    total = book.total
    note = f"{figures.thousands(total['attempts'])} attempts ran"
    href = book.asked.listed("jobs")
    return Figure("Jobs started", figures.thousands(total["jobs_started"]), "", note, href)


def _cost(book: Book) -> list[Figure]:
    if book.costs is None:
        return []
    total, currency = book.costs.total, book.shelf.site.currency
    missing = _unpriced(total)
    if total["amount"]["amount"] is None:
        return [Figure("Cost", figures.NO_PRICE, "", f"for {missing}", "#by-group", "nodata")]
    note = f"without {missing}, which have no price" if missing else "at list price"
    amount = total["amount"]["amount"]
    return [Figure("Cost", figures.whole_money(amount), currency, note, "#by-group", exact=f"{amount} {currency}")]


def _unpriced(total: dict[str, Any]) -> str:
    gpu, cpu = total["unpriced_gpu_seconds"], total["unpriced_cpu_seconds"]
    parts = [f"{figures.key_hours(gpu)} GPU-h" if gpu else "", f"{figures.key_hours(cpu)} CPU-h" if cpu else ""]
    return " and ".join(part for part in parts if part)


def costs_gaps(book: Book) -> list[str]:
    """Use without a price, one sentence per class."""
    if book.costs is None:
        return []
    return [_gap(gap) for gap in book.costs.gaps]


def _gap(gap: dict[str, Any]) -> str:
    seconds, unit = (gap["cpu_seconds"], "CPU-h") if "cpu_seconds" in gap else (gap["gpu_seconds"], "GPU-h")
    return f"{gap['resource_class']}: {figures.hours(seconds)} {unit}, {gap['reason']}"
