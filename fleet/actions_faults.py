"""What people say of faults: one is there, they look after it, it is over. Commands that append events."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from events import actions
from events.access import Scope
from events.adapters import Draft
from events.intake import Intake, now_us
from events.types.faults import ClosedAs, FaultAcknowledged, FaultClosed, FaultOpened
from fleet.models import Cluster, Fault
from fleet.queries_faults import class_of, classes, fault_named

__all__ = ["CLOSED_AS", "Done", "Opening", "Refused", "Speaker", "acknowledge", "close", "open_fault"]

CLOSED_AS: Final = ("repaired", "replaced", "cleared", "false_alarm", "duplicate")


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who says it, what they may see, the key under which they say the same again without effect, and by which door."""

    scope: Scope
    actor: str
    origin: str
    key: str = ""


@dataclass(frozen=True)
class Refused(Exception):
    """A command that cannot be done. code: missing, closed, acknowledged, kind, cluster, key_used, invalid."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """Position of the event. again: it was said before under the same key."""

    position: int
    again: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """A fault as a person reports it: on a node or on another unit, since when (now without one)."""

    cluster: str
    kind: str
    node: str = ""
    unit: str = ""
    gpu: int | None = None
    part: str = ""
    note: str = ""
    since: datetime | None = None


def open_fault(speaker: Speaker, told: Opening) -> Done:
    """Report a fault. Raises Refused, and events.append.LogBusy."""
    if class_of(told.kind) is None:
        names = ", ".join(one.id for one in classes() if one.xid is None)
        raise Refused("kind", f"the catalogue has no class {told.kind!r}; there are {names}, and xid-N")
    if not Cluster.objects.filter(name=told.cluster).exists():
        raise Refused("cluster", f"cluster {told.cluster!r} is not declared here")
    if bool(told.node) == bool(told.unit):
        raise Refused("invalid", "a fault is of a node or of a unit: name one of them")
    started = now_us() // 1000 if told.since is None else int(told.since.timestamp() * 1000)
    data = FaultOpened(
        cluster=told.cluster, kind=told.kind, node=told.node or None, unit=told.unit or None, part=told.part or None,
        gpu=told.gpu, started_ms=started, note=told.note or None,
    )  # fmt: skip
    return _say(speaker, "fault.opened", data, started)


def acknowledge(speaker: Speaker, id_: uuid.UUID, note: str = "") -> Done:
    """Say that somebody looks after an open fault. Raises Refused, and events.append.LogBusy."""
    fault, again = _fault(speaker, id_, "fault.acknowledged")
    if again is not None:
        return again
    if fault.acknowledged is not None:
        raise Refused("acknowledged", f"it was acknowledged already, at {fault.acknowledged:%Y-%m-%dT%H:%M:%SZ}")
    at = max(now_us() // 1000, _opened(fault))
    data = FaultAcknowledged(**_place(fault), at_ms=at, note=note or None)
    return _say(speaker, "fault.acknowledged", data, at)


def close(speaker: Speaker, id_: uuid.UUID, closed_as: ClosedAs, note: str = "") -> Done:
    """Close an open fault, whatever its sources say on. Raises Refused, and events.append.LogBusy."""
    if closed_as not in CLOSED_AS:
        raise Refused("invalid", f"closed_as: there are {', '.join(CLOSED_AS)}")
    fault, again = _fault(speaker, id_, "fault.closed")
    if again is not None:
        return again
    at = max(now_us() // 1000, _opened(fault))
    data = FaultClosed(**_place(fault), at_ms=at, closed_as=closed_as, note=note or None)
    return _say(speaker, "fault.closed", data, at)


def _fault(speaker: Speaker, id_: uuid.UUID, type_: str) -> tuple[Fault, Done | None]:
    """The open fault, and what was said under the same key before. Raises Refused."""
    fault = fault_named(speaker.scope, id_)
    if fault is None:
        raise Refused("missing", "there is no such fault")
    said = actions.said_under(_key(speaker)) if speaker.key else None
    if said is not None:
        if (said.type, said.stream) != (type_, f"fault/{fault.cluster}/{fault.node or fault.unit or '-'}"):
            raise Refused("key_used", "this Idempotency-Key was used for something else: choose a new one")
        return fault, Done(said.position, again=True)
    if fault.closed is not None:
        raise Refused("closed", f"it was closed already, at {fault.closed:%Y-%m-%dT%H:%M:%SZ}")
    return fault, None


def _opened(fault: Fault) -> int:
    return round(fault.opened.timestamp() * 1000)


def _place(fault: Fault) -> dict[str, Any]:
    """Which fault is spoken of, in the words of its first sighting."""
    named = {"node": fault.node or None} if fault.node else {"unit": fault.unit or "-"}
    return {"cluster": fault.cluster, "kind": fault.kind, "gpu": fault.gpu, "part": fault.part or None, **named}


def _key(speaker: Speaker) -> str:
    return f"{speaker.actor}/{speaker.key}"


def _say(speaker: Speaker, type_: str, data: msgspec.Struct, at_ms: int) -> Done:
    """Append it. Raises Refused."""
    key = _key(speaker) if speaker.key else str(uuid.uuid4())
    draft = Draft(type_, data, key, at_ms * 1000, 0, by_content=False)  # type: ignore[arg-type]
    (result,) = Intake(source=actions.OURS, actor=speaker.actor, origin=speaker.origin).take([draft])
    if result.code == "conflict":
        raise Refused("key_used", "this Idempotency-Key was used for something else: choose a new one")
    if result.position is None:
        raise Refused("invalid", f"{(result.pointer or '').strip('/') or 'the fault'}: {result.text}")
    return Done(result.position, result.status == "duplicate")
