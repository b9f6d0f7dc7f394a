"""What a waiting job waits for, by its cause: what runs and waits beside it (pure rules)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final
from uuid import UUID

from fleet.queries_nodes import Standing
from jobs import waitsfor
from jobs.waiting_now import (
    Depends,
    DependsOn,
    For,
    Full,
    HeldBack,
    HeldNode,
    Holding,
    Nodes,
    OwnLimit,
    OwnShare,
    Partition,
    Unknown,
)
from jobs.waitsfor import Running, Unit

__all__ = ["Around", "Open"]

MOST: Final = 5
"""Running jobs that are named one by one where a limit is used up."""
KEPT_AWAY: Final = ("nodes_held", "reserved")
"""Causes for which nodes are named."""
ROOM: Final = ("full", "fragmented")
"""Causes for which who holds the partition is told."""
WITH_NODES: Final = (*KEPT_AWAY, *ROOM, "own_share")
"""Causes for which nodes are looked up."""
MOST_ENDS: Final = 50
"""Ends of limits that are told of a partition."""


@dataclass(frozen=True, slots=True)
class Open:
    """A job that waits, as it is read. path: the project and what is above it."""

    id: UUID
    run: UUID
    run_name: str
    generation: int
    cluster: str
    job_id: str
    array_job_id: str | None
    array_task: str | None
    het_job_id: str | None
    het_offset: int | None
    project: str
    path: Sequence[str]
    account: str
    user: str
    partition: str
    qos: str
    nodes: int | None
    cpus: int | None
    gpus: int | None
    limit_seconds: int | None
    dependency: str
    attempts: int
    since: datetime | None
    eligible: datetime | None
    cause: str | None
    reason: str
    cause_since: datetime | None
    looked_at: datetime | None
    expected: datetime | None

    @property
    def unit(self) -> Unit:
        """What it needs room for."""
        return "cpus" if self.gpus == 0 else "gpus"

    @property
    def asked(self) -> int | None:
        """How much of it."""
        return self.cpus if self.unit == "cpus" else self.gpus


class Around:
    """What waits and runs beside a job."""

    def __init__(
        self, cut: datetime, waiting: Sequence[Open], running: Sequence[Running],
        named: Mapping[tuple[str, str], tuple[UUID, str]], nodes: Sequence[Standing] = (),
        used: Mapping[tuple[str, str], int] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """used: GPUs in use of a node, by cluster and name."""
        self.cut, self._waiting, self._all, self._named = cut, waiting, running, named
        self._nodes, self._used = nodes, used
        self._rooms: dict[tuple[str, str, Unit], Partition] = {}

    def waits_for(self, one: Open) -> For:
        """What a job waits for, by its cause."""
        match one.cause:
            case "dependency_or_hold":
                return self._held(one)
            case "own_limit":
                return self._limit(one)
            case "own_share":
                return self._share(one)
            case "full" | "fragmented":
                room = self._room(one)
                ends = waitsfor.frees(self._in(one), room.unit, self.cut)
                enough = waitsfor.enough_at(ends, one.asked, room.free or 0, self.cut)
                return Full(room.unit, room.held, room.free, room.holders, enough)
            case cause if cause in KEPT_AWAY:
                return self._kept_away(one)
        return Unknown(looked=one.looked_at is not None)

    def partitions(self, wanted: Collection[Open]) -> list[Partition]:
        """Those for room in which one of these waits, in order of their names."""
        found = {(room.cluster, room.name, room.unit): room for one in wanted
                 if one.cause in ROOM and (room := self._room(one))}  # fmt: skip
        return [found[key] for key in sorted(found)]

    def _kept_away(self, one: Open) -> Nodes:
        """Nodes that its scheduler names, else those of its partitions that take no work."""
        mine = self._nodes_of(one)
        states = {node.name: node.state for node in self._nodes if node.cluster == one.cluster}
        named = waitsfor.unavailable(one.reason)
        if named:
            return Nodes([HeldNode(name, states.get(name, "")) for name in named], len(mine))
        return Nodes([HeldNode(node.name, node.state) for node in mine if node.state != "in_service"], len(mine))

    def _nodes_of(self, one: Open) -> list[Standing]:
        wanted = set(one.partition.split(","))
        return [node for node in self._nodes if node.cluster == one.cluster and wanted & set(node.partitions)]

    def _free(self, one: Open) -> int | None:
        """GPUs of its partitions that nothing holds, on nodes in service; None where that cannot be known."""
        nodes = self._nodes_of(one)
        serving = [node for node in nodes if node.state == "in_service"]
        if one.unit != "gpus" or not nodes or any(node.gpus is None for node in serving):
            return None
        free = sum(max(0, (node.gpus or 0) - self._used.get((node.cluster, node.name), 0)) for node in serving)
        return max(0, free - sum(other.gpus for other in self._in(one) if not other.placed))

    def _held(self, one: Open) -> HeldBack | Depends:
        by = waitsfor.held_by(one.reason)
        later = one.eligible if one.eligible is not None and one.eligible > self.cut else None
        if by is None and not one.reason and later is not None:
            by = "time"
        if by is not None:
            return HeldBack(by, later)
        return Depends([
            DependsOn(on.kind, on.job_id, on.task, on.state, *self._named.get((one.cluster, on.job_id), (None, "")))
            for on in waitsfor.dependencies(one.dependency)
        ])  # fmt: skip

    def _limit(self, one: Open) -> OwnLimit:
        limit = waitsfor.limit_of(one.reason)
        job = (one.cluster, one.account, one.user, one.qos, one.array_job_id)
        used = [other for other in self._all if waitsfor.uses_limit(other, limit, job)]
        named = sorted((other for other in used if other.project is not None), key=lambda x: (-x.gpus, x.job_id))
        return OwnLimit(
            limit, tuple(Holding(other.job, other.job_id, other.gpus) for other in named[:MOST]), len(used),
            sum(other.gpus for other in used), sum(other.cpus for other in used),
        )  # fmt: skip

    def _share(self, one: Open) -> OwnShare:
        beside = [other for other in self._waiting if other is not one and other.cluster == one.cluster
                  and waitsfor.shares_partition(other.partition, one.partition)]  # fmt: skip
        mine = one.expected
        before = [other for other in beside if mine and other.expected and other.expected < mine]
        return OwnShare(mine is not None, len(before), sum(other.gpus or 0 for other in before), len(beside),
                        sum(other.gpus or 0 for other in beside), self._room(one).free)  # fmt: skip

    def _in(self, one: Open) -> list[Running]:
        return [other for other in self._all if other.cluster == one.cluster
                and waitsfor.shares_partition(other.partition, one.partition)]  # fmt: skip

    def _room(self, one: Open) -> Partition:
        key = (one.cluster, one.partition, one.unit)
        if key not in self._rooms:
            held = self._in(one)
            ends = waitsfor.frees(held, one.unit, self.cut)
            self._rooms[key] = Partition(
                *key, sum(waitsfor.amount(other, one.unit) for other in held), self._free(one),
                waitsfor.holders(held, one.unit),
                ends[:MOST_ENDS], max(0, len(ends) - MOST_ENDS),
                sum(waitsfor.amount(other, one.unit) for other in held if other.ends is None),
            )  # fmt: skip
        return self._rooms[key]
