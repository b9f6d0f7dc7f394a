"""Attempts whose end nobody tells: charged until they were last seen, for as long as they are taken for lost (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from events.derive.corrections import move
from events.derive.outcome import Attempt, cap
from events.derive.sightings import NEAR, Sighting
from events.types.jobs import JobFound, JobLost

__all__ = ["mark_lost"]


def mark_lost(jobs: Sequence[list[Attempt]], said: Sequence[Sighting]) -> None:
    """End the open attempts that were last said to be lost (`said`: job.lost and job.found of the stream).

    An attempt is named by its start; of several words about it the latest one counts, and found must be later
    than lost. An attempt whose end a source tells is not lost, whatever was thought of it before.
    """
    for attempts in jobs:
        for index, attempt in enumerate(attempts):
            if attempt.end is None:
                attempts[index] = _judge(attempt, [one for one in said if _names(one, attempt)])


def _names(one: Sighting, attempt: Attempt) -> bool:
    return isinstance(one.data, JobLost | JobFound) and abs(one.data.start - attempt.start) <= NEAR


def _judge(attempt: Attempt, said: Sequence[Sighting]) -> Attempt:
    if not said:
        return attempt
    position = max(attempt.last_position, *(one.position for one in said))
    last = max(said, key=_turn)
    if not isinstance(last.data, JobLost):
        return replace(attempt, last_position=position)
    end = max(attempt.start, last.data.last_seen)
    return replace(
        attempt,
        end=end,
        segments=move(attempt.segments, attempt.start, end),
        suspended_seconds=cap(attempt.suspended_seconds, attempt.start, end),
        lost=True,
        last_position=position,
    )


def _turn(one: Sighting) -> tuple[int, bool, str, str]:
    return (one.occurred_us, isinstance(one.data, JobLost), one.source, one.source_key)
