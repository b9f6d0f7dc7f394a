"""The life of one job id: its sightings in order, and what they say together. Scope is a required argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from events.access import Scope
from events.derive.attempts import Attempt, Job, Sighting, fold
from events.derive.records import NEAR
from events.queries_log import of_stream
from events.types import REGISTRY
from events.types.jobs import JobReported
from jobs.models import Job as JobRow
from jobs.projections import JOB_TYPES
from jobs.queries import jobs

__all__ = ["Life", "Spoken", "life"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WAITING: Final = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
MOST: Final = 5_000
"""Sightings of one id that are read: over that a stream is a mistake of its source."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Which job of the id (counted from 1) and which attempt of it a sighting speaks of; attempt 0: none, it waits."""

    seq: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Life:
    """Everything that was said about one job id. events: rows of the log; spoken: of each, None when of nothing.

    jobs: the fold of these events; rows: the read models of its jobs by seq, those in scope.
    cut: there are more events than MOST, and only the first were read.
    """

    events: Sequence[Any]
    spoken: Sequence[Spoken | None]
    jobs: Sequence[Job]
    rows: dict[int, JobRow]
    cut: bool


def life(scope: Scope, stream: str, *, upto: int | None = None) -> Life | None:
    """The life of the job id of a stream `job/CLUSTER/ID`, as known at position `upto`; None without a right to it.

    A caller without the raw log may read it when every job that ever had this id lies in its projects.
    """
    rows = {row.seq: row for row in jobs(scope).filter(stream=stream)}
    if not scope.fleetwide and (not rows or JobRow.objects.filter(stream=stream).count() != len(rows)):
        return None
    events = of_stream(stream, upto=upto, most=MOST + 1)
    if not events:
        return None
    cut, events = len(events) > MOST, events[:MOST]
    sightings = [_sighting(row) for row in events if row.type in JOB_TYPES]
    folded = fold(sightings)
    told = {one.position: _spoken(one, folded) for one in sightings}
    return Life(events, [told.get(row.position) for row in events], folded, rows, cut)


def _sighting(row: Any) -> Sighting:
    data: Any = REGISTRY.load(row.type, row.version, msgspec.json.encode(row.data))
    occurred_us = (row.occurred_at - _EPOCH) // timedelta(microseconds=1)
    return Sighting(row.position, row.source, row.source_key, row.type, occurred_us, data)


def _spoken(one: Sighting, folded: Sequence[Job]) -> Spoken | None:
    """The attempt that began when the sighting says, or else was running at the moment it speaks of."""
    start = getattr(one.data, "start", None)
    instant = one.occurred_us // 1_000_000 if start is None else start
    attempts = [(job.seq, attempt) for job in folded for attempt in job.attempts]
    begun = [(abs(edge - instant), seq, attempt.number) for seq, attempt in attempts for edge in _edges(attempt)]
    if start is not None and begun and min(begun)[0] <= NEAR:
        _, seq, number = min(begun)
        return Spoken(seq, number)
    if not _waits(one):
        for seq, attempt in attempts:
            if attempt.start - NEAR <= instant and (attempt.end is None or instant <= attempt.end + NEAR):
                return Spoken(seq, attempt.number)
    return _waiting(one, folded)


def _edges(attempt: Attempt) -> list[int]:
    return [segment.start for segment in attempt.segments]


def _waits(one: Sighting) -> bool:
    data = one.data
    plan = isinstance(data, JobReported) and data.end is None and data.state in _WAITING
    return plan or (isinstance(data, JobReported) and data.start is None and data.end is None)


def _waiting(one: Sighting, folded: Sequence[Job]) -> Spoken | None:
    """The last job that was submitted before the sighting: it waits, or was never started."""
    instant = getattr(one.data, "submit", None)
    instant = one.occurred_us // 1_000_000 if instant is None else instant
    before = [job.seq for job in folded if job.submit is None or job.submit <= instant + NEAR]
    return Spoken(max(before), 0) if before else None
