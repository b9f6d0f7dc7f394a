"""From the log to nodes, their spells and who held them. Part of the group `fleet`.

The stream of a touched node is folded whole. Growth: a node costs an event when its scheduler says something else of
it; at 20 such a day, 256 nodes are 1.9 million events a year, and a fold reads those of the touched nodes only.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection

from events.adapters.node_files import Known
from events.copying import copying
from events.derive.nodes import Heard, Hold, Node, days_of, fold
from events.projector import Batch
from events.reports import midnight
from events.types import REGISTRY

__all__ = ["NODE_TYPES", "apply", "known_nodes"]

NODE_TYPES: Final = ("node.declared", "node.retired", "node.reported", "node.listed")
SPACE: Final = uuid.UUID("0d9c2c0e-6f0a-5c5e-8a51-0c6f2f5d7b11")
"""Namespace of the uuid5 keys of holds."""
PORTION: Final = 200
"""Nodes folded at a time: about 1 kB of memory an event."""
_YEAR_2000: Final = 946_684_800
NODE: Final = ("cluster", "name", "stream", "state", "state_since", "flags", "works", "reason", "reason_by", "gpus",
               "gpu_model", "cpus", "memory_mb", "partitions", "features", "site", "hall", "pod", "rack", "unit",
               "leaf", "serial", "guaranteed", "declared", "boot", "first_at", "position")  # fmt: skip
NODE_KINDS: Final = ("text", "text", "text", "text", "int8", "text[]", "bool", "text", "text", "int4", "text", "int4",
                     "int8", "text[]", "text[]", "text", "text", "text", "text", "int4", "text", "text", "bool", "bool",
                     "int8", "int8", "int8")  # fmt: skip
SPELL: Final = ("cluster", "name", "seq", "stream", "state", "start_at", "end_at", "gpus", "gpu_model")
SPELL_KINDS: Final = ("text", "text", "int4", "text", "text", "int8", "int8", "int4", "text")
HOLD: Final = ("id", "cluster", "node", "stream", "owner", "flag", "reason", "by_whom", "since", "until_at")
HOLD_KINDS: Final = ("uuid", "text", "text", "text", "text", "text", "text", "text", "int8", "int8")
Row = tuple[Any, ...]


def apply(batch: Batch) -> None:
    """Fold the nodes that the range speaks of; all of them where the site's days begin anew."""
    moved = batch.has(("site.declared",))
    if not (moved or batch.has(NODE_TYPES)):
        return
    batch.touch_streams("touched_nodes", NODE_TYPES)
    if moved:
        batch.cursor.execute(
            """INSERT INTO touched_nodes SELECT stream, true FROM fleet_node
               ON CONFLICT (stream) DO UPDATE SET known = true"""
        )
    for table in ("fleet_node", "fleet_nodespell", "fleet_hold"):
        batch.cursor.execute(f"DELETE FROM {table} r USING touched_nodes t WHERE r.stream = t.stream")
    zone = _zone(batch)
    batch.cursor.execute("SELECT stream FROM touched_nodes ORDER BY stream")
    streams = [row[0] for row in batch.cursor.fetchall()]
    for first in range(0, len(streams), PORTION):
        _fold(batch, streams[first : first + PORTION], zone)


def _zone(batch: Batch) -> ZoneInfo:
    batch.cursor.execute("SELECT timezone FROM fleet_site")
    row = batch.cursor.fetchone()
    return ZoneInfo(row[0] if row else "UTC")


def _fold(batch: Batch, streams: Sequence[str], zone: ZoneInfo) -> None:
    heard = _heard(batch, streams)
    nodes: list[Row] = []
    spells: list[Row] = []
    holds: list[Row] = []
    for stream, said in heard.items():
        node = fold(said, _midnights(said, zone))
        if node is not None:
            _, cluster, name = stream.split("/", 2)
            nodes.append(_node_row(stream, cluster, name, node))
            spells.extend(_spell_rows(stream, cluster, name, node))
            holds.extend(_hold_row(stream, cluster, name, one) for one in node.holds)
    for table, columns, kinds, rows in (
        ("fleet_node", NODE, NODE_KINDS, nodes),
        ("fleet_nodespell", SPELL, SPELL_KINDS, spells),
        ("fleet_hold", HOLD, HOLD_KINDS, holds),
    ):
        with copying(batch.cursor, table, columns, kinds) as write:
            for row in rows:
                write(row)


def _heard(batch: Batch, streams: Sequence[str]) -> dict[str, list[Heard]]:
    batch.cursor.execute(
        f"""SELECT e.stream, e.position, e.source, extract(epoch FROM e.occurred_at)::bigint, e.type, e.version,
                   e.data::text
            FROM events_event e
            WHERE e.shard = %s AND e.stream = ANY(%s) AND e.type = ANY(%s) AND e.position <= %s AND {batch.visible()}
            ORDER BY e.position""",
        [batch.shard, list(streams), list(NODE_TYPES), batch.end],
    )
    found: dict[str, list[Heard]] = {}
    for stream, position, source, at, kind, version, data in batch.cursor.fetchall():
        body: Any = REGISTRY.load(kind, version, data)
        found.setdefault(stream, []).append(Heard(position, source, at, body))
    return found


def _midnights(said: Iterable[Heard], zone: ZoneInfo) -> dict[str, int]:
    return {day.isoformat(): _epoch(day, zone) for day in days_of(said)}


def _epoch(day: date, zone: ZoneInfo) -> int:
    begins: datetime = midnight(day, zone)
    return int(begins.timestamp())


def _node_row(stream: str, cluster: str, name: str, node: Node) -> Row:
    """One row of fleet_node."""
    told, own, last = node.reported, node.declared, node.spells[-1]
    gpus, model = _size(node)
    return (
        cluster, name, stream, last.state, _instant(last.start), list(told.flags) if told else [],
        told.works if told else None, (told.reason or "") if told else "", (told.reason_by or "") if told else "",
        gpus, model, told.cpus if told else None, told.memory_mb if told else None,
        list(told.partitions) if told else [], list(told.features) if told else [],
        *((own.site, own.hall, own.pod, own.rack, own.unit, own.leaf, own.serial, own.guaranteed) if own
          else ("", "", "", "", None, "", "", True)),
        own is not None, _instant(told.boot) if told else None, _instant(node.first_at), node.last_position,
    )  # fmt: skip


def _size(node: Node) -> tuple[int | None, str]:
    """GPUs and their model: as the owner says, else as the scheduler shows."""
    own, told = node.declared, node.reported
    gpus = own.gpus if own is not None and own.gpus is not None else told.gpus if told else None
    return gpus, (own.gpu_model if own is not None and own.gpu_model else told.gpu_model if told else None) or ""


def _spell_rows(stream: str, cluster: str, name: str, node: Node) -> Iterator[Row]:
    """The rows of fleet_nodespell of one node."""
    gpus, model = _size(node)
    for seq, spell in enumerate(node.spells):
        yield (cluster, name, seq, stream, spell.state, _instant(spell.start), _instant(spell.end), gpus, model)


def _hold_row(stream: str, cluster: str, name: str, hold: Hold) -> Row:
    """One row of fleet_hold."""
    key = uuid.uuid5(SPACE, f"{stream}\0{hold.since}\0{hold.flag}\0{hold.reason}\0{hold.by}")
    return (
        key, cluster, name, stream, hold.owner, hold.flag, hold.reason, hold.by, _instant(hold.since),
        _instant(hold.until),
    )  # fmt: skip


def _instant(seconds: int | None) -> int | None:
    """Epoch seconds as the server's instant."""
    return None if seconds is None else (seconds - _YEAR_2000) * 1_000_000


def known_nodes() -> dict[tuple[str, str], Known]:
    """The owner's last word on every node, and its position, read from the log (which no read model runs ahead of)."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT DISTINCT ON (stream) position, version, data::text FROM events_event
               WHERE shard = %s AND type = 'node.declared'
                 AND stream COLLATE "C" >= 'node/' AND stream COLLATE "C" < 'node0'
               ORDER BY stream, position DESC""",
            [settings.SHARD],
        )
        rows = cursor.fetchall()
    found: dict[tuple[str, str], Known] = {}
    for position, version, data in rows:
        said: Any = REGISTRY.load("node.declared", version, data)
        found[said.cluster, said.node] = Known(said, position)
    return found
