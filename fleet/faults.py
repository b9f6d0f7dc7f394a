"""From the log to faults. Part of the group `fleet`.

The streams that a batch speaks of are folded whole, together with all streams that saw the same wide fault: a fault of
the hall has no stream of its own. Growth: a fault costs two to four events; a node with one a week has 200 a year, and
a fold reads the touched streams only.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from events.copying import copying
from events.derive.faults import Fault, Heard, fold
from events.projector import Batch
from events.types import REGISTRY
from events.types.faults import FaultOpened, FaultSighted
from fleet.catalogue import Catalogue, FaultClass, read, shipped

__all__ = ["FAULT_TYPES", "apply", "catalogue", "heard_as"]

FAULT_TYPES: Final = ("fault.sighted", "fault.opened", "fault.acknowledged", "fault.closed")
SPACE: Final = uuid.UUID("3f0f0a44-5b0e-5d0c-9a5e-7c1f6f1de2a9")
"""Namespace of the uuid5 keys of faults."""
_YEAR_2000_MS: Final = 946_684_800_000
FAULT: Final = (
    "id", "cluster", "node", "unit", "nodes", "units", "streams", "kind", "title", "component", "scope", "severity",
    "xid", "gpu", "part", "wide", "opened", "last_seen", "closed", "closed_by", "closed_as", "closed_note",
    "acknowledged", "acknowledged_by", "times", "sources", "names", "note", "positions", "position",
)  # fmt: skip
KINDS: Final = (
    "uuid", "text", "text", "text", "text[]", "text[]", "text[]", "text", "text", "text", "text", "text",
    "int4", "int4", "text", "bool", "int8", "int8", "int8", "text", "text", "text",
    "int8", "text", "int4", "text[]", "text[]", "text", "int8[]", "int8",
)  # fmt: skip
_KIN: Final = """
SELECT DISTINCT unnest(f.streams) FROM fleet_fault f
WHERE f.wide AND (f.streams && %(streams)s OR (f.cluster, f.kind) IN (
    SELECT * FROM unnest(%(clusters)s::text[], %(kinds)s::text[])))
"""
Row = tuple[Any, ...]


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The catalogue in force: the shipped one, with the file of FAULT_CATALOGUE laid over it. Raises Misread, OSError.

    Read once per process: after a change restart, and rebuild the read models of `fleet`.
    """
    own = settings.FAULT_CATALOGUE
    return shipped().laid_over(read(Path(own).read_text(encoding="utf-8"), whole=False) if own else None)


def apply(batch: Batch) -> None:
    """Fold the faults of the streams that the range speaks of."""
    if not batch.has(FAULT_TYPES):
        return
    batch.touch_streams("touched_faults", FAULT_TYPES)
    batch.cursor.execute("SELECT stream FROM touched_faults ORDER BY stream")
    heard = _with_kin(batch, {row[0] for row in batch.cursor.fetchall()})
    batch.cursor.execute("DELETE FROM fleet_fault WHERE streams && %s::text[]", [sorted(heard)])
    found = fold(one for told in heard.values() for one in told)
    with copying(batch.cursor, "fleet_fault", FAULT, KINDS) as write:
        for fault in found:
            write(_row(fault))


def _with_kin(batch: Batch, streams: set[str]) -> dict[str, list[Heard]]:
    """The events of some streams, and of all that share a wide fault with one of them."""
    heard: dict[str, list[Heard]] = {}
    while fresh := sorted(streams - heard.keys()):
        heard |= {stream: [] for stream in fresh} | _heard(batch, fresh)
        wide = {(one.said.cluster, one.kind) for told in heard.values() for one in told if one.wide}
        batch.cursor.execute(
            _KIN,
            {"streams": sorted(heard), "clusters": [one for one, _ in wide], "kinds": [kind for _, kind in wide]},
        )
        streams |= {row[0] for row in batch.cursor.fetchall()}
    return heard


def _heard(batch: Batch, streams: Sequence[str]) -> dict[str, list[Heard]]:
    batch.cursor.execute(
        f"""SELECT e.stream, e.position, e.source, e.actor, e.type, e.version, e.data::text
            FROM events_event e
            WHERE e.shard = %s AND e.stream = ANY(%s) AND e.type = ANY(%s) AND e.position <= %s AND {batch.visible()}
            ORDER BY e.position""",
        [batch.shard, list(streams), list(FAULT_TYPES), batch.end],
    )
    found: dict[str, list[Heard]] = {}
    for stream, position, source, actor, kind, version, data in batch.cursor.fetchall():
        said: Any = REGISTRY.load(kind, version, data)
        if (heard := heard_as(said, position, source, actor)) is not None:
            found.setdefault(stream, []).append(heard)
    return found


def heard_as(said: Any, position: int, source: str, actor: str) -> Heard | None:
    """An event with its class; None for one that tells of no fault of its own."""
    rules = catalogue()
    if isinstance(said, FaultSighted):
        found = rules.classify(said)
        return Heard(position, source, actor, found.id, found.is_wide(said.unit), said) if found.is_fault else None
    known = rules.by_id.get(said.kind)
    return Heard(position, source, actor, said.kind, known is not None and known.is_wide(said.unit), said)


def _row(fault: Fault) -> Row:
    """One row of fleet_fault."""
    known = _class_of(fault.lane.kind)
    first = fault.first
    wide = not fault.lane.where
    sighted = [one.said for one in fault.heard if isinstance(one.said, FaultSighted)]
    note = first.note or "" if isinstance(first, FaultOpened) else ""
    gpus = {one.gpu for one in (first, *sighted) if one.gpu is not None}
    return (
        uuid.uuid5(SPACE, fault.key), fault.lane.cluster, first.node or "", first.unit or "", list(fault.nodes),
        list(fault.units), _streams(fault.heard), known.id, known.title, known.component, known.scope, known.severity,
        next((one.xid for one in sighted if one.xid is not None), known.xid), min(gpus) if gpus and not wide else None,
        _part(fault), wide, _instant(fault.opened), _instant(fault.last), _instant(fault.closed),
        fault.closed_by, fault.closed_as, fault.closed_note, _instant(fault.acknowledged), fault.acknowledged_by,
        fault.times, sorted({one.source for one in fault.heard if isinstance(one.said, FaultSighted | FaultOpened)}),
        sorted({one.name for one in sighted}), note, [one.position for one in fault.heard],
        fault.heard[-1].position,
    )  # fmt: skip


def _part(fault: Fault) -> str:
    """The part that is broken; '' for a GPU whose index says it, and where there is none."""
    place = fault.lane.place
    return "" if place.startswith("gpu") and place[3:].isdecimal() else place


def _class_of(kind: str) -> FaultClass:
    """The class; a person's word may name one that the catalogue holds no more."""
    rules = catalogue()
    return rules.by_id.get(kind) or _renamed(rules.by_id["unknown"], kind)


def _renamed(unknown: FaultClass, kind: str) -> FaultClass:
    fields = {name: getattr(unknown, name) for name in unknown.__struct_fields__}
    return FaultClass(**fields | {"id": kind})


def _streams(heard: Iterable[Heard]) -> list[str]:
    return sorted({f"fault/{one.said.cluster}/{one.said.node or one.said.unit or '-'}" for one in heard})


def _instant(milliseconds: int | None) -> int | None:
    """Epoch milliseconds as the server's instant."""
    return None if milliseconds is None else (milliseconds - _YEAR_2000_MS) * 1000
