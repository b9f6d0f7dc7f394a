"""What the page of a run shows of its interruptions: when, how, and what each cost until the run stepped again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.urls import reverse

from events import queries as log
from events.reports import Row
from jobs.queries_interruptions import RunInterruptions
from web import figures, states
from web.history import counted
from web.tables import Cell, Head, Link, Table, absent, label, number

__all__ = ["table"]

MOST: Final = 200
"""Those that cost the most are shown one by one, in order of time; the rest is one row."""
KINDS: Final = {"error": "told an error", "signal": "was told to stop", "hang": "told a hang", "finished": "was done",
                "exited": "exited"}  # fmt: skip
HEADS: Final = (
    Head("Last step ended"), Head("How"), Head("Rolled back min", "n"), Head("Detect and stop min", "n"),
    Head("Requeue min", "n"), Head("Start and restore min", "n"), Head("Stall min", "n"),
    Head("Rolled back GPU-h", "n"), Head("Lost GPU-h", "n"),
)  # fmt: skip
TIMES: Final = (("rollback_replay_seconds",), ("detect_seconds", "teardown_seconds"), ("requeue_seconds",),
                ("partial_gang_wait_seconds", "init_restore_seconds"), ("stall_seconds",))  # fmt: skip
"""What each column of minutes is the sum of."""
GPU_TIMES: Final = ("rollback_replay_gpu_seconds", "lost_gpu_seconds")


def table(run: Any, found: RunInterruptions | None, zone: ZoneInfo) -> Table | None:
    """One row per end with lost work, and their sums; None where nothing interrupted the run."""
    if found is None or not found.rows:
        return None
    costly = sorted(found.rows, key=lambda row: -(row["lost_gpu_seconds"] or 0))[:MOST]
    kept = {row["attempt"] for row in costly}
    shown = [row for row in found.rows if row["attempt"] in kept]
    texts = log.texts({row["told_why"] for row in shown if row["told_why"]})
    rows = [_row(row, zone, texts) for row in shown]
    if rest := [row for row in found.rows if row["attempt"] not in kept]:
        sums = {name: sum(row[name] or 0 for row in rest) for name in (*chain(*TIMES), *GPU_TIMES)}
        rows.append([label(f"{figures.thousands(len(rest))} more"), Cell(), *_costs(sums)])
    foot = [label(counted(len(found.rows), "interruption")), Cell(), *_costs(found.total)]
    address = reverse("api-run-interruptions", args=[run.id])
    tools = [Link(form.upper(), f"{address}?format={form}") for form in ("csv", "xlsx")] + [Link("API", address)]
    return Table("interruptions", "Interruptions", _caption(found), HEADS, rows, foot, tools, wide=True)


def _caption(found: RunInterruptions) -> str:
    first = sum(found.uncharged[part] for part in ("partial_gang_wait", "init_restore"))
    said = (
        "Ends of attempts with lost work. Each lost second is charged to the end that opened it, once; a wait without "
        f"nodes costs no GPU-hours. Other starts, {figures.hours(first)} GPU-h, belong to none."
    )
    if not found.knows_faults:
        said += " Faults: no data."
    if found.count_untold:
        said += f" Of {figures.thousands(found.count_untold)} no program told, so what they lost is not in the sums."
    return said


def _row(row: Row, zone: ZoneInfo, texts: Mapping[str, str]) -> list[Cell]:
    at: datetime = row["happened"] or row["end"]
    shown = states.of(row["state"])
    said = KINDS.get(row["told"], "")
    why = texts.get(row["told_why"], "")
    fault = f"fault {row['fault_title']}" if row["fault"] else ""
    note = "; ".join(part for part in (fault, f"its program {said}" if said else "", why[:120]) if part)
    return [
        Cell(figures.moment(at, zone), "w", iso=at.isoformat(timespec="seconds"),
             href=f"{reverse('attempt', args=[row['attempt']])}"),
        Cell(shown.word, "says", state=shown.css, note=note, href=_fault(row)),
        *_costs(row),
    ]  # fmt: skip


def _fault(row: Row) -> str:
    """Address of the fault that may have ended it."""
    return reverse("fault", args=[row["fault"]]) if row["fault"] else ""


def _costs(row: Row) -> Sequence[Cell]:
    minutes = [_minutes(_sum(row[name] for name in names)) for names in TIMES]
    return [*minutes, *(_hours(row[name]) for name in GPU_TIMES)]


def _sum(values: Iterable[int | None]) -> int | None:
    """Of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _minutes(seconds: int | None) -> Cell:
    """Minutes with one decimal, halves up."""
    if seconds is None:
        return absent()
    tenths = (seconds * 10 + 30) // 60
    return number(f"{figures.thousands(tenths // 10)}.{tenths % 10}", zero=not seconds)


def _hours(seconds: int | None) -> Cell:
    return absent() if seconds is None else number(figures.hours(seconds), zero=not seconds)
