"""The nodes of the demo hall: where they stand, and what the scheduler's own list shows when one fails and returns.

The shape of the list is that of slurmrestd v0.0.40; only what a ledger needs of it is filled. A node that fails is
called down at once and has booted anew when it is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Final

import msgspec

from config.demo.hall import CLUSTER, CPU_CORES, GPUS, NODE_CORES, Hall
from config.demo.truth import Fault
from events.types.nodes import NodeDeclared

__all__ = ["bodies", "places"]

UNIT: Final = 8
"""Rack units of a GPU node."""
REASON: Final = "Not responding"


def places(hall: Hall, begin: date) -> Iterator[NodeDeclared]:
    """What the owner says of each node: its rack, unit, leaf switch and serial number."""
    for node in range(hall.gpu_nodes + hall.cpu_nodes):
        gpu = node < hall.gpu_nodes
        rack = f"R{hall.rack(node) + 1:02d}" if gpu else "R99"
        unit = 2 + hall.place_in_rack(node) * UNIT if gpu else 2 + (node - hall.gpu_nodes) % 20 * 2
        yield NodeDeclared(
            CLUSTER, hall.name(node), gpus=GPUS if gpu else 0, gpu_model=hall.gpu_type(node) if gpu else None,
            site="Vellmar", hall="Hall 1", pod="Pod A", rack=rack, unit=unit,
            leaf=f"leaf{hall.leaf(node) + 1:02d}" if gpu else "", serial=f"VH{node + 1:05d}",
            from_day=begin.isoformat(),
        )  # fmt: skip


def bodies(hall: Hall, faults: Iterable[Fault], begin: int, after: int, until: int) -> Iterator[tuple[int, bytes]]:
    """(moment, list of the nodes that changed then) of each moment in (after, until]; begin: of the first list."""
    changes: dict[int, dict[int, dict[str, Any]]] = {}
    if after < begin <= until:
        changes[begin] = {node: _record(hall, node, begin) for node in range(hall.gpu_nodes + hall.cpu_nodes)}
    for fault in faults:
        if after < fault.start <= until:
            changes.setdefault(fault.start, {})[fault.node] = _record(hall, fault.node, begin, down=fault.start)
        if after < fault.end <= until:
            changes.setdefault(fault.end, {})[fault.node] = _record(hall, fault.node, fault.end)
    for at, nodes in sorted(changes.items()):
        yield at, msgspec.json.encode({"nodes": list(nodes.values()), "meta": {"slurm": {"cluster": CLUSTER}}})


def _record(hall: Hall, node: int, boot: int, down: int | None = None) -> dict[str, Any]:
    gpu = node < hall.gpu_nodes
    cores, kind = (NODE_CORES, hall.gpu_type(node)) if gpu else (CPU_CORES, "")
    return {
        "name": hall.name(node),
        "state": ["DOWN", "NOT_RESPONDING"] if down else ["IDLE"],
        "reason": REASON if down else "",
        "reason_changed_at": {"set": True, "infinite": False, "number": down or 0},
        "reason_set_by_user": "slurm" if down else "",
        "cpus": cores,
        "real_memory": 2_000_000 if gpu else 750_000,
        "boot_time": {"set": True, "infinite": False, "number": boot},
        "partitions": ["train", "scavenge"] if gpu else ["cpu"],
        "features": [kind] if gpu else [],
        "gres": f"gpu:{kind}:{GPUS}" if gpu else "",
        "tres": f"cpu={cores},gres/gpu={GPUS},gres/gpu:{kind}={GPUS}" if gpu else f"cpu={cores}",
    }
