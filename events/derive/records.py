"""Sightings of one job stream -> the accounting records they speak of (pure: no clock, no database).

A scheduler opens one accounting record for each submission, requeue and resize of a job id. Several sources
report the same record, at different moments and with different gaps; this module groups their sightings, and
`merging.py` makes one record of each group. All is sorted by content first, so the order of arrival does not
matter.

Sightings belong together by the native number of the record; else by the restart count, where both tell one
(a requeue adds one to it, a resize does not); else by their times. What fits nothing is a record of its own,
which no accounting confirms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from events.derive.merging import Record, best_first, merge, merge_data
from events.derive.sightings import ACCOUNTING, CLOCKED, ENDED, NEAR, SLURMCTLD, Sighting, Told, is_resumed, near, tell
from events.types.jobs import JobReported

__all__ = ["NEAR", "Record", "Sighting", "near", "read_records"]

_ANEW_SECONDS: Final = 86_400
"""Two runs further apart than this are told apart whatever their numbers say: numbers start anew at times."""


@dataclass(slots=True)
class _Group:
    """Sightings of one record while they are being gathered, and what tells it from others."""

    told: list[Told]
    state: str
    submit: int | None
    start: int | None
    end: int | None
    restarts: int | None

    def add(self, told: Told) -> None:
        self.told.append(told)
        self.submit = told.data.submit if self.submit is None else self.submit
        self.start = told.data.start if self.start is None else self.start
        self.end = told.data.end if self.end is None else self.end
        self.restarts = told.data.restarts if self.restarts is None else self.restarts

    def age(self) -> tuple[int, float, int]:
        end = float("inf") if self.end is None else self.end
        return (-1 if self.start is None else self.start, end, -1 if self.submit is None else self.submit)


def read_records(sightings: Sequence[Sighting]) -> list[Record]:
    """The accounting records of a stream's reports, in no particular order; other events are passed over."""
    told = [tell(one, one.data) for one in sightings if isinstance(one.data, JobReported)]
    if len(told) == 1:
        return [merge(told)]
    return [merge(group) for group in _gather(told)]


def _gather(told: Iterable[Told]) -> list[list[Told]]:
    """_Group sightings by record: by native number where there is one, the others by their times."""
    numbered: dict[int, list[list[Told]]] = {}
    loose: list[Told] = []
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


def _number(one: Told, lives: list[list[Told]]) -> None:
    """Put a numbered sighting to its record. Numbers start at 1 again when the accounting's database is made anew:
    submissions more than a day apart are two records."""
    submit = one.data.submit
    for members in lives:
        other = next((told.data.submit for told in members if told.data.submit is not None), None)
        if submit is None or other is None or abs(submit - other) <= _ANEW_SECONDS:
            members.append(one)
            return
    lives.append([one])


def _most_telling_first(told: Told) -> tuple[bool, int, int, int, str, str]:
    timeless = told.data.start is None and told.data.submit is None
    sighting = told.sighting
    return (
        timeless, -told.rank, -told.phase, sighting.occurred_us, sighting.source, sighting.source_key
    )  # fmt: skip


def _open_group(told: list[Told]) -> _Group:
    told = best_first(told)
    data = merge_data(told)
    return _Group(told, data.state, data.submit, data.start, data.end, data.restarts)


def _find_group(told: Told, groups: list[_Group]) -> _Group | None:
    """The group a sighting without a number belongs to: of several the one with its count, end or start, else the
    latest."""
    data = told.data
    if data.start is None and data.submit is None:
        return _find_by_instant(told, groups)
    found = [group for group in groups if _is_same(told, group)]
    if len(found) < 2:
        return found[0] if found else None

    def fitness(group: _Group) -> tuple[bool, bool, bool, tuple[int, float, int]]:
        counted = data.restarts is not None and data.restarts == group.restarts
        return (counted, near(group.end, data.end), near(group.start, data.start), group.age())

    return max(found, key=fitness)


def _find_by_instant(told: Told, groups: list[_Group]) -> _Group | None:
    """For a sighting that names no run (an epilog): the run that ended then, else the one that had begun last.

    Clocks of nodes differ, so a run that began within 2 s afterwards is taken if there is no other.
    """
    instant = told.instant
    begun = [
        group for group in groups
        if (group.start is None or group.start <= instant + NEAR) and not _counts_differ(told, group)
    ]  # fmt: skip

    def fitness(group: _Group) -> tuple[bool, bool, tuple[int, float, int]]:
        return (near(group.end, instant), group.start is not None and group.start <= instant, group.age())

    return max(begun, key=fitness, default=None)


def _counts_differ(told: Told, group: _Group) -> bool:
    """Whether both know how often the job was requeued before, and it is not the same."""
    count = told.data.restarts
    return count is not None and group.restarts is not None and count != group.restarts


def _is_same(told: Told, group: _Group) -> bool:
    data = told.data
    other_submit = None not in (data.submit, group.submit) and data.submit != group.submit
    # After a resize only the accounting shows the resize as a new submission, the others keep the first one. Of
    # slurmctld we tell the new one too: while a job ran with the first one, it was not resized yet.
    before = told.rank == SLURMCTLD and told.phase != ENDED
    resumed = told.rank < ACCOUNTING and not before and is_resumed(group.submit, group.start)
    if _counts_differ(told, group) or (other_submit and not resumed):
        return False
    if "RESIZING" in (data.state, group.state) and None not in (data.end, group.end):
        return near(data.end, group.end)
    if told.rank <= CLOCKED and not other_submit and data.start is not None:
        return _is_of_run(told, data.start, group)
    if data.start is None or group.start is None:
        return data.submit is not None and data.submit == group.submit
    # jobcomp starts what follows a resize at the resize.
    if near(data.start, group.start) or (resumed and near(data.start, group.submit)):
        return True
    # Slurm's own key is cluster, job id and submission: a start that moved is a correction, not another run.
    same = data.submit is not None and data.submit == group.submit
    return same and (near(data.end, group.end) or _meets(data.start, data.end, group))


def _is_of_run(told: Told, start: int, group: _Group) -> bool:
    """Whether a script speaks of the group's run: one job id runs only once at a time.

    It ran between submission and end (a script may run while nodes still boot, before the scheduler's start), it
    overlaps the run, or both count the same requeues within a day.
    """
    submit, began, end = group.submit, group.start, group.end
    if near(start, began) or (told.data.submit is not None and told.data.submit == submit):
        return True
    if submit is not None and submit <= start and (end is None or start < end):
        return True
    if began is None:
        return False
    if (end is None or start < end) and (start >= began or (told.data.end is not None and told.data.end > began)):
        return True
    counted = told.data.restarts is not None and told.data.restarts == group.restarts
    return counted and abs(start - began) <= _ANEW_SECONDS


def _meets(start: int, end: int | None, group: _Group) -> bool:
    """Whether two runs share a moment; one without an end goes on."""
    return (group.end is None or start < group.end) and (end is None or group.start is None or end > group.start)
