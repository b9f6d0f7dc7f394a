"""Which GPUs and cores are free, and which nodes would do for a request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from config.demo.hall import CPU_CORES, GPUS, Hall
from config.demo.truth import Attempt, Size

__all__ = ["Machines"]

ALL: Final = (1 << GPUS) - 1


class Machines:
    """The state of the hall's nodes: free GPUs as masks, free cores of nodes without GPUs, and what runs where."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self.up = [True] * hall.gpu_nodes
        self.on: list[list[Attempt]] = [[] for _ in range(hall.gpu_nodes)]
        self._free = [ALL] * hall.gpu_nodes
        self._yielding = [0] * hall.gpu_nodes
        self._drained = [0] * hall.gpu_nodes
        self._by_free: list[set[int]] = [set() for _ in range(GPUS)] + [set(range(hall.gpu_nodes))]
        self._cores = [CPU_CORES] * hall.cpu_nodes

    @property
    def empty(self) -> int:
        """Nodes on which nothing runs."""
        return len(self._by_free[GPUS])

    def free(self, node: int) -> int:
        """Free GPUs of a node."""
        return self._free[node].bit_count()

    def fit(self, gpus: int, allowed: Callable[[int], bool]) -> tuple[int, ...] | None:
        """Allowed nodes for a request: one with the least room that is enough, or empty ones near each other."""
        if gpus >= GPUS:
            return self.near((node for node in self._by_free[GPUS] if allowed(node)), gpus // GPUS)
        for room in range(gpus, GPUS + 1):
            found = min((node for node in self._by_free[room] if allowed(node)), default=None)
            if found is not None:
                return (found,)
        return None

    def near(self, nodes: Iterable[int], count: int) -> tuple[int, ...] | None:
        """So many of the nodes, under as few leaf switches as may be."""
        leaves: defaultdict[int, list[int]] = defaultdict(list)
        for node in sorted(nodes):
            leaves[self.hall.leaf(node)].append(node)
        if sum(map(len, leaves.values())) < count:
            return None
        whole = [found for found in leaves.values() if len(found) >= count]
        if whole:
            return tuple(min(whole, key=len)[:count])
        largest = sorted(leaves.values(), key=lambda found: (-len(found), found[0]))
        return tuple(sorted([node for found in largest for node in found][:count]))

    def with_room(self, gpus: int) -> list[int]:
        """Nodes that could take a request of one node if jobs that yield were sent off."""
        return [node for node, up in enumerate(self.up) if up and self.free(node) + self._yielding[node] >= gpus]

    def room(self, node: int) -> int:
        """GPUs of a node that are free or held by jobs that yield."""
        return self.free(node) + self._yielding[node]

    def drained(self, node: int, now: int) -> int:
        """When a node is empty at the latest, by the limits of what runs there."""
        return self._drained[node] if self.on[node] else now

    def _note(self, node: int) -> None:
        """What has changed on a node is worked out anew."""
        here = self.on[node]
        self._drained[node] = max((one.sizes[-1].start + one.job.ask.limit for one in here), default=0)
        self._yielding[node] = sum(min(one.job.ask.gpus, GPUS) for one in here if one.job.ask.qos == "low")

    def masks(self, nodes: tuple[int, ...], gpus: int) -> tuple[int, ...]:
        """The lowest free GPUs of each node, for a request."""
        return tuple(self._lowest(node, min(gpus, GPUS)) for node in nodes)

    def _lowest(self, node: int, count: int) -> int:
        free, mask = self._free[node], 0
        for _ in range(count):
            bit = free & -free
            mask, free = mask | bit, free & ~bit
        return mask

    def hold(self, attempt: Attempt) -> None:
        """An attempt takes the GPUs, or the cores, of its last size."""
        size = attempt.sizes[-1]
        if not attempt.job.ask.gpus:
            self._cores[size.nodes[0] - self.hall.gpu_nodes] -= size.cpus
            return
        for node, mask in zip(size.nodes, size.masks, strict=True):
            self._set_free(node, self._free[node] & ~mask)
            self.on[node].append(attempt)
            self._note(node)

    def release(self, attempt: Attempt, size: Size) -> None:
        """An attempt gives back what a size of it holds, or a part of it."""
        if not attempt.job.ask.gpus:
            self._cores[size.nodes[0] - self.hall.gpu_nodes] += size.cpus
            return
        for node, mask in zip(size.nodes, size.masks, strict=True):
            self.on[node].remove(attempt)
            self._set_free(node, self._free[node] | mask)
            self._note(node)

    def _set_free(self, node: int, mask: int) -> None:
        if self.up[node]:
            self._by_free[self.free(node)].discard(node)
            self._by_free[mask.bit_count()].add(node)
        self._free[node] = mask

    def fail(self, node: int) -> None:
        """A node takes no work any more."""
        self._by_free[self.free(node)].discard(node)
        self.up[node] = False

    def back(self, node: int) -> None:
        """It does again."""
        self.up[node] = True
        self._by_free[self.free(node)].add(node)

    def core_node(self, cpus: int) -> int | None:
        """The first node without GPUs that has so many free cores."""
        first = self.hall.gpu_nodes
        return next((first + place for place, free in enumerate(self._cores) if free >= cpus), None)
