"""What labels of metrics and alerts say about where: cluster, node, GPU, or another unit of the hall.

Labels that a scrape of Kubernetes renamed (`exported_...`) win, as they are the source's own. Old and new names of
dcgm-exporter are read alike (`Hostname` became `hostname` in May 2026, `UUID` is `uuid` in its older namespace). A host
name is passed over where it is the exporter's pod or `localhost`; then the scraped address tells the node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from events.adapters.sacct_values import Bad, shown

__all__ = ["Place", "epoch_ms", "owner_of", "place_of"]

_UNITS: Final = ("cdu", "pdu", "switch", "filesystem", "feed", "rack")
"""Labels that name a thing of the hall that is no node, the narrower first."""
_PARTS: Final = ("pump", "fan", "psu", "detector", "dimm", "nvme", "disk", "sensor")
_NODES: Final = ("exported_node", "node", "exported_hostname", "hostname", "Hostname", "nodename")
_NAME: Final = re.compile(r"[^/\x00-\x1f]{1,160}")


class Place(NamedTuple):
    """Where something is. `node` or `unit` is known, or nothing is; `part` is a part of it that is no GPU."""

    cluster: str | None
    node: str | None
    unit: str | None
    part: str | None
    gpu: int | None
    gpu_uuid: str | None


def place_of(labels: Mapping[str, str], about: str = "") -> Place:
    """Where the labels say that it is. about: name of the metric or alert: a sensor of leaks is a thing of the hall,
    other sensors are parts of what they measure.
    """
    uuid = labels.get("UUID") or labels.get("uuid")
    index = labels.get("gpu", "").partition(".")[0]
    gpu = int(index) if index.isascii() and index.isdecimal() and len(index) < 4 else None
    node = _node(labels)
    unit = None
    if node is None and uuid is None and gpu is None:
        units = ("sensor", *_UNITS) if "leak" in about.lower() else _UNITS
        unit = next((labels[name] for name in units if labels.get(name)), None)
    if node is None and unit is None:
        node = _host(labels.get("exported_instance") or labels.get("instance", ""))
    part = next((labels[name] for name in _PARTS if labels.get(name) not in (None, "", unit)), None)
    return Place(_named(labels.get("cluster")), _named(node), _named(unit), part or _port(labels, gpu), gpu, uuid)


def _node(labels: Mapping[str, str]) -> str | None:
    passed = ("", "localhost", labels.get("pod"), labels.get("exported_pod"))
    return next((labels[name] for name in _NODES if labels.get(name, "") not in passed), None)


def _host(address: str) -> str | None:
    """The host of `host:port`, also where it is an IP address."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        host = address
    return host.strip("[]") or None


def _named(text: str | None) -> str | None:
    """A name as the log takes it. Raises Bad `bad_name`."""
    if text and not _NAME.fullmatch(text):
        raise Bad("bad_name", f"{shown(text)} cannot be a name: it has 1 to 160 characters and no slash")
    return text or None


def _port(labels: Mapping[str, str], gpu: int | None) -> str | None:
    """A port of a network device, as `mlx5_0/1`."""
    device, port = labels.get("device"), labels.get("port")
    if gpu is not None or not device:
        return None
    return f"{device}/{port}" if port else device


def owner_of(labels: Mapping[str, str]) -> str | None:
    """Who holds the GPU of a DCGM series, as its labels say: a Slurm job's number, or `pod:namespace/pod`."""
    if job := labels.get("exported_hpc_job") or labels.get("hpc_job"):
        return job
    for namespace, pod in (("exported_namespace", "exported_pod"), ("namespace", "pod")):
        name = labels.get(pod, "")
        if name and not name.startswith("dcgm-exporter"):
            return f"pod:{labels.get(namespace, '')}/{name}"
    return None


def epoch_ms(text: object, field: str) -> int:
    """Milliseconds since 1970 of a time by RFC 3339. Raises Bad `bad_time`, which names the field."""
    try:
        at = datetime.fromisoformat(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = shown(str(text))
        raise Bad("bad_time", f"{field} is {found}; expected a time such as 2026-03-02T10:14:05Z", field) from None
    if at.tzinfo is None:
        raise Bad("bad_time", f"{field} is {shown(str(text))}, without a zone; expected Z or an offset", field)
    if not 1970 < at.year < 9999:
        raise Bad("bad_time", f"{field} is {shown(str(text))}, outside the years 1971 to 9998", field)
    return int(at.timestamp() * 1000)
