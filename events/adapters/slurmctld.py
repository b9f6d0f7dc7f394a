"""What the scheduler itself shows of its jobs (slurmrestd `/slurm/.../jobs`, `squeue --json`) to sightings.

It is asked again every few seconds, so a sighting holds only what tells something new when it changes. Left out:

* priority, time of the last look, accrued age, reason of a job that has its nodes: they move by themselves;
* the end of a running job, which is its start and its limit; sizes and nodes a waiting job asks for;
* the expected start to the second: the backfill scheduler moves it at each cycle. It is kept as "by which full
  hour" (ten minutes where it is near), so that it costs an event when it moves by that much, and within a year of
  the submission.

Why a job waits may change to and fro, and each time counts. One who sends a whole list again and again says nothing
new by that; one who sends only what has changed says so (`looked` below): then each record of a waiting job counts, as
of the moment at which it was looked at.

What differs from the accounting:

* The submission of a resized job is the first one here; the record the accounting opens is submitted at the
  resize. That instant is told instead, so that the size before and after it stay apart.
* A job that waits again after a requeue shows the exit code of its former run, and while its former nodes are
  cleaned up its former start too, with the new submission: neither belongs to this record and is left out.
* Suspended seconds are told as "ran before" and "since when": suspended = since - start - ran before, to the
  last change; a suspension that still lasts is not in it.
* RESIZING, and REQUEUED without COMPLETING, are moments of a job that goes on running or waiting; in the
  accounting these words close a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from events.adapters import Draft
from events.adapters import sacct_values as values
from events.adapters.runs import run_of
from events.adapters.sacct_identity import Identity, numbered
from events.adapters.sacct_values import Bad, Tres
from events.adapters.slurm_records import NO_SIZE, UNPLACED, Span, at, key_of, settle
from events.adapters.slurm_values import (
    Exit,
    Num,
    Words,
    epoch,
    exit_of,
    gpu_indices,
    number,
    whole_state,
    words,
)
from events.types.jobs import JobReported, State

__all__ = ["Shape", "read_job"]

_HOUR: Final = 3600
_NEAR: Final = (2 * 3600, 600)
"""An expected start within so many seconds is kept by steps of so many."""
_YEAR: Final = 366 * 86_400
_WAITING: Final = frozenset(("PENDING", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
_RUNNING: Final = frozenset(("RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING"))
_HELD_BACK: Final = ("REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "RESV_DEL_HOLD")
_CLOSING: Final = frozenset(("COMPLETING", "STAGE_OUT"))
_ENERGY: Final = re.compile(r"(?:^|,)energy=([0-9]+)(?:,|$)")
_BUSY: Final = ("CONFIGURING", "STOPPED", "SIGNALING")


class Shape(msgspec.Struct, gc=False):
    """The fields of a job that are used; job_id and job_state are in every generation."""

    job_id: Num
    job_state: Words
    account: str | None = None
    array_job_id: Num = None
    array_task_id: Num = None
    array_task_string: str | None = None
    cluster: str | None = None
    comment: str | None = None
    cpus: Num = None
    dependency: str | None = None
    eligible_time: Num = None
    end_time: Num = None
    exit_code: Exit | int | None = None
    gres_detail: list[str] | None = None
    het_job_id: Num = None
    het_job_offset: Num = None
    last_sched_evaluation: Num = None
    name: str | None = None
    node_count: Num = None
    nodes: str | None = None
    partition: str | None = None
    pre_sus_time: Num = None
    qos: str | None = None
    resize_time: Num = None
    restart_cnt: Num = None
    start_time: Num = None
    state_description: str | None = None
    state_reason: str | None = None
    submit_time: Num = None
    suspend_time: Num = None
    time_limit: Num = None
    tres_alloc_str: str | None = None
    tres_req_str: str | None = None
    user_name: str | None = None


_JOB: Final = msgspec.json.Decoder(Shape)


def read_job(
    raw: msgspec.Raw, name_cluster: Callable[[str | None], str], index: int, looked: int | None = None
) -> Draft:
    """The draft of one job. name_cluster: our name of the cluster for the one it names. index: its place.

    looked: only what has changed is sent, and the list was looked at then (epoch seconds; 0: each job says itself when
    it was looked at). Raises Bad with a JSON pointer inside the job, and what msgspec raises on another shape.
    """
    job = _JOB.decode(raw)
    cluster = name_cluster(job.cluster)
    state = at("/job_state", live_state, words(job.job_state))
    if state in _CLOSING and _waits_again(job):
        state = "PENDING"
    span = _span(job, state)
    data = _job(job, cluster, state, span)
    key = key_of(cluster, data.job_id, None, span)
    seen = _seen_us(job, state, data)
    if looked is not None and state in _WAITING:
        seen = max(data.submit or 0, looked) * 1_000_000 if looked else seen
        key = f"{key}/looked:{seen // 1_000_000}"
    return Draft("job.reported", data, key, seen, index, source=f"slurmctld:{cluster}")


def _waits_again(job: Shape) -> bool:
    """Whether a requeued job shows the start and end that it plans while its former nodes are cleaned up.

    A plan made at the requeue starts with the new submission. What really ran again did so later: Slurm lets a
    requeued job wait until the credential of its former run has expired.
    """
    submit, start = at("/submit_time", epoch, job.submit_time), at("/start_time", epoch, job.start_time)
    planned = submit is not None and start is not None and 0 <= start - submit <= 1
    return planned and bool(at("/restart_cnt", number, job.restart_cnt))


@lru_cache(maxsize=1024)
def live_state(told: tuple[str, ...]) -> State:
    """The state of a job the scheduler still holds, from its base state and flags. Raises Bad `bad_state`."""
    base, flags = whole_state(told)
    if base in ("COMPLETING", "STAGE_OUT", "REVOKED"):
        return base
    for word in ("COMPLETING", "STAGE_OUT", "REVOKED"):
        if word in flags:
            return values.state(word)
    if base in (None, "PENDING"):
        held = next((word for word in _HELD_BACK if word in flags), None)
        return values.state(held) if held else _bare(flags) if base is None else base
    busy = next((word for word in _BUSY if word in flags), None)
    return values.state(busy) if busy and base in ("RUNNING", "SUSPENDED") else base


def _bare(flags: frozenset[str]) -> State:
    """The state behind a flag that an old text shows in place of it."""
    if "REQUEUED" in flags:
        return "PENDING"
    return next((values.state(word) for word in _BUSY if word in flags), "RUNNING")


def _span(job: Shape, state: State) -> Span:
    submit = at("/submit_time", epoch, job.submit_time)
    start, end = at("/start_time", epoch, job.start_time), at("/end_time", epoch, job.end_time)
    if state in _WAITING:
        return Span(submit, None, None)
    span = settle(submit, start, None if state in _RUNNING else end, unplaced=job.nodes in UNPLACED, waiting=False)
    if span.start is None:
        return span
    if span.end is not None and span.end < span.start:
        raise Bad("negative_duration", f"{end} lies {span.start - span.end} s before the start {start}", "/end_time")
    return span._replace(submit=_submitted(job, span))


def _submitted(job: Shape, span: Span) -> int | None:
    """The submission of the record that the accounting has for this run; None when it is not told."""
    resized = at("/resize_time", epoch, job.resize_time)
    if resized is not None and span.start is not None and resized > span.start:
        return resized
    return None if span.submit is None or span.start is None or span.submit > span.start else span.submit


def _job(job: Shape, cluster: str, state: State, span: Span) -> JobReported:
    who = _identity(job)
    size = NO_SIZE if span.start is None else _size(job)
    over = state not in _WAITING and state not in _RUNNING
    code, signal = at("/exit_code", exit_of, job.exit_code) if over else (None, None)
    comment = at("/comment", values.free, job.comment or "")
    minutes = at("/time_limit", number, job.time_limit)
    nodes = None if job.nodes in UNPLACED or span.start is None else job.nodes
    asked = _asked(job) if state in _WAITING else NO_SIZE
    return JobReported(
        cluster=cluster,
        job_id=who.job_id,
        state=state,
        submit=span.submit,
        eligible=at("/eligible_time", epoch, job.eligible_time),
        start=_expected(job, span) if state in _WAITING else span.start,
        end=span.end,
        array_job_id=who.array_job_id,
        array_task=who.array_task,
        het_job_id=who.het_job_id,
        het_offset=who.het_offset,
        account=at("/account", values.label, job.account or ""),
        user=at("/user_name", values.label, job.user_name or ""),
        partition=at("/partition", values.short, job.partition or ""),
        qos=at("/qos", values.short, job.qos or ""),
        name=at("/name", values.free, job.name or ""),
        comment=comment,
        reason=_reason(job, state),
        exit_code=code,
        exit_signal=signal,
        nodes=size.nodes,
        cpus=size.cpus,
        gpus=size.gpus,
        gpu_types=size.gpu_types,
        node_list=nodes,
        suspended_seconds=_suspended(job, span),
        limit_seconds=None if minutes is None else minutes * 60,
        energy_j=_energy(job.tres_alloc_str or "") if over and state not in _CLOSING else None,
        run=run_of(comment) if comment else None,
        restarts=at("/restart_cnt", number, job.restart_cnt),
        gpu_indices=gpu_indices(tuple(job.gres_detail), nodes) if job.gres_detail and nodes else (),
        asked_nodes=asked.nodes,
        asked_cpus=asked.cpus,
        asked_gpus=asked.gpus,
        dependency=(job.dependency or None) and str(job.dependency)[:400] if state in _WAITING else None,
    )


def _identity(job: Shape) -> Identity:
    return numbered(
        at("/job_id", number, job.job_id),
        at("/array_job_id", number, job.array_job_id),
        at("/array_task_id", number, job.array_task_id),
        job.array_task_string,
        at("/het_job_id", number, job.het_job_id),
        at("/het_job_offset", number, job.het_job_offset),
    )


def _size(job: Shape) -> Tres:
    size = at("/tres_alloc_str", values.tres, job.tres_alloc_str or "")
    if size.cpus is None:
        size = size._replace(cpus=at("/cpus", number, job.cpus))
    return size if size.nodes is not None else size._replace(nodes=at("/node_count", number, job.node_count))


def _asked(job: Shape) -> Tres:
    """What a waiting job asks for."""
    size = at("/tres_req_str", values.tres, job.tres_req_str or "")
    if size.nodes is None:
        size = size._replace(nodes=at("/node_count", number, job.node_count))
    return size if size.cpus is not None else size._replace(cpus=at("/cpus", number, job.cpus))


def _energy(allocated: str) -> int | None:
    """Joules in a list of what was allocated; none are there when nothing was read."""
    found = _ENERGY.search(allocated)
    return at("/tres_alloc_str", values.energy, found[1]) if found else None


def _expected(job: Shape, span: Span) -> int | None:
    """By which full hour, or ten minutes of a near one, a waiting job is expected to start."""
    start = at("/start_time", epoch, job.start_time)
    if start is None or span.submit is None or start > span.submit + _YEAR - _HOUR:
        return None
    looked = at("/last_sched_evaluation", epoch, job.last_sched_evaluation)
    within, fine = _NEAR
    step = fine if looked is not None and 0 <= start - looked <= within else _HOUR
    return -(-start // step) * step


def _reason(job: Shape, state: State) -> str | None:
    told = job.state_reason
    if state in _RUNNING or told in (None, "", "None"):
        return None
    more = job.state_description or ""
    return (more if more.startswith(told) else told)[:400]


def _suspended(job: Shape, span: Span) -> int | None:
    if span.start is None:
        return None
    since = at("/suspend_time", epoch, job.suspend_time)
    if since is None or since < span.start:
        return 0
    ran = at("/pre_sus_time", number, job.pre_sus_time) or 0
    return max(0, since - span.start - ran)


def _seen_us(job: Shape, state: State, data: JobReported) -> int:
    """Microseconds of the last thing known to have happened: for a waiting job when it was last looked at.

    It puts the reasons of a waiting job in order.
    """
    told = [data.submit, data.end] if state in _WAITING else [data.submit, data.start, data.end]
    if state in _WAITING:
        told.append(at("/last_sched_evaluation", epoch, job.last_sched_evaluation))
    elif state in _RUNNING:
        told.append(at("/suspend_time", epoch, job.suspend_time))
    known = [instant for instant in told if instant is not None]
    if not known:
        raise Bad("time_missing", "no time of the job is known; its submission or start is needed", "/submit_time")
    return max(known) * 1_000_000
