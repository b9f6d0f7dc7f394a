"""One job stream -> its jobs and their attempts (pure: no clock, no database).

Sightings become accounting records (`records.py`); here records become attempts (a resize stays inside one,
as size segments) and attempts become jobs. Corrections by people come last.

Where one job ends and the next begins (ids wrap, and restart at 1 when a scheduler loses its state): a record
starts a new job if it was submitted more than 30 days after the last instant known of the one before (not after
its submission: a run of 40 days may be requeued). Else the restart counts decide, where both are told: a requeue
adds one. Without them, a record starts a new job if the one before it ended in a state that no requeue leaves
(COMPLETED, FAILED, ...) and it was submitted more than 2 s after that end. sacct writes the moment of a requeue
as Submit, so a failed job that is requeued at its end (RequeueExit, an epilog) is still one job; one that a person
requeues later cannot be told from a reused id by sacct alone and counts as a new job. That choice moves no second
of use: an attempt is charged the same under either number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace as replace_data

from events.derive.corrections import correct, is_count
from events.derive.declared import name_runs
from events.derive.indices import join_indices
from events.derive.outcome import Attempt, Job, Segment, cap
from events.derive.records import NEAR, Record, Sighting, near, read_records
from events.derive.runaways import mark_lost
from events.types.corrections import RecordCorrected
from events.types.jobs import JobFound, JobLost, JobReported
from events.types.training import RunDeclared

__all__ = ["Attempt", "Job", "Segment", "Sighting", "fold"]

_LINKS: Final = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL", "RESIZING"})
"""Final states of a record after which the same job may go on."""
_REUSED_SECONDS: Final = 30 * 86_400
_NEVER: Final = float("inf")
_MOST: Final = 2**31 - 1
_INHERITED: Final = ("array_job_id", "array_task", "het_job_id", "het_offset", "account", "user", "partition",
                     "qos", "name", "comment", "limit_seconds", "node_list", "energy_j", "run", "asked_nodes",
                     "asked_cpus", "asked_gpus", "dependency")  # fmt: skip
"""What an earlier record of the same job or attempt still says when the last one does not."""


def fold(sightings: Sequence[Sighting]) -> tuple[Job, ...]:
    """The jobs of one stream, oldest first, from all its events in any order.

    Only between conflicting final reports of one source, and between corrections of one field, does the order
    matter: there the later position wins.
    """
    records = read_records(sightings)
    if len(records) > 1:
        records = _order(records)
    jobs = [(members, _build_attempts(members)) for members in _split_jobs(records)]
    if len(sightings) > 1:
        _judge([attempts for _, attempts in jobs], sightings)
    folded = tuple(_build_job(seq, members, attempts) for seq, (members, attempts) in enumerate(jobs, 1))
    declared = any(isinstance(one.data, RunDeclared) for one in sightings) if len(sightings) > 1 else False
    return name_runs(folded, sightings) if declared else folded


def _judge(jobs: list[list[Attempt]], sightings: Sequence[Sighting]) -> None:
    """What was said about attempts beside reports: lost or found again, then corrections, which beat all."""
    lost = [one for one in sightings if isinstance(one.data, JobLost | JobFound)]
    if lost:
        mark_lost(jobs, lost)
    corrections = [(one.position, one.data) for one in sightings if isinstance(one.data, RecordCorrected)]
    if corrections:
        correct(jobs, sorted(corrections, key=lambda pair: pair[0]))


def _order(records: list[Record]) -> list[Record]:
    _join_resizes(records)
    records.sort(key=_timeline)
    for record, following in pairwise(records):
        _close_stale(record, following)
    return records


def _timeline(record: Record) -> tuple[int, float, float]:
    """When it began; the parts of a resized run begin together and follow by submission, then end."""
    data = record.data
    submit: float = (0 if data.state == "RESIZING" else _NEVER) if data.submit is None else data.submit
    end = _NEVER if data.end is None else data.end
    if data.start is not None:
        return (data.start, submit, end)
    return (int(min(submit, end, 2**60)), submit, end)


def _join_resizes(records: list[Record]) -> None:
    """Give the parts of a resized run one start, the earliest: jobcomp has the resize instead, or nothing."""
    closed = [record for record in records if record.data.state == "RESIZING" and record.data.end is not None]
    closed.sort(key=lambda record: record.data.end or 0)
    for record in closed[::-1] + closed:
        following = _find_continuation(record, records)
        if following is None or following.data.start is None:
            continue
        starts = [start for start in (record.data.start, following.data.start) if start is not None]
        for part in (record, following):
            part.data = replace_data(part.data, start=min(starts))


def _find_continuation(record: Record, records: list[Record]) -> Record | None:
    """What ran on when `record` (RESIZING) was closed: begins with it or at its end, and ends later."""
    start, end = record.data.start, record.data.end or 0
    found = []
    for other in records:
        began, over = other.data.start, _NEVER if other.data.end is None else other.data.end
        if other is record or began is None or over < end or (over == end and other.data.state == "RESIZING"):
            continue
        unsure = start is None or start >= end
        if near(began, start) or near(began, end) or (unsure and began <= end):
            found.append(other)
    return min(found, key=lambda other: (_timeline(other)[2], -(other.data.start or 0)), default=None)


def _close_stale(record: Record, following: Record) -> None:
    """A run still called open when its id was submitted or ran again is over: one id runs once at a time.

    It ends at the later submission (a requeue is submitted when the run ends), else at the later start, and
    is marked as disputed, but for the part of a resize whose close we have not heard of.
    """
    start, end = record.data.start, record.data.end
    if start is None or end is not None:
        return
    submit = following.data.submit
    end = submit if submit is not None and submit >= start else following.data.start
    if end is not None:
        record.data = replace_data(record.data, end=max(start, end))
        record.disagree = record.disagree or not _goes_on(record, following)


def _goes_on(record: Record, following: Record) -> bool:
    """Whether `following` is the same run as `record`, after a resize."""
    return near(record.data.start, following.data.start) and (record.data.state == "RESIZING" or following.resumed)


def _split_jobs(records: list[Record]) -> list[list[Record]]:
    jobs: list[list[Record]] = []
    for record in records:
        if jobs and not _is_reused(jobs[-1][-1], record):
            jobs[-1].append(record)
        else:
            jobs.append([record])
    return jobs


def _is_reused(record: Record, following: Record) -> bool:
    """Whether `following` is another job under the same id (see the top of this file)."""
    told, data = record.data, following.data
    begun = data.start if data.submit is None else data.submit
    known = [instant for instant in (told.submit, told.start, told.end) if instant is not None]
    if begun is None or not known:
        return False
    if begun - max(known) > _REUSED_SECONDS:
        return True
    if told.restarts is not None and data.restarts is not None and data.restarts != told.restarts:
        return data.restarts < told.restarts
    final = record.ended and told.state not in _LINKS and not data.restarts
    return final and data.submit is not None and data.submit > max(known) + NEAR


def _build_attempts(records: list[Record]) -> list[Attempt]:
    """The attempts of one job: runs of its records, numbered from 1."""
    runs: list[list[Record]] = []
    for record in records:
        if record.data.start is None:
            continue
        if runs and _goes_on(runs[-1][-1], record):
            runs[-1].append(record)
        else:
            runs.append([record])
    return [_build_attempt(number, run) for number, run in enumerate(runs, 1)]


def _build_attempt(number: int, run: list[Record]) -> Attempt:
    first, last = run[0], run[-1]
    data = last.data if first is last else _inherit(run)
    segments, suspended, backwards = _cut_segments(run)
    whole = first if first is last else _sum_up(run)
    return Attempt(
        number, first.data.record or None, first.data.submit, first.data.eligible,
        segments[0].start, segments[-1].end,
        data.state, data.account, data.user, data.partition, data.qos, data.exit_code, data.exit_signal,
        suspended, data.node_list, data.energy_j, data.reason, segments,
        whole.confirmed, backwards or whole.disagree, False,
        whole.sources, whole.first_position, whole.last_position,
        join_indices([record.data.gpu_indices for record in run]) if data.gpu_indices or len(run) > 1 else (),
    )  # fmt: skip


def _sum_up(run: list[Record]) -> Record:
    """What holds for all records of a run together; its data are the last one's."""
    return Record(
        data=run[-1].data,
        ended=run[-1].ended,
        confirmed=all(record.confirmed for record in run),
        disagree=any(record.disagree for record in run),
        sources=tuple(sorted({source for record in run for source in record.sources})),
        first_position=min(record.first_position for record in run),
        last_position=max(record.last_position for record in run),
    )


def _inherit(records: list[Record]) -> JobReported:
    """The last record, with what only earlier ones say."""
    data = records[-1].data
    gaps: dict[str, Any] = {}
    for name in _INHERITED:
        if getattr(data, name) is None:
            told = (getattr(record.data, name) for record in reversed(records[:-1]))
            gaps[name] = next((value for value in told if value is not None), None)
    return replace_data(data, **gaps)


def _cut_segments(run: list[Record]) -> tuple[tuple[Segment, ...], int, bool]:
    """The size segments of a run, its suspended seconds, and whether a part ends before it begins."""
    cursor = run[0].data.start or 0
    segments: list[Segment] = []
    suspended, backwards = 0, False
    for record in run:
        data = record.data
        end = data.end
        if end is not None and end < cursor:
            end, backwards = cursor, True
        segment = _size(data, cursor, end)
        suspended += cap(data.suspended_seconds or 0, segment.start, end)
        # A part without length says nothing, unless it is all there is.
        if end != cursor or record is run[-1]:
            segments.append(segment)
        cursor = cursor if end is None else end
    if len(segments) > 1 and segments[-1].start == segments[-1].end:
        segments.pop()
    return tuple(segments), suspended, backwards


def _size(data: JobReported, start: int, end: int | None) -> Segment:
    types = _parse_types(data.gpu_types) if data.gpu_types else ()
    if types and sum(count for _, count in types) > _MOST:
        types = ()
    gpus = sum(count for _, count in types) if data.gpus is None and types else data.gpus
    return Segment(start, end, data.nodes, data.cpus, gpus, types)


@lru_cache(maxsize=1024)
def _parse_types(typed: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """`("h100=4",)` -> `(("h100", 4),)`, sorted; what is no `type=count` is left out."""
    pairs = (one.rpartition("=") for one in typed)
    return tuple(sorted((name, int(count)) for name, _, count in pairs if name and is_count(count)))


def _build_job(seq: int, records: list[Record], attempts: list[Attempt]) -> Job:
    first = records[0].data
    data = first if len(records) == 1 else _inherit(records)
    positions = [one.last_position for one in records] + [one.last_position for one in attempts]
    return Job(
        seq, data.array_job_id, data.array_task, data.het_job_id, data.het_offset, data.account, data.user,
        data.partition, data.qos, data.name, data.comment, data.limit_seconds, first.submit, first.eligible,
        data.state, data.reason, tuple(attempts), max(positions), data.run,
        (data.asked_nodes, data.asked_cpus, data.asked_gpus), data.dependency, _over(records[-1], attempts),
    )  # fmt: skip


def _over(last: Record, attempts: list[Attempt]) -> int | None:
    """When the job was over: the end of its last attempt, or of its last record where it never started."""
    if not last.ended or last.data.state in ("REQUEUED", "RESIZING"):
        return None
    if attempts:
        return attempts[-1].end
    return last.data.submit if last.data.end is None else last.data.end
