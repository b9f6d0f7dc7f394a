"""Reading what runs on nodes: by name on one, by number on all."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from events.access import Scope
from events.adapters.hostlist import expand
from events.adapters.sacct_values import Bad
from jobs.models import Attempt
from jobs.queries import attempts

__all__ = ["Running", "Use", "gpus_in_use", "running_on"]


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt that holds something of a node. key of its job, job, project: None and '' outside the caller's scope.

    gpus: on this node, where its indices are told or all its GPUs are here; else None.
    """

    key: UUID | None
    job: str
    project: str
    gpus: int | None
    start: datetime


def running_on(scope: Scope, cluster: str, node: str) -> list[Running]:
    """What runs on a node, the oldest first. Cost: the attempts that run in its cluster, whose lists are expanded."""
    open_ = Attempt.objects.filter(end=None, cluster=cluster).exclude(node_list="").order_by("start", "id")
    here = [row for row in open_ if node in _nodes(row.node_list)]
    seen = {row.id: row for row in attempts(scope).filter(id__in=[row.id for row in here])}
    return [_running(seen.get(row.id), row, node) for row in here]


def _running(seen: Attempt | None, row: Attempt, node: str) -> Running:
    gpus = row.gpus if len(_nodes(row.node_list)) == 1 else _indices(row.gpu_index_list, node)
    if seen is None:
        return Running(None, "", "", gpus, row.start)
    return Running(seen.job, seen.job_id, seen.project, gpus, row.start)  # type: ignore[attr-defined]


def _nodes(text: str) -> frozenset[str]:
    try:
        return frozenset(expand(text))
    except Bad:
        return frozenset()


def _indices(entries: list[str], node: str) -> int | None:
    """How many GPUs of a node an attempt's indices name: `gpu001=0-3,6` are five."""
    told = (one.partition("=") for one in entries)
    return next((len(_places(text)) for name, _, text in told if name == node), None)


def gpus_in_use(_scope: Scope, at: datetime) -> dict[tuple[str, str], Use]:
    """How many GPUs of each (cluster, node) attempts held at a moment, and which of them, as far as told.

    For all callers: it names nobody. GPUs whose indices are not told are counted by an even split over the nodes of
    the attempt. Cost: the attempts that ran then.
    """
    rows = Attempt.objects.filter(start__lte=at).filter(Q(end=None) | Q(end__gt=at)).exclude(node_list="")
    found: dict[tuple[str, str], Use] = {}
    for row in rows.filter(gpus__gt=0).only("cluster", "node_list", "gpus", "gpu_indices"):
        told = {name: _places(text) for name, _, text in (one.partition("=") for one in row.gpu_index_list)}
        nodes = sorted(_nodes(row.node_list))
        each, odd = divmod(row.gpus or 0, len(nodes) or 1)
        for number, node in enumerate(nodes):
            use = found.setdefault((row.cluster, node), Use())
            use.places |= told.get(node, set())
            use.loose += 0 if node in told else each + (number < odd)
    return found


@dataclass(slots=True)
class Use:
    """GPUs of one node that are held: by index where told, and so many others."""

    places: set[int] = field(default_factory=set)
    loose: int = 0

    @property
    def count(self) -> int:
        """All of them."""
        return len(self.places) + self.loose


def _places(text: str) -> set[int]:
    """`0-3,6` as numbers."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found |= set(range(int(first), int(last) + 1)) if dash else {int(first)}
    return found
