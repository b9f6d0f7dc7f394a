"""Searching the log and proving a place in it. Scope (what the caller may see) is a required argument.

The log has two indexes: position, and stream. A search by anything else reads the log in windows of positions,
newest first, until a page is full or its time is up; then it says how far it has read. So a page of a rare thing
in a long log costs no more than a page of a common one, and no index slows the writer.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import Q

from events.access import Scope
from events.models import Event, Person
from events.queries import events, head_position
from events.types import PERSON, REGISTRY

__all__ = ["Brought", "Found", "Rhythm", "Voice", "Wanted", "brought_by", "event_at", "names_any", "neighbours",
           "of_stream", "open_rejections", "people_like", "position_at", "rhythms", "search", "voices"]  # fmt: skip

WINDOW: Final = 50_000
"""Positions read at a time: a few tens of milliseconds."""
BUDGET_SECONDS: Final = 0.4
"""After this long a search that has not filled its page answers with what it has."""
NARROW: Final = 2_000
"""A stream prefix with at most this many events is read by the index of streams."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search asks for; what is empty or None does not narrow it. Times: [from, to). Positions: both ends in.

    stream: beginning of a stream's name. people: surrogate ids that the event's data names.
    """

    types: tuple[str, ...] = ()
    stream: str = ""
    source: str = ""
    actor: str = ""
    delivery: uuid.UUID | None = None
    first: int | None = None
    last: int | None = None
    occurred_from: datetime | None = None
    occurred_to: datetime | None = None
    people: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A page of events, newest first. read_from, read_to: the positions that were searched for it.

    older: where the search goes on (before this position), None at its end. newer: the same towards the head.
    """

    rows: Sequence[Event]
    read_from: int
    read_to: int
    older: int | None
    newer: int | None


class Neighbours(NamedTuple):
    """Positions beside one in its stream; None at the ends."""

    before: int | None
    after: int | None


@dataclass(slots=True)
class _Page:
    """A page being filled, in the direction of reading."""

    limit: int
    rows: list[Event] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """One more than the page holds was found, so that there is a next one."""
        return len(self.rows) > self.limit


def search(
    scope: Scope, wanted: Wanted, *, before: int | None = None, after: int | None = None, limit: int = 50,
    budget: float = BUDGET_SECONDS,
) -> Found:  # fmt: skip
    """One page: the newest events before a position, or the oldest ones after it, that are wanted.

    budget: seconds after which it stops reading further windows. Nothing for a caller without fleet-wide scope.
    """
    low, high = max(wanted.first or 1, 1), min(wanted.last or 2**62, head_position())
    if not scope.fleetwide or low > high:
        return Found((), low, high, None, None)
    upwards = after is not None
    start = max(low, after + 1) if after is not None else low
    stop = min(high, before - 1) if before is not None else high
    page = _Page(limit)
    until = time.monotonic() + budget
    for first, last in _windows(wanted, start, stop, upwards=upwards):
        page.rows += _matches(wanted, first, last, upwards=upwards, most=limit + 1 - len(page.rows))
        page.read += (first, last)
        if page.full or time.monotonic() > until:
            break
    return _found(page, low, high, start, stop, upwards=upwards)


def _windows(wanted: Wanted, start: int, stop: int, *, upwards: bool) -> Iterator[tuple[int, int]]:
    """[first, last] of each stretch to read, in the direction of reading."""
    if start > stop:
        return
    if wanted.stream and _few(wanted.stream):
        yield start, stop
        return
    edges = range(start, stop + 1, WINDOW) if upwards else range(stop, start - 1, -WINDOW)
    for edge in edges:
        yield (edge, min(edge + WINDOW - 1, stop)) if upwards else (max(edge - WINDOW + 1, start), edge)


def _found(page: _Page, low: int, high: int, start: int, stop: int, *, upwards: bool) -> Found:
    rows = page.rows[: page.limit]
    if upwards:
        rows.reverse()
    read_from, read_to = (min(page.read), max(page.read)) if page.read else (start, stop)
    if page.full and rows:
        read_from, read_to = (read_from, rows[0].position) if upwards else (rows[-1].position, read_to)
    older = read_from if read_from > low else None
    newer = read_to if read_to < high else None
    return Found(rows, read_from, read_to, older, newer)


def _few(prefix: str) -> bool:
    """Whether few events have a stream that begins so."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(*) FROM (SELECT FROM events_event WHERE shard = %s AND stream >= %s AND stream < %s
               LIMIT %s) AS narrow""",
            [settings.SHARD, prefix, _past(prefix), NARROW + 1],
        )
        return bool(cursor.fetchone()[0] <= NARROW)


def _past(prefix: str) -> str:
    """The least text after all that begin with the prefix, byte by byte as collation C has it."""
    return prefix + "\U0010ffff"


def _matches(wanted: Wanted, first: int, last: int, *, upwards: bool, most: int) -> list[Event]:
    rows = Event.objects.filter(shard=settings.SHARD, position__gte=first, position__lte=last)
    rows = rows.filter(**_plain(wanted))
    if wanted.people is not None:
        rows = rows.filter(names_any(wanted.people))
    return list(rows.order_by("position" if upwards else "-position")[:most])


def names_any(people: Iterable[str]) -> Q:
    """Condition: the data of an event names one of these persons (surrogate ids) in any field that holds persons."""
    fields = {name for kind in REGISTRY for name, mark in kind.markers.items() if mark is PERSON}
    return reduce(or_, [Q(**{f"data__{name}__in": sorted(people)}) for name in sorted(fields)])


def _plain(wanted: Wanted) -> dict[str, Any]:
    """Conditions on columns."""
    given = {
        "type__in": wanted.types, "source": wanted.source, "actor": wanted.actor, "delivery": wanted.delivery,
        "occurred_at__gte": wanted.occurred_from, "occurred_at__lt": wanted.occurred_to, "stream__gte": wanted.stream,
        "stream__lt": _past(wanted.stream) if wanted.stream else "",
    }  # fmt: skip
    return {name: value for name, value in given.items() if value}


def event_at(scope: Scope, position: int) -> Event | None:
    """The event at a position; None when there is none or the caller may not see the raw log."""
    return events(scope).filter(position=position).first() if position < 2**63 else None


def neighbours(event: Event) -> Neighbours:
    """The events of the same stream that were recorded just before and just after."""
    rows = Event.objects.filter(shard=event.shard, stream=event.stream).values_list("position", flat=True)
    before = rows.filter(position__lt=event.position).order_by("-position").first()
    after = rows.filter(position__gt=event.position).order_by("position").first()
    return Neighbours(before, after)


def of_stream(stream: str, *, upto: int | None = None, most: int = 5_000) -> list[Event]:
    """The first `most` events of one stream in order of position, as far as position `upto`.

    No scope: whoever asks must have decided already that its caller may see this stream.
    """
    rows = Event.objects.filter(shard=settings.SHARD, stream=stream)
    if upto is not None:
        rows = rows.filter(position__lte=upto)
    return list(rows.order_by("position")[:most])


class Brought(NamedTuple):
    """Events of one delivery, and the position up to which they were looked for; None: to the end of the log."""

    events: Sequence[Event]
    read_to: int | None


def brought_by(scope: Scope, delivery: uuid.UUID, received_at: datetime, *, most: int = 1_000) -> Brought:
    """The events that a delivery brought. They were recorded after its receipt, and all in one append.

    Looks from the first position recorded after the receipt on, until they are found or the time is up.
    """
    wanted = Wanted(delivery=delivery, first=position_at(received_at) + 1)
    found = search(scope, wanted, after=0, limit=most)
    rows = sorted(found.rows, key=lambda row: row.position)
    return Brought(rows, None if rows or found.newer is None else found.read_to)


def position_at(instant: datetime) -> int:
    """The last position recorded before an instant; 0 when none was. Clocks that stepped back blur it.

    Time of recording grows with position, so it is found by halving: some twenty look-ups by key.
    """
    low, high = 0, head_position()
    rows = Event.objects.filter(shard=settings.SHARD)
    while low < high:
        middle = (low + high + 1) // 2
        recorded = rows.filter(position=middle).values_list("recorded_at", flat=True).first()
        if recorded is not None and recorded < instant:
            low = middle
        else:
            high = middle - 1
    return low


def people_like(text: str, most: int) -> dict[str, str]:
    """Surrogate id -> name of persons whose name begins so, the exact one first. No scope: names alone say nothing."""
    rows = Person.objects.filter(shard=settings.SHARD, name__gte=text, name__lt=_past(text), name__startswith=text)
    found = dict(rows.order_by("name").values_list("id", "name")[:most])
    found |= dict(Person.objects.filter(shard=settings.SHARD, name=text).values_list("id", "name"))
    return {id_: str(name) for id_, name in sorted(found.items(), key=lambda pair: (pair[1] != text, pair[1] or ""))}


class Rhythm(NamedTuple):
    """How a source has delivered of late: how often, and the mean seconds between two (None below three)."""

    deliveries: int
    gap_seconds: float | None


def rhythms(scope: Scope, *, most: int = 20_000) -> dict[tuple[str, str], Rhythm]:
    """(source, kind) -> its rhythm among the newest `most` deliveries of all; read by the key of time."""
    if not scope.fleetwide:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT source, kind, count(*), extract(epoch FROM max(received_at) - min(received_at))
               FROM (SELECT source, kind, received_at FROM events_delivery WHERE shard = %s
                     ORDER BY received_at DESC LIMIT %s) AS latest GROUP BY 1, 2""",
            [settings.SHARD, most],
        )
        return {
            (str(source), str(kind)): Rhythm(int(n), float(span) / (n - 1) if n > 2 else None)
            for source, kind, n, span in cursor.fetchall()
        }


class Voice(NamedTuple):
    """A source among the latest events: how many of them it said, and when the last was recorded."""

    source: str
    events: int
    last_recorded: datetime


def voices(scope: Scope, *, most: int = 20_000) -> list[Voice]:
    """Who said the newest `most` events, the latest voice first: also imports, which deliver nothing."""
    if not scope.fleetwide:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT source, count(*), max(recorded_at) FROM events_event
               WHERE shard = %s AND position > %s GROUP BY 1 ORDER BY 3 DESC, 1""",
            [settings.SHARD, head_position() - most],
        )
        return [Voice(str(source), int(n), last) for source, n, last in cursor.fetchall()]


def open_rejections(scope: Scope) -> dict[str, int]:
    """Source -> how many of its rejections are open. Cost: those that are."""
    if not scope.fleetwide:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT source, count(*) FROM events_rejection WHERE shard = %s AND state = 'open' GROUP BY 1",
            [settings.SHARD],
        )
        return {str(source): int(n) for source, n in cursor.fetchall()}
