"""From attempts to the bars of a timeline: one lane per job, or packed lanes where attempts overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from web import figures, states
from web.timeline import MOST_LANES, Bar, Timeline

__all__ = ["drawable", "timeline"]

_TROUBLE: Final = frozenset({"s-fail", "s-node", "s-limit"})
_AGAIN: Final = frozenset({"s-again", "s-node"})
"""Ends after which a job goes on: said over the bar, where it fits."""
_MOST_BARS: Final = 400


def drawable(attempts: Sequence[Any], total: int) -> bool:
    """Whether attempts can be drawn one by one: all of them are at hand and few run side by side."""
    jobs = {attempt.job for attempt in attempts}
    return total == len(attempts) <= _MOST_BARS and len(jobs) <= MOST_LANES


def timeline(
    attempts: Sequence[Any], segments: Mapping[UUID, Sequence[Any]], names: Mapping[UUID, str], zone: ZoneInfo,
    cut: datetime, description: str, waiting: Sequence[tuple[str, datetime]] = (),
) -> Timeline:  # fmt: skip
    """Bars of attempts and of what they waited. names: of jobs, by key; waiting: name of a job that waits still, and
    since when."""
    several = len({names[attempt.job] for attempt in attempts} | {job for job, _ in waiting}) > 1
    counts = Counter(attempt.job for attempt in attempts)
    bars: list[Bar] = []
    before: dict[UUID, datetime] = {}
    for attempt in attempts:
        lane, last = names[attempt.job] if several else "Attempts", bars[-1].size if bars else ""
        bars += _wait(attempt, lane, before.get(attempt.job))
        parts, counted = segments.get(attempt.id, ()), counts[attempt.job] > 1
        bars += _ran(attempt, parts, lane, names[attempt.job], cut, last, counted)
        before[attempt.job] = attempt.end or cut
    bars += [Bar(job if several else "Attempts", "wait", since, cut, "waits") for job, since in waiting]
    start = min((bar.start for bar in bars), default=cut)
    end = max((bar.end for bar in bars), default=cut)
    room = (end - start) / 60 or timedelta(seconds=30)
    now = cut if any(attempt.end is None for attempt in attempts) or waiting else None
    return Timeline(description, zone, start - room, end + room, bars, now)


def _wait(attempt: Any, lane: str, before: datetime | None) -> list[Bar]:
    """What an attempt waited since it could start, but not before the one before it was over."""
    since = attempt.eligible or attempt.submit
    if since is None:
        return []
    since = max(since, before) if before is not None else since
    text = f"wait of attempt {attempt.number}"
    return [Bar(lane, "wait", since, attempt.start, text)] if since < attempt.start else []


def _ran(
    attempt: Any, segments: Sequence[Any], lane: str, job: str, cut: datetime, last_size: str, counted: bool
) -> list[Bar]:
    """One bar per size; the state is told where it ends, a size where it is another one than before."""
    shown, end = states.of(attempt.state), attempt.end or max(cut, attempt.start)
    text = f"attempt {attempt.number} of job {job}"
    parts = list(segments) or [None]
    found = []
    for number, part in enumerate(parts, 1):
        first, last = (part.start, part.end or end) if part else (attempt.start, end)
        final, size = number == len(parts), _size(part if part else attempt)
        said = [str(attempt.number)] if number == 1 and counted else []
        said += [size] if size != last_size else []
        trouble = final and shown.css in _TROUBLE
        word, how = _ended(attempt, shown) if final else ("resized", [])
        found.append(Bar(lane, "ran", first, last, text, word, " · ".join(said + how), size, trouble))
        last_size = size
    return found


def _ended(attempt: Any, shown: states.Shown) -> tuple[str, list[str]]:
    """The state in the tip, and what is said of it over the bar. Of a suspension sources tell how long, not when."""
    said, word = [], shown.word
    if attempt.suspended_seconds:
        said = [f"{figures.duration(attempt.suspended_seconds)} suspended"]
        word = f"{word}, suspended for {figures.duration(attempt.suspended_seconds)} of it"
    return word, said + ([shown.word] if shown.css in _AGAIN else [])


def _size(part: Any) -> str:
    if part.gpus:
        return f"{figures.thousands(part.gpus)} GPU{'' if part.gpus == 1 else 's'}"
    return f"{figures.thousands(part.cpus)} CPU{'' if part.cpus == 1 else 's'}" if part.cpus else ""
