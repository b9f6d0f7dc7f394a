"""Redfish events (DSP0266), as a BMC or a coolant unit pushes them: each record is a sighting of a fault.

* Where: the subscription's Context, `<cluster>:<node or unit>`, as Hallbook asks for it; the headers
  `x-hallbook-cluster` and `x-hallbook-node` serve where a vendor does not send it back. Coolant and power equipment
  and switches are units, everything else is a node.
* The name is the message's registry and key, without the registry's version, which differs by vendor.
* Severity OK says that it is well again, also where it never was otherwise.
* An event id begins again at a reboot, so the key is place, id and time. A subscription sends an event again until
  it is answered. A message's text and arguments are not kept: the part is taken from where the condition is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from events.adapters import Draft, Refusal
from events.adapters.documents import read_object
from events.adapters.places import epoch_ms
from events.adapters.sacct_values import Bad, shown
from events.types.faults import FaultSighted
from events.validate import refusal

__all__ = ["translate"]

_EVENT: Final = re.compile(r"#Event\.v1_\d+_\d+\.Event")
_MESSAGE: Final = re.compile(r"([A-Za-z0-9_-]+)\.(?:\d+\.)+([A-Za-z0-9_.-]+)")
_NAME: Final = re.compile(r"[^/\x00-\x1f]{1,160}")
_UNITS: Final = ("/redfish/v1/ThermalEquipment/", "/redfish/v1/PowerEquipment/", "/redfish/v1/Fabrics/")
_SEVERITIES: Final = ("OK", "Warning", "Critical")
_WELL: Final = "OK"


class _Place(NamedTuple):
    cluster: str
    name: str


def translate(_content_type: str, headers: Mapping[str, str], body: bytes) -> list[Draft | Refusal]:
    """The sightings of one body."""
    try:
        said = read_object(body)
        records = _records(said)
        place = _place(said, headers)
    except Bad as bad:
        return [refusal(0, f"/{bad.pointer}" if bad.pointer else "", bad.code, bad.text, body)]
    return [_item(index, one, said, place) for index, one in enumerate(records)]


def _records(said: Mapping[str, Any]) -> list[Any]:
    kind, records = said.get("@odata.type"), said.get("Events")
    if not isinstance(kind, str) or not _EVENT.fullmatch(kind):
        text = f"@odata.type is {shown(str(kind))}; expected #Event.v1_x_y.Event: metric reports are not taken"
        raise Bad("not_redfish", text, "@odata.type")
    if not isinstance(records, list) or not records:
        raise Bad("not_redfish", "Events is no list of records", "Events")
    return records


def _place(said: Mapping[str, Any], headers: Mapping[str, str]) -> _Place:
    context = said.get("Context")
    first, _, second = context.partition(":") if isinstance(context, str) else ("", "", "")
    found = _Place(
        headers.get("x-hallbook-cluster") or (first if second else ""),
        headers.get("x-hallbook-node") or second,
    )
    if not all(_NAME.fullmatch(part) for part in found):
        text = f"Context is {shown(str(context))}; subscribe with the Context `<cluster>:<node>`, such as pod-a:gpu001"
        raise Bad("cluster_missing", text, "Context")
    return found


def _item(index: int, record: Any, said: Mapping[str, Any], place: _Place) -> Draft | Refusal:
    try:
        return _draft(index, record, said, place)
    except Bad as bad:
        pointer = f"/Events/{index}" + (f"/{bad.pointer}" if bad.pointer else "")
        return refusal(index, pointer, bad.code, bad.text, msgspec.json.encode(record))


def _draft(index: int, record: Any, said: Mapping[str, Any], place: _Place) -> Draft:
    """One record. Raises Bad."""
    if not isinstance(record, dict):
        raise Bad("bad_value", "a record is no JSON object")
    message = _MESSAGE.fullmatch(_text(record, "MessageId"))
    if message is None:
        text = f"MessageId is {shown(_text(record, 'MessageId'))}; expected registry, version and key"
        raise Bad("identity_missing", text, "MessageId")
    severity = _text(record, "MessageSeverity") or _text(record, "Severity")
    if severity not in _SEVERITIES:
        raise Bad(
            "bad_value", f"MessageSeverity is {shown(severity)}; expected {', '.join(_SEVERITIES)}", "MessageSeverity"
        )
    at_ms = epoch_ms(record.get("EventTimestamp"), "EventTimestamp")
    number = _text(record, "EventId") or f"{_text(said, 'Id')}.{_text(record, 'MemberId')}"
    origin = _origin(record)
    unit = origin.startswith(_UNITS)
    data = FaultSighted(
        cluster=place.cluster,
        signal="redfish",
        name=f"{message[1]}.{message[2]}",
        state="resolved" if severity == _WELL else "firing",
        started_ms=at_ms,
        ended_ms=at_ms if severity == _WELL else None,
        node=None if unit else place.name,
        unit=place.name if unit else None,
        part=_part(origin, record),
        severity=severity.lower(),
        fingerprint=number,
    )
    key = f"{place.name}/{number}/{at_ms}"
    return Draft("fault.sighted", data, key, at_ms * 1000, index, source=f"redfish:{place.cluster}")


def _text(record: Mapping[str, Any], name: str) -> str:
    """A text or a number as text; '' where there is none. Raises Bad."""
    found = record.get(name)
    if found is None:
        return ""
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise Bad("bad_value", f"{name} is no text", name)
    return str(found)


def _origin(record: Mapping[str, Any]) -> str:
    """Where the condition is: a plain text at some vendors, an object with a link at others."""
    found = record.get("OriginOfCondition")
    if isinstance(found, dict):
        found = found.get("@odata.id")
    return found if isinstance(found, str) else ""


def _part(origin: str, record: Mapping[str, Any]) -> str | None:
    """The last two steps of the path (`Fans/Fan_3`), else the first argument of the message."""
    steps = [step for step in origin.split("/") if step]
    if len(steps) > 4:
        return "/".join(steps[-2:])[:160]
    told = record.get("MessageArgs")
    first = told[0] if isinstance(told, list) and told else None
    return first[:160] if isinstance(first, str) and first else None
