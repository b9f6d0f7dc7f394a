"""The short block Waste of a run and of a project: GPU-time held in vain by cause, and the way to the whole report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from events.reports import Row
from jobs.queries_waste import CAUSES, UNSEEN
from web import figures
from web.book import Book
from web.causes import cause_text
from web.history import counted
from web.tables import Bar, Cell, Head, Link, Table, absent, count, label, number
from web.usagetables import tools

__all__ = ["of_project", "of_run"]

NOTES: Final = {"timed_out": "often by plan"}
"""What one should know of a cause before calling it a waste."""
TELLS: Final = "hallbook_run.py in the training program tells it"


def of_project(book: Book) -> Table | None:
    """Of what ended in the days of the page; None where nothing ended."""
    report = book.waste
    if report is None or not report.total["attempts_ended"]:
        return None
    causes = {row["cause"]: (row["gpu_seconds"], row["attempts"]) for row in report.rows}
    unknown = next((gap for gap in report.gaps if "gpu_seconds" in gap), {"attempts": 0, "gpu_seconds": 0})
    days, given = book.asked.days, {"as_known_at": book.asked.known, "project": book.asked.project}
    held = f"by attempts that ended in {days.text}"
    return _table(causes, report.total, unknown, held, tools(book, "waste", "cause"),
                  _report(days.first, days.last, "user,cause", given))  # fmt: skip


def of_run(run: Any, found: Row | None, zone: Any, cut: datetime) -> Table | None:
    """Of the ended attempts of a run; None where nothing of it was in vain, and all of it could be judged."""
    if found is None or not (found["gpu_seconds"] or found["not_judged_attempts"]):
        return None
    causes = {cause: (found[cause], found[f"{cause}_attempts"]) for cause in CAUSES if found[cause]}
    unknown = {"attempts": found["not_judged_attempts"], "gpu_seconds": found["not_judged_gpu_seconds"]}
    first, last = (at.astimezone(zone).date() for at in (run.start or cut, run.end or cut))
    more = _report(first, last, "run,cause", {"project": run.project})
    return _table(causes, found, unknown, "by its attempts that ended", (), more)


def _report(first: date, last: date, group_by: str, given: dict[str, str]) -> Link:
    """The way to the report over these days, both included."""
    query = {"from": first.isoformat(), "to": last.isoformat(), "group_by": group_by, **given}
    kept = urlencode({name: value for name, value in query.items() if value}, safe=",")
    return Link(f"Waste by {group_by.partition(',')[0]}", f"{reverse('report', args=['waste'])}?{kept}")


def _table(
    causes: Mapping[Any, tuple[int, int]], total: Row, unknown: Row, held: str, files: Sequence[Link], more: Link
) -> Table:
    """The most wasted first; below it what nobody tells."""
    allocated, wasted = total["allocated_gpu_seconds"], total["gpu_seconds"]
    most = max((seconds for seconds, _ in causes.values()), default=0)
    ranked = sorted(causes, key=lambda cause: (-causes[cause][0], CAUSES.index(cause)))
    rows = [[Cell(cause_text(cause), note=NOTES.get(cause, "")), count(causes[cause][1]),
             *_amounts(causes[cause][0], allocated), _bar(causes[cause][0], most)] for cause in ranked]  # fmt: skip
    rows += [[label(cause_text(cause)), absent(), absent(), absent(), Cell(css="viz")]
             for cause in UNSEEN if cause not in causes]  # fmt: skip
    foot = [label("all causes"), count(total["attempts"]), *_amounts(wasted, allocated), Cell(css="viz")]
    heads = (Head("Cause"), Head("Attempts", "n"), Head("GPU-h", "n"), Head("Share %", "n"), Head("", "viz"))
    return Table("waste", "Waste", _caption(allocated, unknown, held), heads, rows, foot, files, more)


def _caption(allocated: int, unknown: Row, held: str) -> str:
    said = (
        f"GPU-time held in vain {held}, of {figures.hours(allocated)} GPU-h that they held. Each second has one cause, "
        "so the column adds up; an attempt can have several. Without telemetry nobody knows what was unused or idle."
    )
    if not unknown["attempts"]:
        return said
    what = f"{counted(unknown['attempts'], 'attempt')} with {figures.hours(unknown['gpu_seconds'])} GPU-h"
    return f"{said} How much was lost of {what} that ended as preempted, requeued or unseen is not known: {TELLS}."


def _amounts(seconds: int, allocated: int) -> list[Cell]:
    zero = not seconds
    return [number(figures.hours(seconds), zero=zero), number(figures.percent(seconds, allocated), zero=zero)]


def _bar(seconds: int, most: int) -> Cell:
    return Cell("", "viz", bar=Bar(f"{100 * seconds / most:.2f}", "k-pool"))
