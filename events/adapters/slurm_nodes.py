"""Nodes as Slurm tells them to sightings: slurmrestd `/slurm/.../nodes`, `scontrol show nodes --json`, `sinfo --json`
of the old kind, and the accounting's `sacctmgr show events -P`.

A scheduler republishes every node at each poll. What moves by itself (load, free memory, what jobs hold, when it was
last busy, who is planned next) is left out, so that a node costs an event when it changes. None of these documents
says when a node changed, only when its reason was set; one who sends only what has changed says when it was looked at
(the header x-hallbook-changes, as for jobs), and each such record counts. Without it a record is taken as of the
latest time in it, and the same record again says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from events.adapters import Draft, Refusal
from events.adapters import sacct_values as values
from events.adapters.sacct_values import Bad, shown
from events.adapters.slurm_node_states import NodeState, of_number, of_words, owner_of
from events.adapters.slurm_records import at, cluster_of, looked_at
from events.adapters.slurm_values import Num, Words, epoch, number, words
from events.types.nodes import NodeListed, NodeReported
from events.validate import UNREADABLE, pointer, refusal

__all__ = ["node_events", "slurm_nodes"]

Items = list[Draft | Refusal]
TELLING: Final = frozenset({
    "DRAIN", "FAIL", "MAINTENANCE", "NOT_RESPONDING", "INVALID_REG", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP",
    "POWER_DOWN", "REBOOT_REQUESTED", "REBOOT_ISSUED", "RESERVED", "BLOCKED",
})  # fmt: skip
"""Flags that keep work away or announce it; the others change with jobs or say how a node came to be."""
_ASIDE: Final = frozenset({"DRAIN", "FAIL", "MAINTENANCE", "INVALID_REG", "REBOOT_REQUESTED", "REBOOT_ISSUED"})
"""Flags under which no new work comes, while old work may go on."""
_EXPECTED: Final = "expected is the JSON of slurmrestd's nodes or of `scontrol show nodes --json`"


class _Shape(msgspec.Struct, gc=False):
    name: str | None = None
    hostname: str | None = None
    state: Words | None = None
    state_flags: Words | None = None
    reason: str | None = None
    reason_changed_at: Num = None
    reason_set_by_user: str | None = None
    gres: str | None = None
    tres: str | None = None
    cpus: Num = None
    real_memory: Num = None
    partitions: list[str] | None = None
    features: str | list[str] | None = None
    boot_time: Num = None
    slurmd_start_time: Num = None
    cluster_name: str | None = None


class _Document(msgspec.Struct, gc=False):
    nodes: list[msgspec.Raw] | None = None
    meta: msgspec.Raw = msgspec.Raw(b"null")
    errors: Any = None


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_NODE: Final = msgspec.json.Decoder(_Shape)


def slurm_nodes(_content_type: str, headers: Mapping[str, str], body: bytes) -> Items:
    """The nodes of one document, each a sighting or a refusal with its place."""
    try:
        document = _DOCUMENT.decode(body)
    except UNREADABLE as error:
        text, _, where = str(error).partition(" - at `$")
        return [refusal(0, pointer(where.rstrip("`")), "malformed", f"{text}; {_EXPECTED}", body)]
    if document.nodes is None:
        return [refusal(0, "/nodes", "invalid", f"there is no list of nodes; {_EXPECTED}", body)]
    try:
        looked = looked_at(headers.get("x-hallbook-changes"))
        named = values.label(headers.get("x-hallbook-cluster", "")) or cluster_of(document.meta)
    except Bad as bad:
        return [refusal(0, "", bad.code, bad.text, body)]
    return [_read(index, raw, named, looked) for index, raw in enumerate(document.nodes)]


def _read(index: int, raw: msgspec.Raw, named: str | None, looked: int | None) -> Draft | Refusal:
    try:
        node = _NODE.decode(raw)
        return _draft(index, node, named or node.cluster_name, looked)
    except Bad as bad:
        return refusal(index, f"/nodes/{index}{bad.pointer}", bad.code, bad.text, bytes(raw))
    except UNREADABLE as error:
        text, _, where = str(error).partition(" - at `$")
        return refusal(index, f"/nodes/{index}{pointer(where.rstrip('`'))}", "invalid", text, bytes(raw))


def _draft(index: int, node: _Shape, cluster: str | None, looked: int | None) -> Draft:
    name = at("/name", values.label, node.name or node.hostname or "")
    if not name:
        raise Bad("node_missing", "the node has no name", "/name")
    if not cluster:
        raise Bad("cluster_missing", "no cluster is named; the header x-hallbook-cluster is needed", "")
    state = at("/state", of_words, (*words(node.state), *words(node.state_flags)))
    data = _sighting(node, cluster, name, state)
    seen = looked or _latest(node)
    key = f"{cluster}/{name}" + (f"/looked:{seen}" if looked is not None else "")
    return Draft("node.reported", data, key, seen * 1_000_000, index, source=f"slurmctld:{cluster}")


def _sighting(node: _Shape, cluster: str, name: str, state: NodeState) -> NodeReported:
    gpus, model = _gpus(node)
    kept = _kept_away(state)
    reason = (node.reason or "").strip()
    return NodeReported(
        cluster=cluster,
        node=name,
        state="UP" if state.base in ("IDLE", "ALLOCATED", "MIXED") else state.base,  # type: ignore[arg-type]
        flags=tuple(flag for flag in state.flags if flag in TELLING),
        works=state.works if kept else None,
        owner=owner_of(reason, node.reason_set_by_user or "") if kept else None,
        reason=reason[:4000] or None,
        reason_by=(node.reason_set_by_user or "")[:200] or None if reason else None,
        reason_at=at("/reason_changed_at", epoch, node.reason_changed_at) or None if reason else None,
        gpus=gpus,
        gpu_model=model,
        cpus=at("/cpus", number, node.cpus),
        memory_mb=at("/real_memory", number, node.real_memory),
        partitions=tuple(sorted(node.partitions or ())),
        features=_features(node.features),
        boot=at("/boot_time", epoch, node.boot_time) or None,
    )


def _kept_away(state: NodeState) -> bool:
    return state.base in ("DOWN", "ERROR") or bool(_ASIDE & set(state.flags))


def _gpus(node: _Shape) -> tuple[int | None, str | None]:
    """How many GPUs a node is set up with, and their type; several types are none."""
    size = at("/tres", values.tres, node.tres or "")
    if not node.tres:
        return None, None
    names = [one.rpartition("=")[0] for one in size.gpu_types]
    return size.gpus or 0, names[0] if len(names) == 1 else None


def _features(told: str | list[str] | None) -> tuple[str, ...]:
    named = told.split(",") if isinstance(told, str) else told or []
    return tuple(sorted(one[:160] for one in named if one))


def _latest(node: _Shape) -> int:
    """The latest time in the record. Raises Bad `time_missing`."""
    fields = (("/reason_changed_at", node.reason_changed_at), ("/boot_time", node.boot_time),
              ("/slurmd_start_time", node.slurmd_start_time))  # fmt: skip
    known = [found for place, value in fields if (found := at(place, epoch, value))]
    if not known:
        raise Bad("time_missing", "the node has no time; send ?changes= with the moment of the look", "")
    return max(known)


# --- the accounting's list of node events ------------------------------------------------------------------------

_COLUMNS: Final = ("NodeName", "TimeStart", "TimeEnd", "StateRaw", "Reason")


def node_events(_content_type: str, headers: Mapping[str, str], body: bytes) -> Items:
    """`sacctmgr show events -P` with `SLURM_TIME_FORMAT=%s`: the columns NodeName, TimeStart, TimeEnd, StateRaw, Reason
    (and Cluster, User); entries of the cluster itself are passed over."""
    # By newlines alone: a reason may hold what splitlines takes for the end of a line.
    rows = (line.rstrip("\r").split("|") for line in body.decode("utf-8", "replace").split("\n"))
    head = next(rows)
    if missing := [name for name in _COLUMNS if name not in head]:
        text = f"the head lacks {', '.join(missing)}; send `sacctmgr show events -P format=...` with its head"
        return [refusal(0, "", "malformed", text, body[:2000])]
    return list(_events(head, rows, headers.get("x-hallbook-cluster", "")))


def _events(head: list[str], rows: Iterator[list[str]], named: str) -> Iterator[Draft | Refusal]:
    for index, row in enumerate(rows):
        told = "|".join(row)
        if not told:
            continue
        if len(row) < len(head):
            text = f"expected {len(head)} columns and found {len(row)}: the line is cut off"
            yield refusal(index, "", "field_count", text, told.encode())
            continue
        said = _named(head, row)
        if not said["NodeName"]:
            continue
        try:
            yield _event(index, said, named or said.get("Cluster", ""))
        except Bad as bad:
            yield refusal(index, f"/{bad.pointer.lstrip('/')}", bad.code, bad.text, told.encode())


def _named(head: list[str], row: list[str]) -> dict[str, str]:
    """A row by column. A reason may hold the delimiter; every other column may not."""
    extra, at_ = len(row) - len(head), head.index("Reason")
    if extra > 0:
        row = [*row[:at_], "|".join(row[at_ : at_ + extra + 1]), *row[at_ + extra + 1 :]]
    return dict(zip(head, row, strict=False))


def _event(index: int, said: Mapping[str, str], cluster: str) -> Draft:
    name = at("/NodeName", values.label, said["NodeName"])
    if not name or not cluster:
        raise Bad("cluster_missing", "no cluster is named; the column Cluster or x-hallbook-cluster is needed", "")
    start, end = at("/TimeStart", _seconds, said["TimeStart"]), at("/TimeEnd", _seconds, said["TimeEnd"])
    if start is None or (end is not None and end < start):
        raise Bad(
            "negative_duration", f"from {said['TimeStart']} to {said['TimeEnd']} is no stretch of time", "/TimeEnd"
        )
    state = at("/StateRaw", of_number, at("/StateRaw", _whole, said["StateRaw"]))
    by = said.get("User", "").partition("(")[0][:200]
    data = NodeListed(
        cluster=cluster,
        node=name,
        start=start,
        end=end,
        state="UP" if state.base in ("IDLE", "ALLOCATED", "MIXED") else state.base,  # type: ignore[arg-type]
        flags=tuple(flag for flag in state.flags if flag in TELLING),
        works=state.works if _kept_away(state) else None,
        owner=owner_of(said["Reason"], by) if _kept_away(state) else None,
        reason=said["Reason"][:4000] or None,
        reason_by=by or None,
    )
    key = f"{cluster}/{name}/event:{start}"
    return Draft(
        "node.listed", data, key, (start if end is None else end) * 1_000_000, index, source=f"slurmdbd:{cluster}"
    )


def _seconds(text: str) -> int | None:
    if text in ("Unknown", "None", "", "0"):
        return None
    return _whole(text)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise Bad("bad_number", f"{shown(text)} is not a whole number; set SLURM_TIME_FORMAT=%s for times")
    return int(text)
