"""How well a job's nodes lie together in a fat tree, and how well it scales. Pure rules.

Groups are the leaves of the tree (scalable units, rail groups): nodes of one group reach each other without
leaving it. Measures and vectors: research note on placement on rail-optimised fat trees; MFU as in the PaLM paper.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

__all__ = ["Placement", "mfu", "placement", "ring_crossings", "scaling_efficiency"]


class Placement(NamedTuple):
    """quality: pairs of nodes that stay inside a group, against the tightest packing (1 is the best). spread: groups
    used over the fewest possible. crossing: share of pairs that leave their group."""

    quality: float
    spread: float
    crossing: float
    groups: int
    fewest_groups: int


def placement(groups: Iterable[Hashable], group_size: int) -> Placement | None:
    """Of a job whose nodes lie in these groups, one entry per node; None without a node.

    group_size: nodes of a full group. A job of one node, or in groups of one, has the quality 1. Raises ValueError.
    """
    if group_size < 1:
        raise ValueError(f"groups of {group_size} nodes; give 1 or more")
    counts = sorted(Counter(groups).values(), reverse=True)
    nodes = sum(counts)
    if not nodes:
        return None
    fewest = math.ceil(nodes / group_size)
    full, rest = divmod(nodes, group_size)
    inside, best = _inside(counts), _inside([group_size] * full + [rest])
    quality = Fraction(inside, best) if best else Fraction(1)
    pairs = nodes * (nodes - 1)
    crossing = 1 - Fraction(inside, pairs) if pairs else Fraction(0)
    return Placement(float(quality), len(counts) / fewest, float(crossing), len(counts), fewest)


def _inside(counts: Sequence[int]) -> int:
    """Ordered pairs of nodes that lie in the same group."""
    return sum(count * (count - 1) for count in counts)


def ring_crossings(groups: Sequence[Hashable]) -> int:
    """How many neighbours of the ring of ranks lie in different groups; `groups` in order of the ranks."""
    return sum(1 for n, group in enumerate(groups) if len(groups) > 1 and group != groups[n - 1])


def scaling_efficiency(gpus: int, throughput: float, base_gpus: int, base_throughput: float) -> float:
    """Throughput per GPU against that of the smaller run. Raises ValueError for a base of nothing."""
    if min(gpus, base_gpus) < 1 or base_throughput <= 0:
        raise ValueError("give at least one GPU on both sides and a base throughput above 0")
    return (throughput / gpus) / (base_throughput / base_gpus)


def mfu(tokens_per_second: float, flop_per_token: float, gpus: int, peak_flops: float) -> float:
    """Model FLOPs utilisation: tokens/s x FLOP per token over what the GPUs can do (peak of the used precision).

    flop_per_token: about 6 x parameters, with the attention term of the convention stated beside it. Recomputed
    activations do not count. Raises ValueError.
    """
    if gpus < 1 or peak_flops <= 0:
        raise ValueError("give at least one GPU and a peak above 0")
    return tokens_per_second * flop_per_token / (gpus * peak_flops)
