"""What a node uses beside its GPUs, and whose it is (pure; whole micro-joules, nothing lost in the division).

Power measured at the node's supply holds its GPUs already: they are taken off, never added. The rest (processors,
memory, network, fans, losses) is shared in equal parts by the GPUs that are held; with none held it is idle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from events.derive.energy import Stretch

__all__ = ["NodeEnergy", "shared"]


class NodeEnergy(NamedTuple):
    """Energy of a node in one stretch.

    by_gpu: GPU -> its own and its share of the overhead. idle_uj: overhead that nobody holds. overhead_uj: node less
    GPUs. short_uj: by how much the GPUs say more than the node, 0 as a rule. unknown_ms: time in which the node was
    not measured: its overhead is not known then. Always: sum(by_gpu) + idle_uj = GPUs + overhead_uj, and where
    unknown_ms is 0 that is the node's own energy + short_uj.
    """

    by_gpu: dict[int, int]
    idle_uj: int
    overhead_uj: int
    short_uj: int
    unknown_ms: int


def shared(node: Stretch, gpus: Mapping[int, Stretch], held: Collection[int]) -> NodeEnergy:
    """Share one stretch of a node. gpus: index -> the same stretch of each; held: those that have an owner.

    Raises ValueError for stretches of other bounds and for held GPUs that are not there.
    """
    if any((one.start_ms, one.end_ms) != (node.start_ms, node.end_ms) for one in gpus.values()):
        raise ValueError("the stretches of node and GPUs do not have the same bounds")
    if not set(held) <= gpus.keys():
        raise ValueError(f"GPUs {sorted(set(held) - gpus.keys())} are held and are not there")
    whole, unknown = node.end_ms - node.start_ms, node.missing_ms
    own = sum(one.uj for one in gpus.values())
    rest = node.uj - own * (whole - unknown) // whole
    overhead = max(rest, 0)
    shares = _parts(overhead, sorted(set(held)))
    return NodeEnergy(
        by_gpu={index: one.uj + shares.get(index, 0) for index, one in gpus.items()},
        idle_uj=0 if shares else overhead,
        overhead_uj=overhead,
        short_uj=max(-rest, 0),
        unknown_ms=unknown,
    )


def _parts(uj: int, held: list[int]) -> dict[int, int]:
    """Equal parts; what does not divide goes to the first, one micro-joule each."""
    if not held:
        return {}
    part, more = divmod(uj, len(held))
    return {index: part + (place < more) for place, index in enumerate(held)}
