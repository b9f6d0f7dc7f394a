"""Reading faults: what is broken, since when, and which of them may have ended work on some nodes.

Every caller may see faults of nodes and units, as they may see nodes: a lead must know why a run ended. What people
wrote and who they are is only for those who see the whole hall.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q, QuerySet, Value

from events.access import Scope
from events.answers import kept
from fleet.catalogue import FaultClass
from fleet.faults import catalogue
from fleet.models import Fault

__all__ = ["BEFORE", "RANK", "Ended", "any_known", "class_of", "classes", "fault_named", "faults", "nearest", "of_node",
           "open_count", "troubled"]  # fmt: skip

BEFORE: Final = timedelta(minutes=10)
"""A fault that opened at most so long before work ended on its node may have ended it."""
RANK: Final = ("fatal", "degraded", "warn", "app", "info", "meta")
"""Severities, the worst first."""
ACTED: Final = ("fatal", "degraded", "warn")
"""Severities of which a map speaks."""


def faults(scope: Scope) -> QuerySet[Fault]:
    """Faults, open and closed."""
    rows = Fault.objects.all()
    return rows if scope.fleetwide else rows.annotate(hidden=Value(value=True))


def fault_named(scope: Scope, id_: uuid.UUID) -> Fault | None:
    """One fault."""
    return faults(scope).filter(id=id_).first()


@kept
def open_count(scope: Scope) -> int:
    """How many are open."""
    return faults(scope).filter(closed=None).count()


def any_known(scope: Scope) -> bool:
    """Whether any source ever told of one: without that, no fault means no data."""
    return faults(scope).exists()


def of_node(scope: Scope, cluster: str, node: str) -> QuerySet[Fault]:
    """Faults that were seen on a node, the latest first."""
    return faults(scope).filter(streams__contains=[f"fault/{cluster}/{node}"]).order_by("-opened", "id")


def troubled(_scope: Scope, at: datetime | None = None) -> dict[tuple[str, str], tuple[str, int]]:
    """(cluster, node) -> (worst severity, number) of the faults that were open at a moment (now without one)."""
    rows = Fault.objects.filter(severity__in=ACTED)
    rows = (
        rows.filter(closed=None)
        if at is None
        else rows.filter(opened__lte=at).filter(Q(closed=None) | Q(closed__gt=at))
    )
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for cluster, nodes, severity in rows.values_list("cluster", "nodes", "severity"):
        for node in nodes:
            known, number = found.get((cluster, node), (severity, 0))
            found[cluster, node] = min(known, severity, key=RANK.index), number + 1
    return found


def classes() -> Sequence[FaultClass]:
    """Every class of the catalogue in force."""
    return list(catalogue().by_id.values())


def class_of(kind: str) -> FaultClass | None:
    """What the catalogue says of a class."""
    return catalogue().by_id.get(kind)


@dataclass(frozen=True, slots=True)
class Ended:
    """Work that ended: its cluster, nodes, and the moment."""

    cluster: str
    nodes: frozenset[str]
    at: datetime


def nearest(_scope: Scope, ended: Mapping[uuid.UUID, Ended]) -> dict[uuid.UUID, Fault]:
    """Of each work that ended, the fault on one of its nodes that opened at most BEFORE its end: the worst, then the
    one nearest to the end. One query; those of no harm (`info`) are passed over.
    """
    if not ended:
        return {}
    first, last = min(one.at for one in ended.values()) - BEFORE, max(one.at for one in ended.values())
    clusters = {one.cluster for one in ended.values()}
    nodes = sorted({node for one in ended.values() for node in one.nodes})
    rows = Fault.objects.filter(cluster__in=clusters, opened__gte=first, opened__lte=last, nodes__overlap=nodes)
    found = list(rows.exclude(severity__in=("info", "meta")))
    chosen = {}
    for key, one in ended.items():
        near = [row for row in found if row.cluster == one.cluster and one.at - BEFORE <= row.opened <= one.at
                and not one.nodes.isdisjoint(row.nodes)]  # fmt: skip
        if near:
            chosen[key] = min(near, key=lambda row: (RANK.index(row.severity), one.at - row.opened, row.id))
    return chosen
