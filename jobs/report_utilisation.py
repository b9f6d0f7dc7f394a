"""The report `utilisation`: how much of the GPUs was allocated, used and productive, each against its own whole.

Three wholes, never mixed: `installed` (what the site owns), `available` (installed minus outages and holds) and
`allocated` (what attempts held, by overlap with the window: the report `usage` to the second). Productive is set
against the GPU-seconds of instrumented attempts, which count whole where they end, as in the report `goodput`: both
of its parts are counted that way, so its share holds, but they are no part of `allocated` of the same row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from events.reports import Column, Params, Report, Row, bucket_edges
from jobs.waste import ppm

__all__ = ["COLUMNS", "joined"]

COLUMNS: Final = (
    Column("installed_gpu_seconds", "Installed", "seconds", "GPU-s"),
    Column("available_gpu_seconds", "Available", "seconds", "GPU-s"),
    Column("allocated_gpu_seconds", "Allocated", "seconds", "GPU-s"),
    Column("busy_gpu_seconds", "Busy", "seconds", "GPU-s"),
    Column("instrumented_gpu_seconds", "Instrumented", "seconds", "GPU-s"),
    Column("productive_gpu_seconds", "Productive", "seconds", "GPU-s"),
    Column("available_of_installed_ppm", "Available of installed", "integer", "ppm"),
    Column("allocated_of_installed_ppm", "Allocated of installed", "integer", "ppm"),
    Column("allocated_of_available_ppm", "Allocated of available", "integer", "ppm"),
    Column("busy_of_allocated_ppm", "Busy of allocated", "integer", "ppm"),
    Column("productive_of_instrumented_ppm", "Productive of instrumented", "integer", "ppm"),
)
NOT_TOLD: Final = {
    "installed_gpu_seconds": "which GPUs are installed",
    "available_gpu_seconds": "outages and holds of nodes",
    "busy_gpu_seconds": "how busy GPUs are",
}
"""Measures that no source tells: every row has null there, and `_measures` is the one place that gives them."""


def joined(used: Report, told: Report, params: Params) -> Report:
    """One report from `usage` and `goodput` (instrumented attempts only) of the same window, scope and state."""
    keys = [column for column in used.columns if column.name in params.group_by]
    names = [column.name for column in keys]
    held = {_key(row, names): row for row in used.rows}
    parts = {_key(row, names): row for row in told.rows}
    every = sorted({**held, **parts}, key=_order(names, params))
    rows = [dict(zip(names, key, strict=True)) | _measures(held.get(key), parts.get(key)) for key in every]
    total = _measures(used.total, told.total)
    gaps = [{"measure": name, "reason": f"no data, since no source tells {what}"} for name, what in NOT_TOLD.items()]
    columns = (*keys, *COLUMNS)
    return replace(used, name="utilisation", params=params, columns=columns, rows=rows, total=total, gaps=gaps)


def _key(row: Row, names: list[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _order(names: list[str], params: Params) -> Any:
    """By time, then by the other keys as they are shown, as the report `usage` does."""
    times = {label: number for number, (label, _, _) in enumerate(bucket_edges(params))}

    def order(key: tuple[Any, ...]) -> tuple[Any, ...]:
        shown = dict(zip(names, key, strict=True))
        first = times[shown.pop(params.bucket)] if params.bucket else 0
        return (first, *(str(value) for value in shown.values()))

    return order


def _measures(held: Row | None, parts: Row | None) -> Row:
    """One row's measures. held: its use, None where nothing was held; parts: of instrumented attempts, likewise."""
    installed = available = busy = None
    allocated = held["gpu_seconds"] if held else 0
    instrumented = parts["instrumented_gpu_seconds"] if parts else 0
    productive = parts["productive_gpu_seconds"] if parts else 0
    return {
        "installed_gpu_seconds": installed, "available_gpu_seconds": available, "allocated_gpu_seconds": allocated,
        "busy_gpu_seconds": busy, "instrumented_gpu_seconds": instrumented, "productive_gpu_seconds": productive,
        "available_of_installed_ppm": ppm(available, installed),
        "allocated_of_installed_ppm": ppm(allocated, installed),
        "allocated_of_available_ppm": ppm(allocated, available), "busy_of_allocated_ppm": ppm(busy, allocated),
        "productive_of_instrumented_ppm": ppm(productive, instrumented),
    }  # fmt: skip
