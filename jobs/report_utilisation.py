"""The report `utilisation`: how much of the GPUs was allocated, used and productive, each against its own whole.

Three wholes, never mixed: `installed` (what the site owns), `available` (installed minus outages and holds) and
`allocated` (what attempts held, by overlap with the window: the report `usage` to the second). Productive is set
against the GPU-seconds of instrumented attempts, which count whole where they end, as in the report `goodput`: both
of its parts are counted that way, so its share holds, but they are no part of `allocated` of the same row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from events.access import Scope
from events.reports import BUCKETS, Column, Params, Report, Row, bucket_edges
from fleet import queries_nodes
from jobs.waste import ppm

__all__ = ["COLUMNS", "Room", "joined", "room"]

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
BUSY: Final = "no data, since no source tells how busy GPUs are"
OF_THE_HALL: Final = (
    "what is installed and available is of the whole hall: it is told in the total, by cluster and by time only"
)
Key = tuple[Any, ...]


class Room:
    """Installed and available GPU-seconds by the key of a row, and over all rows; absent where they are not known.

    gaps: why, a sentence for each reason.
    """

    def __init__(self) -> None:
        self.by_key: dict[Key, tuple[int, int]] = {}
        self.total: tuple[int, int] | None = None
        self.gaps: list[str] = []


def room(scope: Scope, params: Params) -> Room:
    """What was installed and available. Known where the nodes of a cluster are known for the whole of a bucket.

    It is of the whole hall for every caller and every project: the map of the fleet shows it to everybody. What is
    allocated is of the scope and of the project, so that its shares say how much of the hall that part held.
    """
    found = Room()
    since = queries_nodes.known_since(scope)
    whole = [(params.start, min(params.end, params.cut_at))]
    late = {name: at for name, at in since.items() if at is None or at > params.start}
    if since and not late:
        found.total = _summed(queries_nodes.capacity(scope, whole, params.cut_at))
    found.gaps += [_why(name, at) for name, at in sorted(late.items())] or ([] if since else ["no cluster is known"])
    if set(params.group_by) <= {"cluster", *BUCKETS}:
        found.by_key = dict(_by_key(scope, params, since))
    else:
        found.gaps.append(OF_THE_HALL)
    return found


def _by_key(
    scope: Scope, params: Params, since: dict[str, datetime | None]
) -> Iterator[tuple[Key, tuple[int, int]]]:  # fmt: skip
    edges = bucket_edges(params)
    by: dict[tuple[int, str], list[queries_nodes.Capacity]] = {}
    for one in queries_nodes.capacity(scope, [(start, end) for _, start, end in edges], params.cut_at):
        by.setdefault((one.piece, one.cluster if "cluster" in params.group_by else ""), []).append(one)
    for (piece, cluster), several in by.items():
        label, start, _ = edges[piece]
        meant = [cluster] if cluster else list(since)
        if all((at := since.get(name)) is not None and at <= start for name in meant):
            shown = {"cluster": cluster, **dict.fromkeys(BUCKETS, label)}
            yield tuple(shown[name] for name in params.group_by), _summed(several)


def _summed(several: Iterable[queries_nodes.Capacity]) -> tuple[int, int]:
    rows = list(several)
    return sum(one.installed_gpu_seconds or 0 for one in rows), sum(one.available_gpu_seconds or 0 for one in rows)


def _why(cluster: str, at: datetime | None) -> str:
    if at is None:
        return f"no data, since nobody has told which nodes {cluster} has"
    return f"the nodes of {cluster} are known since {at:%Y-%m-%d %H:%M} UTC only; earlier there is no data"


def joined(used: Report, told: Report, of: Room, params: Params) -> Report:
    """One report from `usage`, `goodput` (instrumented attempts only) and the room of one window, scope and state."""
    keys = [column for column in used.columns if column.name in params.group_by]
    names = [column.name for column in keys]
    held = {_key(row, names): row for row in used.rows}
    parts = {_key(row, names): row for row in told.rows}
    every = sorted({**held, **parts, **of.by_key}, key=_order(names, params))
    rows = [
        dict(zip(names, key, strict=True)) | _measures(held.get(key), parts.get(key), of.by_key.get(key))
        for key in every
    ]
    total = _measures(used.total, told.total, of.total)
    gaps = [{"measure": "installed_gpu_seconds", "reason": why} for why in of.gaps]
    gaps.append({"measure": "busy_gpu_seconds", "reason": BUSY})
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


def _measures(held: Row | None, parts: Row | None, of: tuple[int, int] | None) -> Row:
    """One row's measures. held: its use, None where nothing was held; parts: of instrumented attempts, likewise; of:
    what was installed and available, None where it is not known."""
    installed, available = of or (None, None)
    busy = None
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
