"""From sightings to faults (pure: no clock, no database). The order and the number of sightings change nothing.

A source says that something is broken in [from, until). Stretches of the same kind of fault at the same place that
overlap or touch are one fault. What follows from that:

* Alertmanager names an occurrence by its labels. When a job ends, a label goes, the old occurrence is resolved and a
  new one fires at the same instant: the stretches touch, so it is one fault.
* The same alert that fires anew ends its earlier stretch, where the word of its end was lost.
* XIDs come as occurrences (derive/xid.py): a code that stays is one, one that comes back after 0 is another.
* Redfish tells instants, not stretches: trouble opens, a message of severity OK at the same place ends it.
* A fault is open while one source says that it is. A person closes it for all of them: what they began to say before
  that is over with it, and so is what goes on from there without a break.
* Of some kinds many nodes see one and the same fault, which has no place of its own (`wide`): there, stretches that
  lie at most JOIN_MS apart are one fault of the cluster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import msgspec

from events.types.faults import FaultAcknowledged, FaultClosed, FaultOpened, FaultSighted

__all__ = ["JOIN_MS", "Fault", "Heard", "Lane", "Said", "fold", "lanes"]

JOIN_MS: Final = 300_000
"""Milliseconds between two sightings of a fault that many nodes see."""
Said = FaultSighted | FaultOpened | FaultAcknowledged | FaultClosed
Opening = FaultSighted | FaultOpened
T = TypeVar("T", FaultAcknowledged, FaultClosed)


class Heard(NamedTuple):
    """One event. kind: class of the catalogue; wide: many see that one fault. actor: who said it."""

    position: int
    source: str
    actor: str
    kind: str
    wide: bool
    said: Said


class Lane(NamedTuple):
    """Where faults of one kind are told apart only by time. where: node or unit, '' for one of the whole cluster."""

    cluster: str
    kind: str
    where: str
    place: str


class _Stretch(NamedTuple):
    """One source's word that it was broken in [start, end) milliseconds; end None: it still says so.

    anew: nobody told the end, but that the same began again then.
    """

    start: int
    end: int | None
    heard: tuple[Heard, ...]
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. opened, closed: epoch milliseconds; closed None while it is open.

    times: how often sources began to report it. last: the latest instant of which anything was said. closed_by: the
    actor who closed it, '' where its sources did. first: the earliest word of it. heard: all events of it, in order
    of the log; people's too.
    """

    lane: Lane
    opened: int
    closed: int | None
    last: int
    times: int
    first: Opening
    nodes: tuple[str, ...]
    units: tuple[str, ...]
    heard: tuple[Heard, ...]
    acknowledged: int | None = None
    acknowledged_by: str = ""
    closed_by: str = ""
    closed_as: str = ""
    closed_note: str = ""

    @property
    def key(self) -> str:
        """Its name: the same for the same words about it."""
        return "\0".join((*self.lane, str(self.opened)))


@dataclass(slots=True)
class _Told:
    """All that is told of one lane."""

    opening: list[Heard] = field(default_factory=list)
    people: list[Heard] = field(default_factory=list)


def lanes(heard: Iterable[Heard]) -> dict[Lane, list[Heard]]:
    """The events of each lane. All events of a node must be there: they name its GPUs by index and by UUID."""
    known = list(heard)
    index = {
        (one.said.cluster, one.said.gpu_uuid): one.said.gpu
        for one in known
        if isinstance(one.said, FaultSighted) and one.said.gpu_uuid and one.said.gpu is not None
    }
    found: dict[Lane, list[Heard]] = defaultdict(list)
    for one in known:
        found[_lane(one, index)].append(one)
    return found


def _lane(one: Heard, index: Mapping[tuple[str, str], int]) -> Lane:
    said = one.said
    if one.wide:
        return Lane(said.cluster, one.kind, "", "")
    uuid = said.gpu_uuid if isinstance(said, FaultSighted) else None
    gpu = said.gpu if said.gpu is not None else index.get((said.cluster, uuid or ""))
    place = f"gpu{gpu}" if gpu is not None else said.part or (f"gpu:{uuid}" if uuid else "")
    return Lane(said.cluster, one.kind, said.node or said.unit or "-", place)


def fold(heard: Iterable[Heard]) -> list[Fault]:
    """The faults of some streams, in order of their beginning."""
    found = [fault for lane, told in lanes(heard).items() for fault in _faults(lane, told)]
    return sorted(found, key=lambda one: (one.opened, one.lane))


def _faults(lane: Lane, heard: Sequence[Heard]) -> list[Fault]:
    stretches = _stretches([one for one in heard if isinstance(one.said, FaultSighted | FaultOpened)])
    closings = _of(FaultClosed, heard)
    cuts = [said.at_ms for _, said in closings]
    acks = _of(FaultAcknowledged, heard)
    gap = 0 if lane.where else JOIN_MS
    groups = list(_joined(_cut(stretches, cuts), cuts, gap))
    # A person closes the last of the faults before their word, also where its sources told an earlier end later.
    last = {cut: place for place, (_, cut) in enumerate(groups)}
    return [
        _fault(lane, group, acks, closings[cut] if cut < len(closings) and last[cut] == place else None)
        for place, (group, cut) in enumerate(groups)
    ]


def _of(kind: type[T], heard: Iterable[Heard]) -> list[tuple[Heard, T]]:
    """What people said of one kind, in order of time."""
    found = [(one, one.said) for one in heard if isinstance(one.said, kind)]
    return sorted(found, key=lambda pair: (pair[1].at_ms, pair[0].actor, pair[0].position))


def _stretches(heard: Sequence[Heard]) -> list[_Stretch]:
    """What each source says, stretch by stretch, in order of time."""
    named: dict[tuple[str, str, str], list[Heard]] = defaultdict(list)
    instants: dict[tuple[str, str], list[Heard]] = defaultdict(list)
    found: list[_Stretch] = []
    for one in heard:
        said = one.said
        if isinstance(said, FaultOpened):
            found.append(_Stretch(said.started_ms, None, (one,)))
        elif isinstance(said, FaultSighted) and said.signal == "redfish":
            instants[one.source, said.node or said.unit or ""].append(one)
        elif isinstance(said, FaultSighted):
            named[one.source, said.signal, said.fingerprint or ""].append(one)
    for told in named.values():
        found.extend(_occurrences(told))
    for told in instants.values():
        found.extend(_between(told))
    return sorted(found, key=lambda one: (one.start, one.end is None, one.end or 0))


def _occurrences(told: Sequence[Heard]) -> list[_Stretch]:
    """Of one name of an occurrence: each start and its end; without one, until the same starts anew."""
    starts: dict[int, list[Heard]] = defaultdict(list)
    for one in told:
        starts[_sighted(one).started_ms].append(one)
    ordered = sorted(starts)
    found = []
    for place, start in enumerate(ordered):
        ends = [end for one in starts[start] if (end := _sighted(one).ended_ms) is not None]
        after = ordered[place + 1] if place + 1 < len(ordered) else None
        end = max(ends) if ends else after
        found.append(_Stretch(start, end, tuple(starts[start]), anew=not ends and after is not None))
    return found


def _between(told: Sequence[Heard]) -> list[_Stretch]:
    """Of instants: from trouble to the next word that it is well."""
    found: list[_Stretch] = []
    running: list[Heard] = []
    # At one instant the trouble counts: it is the later word of the two, or nobody knows.
    for one in sorted(told, key=lambda each: (_sighted(each).started_ms, _sighted(each).state == "firing")):
        said = _sighted(one)
        if said.state == "firing":
            running.append(one)
        elif running:
            found.append(_Stretch(_sighted(running[0]).started_ms, said.started_ms, (*running, one)))
            running = []
    if running:
        found.append(_Stretch(_sighted(running[0]).started_ms, None, tuple(running)))
    return found


def _sighted(one: Heard) -> FaultSighted:
    if not isinstance(one.said, FaultSighted):
        raise TypeError(f"{type(one.said).__name__} is no sighting")
    return one.said


def _cut(stretches: Sequence[_Stretch], cuts: Sequence[int]) -> list[_Stretch]:
    """Each stretch ended by the first closing in it; what goes on just where a cut one ended is part of it."""
    found: list[_Stretch] = []
    over: dict[int, int] = {}
    """End of a stretch that a person cut -> where they cut it."""
    for one in stretches:
        at = cuts[place] if (place := bisect_left(cuts, one.start)) < len(cuts) else None
        if one.start in over:
            at = over[one.start]
            found.append(_Stretch(at, at, one.heard))
        elif at is not None and (one.end is None or one.end > at):
            found.append(_Stretch(one.start, at, one.heard))
        else:
            found.append(one)
            continue
        if one.end is not None and not one.anew:
            over[one.end] = at
    return sorted(found, key=lambda one: (one.start, one.end is None, one.end or 0))


def _joined(
    stretches: Sequence[_Stretch], cuts: Sequence[int], gap: int
) -> Iterable[tuple[list[_Stretch], int]]:  # fmt: skip
    """Stretches that are one fault, and the number of the first closing after its start."""
    group: list[_Stretch] = []
    reach: int | None = 0
    cut = 0
    for one in stretches:
        place = bisect_left(cuts, one.start)
        if group and place == cut and (reach is None or one.start <= reach + gap):
            group.append(one)
            reach = None if reach is None or one.end is None else max(reach, one.end)
            continue
        if group:
            yield group, cut
        group, reach, cut = [one], one.end, place
    if group:
        yield group, cut


def _fault(
    lane: Lane, group: Sequence[_Stretch], acks: Sequence[tuple[Heard, FaultAcknowledged]],
    closing: tuple[Heard, FaultClosed] | None,
) -> Fault:  # fmt: skip
    opened, ends = group[0].start, [one.end for one in group]
    closed = None if None in ends else max(end for end in ends if end is not None)
    heard = [one for stretch in group for one in stretch.heard]
    seen = [(one, said) for one, said in acks if opened <= said.at_ms and (closed is None or said.at_ms <= closed)]
    by, closes = closing or (None, None)
    everything = sorted([*heard, *(one for one, _ in seen), *([by] if by else [])])
    return Fault(
        lane, opened, closed, max(map(_last, everything)), len({_name(one) for one in heard} - {None}),
        _first(heard, opened),
        nodes=tuple(sorted({one.said.node for one in heard if one.said.node})),
        units=tuple(sorted({one.said.unit for one in heard if one.said.unit})),
        heard=tuple(everything),
        acknowledged=seen[0][1].at_ms if seen else None, acknowledged_by=seen[0][0].actor if seen else "",
        closed_by=by.actor if by else "", closed_as=closes.closed_as if closes else "",
        closed_note=(closes.note or "") if closes else "",
    )  # fmt: skip


def _first(heard: Sequence[Heard], opened: int) -> Opening:
    """The word that a fault is described by: one of its first instant, the same whatever the order in the log."""
    began = [one for one in heard if _start(one) == opened]
    words = [one.said for one in sorted(began, key=_rank) if isinstance(one.said, FaultSighted | FaultOpened)]
    return words[0]


def _start(one: Heard) -> int:
    said = one.said
    return said.started_ms if isinstance(said, FaultSighted | FaultOpened) else said.at_ms


def _last(one: Heard) -> int:
    said = one.said
    return max(_start(one), said.ended_ms or 0) if isinstance(said, FaultSighted) else _start(one)


def _rank(one: Heard) -> tuple[bool, str, bytes]:
    """Which of several words at one instant comes first: the same whatever their order in the log."""
    said = one.said
    resolved = isinstance(said, FaultSighted) and said.state == "resolved"
    return resolved, one.source, msgspec.json.encode(said)


def _name(one: Heard) -> tuple[str, str, int] | None:
    """What one beginning of a report is known by; None of words that begin none."""
    said = one.said
    if isinstance(said, FaultOpened):
        return one.source, f"{one.actor}/{said.node or said.unit}", said.started_ms
    if not isinstance(said, FaultSighted) or (said.signal == "redfish" and said.state == "resolved"):
        return None
    return one.source, f"{said.signal}/{said.fingerprint}/{said.node or said.unit}", said.started_ms
