"""Sightings of one job stream -> the accounting records they speak of (pure: no clock, no database).

A scheduler opens one accounting record for each submission, requeue and resize of a job id. Several sources
report the same record, at different moments and with different gaps; this module groups their sightings and
merges each group, field by field. All is sorted by content first, so the order of arrival does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from events.types.corrections import RecordCorrected
from events.types.jobs import JobReported

__all__ = ["NEAR", "Record", "Sighting", "near", "read_records"]

NEAR: Final = 2
"""Seconds within which two sources mean the same instant."""
_APART: Final = 5
"""Seconds beyond which two sources disagree."""
_ACCOUNTING: Final = 100
_JOBCOMP: Final = 80
_RANKS: Final = {"jobcomp": _JOBCOMP, "slurmctld": 60, "epilogslurmctld": 40, "hook": 20}
"""How far a source is believed; any other one speaks for the accounting itself (sacct, slurmdbd, a trace)."""
_CLOCKED: Final = 40
"""Sources up to this rank tell the time of a script on a node, not the scheduler's."""
_PENDING, _RUNNING, _ENDED = 0, 1, 2
_PHASES: Final = {
    "PENDING": _PENDING, "REQUEUE_HOLD": _PENDING, "REQUEUE_FED": _PENDING, "RESV_DEL_HOLD": _PENDING,
    "SPECIAL_EXIT": _PENDING, "RUNNING": _RUNNING, "SUSPENDED": _RUNNING, "CONFIGURING": _RUNNING,
    "STOPPED": _RUNNING, "SIGNALING": _RUNNING, "COMPLETING": _RUNNING, "STAGE_OUT": _RUNNING,
}  # fmt: skip
_CLOSING: Final = frozenset({"COMPLETING", "STAGE_OUT"})
_FIELDS: Final = tuple(
    name
    for name in JobReported.__struct_fields__
    if name not in {"cluster", "job_id", "state", "gpus", "gpu_types", "name", "comment"}
)


class Sighting(NamedTuple):
    """One stored event of a job's stream; `occurred_us` is in microseconds since 1970."""

    position: int
    source: str
    source_key: str
    type: str
    occurred_us: int
    data: JobReported | RecordCorrected


class _Told(NamedTuple):
    """A sighting with its ranks; `data` holds only what a source in that phase can know."""

    phase: int
    rank: int
    sighting: Sighting
    data: JobReported


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
        """Whether it continues a resized run: only then is a record submitted after its own start."""
        return _resumed(self.data.submit, self.data.start)


@dataclass(slots=True)
class _Group:
    """Sightings of one record while they are being gathered, and the times that tell it from others."""

    told: list[_Told]
    state: str
    submit: int | None
    start: int | None
    end: int | None

    def add(self, told: _Told) -> None:
        self.told.append(told)
        self.submit = told.data.submit if self.submit is None else self.submit
        self.start = told.data.start if self.start is None else self.start
        self.end = told.data.end if self.end is None else self.end

    def age(self) -> tuple[int, float, int]:
        end = float("inf") if self.end is None else self.end
        return (-1 if self.start is None else self.start, end, -1 if self.submit is None else self.submit)


_ANEW_SECONDS: Final = 86_400


def read_records(sightings: Sequence[Sighting]) -> list[Record]:
    """The accounting records of a stream's reports, in no particular order; corrections are passed over."""
    told = [_tell(one, one.data) for one in sightings if isinstance(one.data, JobReported)]
    if len(told) == 1:
        return [_lone_record(told[0])]
    return [_merge(group) for group in _gather(told)]


def near(one: int | None, other: int | None) -> bool:
    """Whether both instants (epoch seconds) are known and the same, within what sources differ."""
    return one is not None and other is not None and -NEAR <= one - other <= NEAR


def _resumed(submit: int | None, start: int | None) -> bool:
    return submit is not None and start is not None and submit > start


@lru_cache(maxsize=1024)
def _source_rank(source: str) -> int:
    return _RANKS.get(source.partition(":")[0].partition("/")[0], _ACCOUNTING)


def _tell(sighting: Sighting, data: JobReported) -> _Told:
    phase, rank = _PHASES.get(data.state, _ENDED), _source_rank(sighting.source)
    if phase == _ENDED:
        phase, data = _tell_ended(phase, data)
    elif phase == _RUNNING:
        # A scheduler gives a running job the end it expects; only a closing one has really stopped.
        if data.end is not None and data.state not in _CLOSING:
            data = replace(data, end=None)
    elif rank == _JOBCOMP and data.start is not None and data.end is not None:
        # jobcomp calls the record that a requeue closes PENDING, with the times of the closed run.
        phase, data = _ENDED, replace(data, state="REQUEUED")
    else:
        data = _without_plans(data)
    return _Told(phase, rank, sighting, data)


def _tell_ended(phase: int, data: JobReported) -> tuple[int, JobReported]:
    if data.state == "UNKNOWN" and data.end is None:
        return (_PENDING, data) if data.start is None else (_RUNNING, data)
    allocated = data.nodes or data.cpus or data.gpus or data.node_list
    if data.state == "CANCELLED" and data.start == data.end and not allocated:
        return phase, replace(data, start=None)  # jobcomp's way of saying that it never started
    return phase, data


def _without_plans(data: JobReported) -> JobReported:
    """A waiting job without its expected start and the sizes that it only asks for."""
    plans = (data.start, data.end, data.nodes, data.cpus, data.gpus, data.node_list)
    if plans == (None, None, None, None, None, None) and not data.gpu_types:
        return data
    return replace(data, start=None, end=None, nodes=None, cpus=None, gpus=None, gpu_types=(), node_list=None)


def _gather(told: Iterable[_Told]) -> list[list[_Told]]:
    """Group sightings by record: by native number where there is one, the others by their times."""
    numbered: dict[int, list[list[_Told]]] = {}
    loose: list[_Told] = []
    for one in told:
        if one.data.record:  # 0 is what Slurm shows before the database has answered
            _number(one, numbered.setdefault(one.data.record, []))
        else:
            loose.append(one)
    by_number = [members for lives in numbered.values() for members in lives]
    if not loose:
        return by_number
    groups = [_open_group(members) for members in by_number]
    for one in sorted(loose, key=_most_telling_first):
        group = _find_group(one, groups)
        if group is None:
            groups.append(_open_group([one]))
        else:
            group.add(one)
    return [group.told for group in groups]


def _number(one: _Told, lives: list[list[_Told]]) -> None:
    """Put a numbered sighting to its record. Numbers start at 1 again when the accounting's database is made anew:
    submissions more than a day apart are two records."""
    submit = one.data.submit
    for members in lives:
        other = next((told.data.submit for told in members if told.data.submit is not None), None)
        if submit is None or other is None or abs(submit - other) <= _ANEW_SECONDS:
            members.append(one)
            return
    lives.append([one])


def _most_telling_first(told: _Told) -> tuple[bool, int, int, int, str, str]:
    timeless = told.data.start is None and told.data.submit is None
    sighting = told.sighting
    return (
        timeless, -told.rank, -told.phase, sighting.occurred_us, sighting.source, sighting.source_key
    )  # fmt: skip


def _open_group(told: list[_Told]) -> _Group:
    told = _best_first(told)
    data = _merge_data(told)
    return _Group(told, data.state, data.submit, data.start, data.end)


def _find_group(told: _Told, groups: list[_Group]) -> _Group | None:
    """The group a sighting without a number belongs to: of several the one with its end, else the latest."""
    data = told.data
    if data.start is None and data.submit is None:
        return _find_by_instant(told, groups)
    found = [group for group in groups if _is_same(told, group)]
    return max(found, key=lambda group: (near(group.end, data.end), group.age()), default=None)


def _find_by_instant(told: _Told, groups: list[_Group]) -> _Group | None:
    """For a sighting that names no run (an epilog): the run that had begun last when it happened."""
    end = told.data.end
    instant = told.sighting.occurred_us // 1_000_000 if end is None else end
    begun = [group for group in groups if group.start is None or group.start <= instant + NEAR]
    return max(begun, key=_Group.age, default=None)


def _is_same(told: _Told, group: _Group) -> bool:
    data = told.data
    other_submit = None not in (data.submit, group.submit) and data.submit != group.submit
    # After a resize only the accounting shows the resize as a new submission, the others keep the first one.
    resumed = told.rank < _ACCOUNTING and _resumed(group.submit, group.start)
    if other_submit and not resumed:
        return False
    if "RESIZING" in (data.state, group.state) and None not in (data.end, group.end):
        return near(data.end, group.end)
    if data.start is None or group.start is None:
        return data.submit is not None and data.submit == group.submit
    # jobcomp starts what follows a resize at the resize.
    if near(data.start, group.start) or (resumed and near(data.start, group.submit)):
        return True
    # Slurm's own key is cluster, job id and submission: a start that moved is a correction, not another run.
    same = data.submit is not None and data.submit == group.submit
    if same and (near(data.end, group.end) or _meets(data.start, data.end, group)):
        return True
    return told.rank <= _CLOCKED and not other_submit and _overlaps(told, group)


def _meets(start: int, end: int | None, group: _Group) -> bool:
    """Whether two runs share a moment; one without an end goes on."""
    return (group.end is None or start < group.end) and (end is None or group.start is None or end > group.start)


def _overlaps(told: _Told, group: _Group) -> bool:
    """Whether it tells of a moment of the group's run: one job id runs only once at a time."""
    start, began = told.data.start, group.start
    if start is None or began is None or (group.end is not None and start >= group.end):
        return False
    return start >= began or (told.data.end is not None and told.data.end > began)


def _best_first(told: list[_Told]) -> list[_Told]:
    """Ended before running before waiting, then by source; of one source's final reports the last position.

    Equal sources are ordered by their newest final report as a whole, or the order would not be transitive.
    """
    if len(told) == 1:
        return told
    newest: dict[str, int] = {}
    for one in told:
        if one.phase == _ENDED:
            seen = one.sighting
            newest[seen.source] = max(seen.occurred_us, newest.get(seen.source, seen.occurred_us))

    def goodness(one: _Told) -> tuple[int, int, int, str, int, str, int]:
        position, source, key, _, occurred_us, _ = one.sighting
        if one.phase == _ENDED:
            return (_ENDED, one.rank, newest[source], source, position, key, position)
        return (one.phase, one.rank, occurred_us, source, 0, key, position)

    return sorted(told, key=goodness, reverse=True)


def _merge(told: list[_Told]) -> Record:
    if len(told) == 1:
        return _lone_record(told[0])
    told = _best_first(told)
    best = told[0]
    data = _merge_data(told)
    positions = [one.sighting.position for one in told]
    return Record(
        data=_with_end(best, data),
        ended=best.phase == _ENDED,
        confirmed=bool(data.record) or any(one.rank >= _ACCOUNTING for one in told),
        disagree=_disagree(told, data),
        sources=tuple(sorted({one.sighting.source for one in told})),
        first_position=min(positions),
        last_position=max(positions),
    )


def _lone_record(told: _Told) -> Record:
    phase, rank, sighting, data = told
    confirmed = rank >= _ACCOUNTING or bool(data.record)
    position = sighting.position
    return Record(
        _with_end(told, data), phase == _ENDED, confirmed, False, (sighting.source,), position, position
    )  # fmt: skip


def _with_end(best: _Told, data: JobReported) -> JobReported:
    """A run that every source calls over without saying when ended at the moment of its best report."""
    if data.end is None and best.phase == _ENDED and data.start is not None:
        return replace(data, end=max(data.start, best.sighting.occurred_us // 1_000_000))
    return data


def _merge_data(told: list[_Told]) -> JobReported:
    """Field by field the first of `told` (best first) that has it."""
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


def _known_state(told: list[_Told]) -> str:
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


def _merge_texts(told: list[_Told], changes: dict[str, Any]) -> None:
    """Name and comment from the first that has them, the accounting last: its database mangles them."""
    outside = [one.data for one in told if one.rank < _ACCOUNTING]
    every = [*outside, *(one.data for one in told if one.rank >= _ACCOUNTING)]
    changes["name"] = next((one.name for one in every if one.name is not None), None)
    changes["comment"] = next((one.comment for one in every if one.comment is not None), None)


def _disagree(told: list[_Told], merged: JobReported) -> bool:
    """Whether two sources' final reports are more than 5 s apart; each source by its best one.

    Around a resize only ends are compared: there jobcomp gives the resize as the start.
    """
    finals: dict[str, JobReported] = {}
    for one in told:
        if one.phase == _ENDED:
            finals.setdefault(one.sighting.source, one.data)
    if len(finals) < 2:
        return False
    resized = merged.state == "RESIZING" or _resumed(merged.submit, merged.start)
    starts = [] if resized else [one.start for one in finals.values() if one.start is not None]
    ends = [one.end for one in finals.values() if one.end is not None]
    return any(max(times, default=0) - min(times, default=0) > _APART for times in (starts, ends))
