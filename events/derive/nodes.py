"""One node's stream -> its spells (in which state it was, from when to when) and who held it (pure: no clock, no
database).

Each moment of a node has one state. Sources speak of it at different moments: a look of the scheduler stands until its
next look; an entry of the accounting's event list has a start and an end of its own; the owner says when the node was
there at all. Where they differ the one that keeps work away longer counts: a poll sees the end of a drain late, an
event list may be read weeks later. States as in the research note on fleets (4.1), for Slurm's base and flags.

A node is held by whoever gave a reason, and each reason is a hold of its own: clearing one says nothing of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from events.types.nodes import HoldOwner, Lifecycle, NodeDeclared, NodeListed, NodeReported, NodeRetired

__all__ = ["Heard", "Hold", "Node", "Spell", "days_of", "fold", "lifecycle_of"]

Said = TypeVar("Said", NodeDeclared, NodeRetired)
Data = NodeDeclared | NodeRetired | NodeReported | NodeListed
_WORST: Final[tuple[Lifecycle, ...]] = ("retired", "planned", "down", "in_repair", "maintenance", "drained", "draining",
                                        "burn_in", "in_service")  # fmt: skip
_ASIDE: Final = frozenset({"DRAIN", "FAIL", "INVALID_REG", "REBOOT_ISSUED"})


class Heard(NamedTuple):
    """One stored event of a node's stream; `at` in epoch seconds."""

    position: int
    source: str
    at: int
    data: Data


class Spell(NamedTuple):
    """[start, end) in one state, open without an end (epoch seconds)."""

    state: Lifecycle
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Hold:
    """A reason why a node takes no work: [since, until) in epoch seconds, open without an end."""

    owner: HoldOwner
    flag: str
    reason: str
    by: str
    since: int
    until: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """What a stream says of one node. reported: the scheduler's last look; declared: the owner's last word."""

    declared: NodeDeclared | None
    reported: NodeReported | None
    spells: tuple[Spell, ...]
    holds: tuple[Hold, ...]
    first_at: int
    last_position: int


def lifecycle_of(state: str, flags: Iterable[str], works: bool | None) -> Lifecycle | None:
    """The state of a node by what its scheduler says; None: it says nothing (UNKNOWN), what was before goes on.

    A node that does not answer is suspected until the scheduler calls it down; reserved, planned and powered-down
    nodes are in service.
    """
    told = set(flags)
    if state == "FUTURE":
        return "planned"
    if state in ("DOWN", "ERROR"):
        return "down"
    if "MAINTENANCE" in told:
        return "maintenance"
    if told & _ASIDE:
        return "draining" if works else "drained"
    return None if state == "UNKNOWN" else "in_service"


def fold(heard: Sequence[Heard], midnight: dict[str, int]) -> Node | None:
    """The node behind a stream's events, in any order; None when nothing says that it exists.

    midnight: epoch seconds at which each calendar day that is named (`from_day`) begins at the site.
    """
    if not heard:
        return None
    ordered = sorted(heard, key=_by_content)
    reports = [one for one in ordered if isinstance(one.data, NodeReported)]
    declared = _last_word(ordered, NodeDeclared)
    retired = _last_word(ordered, NodeRetired)
    entries = [one.data for one in ordered if isinstance(one.data, NodeListed)]
    begun = _begin(reports, entries, declared, midnight)
    spans = [*_looked(reports), *_listed(entries)]
    if retired is not None:
        spans.append(Spell("retired", midnight[retired.from_day], None))
    return Node(
        declared,
        reports[-1].data if reports else None,  # type: ignore[arg-type]
        tuple(_worst(spans, begun)),
        tuple(_holds(reports, entries)),
        begun,
        max(one.position for one in heard),
    )


def _by_content(one: Heard) -> tuple[int, str, str]:
    return (one.at, one.source, repr(one.data))


def _last_word(heard: Sequence[Heard], kind: type[Said]) -> Said | None:
    """The word of a person that came last."""
    said = [(one.position, one.data) for one in heard if isinstance(one.data, kind)]
    return max(said, key=lambda pair: pair[0])[1] if said else None


def _begin(
    reports: Sequence[Heard], entries: Sequence[NodeListed], declared: NodeDeclared | None,
    midnight: dict[str, int],
) -> int:  # fmt: skip
    """Since when the node is there: as its owner says, else since anybody spoke of it."""
    if declared is not None and declared.from_day is not None:
        return midnight[declared.from_day]
    times = [one.at for one in reports] + [entry.start for entry in entries]
    return min(times, default=0)


def _looked(reports: Sequence[Heard]) -> list[Spell]:
    """Each look until the next one that says something."""
    spells: list[Spell] = []
    for one in reports:
        data = one.data
        assert isinstance(data, NodeReported)  # noqa: S101 - fold has chosen them
        state = lifecycle_of(data.state, data.flags, data.works)
        if state is None or (spells and spells[-1].state == state):
            continue
        if spells:
            spells[-1] = spells[-1]._replace(end=one.at)
        spells.append(Spell(state, one.at, None))
    return spells


def _listed(entries: Iterable[NodeListed]) -> list[Spell]:
    found = [(lifecycle_of(one.state, one.flags, one.works), one.start, one.end) for one in _last_words(entries)]
    return [Spell(state, start, end) for state, start, end in found if state is not None]


def _last_words(entries: Iterable[NodeListed]) -> list[NodeListed]:
    """One entry for each start: the closed one where it was read open before."""
    by_start: dict[int, NodeListed] = {}
    for one in sorted(entries, key=lambda one: (one.start, one.end is not None, one.end or 0, repr(one))):
        by_start[one.start] = one
    return list(by_start.values())


def _worst(spans: Sequence[Spell], begun: int) -> list[Spell]:
    """The spans laid over each other: at each moment the worst of those that hold then, in service without any."""
    edges = sorted({begun, *(one.start for one in spans), *(one.end for one in spans if one.end is not None)})
    edges = [edge for edge in edges if edge >= begun] or [begun]
    found: list[Spell] = []
    for start, end in [*pairwise(edges), (edges[-1], None)]:
        states = {one.state for one in spans if one.start <= start and (one.end is None or start < one.end)}
        state: Lifecycle = next((one for one in _WORST if one in states), "in_service")
        if found and found[-1].state == state:
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(Spell(state, start, end))
    return found


def _holds(reports: Sequence[Heard], entries: Iterable[NodeListed]) -> list[Hold]:
    """Holds of looks and of the event list; the same reason of about the same time is one hold."""
    found = _looked_holds(reports)
    for entry in _last_words(entries):
        flag = _flag(entry.state, entry.flags)
        if flag is None:
            continue
        made = _hold(entry, flag, entry.start, entry.end)
        same = next((at for at, one in enumerate(found) if _is_same(one, made)), None)
        if same is None:
            found.append(made)
        else:
            ends = [one.until for one in (found[same], made)]
            until = None if None in ends else max(end for end in ends if end is not None)
            found[same] = replace(found[same], since=min(found[same].since, made.since), until=until)
    return sorted(found, key=lambda one: (one.since, one.reason, one.flag))


def _is_same(one: Hold, other: Hold) -> bool:
    """The same reason, at times that touch (a look comes up to a poll late, and an open entry may have ended since)."""
    if one.reason != other.reason:
        return False
    late = 60
    ends = (one.until, other.until)
    return (ends[0] is None or other.since <= ends[0] + late) and (ends[1] is None or one.since <= ends[1] + late)


def _looked_holds(reports: Sequence[Heard]) -> list[Hold]:
    open_: Hold | None = None
    found: list[Hold] = []
    for one in reports:
        data = one.data
        assert isinstance(data, NodeReported)  # noqa: S101 - fold has chosen them
        flag = _flag(data.state, data.flags)
        made = None if flag is None else _hold(data, flag, _since(data, one.at), None)
        if open_ is not None and made is not None and (open_.reason, open_.by) == (made.reason, made.by):
            open_ = replace(open_, flag=made.flag)  # DOWN may become DRAIN under one reason
            continue
        if open_ is not None:
            found.append(replace(open_, until=max(one.at, open_.since)))
        open_ = made
    return found if open_ is None else [*found, open_]


def _since(data: NodeReported, at: int) -> int:
    """The moment the reason was set, where it is told and not later than the look."""
    return data.reason_at if data.reason_at is not None and data.reason_at <= at else at


def _flag(state: str, flags: Iterable[str]) -> str | None:
    """The word under which a node takes no work: a base state, else a flag; None where it takes some."""
    if state in ("DOWN", "ERROR"):
        return state
    told = set(flags)
    return next((one for one in ("FAIL", "DRAIN", "INVALID_REG", "MAINTENANCE", "REBOOT_ISSUED") if one in told), None)


def _hold(data: NodeReported | NodeListed, flag: str, since: int, until: int | None) -> Hold:
    return Hold(data.owner or "scheduler", flag, data.reason or "", data.reason_by or "", since, until)


def days_of(heard: Iterable[Heard]) -> set[date]:
    """Calendar days that the stream names."""
    named = (getattr(one.data, "from_day", None) for one in heard)
    return {date.fromisoformat(day) for day in named if day}
