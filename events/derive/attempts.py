"""One job stream -> its jobs and their attempts (pure: no clock, no database).

Sightings become accounting records (`records.py`); here records become attempts (a resize stays inside one,
as size segments) and attempts become jobs. Corrections by people come last.

Where one job ends and the next begins (ids wrap, and restart at 1 when a scheduler loses its state): a record
starts a new job if the one before it ended in a state that no requeue leaves (COMPLETED, FAILED, ...) and it
was submitted more than 2 s after that end; or if it was submitted more than 30 days after the last instant
known of the one before (not after its submission: a run of 40 days may be requeued). sacct writes the moment
of a requeue as Submit, so a failed job that is requeued at its end (RequeueExit, an epilog) is still one job;
one that a person requeues later cannot be told from a reused id and counts as a new job. That choice moves no
second of use: an attempt is charged the same under either number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace as replace_data

from events.derive.records import NEAR, Record, Sighting, near, read_records
from events.types.corrections import RecordCorrected
from events.types.jobs import JobReported

__all__ = ["Attempt", "Job", "Segment", "Sighting", "fold"]

_LINKS: Final = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL", "RESIZING"})
"""Final states of a record after which the same job may go on."""
_REUSED_SECONDS: Final = 30 * 86_400
_NEVER: Final = float("inf")
_SIZES: Final[tuple[str, ...]] = ("nodes", "cpus", "gpus")
_MOST: Final = 2**31 - 1
_LIMITS: Final[dict[str, int]] = {**dict.fromkeys(_SIZES, _MOST), **dict.fromkeys(("start", "end"), 253402300799)}
"""Largest values of corrected fields, as of reported ones; what lies above is no value."""
_INHERITED: Final = ("array_job_id", "array_task", "het_job_id", "het_offset", "account", "user", "partition",
                     "qos", "name", "comment", "limit_seconds", "node_list", "energy_j", "run")  # fmt: skip
"""What an earlier record of the same job or attempt still says when the last one does not."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of an attempt with one size: epoch seconds [start, end), open while it runs; untold is None."""

    start: int
    end: int | None
    nodes: int | None
    cpus: int | None
    gpus: int | None
    gpu_types: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One unbroken execution. Its segments follow each other without gap or overlap from `start` to `end`.

    Times are epoch seconds, `end` None while it runs. `number` counts from 1 inside the job; `record` is the
    native number of its first accounting record. `confirmed`: the accounting (not only hooks or jobcomp)
    knows it. `disagree`: sources contradict each other on its times. `sources`: of its reports, sorted.
    """

    number: int
    record: int | None
    submit: int | None
    eligible: int | None
    start: int
    end: int | None
    state: str
    account: str | None
    user: str | None
    partition: str | None
    qos: str | None
    exit_code: int | None
    exit_signal: int | None
    suspended_seconds: int
    node_list: str | None
    energy_j: int | None
    reason: str | None
    segments: tuple[Segment, ...]
    confirmed: bool
    disagree: bool
    corrected: bool
    sources: tuple[str, ...]
    first_position: int
    last_position: int
    gpu_indices: tuple[str, ...] = ()
    """Which GPUs of which node, `gpu001=0-3,6` per node, sorted; only the nodes of which a source tells."""
    lost: bool = False
    """Nobody told its end: it is charged until it was last seen (`job.lost`)."""


@dataclass(frozen=True, slots=True)
class Job:
    """One submission. `seq` counts from 1 inside the stream; `submit` and `eligible` are of its first record,
    `state` and `reason` of its last, the other fields of the last that has them. Without an attempt it never
    started. Corrections change attempts only."""

    seq: int
    array_job_id: str | None
    array_task: str | None
    het_job_id: str | None
    het_offset: int | None
    account: str | None
    user: str | None
    partition: str | None
    qos: str | None
    name: str | None
    comment: str | None
    limit_seconds: int | None
    submit: int | None
    eligible: int | None
    state: str
    reason: str | None
    attempts: tuple[Attempt, ...]
    last_position: int
    run: str | None = None
    """Name of the training effort, as its user gave it."""
    over: int | None = None
    """When it was over, also where it never started (epoch seconds); None while it waits, runs or is requeued."""


def fold(sightings: Sequence[Sighting]) -> tuple[Job, ...]:
    """The jobs of one stream, oldest first, from all its events in any order.

    Only between conflicting final reports of one source, and between corrections of one field, does the order
    matter: there the later position wins.
    """
    records = read_records(sightings)
    if len(records) > 1:
        records = _order(records)
    jobs = [(members, _build_attempts(members)) for members in _split_jobs(records)]
    corrections = [(one.position, one.data) for one in sightings if isinstance(one.data, RecordCorrected)]
    if corrections:
        _correct([attempts for _, attempts in jobs], sorted(corrections, key=lambda pair: pair[0]))
    return tuple(_build_job(seq, members, attempts) for seq, (members, attempts) in enumerate(jobs, 1))


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
    final = record.ended and told.state not in _LINKS
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
        suspended += _cap(data.suspended_seconds or 0, segment.start, end)
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


def _cap(seconds: int, start: int, end: int | None) -> int:
    return seconds if end is None else min(seconds, end - start)


@lru_cache(maxsize=1024)
def _parse_types(typed: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """`("h100=4",)` -> `(("h100", 4),)`, sorted; what is no `type=count` is left out."""
    pairs = (one.rpartition("=") for one in typed)
    return tuple(sorted((name, int(count)) for name, _, count in pairs if name and _is_count(count)))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 16


def _build_job(seq: int, records: list[Record], attempts: list[Attempt]) -> Job:
    first = records[0].data
    data = first if len(records) == 1 else _inherit(records)
    positions = [one.last_position for one in records] + [one.last_position for one in attempts]
    return Job(
        seq, data.array_job_id, data.array_task, data.het_job_id, data.het_offset, data.account, data.user,
        data.partition, data.qos, data.name, data.comment, data.limit_seconds, first.submit, first.eligible,
        data.state, data.reason, tuple(attempts), max(positions), data.run, _over(records[-1], attempts),
    )  # fmt: skip


def _over(last: Record, attempts: list[Attempt]) -> int | None:
    """When the job was over: the end of its last attempt, or of its last record where it never started."""
    if not last.ended or last.data.state in ("REQUEUED", "RESIZING"):
        return None
    if attempts:
        return attempts[-1].end
    return last.data.submit if last.data.end is None else last.data.end


def _correct(jobs: list[list[Attempt]], corrections: list[tuple[int, RecordCorrected]]) -> None:
    """Apply corrections (by position) to the attempts they name by the start that the sources give."""
    places = [(job, index) for job in jobs for index in range(len(job))]
    chosen: dict[int, list[tuple[int, RecordCorrected]]] = {}
    for position, correction in corrections:
        gaps = [abs(job[index].start - correction.start) for job, index in places]
        if gaps and min(gaps) <= NEAR:
            chosen.setdefault(gaps.index(min(gaps)), []).append((position, correction))
    for place, said in chosen.items():
        job, index = places[place]
        job[index] = _apply(job[index], said)


def _apply(attempt: Attempt, said: list[tuple[int, RecordCorrected]]) -> Attempt:
    """The attempt with the last good value of each corrected field; its state stays as the sources tell."""
    values = _keep_order(attempt, _read_values(one for _, one in said))
    if not values:
        return attempt
    start, end = values.pop("start", attempt.start), values.pop("end", attempt.end)
    sizes = {name: values.pop(name) for name in _SIZES if name in values}
    moved = _move(attempt.segments, start, end)
    suspended = values.pop("suspended_seconds", attempt.suspended_seconds) or 0
    return replace(
        attempt,
        start=start,
        end=end,
        segments=tuple(_correct_size(one, sizes) for one in moved) if sizes else moved,
        suspended_seconds=_cap(suspended, start, end),
        corrected=True,
        last_position=max(attempt.last_position, *(position for position, _ in said)),
        **values,
    )


def _read_values(corrections: Iterable[RecordCorrected]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for one in corrections:
        if one.field in ("account", "partition"):
            values[one.field] = one.new or None
        elif _is_count(one.new):
            if int(one.new) <= _LIMITS.get(one.field, 2**53):
                values[one.field] = int(one.new)
        elif not one.new and one.field != "start":  # an attempt without a start is none
            values[one.field] = None
    return values


def _keep_order(attempt: Attempt, values: dict[str, Any]) -> dict[str, Any]:
    """The values without those that would let the attempt end before it starts."""
    for dropped in ((), ("start",), ("end",), ("start", "end")):
        kept = {name: value for name, value in values.items() if name not in dropped}
        end = kept.get("end", attempt.end)
        if end is None or kept.get("start", attempt.start) <= end:
            break
    return kept


def _move(segments: tuple[Segment, ...], start: int, end: int | None) -> tuple[Segment, ...]:
    """The segments between the new times: what lies outside goes, the first and the last one stretch."""
    until = _NEVER if end is None else end
    inside = [one for one in segments if one.start < until and (one.end is None or one.end > start)]
    inside = inside or [segments[0] if until <= segments[0].start else segments[-1]]
    inside[0] = replace(inside[0], start=start)
    inside[-1] = replace(inside[-1], end=end)
    return tuple(inside)


def _correct_size(segment: Segment, sizes: dict[str, int | None]) -> Segment:
    """Another size; a single GPU type takes the new count, of several nobody knows which."""
    changes: dict[str, Any] = dict(sizes)
    if "gpus" in sizes:
        known = len(segment.gpu_types) == 1 and sizes["gpus"] is not None
        changes["gpu_types"] = ((segment.gpu_types[0][0], sizes["gpus"]),) if known else ()
    return replace(segment, **changes)
