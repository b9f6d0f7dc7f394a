"""Faults: as one source or another sees them (sightings), and what people say of them.

What kind of fault a sighting is, `fleet/catalogue.py` says; what is one fault, `events/derive/faults.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from events.types.jobs import Name, Size, Word
from events.types.registry import TEXT, EventStruct, event

__all__ = ["ClosedAs", "FaultAcknowledged", "FaultClosed", "FaultOpened", "FaultSighted"]

EpochMillis = Annotated[int, Meta(ge=0, le=253402300799999)]
Note = Annotated[str, Meta(max_length=2000, extra={"mark": TEXT})]
"""What people write may name people."""
ClosedAs = Literal["repaired", "replaced", "cleared", "false_alarm", "duplicate"]
"""Why a person closed a fault: mended in place, a part was replaced, it went away, it was none, it is another one."""


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


class _OfFault(EventStruct, frozen=True, kw_only=True):
    """Which fault a person speaks of: its class in the catalogue, and where it is, as in FaultSighted."""

    cluster: Name
    kind: Word
    node: Name | None = None
    unit: Name | None = None
    part: Word | None = None
    gpu: Size | None = None

    def __post_init__(self) -> None:
        if (self.node is None) == (self.unit is None):
            raise ValueError("a fault is of a node or of a unit: name one of them")


@event("fault.opened", stream=_place)
class FaultOpened(_OfFault, frozen=True, kw_only=True):
    """A person says that something is broken, since an instant. It stays open until a person closes it."""

    started_ms: EpochMillis
    note: Note | None = None

    def happened(self) -> tuple[str, int] | None:
        """When it began."""
        return "started_ms", self.started_ms // 1000


@event("fault.acknowledged", stream=_place)
class FaultAcknowledged(_OfFault, frozen=True, kw_only=True):
    """A person looks after the fault that was open at an instant."""

    at_ms: EpochMillis
    note: Note | None = None

    def happened(self) -> tuple[str, int] | None:
        """When they said so."""
        return "at_ms", self.at_ms // 1000


@event("fault.closed", stream=_place)
class FaultClosed(_OfFault, frozen=True, kw_only=True):
    """A person closes the fault that was open at an instant, whatever its sources go on to say of it."""

    at_ms: EpochMillis
    closed_as: ClosedAs
    note: Note | None = None

    def happened(self) -> tuple[str, int] | None:
        """When it was closed."""
        return "at_ms", self.at_ms // 1000
