"""Which GPUs of which node a run had: the reports of many sources about single nodes, put together (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from events.derive.sightings import HOOK, RUNNING, Told

__all__ = ["count_gpus", "join_indices", "merge_indices"]

_PROLOG: Final = 1_000
"""A prolog sees the node's own list of GPUs; the epilog of a node that a resize gave back shows the wrong ones."""


def merge_indices(told: Iterable[Told]) -> tuple[str, ...]:
    """One entry `node=0-3,6` per node, sorted: of its prolog, else of the best source, else of its epilog."""
    best: dict[str, tuple[int, int, str, str]] = {}
    for one in told:
        for entry in one.data.gpu_indices:
            node, _, gpus = entry.partition("=")
            offer = (_belief(one), one.sighting.occurred_us, one.sighting.source_key, gpus)
            if node and gpus:
                best[node] = max(offer, best.get(node, offer))
    return tuple(f"{node}={best[node][-1]}" for node in sorted(best))


def _belief(told: Told) -> int:
    prolog = told.rank == HOOK and told.phase == RUNNING and told.freed is None
    return _PROLOG if prolog else told.rank


def join_indices(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The entries of the parts of one run, sorted; of a node that several tell, the last one's."""
    nodes = {entry.partition("=")[0]: entry for part in parts for entry in part if not entry.endswith("=")}
    return tuple(nodes[node] for node in sorted(nodes))


def count_gpus(indices: Sequence[str], nodes: int | None) -> int | None:
    """How many GPUs these are; None unless each of the run's nodes is among them."""
    if not nodes or len(indices) < nodes:
        return None
    return sum(_count(part) for entry in indices for part in entry.partition("=")[2].split(",") if part)


def _count(part: str) -> int:
    """GPUs of one part of a list: of a range `4-7` or of one number or UUID."""
    first, dash, last = part.partition("-")
    if dash and len(first) < 10 and len(last) < 10 and first.isdecimal() and last.isdecimal():
        return max(0, int(last) - int(first) + 1)
    return 1
