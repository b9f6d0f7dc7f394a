"""The report `waste`: GPU-seconds that attempts held in vain, each once. Rules: `jobs.waste`, `sql/report_waste.sql`.

An attempt counts whole where its end falls, under the project that its account had on the day of its start, as in
the report `goodput`; one that runs is not judged yet. So days add up to months.

By `cause` a row has the seconds of that cause and the attempts that it is of; what else it says is of all attempts of
the other groupings together, and stands in each of their rows. Attempts can have several causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from events.reports import Column, Params, Report, Row
from events.sqlfiles import statements
from jobs import windows
from jobs.waste import AT_LIMIT, CAUSES, ENDS, FAULTS, LEAST_GPU_SECONDS, NOT_JUDGED, UNSEEN, ppm
from jobs.windows import DIMENSIONS, RUN, Window

__all__ = ["CAUSE", "COMPUTED", "GROUPS", "SUMS", "WASTED", "facts", "finish", "gaps", "judged", "without_cause"]

CAUSE: Final = "cause"
GROUPS: Final = {**DIMENSIONS, RUN: "f.run"}
"""Groupings besides the cause, by which sums are parted after they are made."""
COLUMNS: Final = (
    Column("gpu_seconds", "Held in vain", "seconds", "GPU-s"),
    Column("allocated_gpu_seconds", "Allocated", "seconds", "GPU-s"),
    Column("waste_ppm", "Share", "integer", "ppm"),
    Column("attempts", "Attempts", "integer"),
    Column("attempts_ended", "Attempts ended", "integer"),
    Column("limit_seconds", "Time limits", "seconds", "s"),
    Column("used_seconds", "Used of limits", "seconds", "s"),
    Column("energy_j", "Energy", "integer", "J"),
)
_MEASURED: Final = (
    ("gpu_seconds", "coalesce(sum(f.wasted), 0)"),
    ("allocated_gpu_seconds", "coalesce(sum(f.allocated), 0)"),
    ("attempts", "count(*) FILTER (WHERE f.wasted > 0)"),
    ("attempts_ended", "count(*)"),
    ("limit_seconds", "sum(f.limit_seconds)"),
    ("used_seconds", "sum(f.used_seconds)"),
    ("attempts_with_limit", "count(f.limit_seconds)"),
    ("not_judged_attempts", "count(f.not_judged)"),
    ("not_judged_gpu_seconds", "coalesce(sum(f.not_judged), 0)"),
    *((cause, f"coalesce(sum(f.{cause}), 0)") for cause in CAUSES),
    *((f"{cause}_attempts", f"count(*) FILTER (WHERE f.{cause} > 0)") for cause in CAUSES),
)
COMPUTED: Final = tuple(Column(name, "", "integer") for name, _ in _MEASURED)
SUMS: Final = ", ".join(sql for _, sql in _MEASURED)
WASTED: Final = " + ".join(f"coalesce(t.{cause}, 0)" for cause in CAUSES)
_LIMIT: Final = "(SELECT j.limit_seconds FROM jobs_job j WHERE j.id = x.job)"
_NO_TELEMETRY: Final = "no data, since no source tells how busy GPUs are"
_NOT_KNOWN: Final = (
    "preempted, requeued or without a told end; how much of their work was lost is not known, since their programs "
    "told nothing"
)


def judged(which: str, limit: str = _LIMIT) -> str:
    """SQL of ended attempts with their causes. which: SQL condition on an attempt `x`."""
    return statements("jobs", "report_waste")[0].format(
        which=which, limit=limit, least=LEAST_GPU_SECONDS, not_judged=_states(NOT_JUDGED), at_limit=_states(AT_LIMIT),
        faults=_states(FAULTS), **{cause: _states(states) for cause, states in ENDS.items()},
    )  # fmt: skip


def _states(names: Iterable[str]) -> str:
    return f"ARRAY[{', '.join(repr(name) for name in names)}]"


def facts(found: Window) -> str:
    """SQL of judged attempts inside a window; parameters by `Window.arguments` and `scoped`."""
    which = "x.end_at >= %(start)s AND x.end_at < %(end)s"
    if found.params.project:
        which += f" AND {windows.ACCOUNTS}"
    return statements("jobs", "report_waste")[1].format(judged=judged(which), wasted=WASTED)


def without_cause(params: Params) -> Params:
    """What is summed up in the database: causes are columns there."""
    return replace(params, group_by=tuple(group for group in params.group_by if group != CAUSE))


def finish(summed: Report, params: Params) -> Report:
    """The report from sums by the other groupings: parted by cause where asked, ranked, with what is not known."""
    by_cause = CAUSE in params.group_by
    rows = [out for row in summed.rows for out in (_by_cause(row, params) if by_cause else [_row(row, params)])]
    names = [*params.group_by, *(["run_id"] if RUN in params.group_by else [])]
    known = {column.name: column for column in summed.columns} | {CAUSE: Column(CAUSE, "Cause", "label")}
    columns = (*(known[name] for name in names), *COLUMNS)
    return replace(summed, params=params, columns=columns, rows=_ranked(rows, params),
                   total=_measures(summed.total), gaps=gaps(summed.total))  # fmt: skip


def _by_cause(row: Row, params: Params) -> Iterator[Row]:
    """One row per cause that wasted anything."""
    for cause in CAUSES:
        if row[cause]:
            parted = {CAUSE: cause, "gpu_seconds": row[cause], "attempts": row[f"{cause}_attempts"]}
            yield _row(row | parted, params)


def _row(row: Row, params: Params) -> Row:
    """Keys in the order that was asked for, then measures."""
    run = {"run_id": row["run_id"]} if RUN in params.group_by else {}
    return {name: row[name] for name in params.group_by} | run | _measures(row)


def _measures(row: Row) -> Row:
    found: Row = {column.name: row.get(column.name) for column in COLUMNS}
    if not row["attempts_with_limit"]:
        found |= {"limit_seconds": None, "used_seconds": None}
    return found | {"waste_ppm": ppm(row["gpu_seconds"], row["allocated_gpu_seconds"])}


def _ranked(rows: Sequence[Row], params: Params) -> list[Row]:
    """By time first, then the most wasted first; what wasted the same stays in the order of names."""
    bucket = params.bucket
    times = {label: number for number, label in enumerate(dict.fromkeys(row[bucket] for row in rows))} if bucket else {}
    return sorted(rows, key=lambda row: (times[row[bucket]] if bucket else 0, -row["gpu_seconds"]))


def gaps(total: Row) -> list[dict[str, Any]]:
    """What of these attempts is not known, as rows: that is another thing than zero."""
    if not total["attempts_ended"]:
        return []
    found: list[dict[str, Any]] = [{"cause": cause, "reason": _NO_TELEMETRY} for cause in UNSEEN]
    if total["not_judged_attempts"]:
        found.append({"cause": "not known", "attempts": total["not_judged_attempts"],
                      "gpu_seconds": total["not_judged_gpu_seconds"], "reason": _NOT_KNOWN})  # fmt: skip
    return found
