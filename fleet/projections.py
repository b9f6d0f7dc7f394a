"""From the log to the site, its clusters, its nodes and their faults."""

from __future__ import annotations

from typing import Final

from events.projector import Batch, Group
from fleet import faults, nodes
from fleet.models import Cluster, Fault, Hold, Node, NodeSpell, Site

TYPES: Final = ("site.declared", "cluster.declared")

SITE = """
DELETE FROM fleet_site;
INSERT INTO fleet_site (name, timezone, currency)
    SELECT e.data->>'name', e.data->>'timezone', e.data->>'currency'
    FROM events_event e
    WHERE e.shard = {shard} AND e.stream = 'site' AND e.type = 'site.declared' AND e.position <= {end} AND {visible}
    ORDER BY e.position DESC LIMIT 1;
"""
CLUSTERS = """
DELETE FROM fleet_cluster c USING touched t WHERE 'cluster/' || c.name = t.stream AND t.known;
INSERT INTO fleet_cluster (name, scheduler, gpus)
    SELECT DISTINCT ON (e.stream) e.data->>'cluster', coalesce(e.data->>'scheduler', 'slurm'), (e.data->>'gpus')::int
    FROM touched t JOIN events_event e ON e.shard = {shard} AND e.stream = t.stream
    WHERE e.type = 'cluster.declared' AND e.position <= {end} AND {visible}
    ORDER BY e.stream, e.position DESC;
"""


def apply(batch: Batch) -> None:
    """The site and each touched cluster as last declared, each touched node and fault from all its events."""
    if batch.has(TYPES):
        _declared(batch)
    nodes.apply(batch)
    faults.apply(batch)


def _declared(batch: Batch) -> None:
    batch.touch_streams("touched", TYPES)
    for sql in (SITE, CLUSTERS):
        batch.cursor.execute(sql.format(shard=batch.shard, end=batch.end, visible=batch.visible()))


GROUP: Final = Group(
    name="fleet", layer=0, version=3, tables=(Site, Cluster, Node, NodeSpell, Hold, Fault), apply=apply
)
