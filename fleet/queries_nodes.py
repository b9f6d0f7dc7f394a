"""Reading nodes: what they are, in which state they were, and who held them.

Every caller may see nodes and their states: a lead must know why there is no room. What people wrote as a reason is
only for those who see the whole hall; others are told whose the hold is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection
from django.db.models import Count, F, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from events.access import Scope
from fleet.models import Cluster, Hold, Node, NodeSpell

__all__ = ["ABSENT", "Capacity", "Standing", "capacity", "holds", "known_since", "node_named", "nodes", "nodes_like",
           "racks", "spells", "standing", "stood"]  # fmt: skip

ABSENT: Final = ("planned", "retired")
"""States in which a node is not installed."""
_CAPACITY: Final = """
SELECT b.n, s.cluster, s.gpu_model,
       sum(x.seconds * s.gpus)::bigint AS installed,
       coalesce(sum(x.seconds * s.gpus) FILTER (WHERE s.state IN ('in_service', 'burn_in')), 0)::bigint AS available,
       sum(x.seconds)::bigint AS node_installed,
       coalesce(sum(x.seconds) FILTER (WHERE s.state IN ('in_service', 'burn_in')), 0)::bigint AS node_available
FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY AS b (start_at, end_at, n)
JOIN fleet_nodespell s ON s.start_at < b.end_at AND coalesce(s.end_at, 'infinity') > b.start_at
CROSS JOIN LATERAL (
    SELECT extract(epoch FROM least(coalesce(s.end_at, %(cut)s), b.end_at, %(cut)s) - greatest(s.start_at, b.start_at))
               ::bigint AS seconds) x
WHERE NOT s.state = ANY(%(absent)s) AND x.seconds > 0
GROUP BY b.n, s.cluster, s.gpu_model ORDER BY b.n, s.cluster, s.gpu_model
"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """GPU- and node-seconds of one stretch of time, cluster and GPU model. piece: which stretch, from 0.

    installed: of every node that was there; available: of those that took work. None where the GPUs of a node are
    not known.
    """

    piece: int
    cluster: str
    gpu_model: str
    installed_gpu_seconds: int | None
    available_gpu_seconds: int | None
    installed_node_seconds: int
    available_node_seconds: int


def nodes(scope: Scope) -> QuerySet[Node]:
    """Nodes as they are now, retired ones too."""
    rows = Node.objects.all()
    return rows if scope.fleetwide else rows.annotate(hidden=Value(value=True))


def node_named(scope: Scope, cluster: str, name: str) -> Node | None:
    """One node by its name."""
    return nodes(scope).filter(cluster=cluster, name=name).first()


def nodes_like(scope: Scope, text: str, most: int) -> list[Node]:
    """Nodes of a name, or of one that begins so, or of a serial number."""
    found = nodes(scope).filter(Q(name__istartswith=text) | Q(serial__iexact=text))
    return list(found.order_by("name", "cluster")[:most])


def spells(_scope: Scope, node: Node) -> QuerySet[NodeSpell]:
    """In which states a node was, the latest first."""
    return NodeSpell.objects.filter(cluster=node.cluster, name=node.name).order_by("-seq")


def holds(scope: Scope) -> QuerySet[Hold]:
    """Why nodes took no work, open and past."""
    rows = Hold.objects.all()
    return rows if scope.fleetwide else rows.annotate(hidden=Value(value=True))


def standing(scope: Scope) -> list[tuple[str, int, int]]:
    """(state, nodes, GPUs) of the nodes that are there, most nodes first."""
    rows = nodes(scope).exclude(state="retired").values("state")
    found = rows.annotate(number=Count("name"), held=Coalesce(Sum("gpus"), 0)).order_by("-number", "state")
    return [(row["state"], row["number"], row["held"]) for row in found]


@dataclass(frozen=True, slots=True)
class Standing:
    """A node as it was at a moment. flags and works are those of now, so they are empty for an earlier moment."""

    cluster: str
    name: str
    state: str
    gpus: int | None
    pod: str
    rack: str
    unit: int | None
    flags: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


def stood(scope: Scope, at: datetime | None = None) -> list[Standing]:
    """Every node that was installed at a moment (now without one), by pod, rack and from the top of the rack down.

    Places and sizes are those of now.
    """
    rows = nodes(scope).order_by("pod", "rack", F("unit").desc(nulls_last=True), "name")
    states = {} if at is None else _states_at(at)
    found = []
    for row in rows:
        state = row.state if at is None else states.get((row.cluster, row.name), "planned")
        if state not in ABSENT:
            flags = tuple(row.flags) if at is None else ()
            found.append(
                Standing(
                    row.cluster, row.name, state, row.gpus, row.pod, row.rack, row.unit, flags, tuple(row.partitions)
                )
            )
    return found


def _states_at(at: datetime) -> dict[tuple[str, str], str]:
    spells = NodeSpell.objects.filter(start__lte=at).filter(Q(end=None) | Q(end__gt=at))
    return {(cluster, name): state for cluster, name, state in spells.values_list("cluster", "name", "state")}


def racks(scope: Scope) -> list[str]:
    """Names of racks, sorted."""
    return list(nodes(scope).exclude(rack="").values_list("rack", flat=True).distinct().order_by("rack"))


def known_since(_scope: Scope) -> dict[str, datetime | None]:
    """Since when the nodes of each cluster are known; None where nobody has told of any."""
    first = dict(NodeSpell.objects.values_list("cluster").annotate(since=Min("start")))
    return {name: first.get(name) for name in Cluster.objects.values_list("name", flat=True)} | first


def capacity(
    _scope: Scope, pieces: Sequence[tuple[datetime, datetime]], cut: datetime
) -> list[Capacity]:  # fmt: skip
    """What was installed and available in each of some stretches [start, end), until `cut`.

    Nothing is known of times before anybody spoke of a node. Cost: the spells that touch the stretches.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _CAPACITY,
            {
                "starts": [start for start, _ in pieces],
                "ends": [end for _, end in pieces],
                "cut": cut,
                "absent": list(ABSENT),
            },
        )
        return [Capacity(int(n) - 1, *rest) for n, *rest in cursor.fetchall()]
