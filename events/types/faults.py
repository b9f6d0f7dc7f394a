"""Faults, as one source or another sees them: sightings. What kind of fault it is, `fleet/catalogue.py` says."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from events.types.jobs import Name, Size, Word
from events.types.registry import EventStruct, event

__all__ = ["FaultSighted"]

EpochMillis = Annotated[int, Meta(ge=0, le=253402300799999)]


def _place(one: EventStruct) -> str:
    where: str = one.node or one.unit or "-"  # type: ignore[attr-defined]
    return f"fault/{one.cluster}/{where}"  # type: ignore[attr-defined]


@event("fault.sighted", stream=_place)
class FaultSighted(EventStruct, frozen=True):
    """One source's report that something is broken, or is well again (a sighting).

    signal: by which way it came. name: what the source calls it (name of the alert, key of the Redfish message,
    `XID`). state: `resolved` is the source's word and repairs nothing: a target that is gone resolves its alerts, too.
    started_ms: since when it is so, as the source says; ended_ms: until when. Where: a node, or another unit (CDU,
    PDU, switch, leak cable, filesystem), and the part of it. gpu: index on the node. xid: NVIDIA's code. severity: as
    the source rates it. hint: the class of the catalogue that a site's own rule names. fingerprint: the source's
    name for this occurrence.
    """

    cluster: Name
    signal: Literal["alert", "redfish", "xid"]
    name: Word
    state: Literal["firing", "resolved"]
    started_ms: EpochMillis
    ended_ms: EpochMillis | None = None
    node: Name | None = None
    unit: Name | None = None
    part: Word | None = None
    gpu: Size | None = None
    gpu_uuid: Word | None = None
    xid: Size | None = None
    severity: Word | None = None
    hint: Word | None = None
    fingerprint: Word | None = None

    def happened(self) -> tuple[str, int] | None:
        """When it began or ended."""
        field = "started_ms" if self.ended_ms is None else "ended_ms"
        return field, getattr(self, field) // 1000
