"""All that is told of one accounting record -> what holds of it, field by field (pure: no clock, no database)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from events.derive.indices import count_gpus, merge_indices
from events.derive.sightings import ACCOUNTING, CLOCKED, ENDED, Told, is_resumed
from events.types.jobs import JobReported

__all__ = ["Record", "best_first", "merge", "merge_data"]

_APART: Final = 5
"""Seconds beyond which two sources disagree."""
_FIELDS: Final = tuple(
    name
    for name in JobReported.__struct_fields__
    if name not in {"cluster", "job_id", "state", "gpus", "gpu_types", "gpu_indices", "name", "comment", "run"}
)


@dataclass(slots=True)
class Record:
    """One accounting record: what its sources say together, the best of them first."""

    data: JobReported
    ended: bool
    confirmed: bool
    disagree: bool
    sources: tuple[str, ...]
    first_position: int
    last_position: int

    @property
    def resumed(self) -> bool:
        """Whether it continues a resized run."""
        return is_resumed(self.data.submit, self.data.start)


def best_first(told: list[Told]) -> list[Told]:
    """Ended before running before waiting, then by source; of one source's final reports the last position.

    Equal sources are ordered by their newest final report as a whole, or the order would not be transitive.
    Scripts report each moment once, so of theirs the later one counts, not the one that arrived later.
    """
    if len(told) == 1:
        return told
    newest: dict[str, int] = {}
    for one in told:
        if one.phase == ENDED:
            seen = one.sighting
            newest[seen.source] = max(seen.occurred_us, newest.get(seen.source, seen.occurred_us))

    def goodness(one: Told) -> tuple[int, int, int, str, int, str, int]:
        position, source, key, _, occurred_us, _ = one.sighting
        if one.phase == ENDED:
            turn = occurred_us if one.rank <= CLOCKED else position
            return (ENDED, one.rank, newest[source], source, turn, key, position)
        return (one.phase, one.rank, occurred_us, source, 0, key, position)

    return sorted(told, key=goodness, reverse=True)


def merge(told: list[Told]) -> Record:
    """The record that these sightings speak of; at least one is given."""
    if len(told) == 1 and told[0].rank > CLOCKED:
        return _lone_record(told[0])
    told = best_first(told)
    best = told[0]
    data = _with_end(best, _with_scripts(told, merge_data(told)))
    positions = [one.sighting.position for one in told]
    return Record(
        data=data,
        ended=best.phase == ENDED or (data.state == "UNKNOWN" and data.end is not None),
        confirmed=bool(data.record) or any(one.rank >= ACCOUNTING for one in told),
        disagree=_disagree(told, data),
        sources=tuple(sorted({one.sighting.source for one in told})),
        first_position=min(positions),
        last_position=max(positions),
    )


def _lone_record(told: Told) -> Record:
    phase, rank, sighting, data, _ = told
    confirmed = rank >= ACCOUNTING or bool(data.record)
    position = sighting.position
    return Record(
        _with_end(told, data), phase == ENDED, confirmed, False, (sighting.source,), position, position
    )  # fmt: skip


def _with_end(best: Told, data: JobReported) -> JobReported:
    """A run that every source calls over without saying when ended at the moment of its best report."""
    if data.end is None and best.phase == ENDED and data.start is not None:
        return replace(data, end=max(data.start, best.sighting.occurred_us // 1_000_000))
    return data


def _with_scripts(told: list[Told], data: JobReported) -> JobReported:
    """The record with what scripts on the nodes add to it: start and end where no scheduler tells, and GPUs."""
    changes: dict[str, Any] = {}
    if any(one.rank <= CLOCKED for one in told):
        changes["start"] = _find_start(told)
        freed = _find_release(told) if data.end is None and told[0].phase != ENDED else None
        if freed is not None and changes["start"] is not None:
            changes |= {"end": max(freed, changes["start"]), "state": "UNKNOWN"}
    if any(one.data.gpu_indices for one in told):
        changes["gpu_indices"] = merge_indices(told)
        if data.gpus is None:
            changes["gpus"] = count_gpus(changes["gpu_indices"], _find_size(told))
    return replace(data, **changes) if changes else data


def _find_start(told: list[Told]) -> int | None:
    """The scheduler's start by its best source; else of several scripts the first, as each begins after the run."""
    known = next((one.data.start for one in told if one.rank > CLOCKED and one.data.start is not None), None)
    if known is not None:
        return known
    return min((one.data.start for one in told if one.data.start is not None), default=None)


def _find_release(told: list[Told]) -> int | None:
    """When the last node of a run became free; None until the epilog of each of its nodes is known.

    (A resize frees a node too, while the run goes on.)
    """
    freed = {one.freed: one.sighting.occurred_us // 1_000_000 for one in told if one.freed is not None}
    size = _find_size(told)
    return max(freed.values()) if size and len(freed) >= size else None


def _find_size(told: list[Told]) -> int:
    return max((one.data.nodes or 0 for one in told), default=0)


def merge_data(told: list[Told]) -> JobReported:
    """Field by field the first of `told` (best first) that has it; GPUs of nodes are put together elsewhere."""
    best, *others = (one.data for one in told)
    if not others:
        return best
    changes: dict[str, Any] = {}
    for name in _FIELDS:
        if getattr(best, name) is None:
            for other in others:
                value = getattr(other, name)
                if value is not None:
                    changes[name] = value
                    break
    if best.state == "UNKNOWN":
        changes["state"] = _known_state(told)
    if best.gpus is None or not best.gpu_types:
        changes["gpus"], changes["gpu_types"] = _merge_gpus(best, others)
    _merge_texts(told, changes)
    return replace(best, **changes)


def _known_state(told: list[Told]) -> str:
    same = (one.data.state for one in told if one.phase == told[0].phase)
    return next((state for state in same if state != "UNKNOWN"), "UNKNOWN")


def _merge_gpus(best: JobReported, others: list[JobReported]) -> tuple[int | None, tuple[str, ...]]:
    """The best count, with the types that come with it or with the same count."""
    every = [best, *others]
    leader = next((one for one in every if one.gpus is not None), None)
    if leader is None:
        return None, next((one.gpu_types for one in every if one.gpu_types), ())
    if leader.gpu_types:
        return leader.gpus, leader.gpu_types
    same = (one.gpu_types for one in every if one.gpu_types and one.gpus == leader.gpus)
    return leader.gpus, next(same, ())


def _merge_texts(told: list[Told], changes: dict[str, Any]) -> None:
    """Name, comment and run name from the first that has them, the accounting last: its database mangles them."""
    outside = [one.data for one in told if one.rank < ACCOUNTING]
    every = [*outside, *(one.data for one in told if one.rank >= ACCOUNTING)]
    changes["name"] = next((one.name for one in every if one.name is not None), None)
    changes["comment"] = next((one.comment for one in every if one.comment is not None), None)
    changes["run"] = next((one.run for one in every if one.run is not None), None)


def _disagree(told: list[Told], merged: JobReported) -> bool:
    """Whether two sources' final reports are more than 5 s apart; each source by its best one.

    Around a resize only ends are compared: there jobcomp gives the resize as the start.
    """
    finals: dict[str, JobReported] = {}
    for one in told:
        if one.phase == ENDED:
            finals.setdefault(one.sighting.source, one.data)
    if len(finals) < 2:
        return False
    resized = merged.state == "RESIZING" or is_resumed(merged.submit, merged.start)
    starts = [] if resized else [one.start for one in finals.values() if one.start is not None]
    ends = [one.end for one in finals.values() if one.end is not None]
    return any(max(times, default=0) - min(times, default=0) > _APART for times in (starts, ends))
