"""Alertmanager's webhook, version 4: each alert in it is a sighting of a fault.

* Alertmanager sends a whole group again whenever one alert joins or leaves it, and by the clock while one fires. The
  same alert in the same state is the same fact: its key is fingerprint, start and state. Annotations are left out,
  as they hold values that change under the same fingerprint; only an XID is read from them.
* A fingerprint changes with any label, also with the job that a GPU works for: it names no fault.
* Where: labels (places.py); the cluster is the label's, else that of the header `x-hallbook-cluster`. A label
  `fault_class` names the class of the catalogue.
* `max_alerts` cuts a body short without saying which alerts are missing: that is told as a Rejection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from events.adapters import Draft, Refusal
from events.adapters.documents import read_object
from events.adapters.places import Place, epoch_ms, place_of
from events.adapters.sacct_values import Bad, shown
from events.types.faults import FaultSighted
from events.validate import refusal

__all__ = ["translate", "xid_of"]

_XID: Final = re.compile(r"\bxid\b\D{0,12}?(\d{1,4})\b", re.IGNORECASE)
_STATES: Final = ("firing", "resolved")
_WATCHDOGS: Final = frozenset({"Watchdog", "DeadMansSwitch", "InfoInhibitor"})
"""Alerts that always fire, to prove that alerting works, and tell of no fault."""


def translate(_content_type: str, headers: Mapping[str, str], body: bytes) -> list[Draft | Refusal]:
    """The sightings of one notification."""
    try:
        said = read_object(body)
        alerts = _alerts(said)
    except Bad as bad:
        return [refusal(0, f"/{bad.pointer}" if bad.pointer else "", bad.code, bad.text, body)]
    found = [_item(index, one, headers) for index, one in enumerate(alerts)]
    items: list[Draft | Refusal] = [one for one in found if one is not None]
    if (cut := said.get("truncatedAlerts")) and isinstance(cut, int):
        text = (
            f"{cut} alerts were cut off and are not known, neither firing nor resolved; set `max_alerts: 0` for the "
            "webhook in Alertmanager"
        )
        payload = msgspec.json.encode({name: said.get(name) for name in ("groupKey", "receiver", "truncatedAlerts")})
        items.append(refusal(len(alerts), "/truncatedAlerts", "truncated", text, payload))
    return items


def _alerts(said: Mapping[str, Any]) -> list[Any]:
    alerts = said.get("alerts")
    if said.get("version") != "4" or not isinstance(alerts, list):
        raise Bad(
            "not_alertmanager",
            "this is no notification of Alertmanager's webhook in version 4; take `payload` out of the receiver's "
            "configuration, so that it sends its own",
            "version" if isinstance(alerts, list) else "alerts",
        )
    return alerts


def _item(index: int, alert: Any, headers: Mapping[str, str]) -> Draft | Refusal | None:
    try:
        return _draft(index, alert, headers)
    except Bad as bad:
        pointer = f"/alerts/{index}" + (f"/{bad.pointer}" if bad.pointer else "")
        return refusal(index, pointer, bad.code, bad.text, msgspec.json.encode(alert))


def _draft(index: int, alert: Any, headers: Mapping[str, str]) -> Draft | None:
    """One alert; None for one that only proves that alerting works. Raises Bad."""
    if not isinstance(alert, dict):
        raise Bad("bad_value", "an alert is no JSON object")
    labels, notes = _texts(alert, "labels"), _texts(alert, "annotations")
    name = labels.get("alertname", "")
    if name in _WATCHDOGS:
        return None
    state, print_ = alert.get("status"), alert.get("fingerprint")
    if state not in _STATES:
        raise Bad("bad_value", f"status is {shown(str(state))}; expected firing or resolved", "status")
    if not isinstance(print_, str) or not print_:
        raise Bad("identity_missing", "fingerprint is missing; Alertmanager sends it since 0.16", "fingerprint")
    if not name:
        raise Bad("identity_missing", "the label alertname is missing", "labels/alertname")
    place = _placed(labels, headers)
    started = epoch_ms(alert.get("startsAt"), "startsAt")
    ended = epoch_ms(alert.get("endsAt"), "endsAt") if state == "resolved" else None
    if ended is not None and ended < started:
        raise Bad("negative_duration", f"endsAt lies {started - ended} ms before startsAt", "endsAt")
    data = FaultSighted(
        cluster=place.cluster or "",
        signal="alert",
        name=name,
        state=state,
        started_ms=started,
        ended_ms=ended,
        node=place.node,
        unit=place.unit,
        part=place.part,
        gpu=place.gpu,
        gpu_uuid=place.gpu_uuid,
        xid=xid_of(labels, notes),
        severity=labels.get("severity", "").lower() or None,
        hint=labels.get("fault_class") or None,
        fingerprint=print_,
    )
    at_ms = started if ended is None else ended
    key = f"{print_}/{started}/{state}"
    return Draft("fault.sighted", data, key, at_ms * 1000, index, source=f"alertmanager:{place.cluster}")


def _texts(alert: Mapping[str, Any], name: str) -> dict[str, str]:
    found = alert.get(name) or {}
    if not isinstance(found, dict):
        raise Bad("bad_value", f"{name} is no JSON object", name)
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _placed(labels: Mapping[str, str], headers: Mapping[str, str]) -> Place:
    try:
        place = place_of({"cluster": headers.get("x-hallbook-cluster", ""), **labels}, labels["alertname"])
    except Bad as bad:
        raise Bad(bad.code, bad.text, "labels") from None
    if place.cluster is None:
        raise Bad(
            "cluster_missing",
            "no cluster is named; add the external label `cluster` in Prometheus, or name it at the source",
            "labels/cluster",
        )
    return place


def xid_of(labels: Mapping[str, str], notes: Mapping[str, str]) -> int | None:
    """The XID that an alert is about: its label (newer exporters), else the number behind the word in a note."""
    if "xid" not in " ".join((labels.get("alertname", ""), *notes.values())).lower():
        return None
    told = labels.get("xid") or labels.get("err_code") or ""
    if told.isascii() and told.isdecimal() and len(told) <= 4:
        return int(told) or None
    found = next((match for text in notes.values() if (match := _XID.search(text))), None)
    return (int(found[1]) or None) if found else None
