"""When a waiting job was looked at, and what kept it then (pure: no clock, no database).

Only the scheduler itself knows why a job waits; the accounting keeps the last word of it at most. A look stands until
the next one says something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from events.derive.sightings import Sighting
from events.types.jobs import JobReported

__all__ = ["Look", "looks"]

_WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})


class Look(NamedTuple):
    """At `at` (epoch seconds) the scheduler gave `reason` ('' is none) and expected the start at `expected`."""

    at: int
    reason: str
    expected: int | None


class _Told(NamedTuple):
    """What one sighting says, -1 where it says nothing."""

    at: int
    reason: str
    expected: int
    submit: int


def looks(sightings: Sequence[Sighting]) -> list[Look]:
    """The looks at one stream's job that say something new, oldest first, whatever order they came in.

    Of two at one moment the one that sorts last counts. One that says the same of a later submission is new: after a
    requeue the job waits anew.
    """
    found = {told.at: told for told in sorted(_told(one.data, one.occurred_us) for one in sightings if _is_look(one))}
    kept: list[Look] = []
    before: _Told | None = None
    for told in found.values():
        if before is None or told[1:] != before[1:]:
            kept.append(Look(told.at, told.reason, None if told.expected < 0 else told.expected))
        before = told
    return kept


def _is_look(one: Sighting) -> bool:
    data = one.data
    return isinstance(data, JobReported) and data.state in _WAITING and one.source.startswith("slurmctld")


def _told(data: object, occurred_us: int) -> _Told:
    assert isinstance(data, JobReported)  # noqa: S101 - _is_look has seen to it
    expected, submit = (-1 if one is None else one for one in (data.start, data.submit))
    return _Told(occurred_us // 1_000_000, data.reason or "", expected, submit)
