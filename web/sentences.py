"""What an event says, in words: one sentence for lists, and its fields for its own page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from events.types import PERSON, REGISTRY, TEXT
from web import figures

__all__ = ["FIELDS", "Speaker", "Told", "in_order", "marked"]

FIELDS: Final = {
    "cluster": "Cluster", "job_id": "Job id", "state": "State", "submit": "Submitted", "eligible": "Could start",
    "start": "Started", "end": "Ended", "record": "Accounting record", "array_job_id": "Array job id",
    "array_task": "Array task", "het_job_id": "Heterogeneous job id", "het_offset": "Heterogeneous part",
    "account": "Account", "user": "User", "partition": "Partition", "qos": "QOS", "name": "Name",
    "comment": "Comment", "reason": "Reason", "exit_code": "Exit code", "exit_signal": "Exit signal",
    "nodes": "Nodes", "cpus": "CPUs", "gpus": "GPUs", "gpu_types": "GPU types", "node_list": "Node list",
    "suspended_seconds": "Suspended", "limit_seconds": "Time limit", "energy_j": "Energy, J", "run": "Run",
    "restarts": "Restarts before it", "gpu_indices": "GPUs by node", "last_seen": "Last seen", "why": "Why",
    "step": "Step", "timezone": "Time zone", "currency": "Currency", "scheduler": "Scheduler", "project": "Project",
    "title": "Title", "parent": "Parent", "kind": "Kind", "from_day": "From day", "field": "Field", "old": "Before",
    "new": "After", "resource_class": "Resource class", "micro_per_hour": "Micro-units an hour", "card": "Rate card",
    "note": "Note", "closed_s": "Closed", "asked_nodes": "Nodes asked for", "asked_cpus": "CPUs asked for",
    "asked_gpus": "GPUs asked for", "dependency": "Waits for", "node": "Node", "unit": "Unit", "gpu": "GPU",
    "part": "Part", "signal": "Came as", "started_ms": "Since", "ended_ms": "Until", "at_ms": "At",
    "severity": "Severity", "fingerprint": "Fingerprint", "closed_as": "Closed as", "hint": "Class named by its source",
}  # fmt: skip
"""Name of a field of any event type, in words."""
_ORDER: Final = {name: place for place, name in enumerate(FIELDS)}
_TIMES: Final = frozenset({"submit", "eligible", "start", "end", "last_seen", "closed_s"})
_TIMES_MS: Final = frozenset({"started_ms", "ended_ms", "at_ms"})
_WAITING: Final = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_RUNNING: Final = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING"})
_LONG: Final = 120


@dataclass(frozen=True, slots=True)
class Told:
    """One field of an event: its name as stored and in words, and its value as people read it."""

    field: str
    name: str
    value: str


def in_order(names: Iterable[str]) -> list[str]:
    """Names of fields in the order in which people read them; those without a word of their own last."""
    return sorted(names, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))


def marked(type_: str, version: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields of a type that hold ids of persons, and those that hold ids of free texts."""
    try:
        marks = REGISTRY.get(type_, version).markers.items()
    except LookupError:
        return (), ()
    return tuple(n for n, mark in marks if mark is PERSON), tuple(n for n, mark in marks if mark is TEXT)


@dataclass(frozen=True, slots=True)
class Speaker:
    """Puts events into words. names: of persons and free texts by surrogate id; an erased one keeps its id."""

    zone: ZoneInfo
    names: Mapping[str, str]
    year: int = 0
    """The present one, which sentences leave out."""

    def sentence(self, type_: str, data: Mapping[str, Any]) -> str:
        """What an event of this type says, on one line; a type without words of its own lists its fields."""
        say = _SENTENCES.get(type_)
        text = say(self, data) if say else "; ".join(f"{told.name} {told.value}" for told in self.fields(data))
        return text.replace("\n", " ")

    def fields(self, data: Mapping[str, Any]) -> list[Told]:
        """Every field that is told, in the order of FIELDS."""
        return [Told(name, FIELDS.get(name, name), self.value(name, data[name])) for name in in_order(data)]

    def value(self, name: str, value: Any) -> str:
        """One value as people read it: times in the zone, durations, names of persons, lists."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return self._number(name, value)
        if isinstance(value, list | tuple):
            return ", ".join(str(one) for one in value)
        return "—" if value is None else self.names.get(value, str(value))

    def _number(self, name: str, value: int) -> str:
        if name in _TIMES:
            return self.when(value)
        if name in _TIMES_MS:
            return self.when(value // 1000)
        if name.endswith("_seconds"):
            return figures.duration(value)
        return str(value) if name in ("record", "exit_code", "exit_signal") else figures.thousands(value)

    def when(self, seconds: int) -> str:
        """Epoch seconds as '2 Nov 09:14:06' in the zone, with the year when it is not the present one."""
        local = self.local(seconds)
        return f"{figures.day(local.date(), year=local.year != self.year)} {local:%H:%M:%S}"

    def until(self, start: int, end: int) -> str:
        """Two instants; the second one without its day when that is the same."""
        same = self.local(start).date() == self.local(end).date()
        return f"{self.when(start)} to {f'{self.local(end):%H:%M:%S}' if same else self.when(end)}"

    def local(self, seconds: int) -> datetime:
        """Epoch seconds as a time of the zone."""
        return datetime.fromtimestamp(seconds, UTC).astimezone(self.zone)

    def part(self, data: Mapping[str, Any], *names: str) -> list[str]:
        """`name value` of each field that is told, in lower case words."""
        return [f"{FIELDS[n].lower()} {self.value(n, data[n])}" for n in names if data.get(n) not in (None, "", [])]


def _job(say: Speaker, data: Mapping[str, Any]) -> str:
    head = _ran(say, data)
    size = _size(data)
    who = say.part(data, "user", "account", "run")
    why = say.part(data, "reason") if data.get("reason") not in (None, "", "None") else []
    return _cut("; ".join([head, *size, *who, *why, *_exit(data)]))


def _ran(say: Speaker, data: Mapping[str, Any]) -> str:
    state, submit, start, end = data["state"], data.get("submit"), data.get("start"), data.get("end")
    if state in _WAITING and end is None:
        return state if submit is None else f"{state} since {say.when(submit)}"
    if start is None:
        return state if end is None else f"{state} at {say.when(end)}"
    if end is None or state in _RUNNING:
        return f"{state} since {say.when(start)}"
    return f"{state} after {figures.duration(max(0, end - start))}, {say.until(start, end)}"


def _size(data: Mapping[str, Any]) -> list[str]:
    gpus, nodes = data.get("gpus"), data.get("nodes")
    found = [_number(gpus, "GPU")] if gpus else []
    if nodes:
        where = data.get("node_list")
        found.append(_number(nodes, "node") + (f" {where}" if where else ""))
    return [" on ".join(found)] if found else []


def _number(count: int, noun: str) -> str:
    return f"{figures.thousands(count)} {noun}{'' if count == 1 else 's'}"


def _exit(data: Mapping[str, Any]) -> list[str]:
    code, signal = data.get("exit_code"), data.get("exit_signal")
    return [f"exit {code or 0}:{signal or 0}"] if code or signal else []


def _cut(text: str) -> str:
    return text if len(text) <= 2 * _LONG else f"{text[: 2 * _LONG]}…"


def _step(say: Speaker, data: Mapping[str, Any]) -> str:
    return f"Step {data['step']}: {_job(say, data)}"


def _lost(say: Speaker, data: Mapping[str, Any]) -> str:
    why = "it ran far past its limit" if data["why"] == "past_limit" else "the scheduler shows it no more"
    return (
        f"Taken for lost: {why}. The attempt from {say.when(data['start'])} is charged until "
        f"{say.when(data['last_seen'])}."
    )


def _found(say: Speaker, data: Mapping[str, Any]) -> str:
    return f"Found again: the attempt from {say.when(data['start'])} runs."


def _corrected(say: Speaker, data: Mapping[str, Any]) -> str:
    name = data["field"]
    old, new = (_typed(say, name, data[key]) for key in ("old", "new"))
    return f"{FIELDS[name]} of the attempt from {say.when(data['start'])}: {old} → {new}. {data['reason']}"


def _typed(say: Speaker, name: str, text: str) -> str:
    return say.value(name, int(text)) if text.isdecimal() and text.isascii() else text or "none"


def _site(_: Speaker, data: Mapping[str, Any]) -> str:
    return f"The site is {data['name']}, its time {data['timezone']}, its currency {data['currency']}."


def _cluster(_: Speaker, data: Mapping[str, Any]) -> str:
    gpus = f" with {_number(data['gpus'], 'GPU')}" if data.get("gpus") else ""
    return f"Cluster {data['cluster']} under {data.get('scheduler', 'slurm')}{gpus}."


def _project(_: Speaker, data: Mapping[str, Any]) -> str:
    title = f", {data['title']}" if data.get("title") else ""
    return f"{data.get('kind', 'project').capitalize()} {data['project']}{title}, {_below(data)}."


def _below(data: Mapping[str, Any]) -> str:
    return f"below {data['parent']}" if data.get("parent") else "at the top of the tree"


def _moved(_: Speaker, data: Mapping[str, Any]) -> str:
    return f"{data['project']} hangs {_below(data)} from {data['from_day']} on."


def _mapped(_: Speaker, data: Mapping[str, Any]) -> str:
    to = data.get("project") or "no project"
    return f"Account {data['account']} of {data['cluster']} belongs to {to} from {data['from_day']} on."


def _rate(_: Speaker, data: Mapping[str, Any]) -> str:
    micro = data["micro_per_hour"]
    price = f"{figures.thousands(micro // 1_000_000)}.{micro % 1_000_000:06d}".rstrip("0")
    price += "0" * max(0, 2 - len(price.partition(".")[2]))
    return f"One hour of {data['resource_class']} costs {price} {data['currency']} from {data['from_day']} on."


def _withdrawn(_: Speaker, data: Mapping[str, Any]) -> str:
    return f"{data['resource_class']} has no price from {data['from_day']} on."


def _closed(say: Speaker, data: Mapping[str, Any]) -> str:
    whose = f" of account {data['account']}" if data.get("account") else ""
    return f"Run {data['run']}{whose} is closed as of {say.when(data['closed_s'])}: later jobs of its name are another."


def _reopened(say: Speaker, data: Mapping[str, Any]) -> str:
    whose = f" of account {data['account']}" if data.get("account") else ""
    return f"Run {data['run']}{whose} is open again: its closing as of {say.when(data['closed_s'])} was a mistake."


def _measured(say: Speaker, data: Mapping[str, Any]) -> str:
    rate = figures.thousands(data["milli_tokens_per_second"] // 1000)
    instead = f" It replaces the record at position {data['replaces']}." if data.get("replaces") else ""
    return (
        f"{data['model']} on {_number(data['gpus'], 'GPU')} of {data['cluster']}: {rate} tokens/s ({data['kind']}), "
        f"signed by {say.value('signed_by', data['signed_by'])}.{instead}"
    )


def _at(data: Mapping[str, Any]) -> str:
    """Where a fault is: `gpu001, GPU 5`."""
    part = f"GPU {data['gpu']}" if data.get("gpu") is not None else data.get("part") or ""
    return ", ".join(word for word in (data.get("node") or data.get("unit") or "an unknown place", part) if word)


def _sighted(say: Speaker, data: Mapping[str, Any]) -> str:
    xid = f" (XID {data['xid']})" if data.get("xid") is not None else ""
    since = say.when(data["started_ms"] // 1000)
    if data.get("ended_ms") is None:
        return f"{data['name']}{xid} on {_at(data)} since {since}."
    return f"{data['name']}{xid} on {_at(data)} since {since} is well again since {say.when(data['ended_ms'] // 1000)}."


def _note(say: Speaker, data: Mapping[str, Any]) -> str:
    return f" {say.value('note', data['note'])}" if data.get("note") else ""


def _fault_opened(say: Speaker, data: Mapping[str, Any]) -> str:
    return f"Fault {data['kind']} on {_at(data)} since {say.when(data['started_ms'] // 1000)}.{_note(say, data)}"


def _fault_acknowledged(say: Speaker, data: Mapping[str, Any]) -> str:
    return f"Somebody looks after the fault {data['kind']} on {_at(data)}.{_note(say, data)}"


def _fault_closed(say: Speaker, data: Mapping[str, Any]) -> str:
    reason = data["closed_as"].replace("_", " ")
    return f"The fault {data['kind']} on {_at(data)} is closed: {reason}.{_note(say, data)}"


_SENTENCES: Final[dict[str, Callable[[Speaker, Mapping[str, Any]], str]]] = {
    "job.reported": _job, "step.reported": _step, "job.lost": _lost, "job.found": _found,
    "record.corrected": _corrected, "site.declared": _site, "cluster.declared": _cluster,
    "project.declared": _project, "project.moved": _moved, "account.mapped": _mapped, "rate.published": _rate,
    "rate.withdrawn": _withdrawn, "scaling.recorded": _measured, "run.closed": _closed, "run.reopened": _reopened,
    "fault.sighted": _sighted, "fault.opened": _fault_opened, "fault.acknowledged": _fault_acknowledged,
    "fault.closed": _fault_closed,
}  # fmt: skip
