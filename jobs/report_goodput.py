"""The report `goodput`: where the allocated GPU-seconds of attempts went. See `sql/report_goodput.sql`.

An attempt counts whole, where its end falls; a running one where the report's instant falls, until that instant. So
each attempt is in one bucket and days add up to months. It belongs to the project its account had on the day of its
start, as in the list of attempts. What no program told of is apart from the parts: it is not known, not `other`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from events.reports import Column, Report, Row
from events.sqlfiles import statements
from jobs import windows
from jobs.goodput import PARTS
from jobs.windows import DIMENSIONS, RUN, Window

__all__ = ["COMPUTED", "GROUPS", "HEADS", "SUMS", "TOLD_ENOUGH", "ettr", "facts", "finish"]

GROUPS: Final = {**DIMENSIONS, RUN: "f.run"}
TOLD_ENOUGH: Final = 0.99
"""Share of a run's GPU-seconds of which programs must have told, or its ratio to wall time is not known."""
HEADS: Final = {
    "productive": "Productive", "checkpoint_stall": "Checkpoint stall", "rollback_replay": "Rollback and replay",
    "detect": "Detect", "teardown": "Teardown", "init_restore": "Init and restore", "data_stall": "Data stall",
    "partial_gang_wait": "Partial gang wait", "idle_held": "Idle while held", "other": "Other",
}  # fmt: skip
SUMMED: Final = (
    Column("attempts", "Attempts", "integer"),
    Column("allocated_gpu_seconds", "Allocated", "seconds", "GPU-s"),
    Column("not_instrumented_gpu_seconds", "Not instrumented", "seconds", "GPU-s"),
    Column("instrumented_gpu_seconds", "Instrumented", "seconds", "GPU-s"),
    *(Column(f"{part}_gpu_seconds", HEADS[part], "seconds", "GPU-s") for part in PARTS),
    Column("rolled_back_seconds", "Rolled back", "seconds", "s"),
)
"""Additive: not instrumented and instrumented are the allocated ones; the ten parts are the instrumented ones."""
GOODPUT: Final = Column("goodput", "Goodput", "number", "ratio")
ETTR: Final = Column("ettr", "ETTR", "number", "ratio")
STACKED: Final = tuple(f"{part}_gpu_seconds" for part in PARTS)
"""Columns that add up to the instrumented GPU-seconds."""
_HIDDEN: Final = tuple(Column(name, "", "integer") for name in ("run_productive", "run_held", "run_untold", "run_wall"))
COMPUTED: Final = (*SUMMED, *_HIDDEN)
_NONE: Final = "NULL AS run_productive, NULL AS run_held, NULL AS run_untold, NULL AS run_wall"
SUMS: Final = ", ".join([
    "count(*)", "coalesce(sum(allocated), 0)", "coalesce(sum(allocated) FILTER (WHERE NOT told), 0)",
    "coalesce(sum(allocated) FILTER (WHERE told), 0)", *(f"coalesce(sum({part}), 0)" for part in PARTS),
    "coalesce(sum(rolled_back_seconds), 0)", *(f"max({column.name})::bigint" for column in _HIDDEN),
])  # fmt: skip


def facts(found: Window, *, told: bool = False) -> str:
    """SQL of the attempts inside a window; parameters by `Window.arguments` and `scoped`. told: instrumented only."""
    attempts, run = statements("jobs", "report_goodput")
    only = f"AND {windows.ACCOUNTS}" if found.params.project else ""
    figures = run if RUN in found.params.group_by else _NONE
    return attempts.format(only=only, run=figures, join="JOIN" if told else "LEFT JOIN")


def finish(report: Report) -> Report:
    """The report with its ratios: goodput everywhere, the share of wall time where it is grouped by run.

    The latter is the run's own, over all its attempts since it could start first, whatever the window.
    """
    by_run = RUN in report.params.group_by
    keys = tuple(column for column in report.columns if column not in COMPUTED)
    columns = (*keys, *SUMMED, GOODPUT, *((ETTR,) if by_run else ()))
    rows = [_with_ratios(row, by_run=by_run) for row in report.rows]
    total = _with_ratios(report.total, by_run=False) | ({"ettr": None} if by_run else {})
    return replace(report, columns=columns, rows=rows, total=total)


def _with_ratios(row: Row, *, by_run: bool) -> Row:
    out = dict(row)
    figures = [out.pop(column.name) for column in _HIDDEN]
    told = row["instrumented_gpu_seconds"]
    out["goodput"] = round(row["productive_gpu_seconds"] / told, 6) if told else None
    if by_run:
        out["ettr"] = ettr(*figures)
    return out


def ettr(productive: int | None, held: int | None, untold: int | None, wall: int | None) -> float | None:
    """Productive time over wall time since a run could start first.

    None where programs told too little, and where attempts ran side by side for longer than that time.

    productive, wall: seconds. held, untold: GPU-seconds of its ended attempts, and of those that told nothing.
    """
    if not wall or not productive or productive > wall or (untold or 0) > (1 - TOLD_ENOUGH) * (held or 0):
        return None
    return round(productive / wall, 6)
