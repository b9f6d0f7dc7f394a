"""What Prometheus and Alertmanager of the demo hall post when a node fails and when it is back.

Two in three nodes fail by a GPU that falls off the bus (XID 79), the others stop answering: which one, follows from
the node and the second of its failure. The notifications are those of Alertmanager's webhook, version 4, one alert in
each; one that fires is sent again as long as it does, as Alertmanager does by the clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from config.demo.hall import CLUSTER, GPUS, Hall
from config.demo.truth import Fault

__all__ = ["REPEAT", "bodies", "gpu_of"]

REPEAT: Final = 4 * 3600
"""Seconds after which Alertmanager tells again of what still fires."""
_ZERO: Final = "0001-01-01T00:00:00Z"


def gpu_of(hall: Hall, fault: Fault) -> int | None:
    """The GPU that fell off the bus; None where the whole node stopped answering."""
    chance = zlib.crc32(f"{fault.node}/{fault.start}".encode())
    return chance // 3 % GPUS if fault.node < hall.gpu_nodes and chance % 3 else None


def bodies(hall: Hall, faults: Iterable[Fault], after: int, until: int) -> Iterator[tuple[int, bytes]]:
    """(moment, notification) of each moment in (after, until], in order."""
    found = []
    for fault in faults:
        found += [(at, fault, False) for at in range(fault.start, fault.end, REPEAT) if after < at <= until]
        if after < fault.end <= until:
            found.append((fault.end, fault, True))
    for at, fault, over in sorted(found, key=lambda one: (one[0], one[1].node, one[2])):
        yield at, msgspec.json.encode(_notification(hall, fault, over=over))


def _notification(hall: Hall, fault: Fault, *, over: bool) -> dict[str, Any]:
    status, labels = "resolved" if over else "firing", _labels(hall, fault)
    alert = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": f"XID 79 on GPU {labels['gpu']}"} if "gpu" in labels else {},
        "startsAt": _time(fault.start),
        "endsAt": _time(fault.end) if over else _ZERO,
        "generatorURL": "",
        "fingerprint": f"{zlib.crc32(repr(sorted(labels.items())).encode()):016x}",
    }
    return {
        "version": "4", "groupKey": f'{{}}:{{alertname="{labels["alertname"]}"}}', "truncatedAlerts": 0,
        "status": status, "receiver": "hallbook", "groupLabels": {"alertname": labels["alertname"]},
        "commonLabels": labels, "commonAnnotations": alert["annotations"], "externalURL": "", "alerts": [alert],
    }  # fmt: skip


def _labels(hall: Hall, fault: Fault) -> dict[str, str]:
    node, gpu = hall.name(fault.node), gpu_of(hall, fault)
    if gpu is None:
        return {"alertname": "NodeDown", "cluster": CLUSTER, "instance": f"{node}:9100", "severity": "critical"}
    return {"alertname": "GpuXid", "cluster": CLUSTER, "Hostname": node, "gpu": str(gpu), "severity": "critical",
            "job": "dcgm"}  # fmt: skip


def _time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
