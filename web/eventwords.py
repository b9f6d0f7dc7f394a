"""Events as rows of a page: place, times, lag, links and the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.urls import reverse

from events import queries as log
from web import figures
from web.sentences import Speaker, marked

__all__ = ["EventRow", "lag_text", "rows_of", "speaker_for", "stream_href", "when"]


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event in a list. late: it was recorded over an hour after it happened."""

    position: int
    text: str
    href: str
    occurred: str
    iso: str
    lag: str
    late: bool
    type: str
    stream: str
    stream_href: str
    source: str
    says: str


def speaker_for(zone: ZoneInfo, events: Iterable[Any], now: datetime | None = None) -> Speaker:
    """A speaker who knows the names of all persons and free texts of these events: two queries.

    now: its year is left out of sentences.
    """
    people: set[str] = set()
    texts: set[str] = set()
    for event in events:
        persons, free = marked(event.type, event.version)
        people |= {event.data[name] for name in persons if event.data.get(name)}
        texts |= {event.data[name] for name in free if event.data.get(name)}
    erased = {id_: body or "(erased)" for id_, body in log.texts(texts).items()} if texts else {}
    year = now.astimezone(zone).year if now else 0
    return Speaker(zone, {**(log.people(people) if people else {}), **erased}, year)


def rows_of(events: Sequence[Any], zone: ZoneInfo, now: datetime) -> list[EventRow]:
    """Rows in the order given; the year is left out within the present one."""
    speaker = speaker_for(zone, events, now)
    return [_row(event, speaker, now) for event in events]


def _row(event: Any, speaker: Speaker, now: datetime) -> EventRow:
    lag = event.recorded_at - event.occurred_at
    return EventRow(
        event.position, figures.thousands(event.position), reverse("event", args=[event.position]),
        when(event.occurred_at, speaker.zone, now), event.occurred_at.isoformat(), lag_text(lag),
        lag > timedelta(hours=1), event.type, event.stream, stream_href(event.stream), event.source,
        speaker.sentence(event.type, event.data),
    )  # fmt: skip


def stream_href(stream: str) -> str:
    """Address of the page of one stream."""
    return reverse("stream", args=[stream])


def when(instant: datetime, zone: ZoneInfo, now: datetime) -> str:
    """An instant in a zone: '18 Oct 19:12:04', with its year when that is not the present one."""
    local = instant.astimezone(zone)
    return f"{figures.day(local.date(), year=local.year != now.astimezone(zone).year)} {local:%H:%M:%S}"


def lag_text(lag: timedelta) -> str:
    """How long after it happened something was recorded: '0.3' seconds, from an hour on '36 h 33 min', '3 d 8 h'."""
    seconds = lag.total_seconds()
    if abs(seconds) < 3600:
        return f"{seconds:.1f}".replace("-", figures.MINUS)
    if seconds < 2 * 86_400:
        return figures.duration(int(seconds))
    return f"{figures.thousands(int(seconds) // 86_400)} d {int(seconds) % 86_400 // 3600} h"
