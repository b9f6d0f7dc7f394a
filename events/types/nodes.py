"""Nodes: what they are and where they stand, what their scheduler says of them, and who holds them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from events.types.jobs import Epoch, Name, Size, Word
from events.types.projects import Day, check_day
from events.types.registry import PERSON, TEXT, EventStruct, event

__all__ = ["HoldOwner", "Lifecycle", "NodeDeclared", "NodeListed", "NodeReported", "NodeRetired"]

Reason = Annotated[str, Meta(max_length=4000, extra={"mark": TEXT})]
"""What people write may name people."""
Place = Annotated[str, Meta(max_length=160)]
Lifecycle = Literal["planned", "burn_in", "in_service", "draining", "drained", "in_repair", "maintenance", "down",
                    "retired"]  # fmt: skip


Gpus = Annotated[int, Meta(ge=0, le=4096)]
"""GPUs of one node: no machine has more, and a mistake must not become a hall."""
HoldOwner = Literal["operator", "scheduler", "policy"]
"""Who keeps a node from work: a person, the scheduler by itself, or a policy of Hallbook."""


def check_span(day: str) -> None:
    """Raise ValueError for a day before 1970 or after 2150: a node stands in neither."""
    if not "1970-01-02" <= day <= "2150-01-01":
        raise ValueError(f"from_day {day!r} lies outside 1970 to 2150")


def _node(one: EventStruct) -> str:
    return f"node/{one.cluster}/{one.node}"  # type: ignore[attr-defined]


@event("node.declared", stream=_node)
class NodeDeclared(EventStruct, frozen=True):
    """A node as its owner describes it: size, where it stands, serial number; the last one counts.

    `from_day` (site's calendar): since when it is installed; without it, since the scheduler showed it first.
    guaranteed: whether SLA and scaling count it.
    """

    cluster: Name
    node: Name
    gpus: Gpus | None = None
    gpu_model: Word | None = None
    site: Place = ""
    hall: Place = ""
    pod: Place = ""
    rack: Place = ""
    unit: Size | None = None
    """Rack unit of its lower edge, from below."""
    leaf: Place = ""
    """Leaf switch, or rail group where every GPU has a leaf of its own."""
    serial: Place = ""
    guaranteed: bool = True
    from_day: Day | None = None

    def __post_init__(self) -> None:
        if self.from_day is not None:
            check_day(self.from_day)
            check_span(self.from_day)


@event("node.retired", stream=_node)
class NodeRetired(EventStruct, frozen=True):
    """A node is no longer there from a day on (site's calendar)."""

    cluster: Name
    node: Name
    from_day: Day
    why: Reason = ""

    def __post_init__(self) -> None:
        check_day(self.from_day)
        check_span(self.from_day)


@event("node.reported", stream=_node)
class NodeReported(EventStruct, frozen=True):
    """What a scheduler says of a node (a sighting), as of the event's time.

    state: UP for a node that takes part in the work, whether it has some or not: that changes with every job, and the
    jobs say it themselves. flags: those that keep work away or announce it. works: whether jobs still hold something
    of it, told of a node that takes no new ones. owner, reason, reason_by, reason_at: whose it is that it is kept from
    work, why, by whom and
    since when.
    """

    cluster: Name
    node: Name
    state: Literal["UP", "DOWN", "UNKNOWN", "ERROR", "FUTURE"]
    flags: tuple[Word, ...] = ()
    works: bool | None = None
    owner: HoldOwner | None = None
    reason: Reason | None = None
    reason_by: Annotated[str, Meta(max_length=200, extra={"mark": PERSON})] | None = None
    reason_at: Epoch | None = None
    gpus: Gpus | None = None
    gpu_model: Word | None = None
    cpus: Size | None = None
    memory_mb: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    partitions: tuple[Word, ...] = ()
    features: tuple[Word, ...] = ()
    boot: Epoch | None = None


@event("node.listed", stream=_node)
class NodeListed(EventStruct, frozen=True):
    """An entry of the accounting's own list of node events: [start, end) in one state, open without an end."""

    cluster: Name
    node: Name
    start: Epoch
    state: Literal["UP", "DOWN", "UNKNOWN", "ERROR", "FUTURE"]
    end: Epoch | None = None
    flags: tuple[Word, ...] = ()
    works: bool | None = None
    owner: HoldOwner | None = None
    reason: Reason | None = None
    reason_by: Annotated[str, Meta(max_length=200, extra={"mark": PERSON})] | None = None

    def happened(self) -> tuple[str, int] | None:
        """Its end, or its start while it lasts."""
        return ("start", self.start) if self.end is None else ("end", self.end)
