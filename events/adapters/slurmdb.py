"""Accounting records as JSON (`sacct --json`, slurmrestd `/slurmdb/.../jobs`) to sightings of jobs and steps.

They mean what `sacct -P` text means for the same records (events/adapters/sacct.py), but for what JSON leaves out:

* There is no DBIndex in any generation; a record's key is its submission.
* 22.05 gives SUCCESS and 0 for what exited with a code: of a job or step that failed such a code is not known.
* The submission of a step is its start, as sacct prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from events.adapters import Draft
from events.adapters import sacct_values as values
from events.adapters.runs import run_of
from events.adapters.sacct_identity import Identity, numbered
from events.adapters.sacct_values import Bad, Tres
from events.adapters.slurm_records import NO_SIZE, UNPLACED, Span, at, key_of, occurred_us, settle, suspended_within
from events.adapters.slurm_values import (
    Exit,
    Num,
    Number,
    TresCount,
    Words,
    accounting_state,
    energy_of,
    epoch,
    exit_of,
    number,
    tres_of,
    words,
)
from events.types.jobs import JobReported, State, StepReported

__all__ = ["Shape", "Steps", "read_job"]

Steps = list[tuple[msgspec.Raw, Callable[[], Draft]]]
"""Each step as sent, and the call that reads it."""


class _Array(msgspec.Struct, gc=False):
    job_id: Num = None
    task_id: Num = None
    task: str | None = None


class _Het(msgspec.Struct, gc=False):
    job_id: Num = None
    job_offset: Num = None


class _Times(msgspec.Struct, gc=False):
    submission: Num = None
    eligible: Num = None
    start: Num = None
    end: Num = None
    suspended: Num = None
    limit: Num = None


class _State(msgspec.Struct, gc=False):
    current: Words
    reason: str | None = None


class _Comment(msgspec.Struct, gc=False):
    job: str | None = None


class _Association(msgspec.Struct, gc=False):
    account: str | None = None
    user: str | None = None


class _Allocated(msgspec.Struct, gc=False):
    allocated: list[TresCount] | None = None


class Shape(msgspec.Struct, gc=False):
    """The fields of a record that are used; job_id, state and time are in every generation."""

    job_id: Num
    state: _State
    time: _Times
    account: str | None = None
    allocation_nodes: Num = None
    array: _Array | None = None
    association: _Association | None = None
    cluster: str | None = None
    comment: _Comment | None = None
    exit_code: Exit | int | None = None
    het: _Het | None = None
    name: str | None = None
    nodes: str | None = None
    partition: str | None = None
    qos: str | None = None
    restart_cnt: Num = None
    steps: list[msgspec.Raw] | None = None
    tres: _Allocated | None = None
    user: str | None = None


class _StepId(msgspec.Struct, gc=False):
    step_id: int | str | Number | None = None


class _StepName(msgspec.Struct, gc=False):
    id: int | str | _StepId | None = None
    name: str | None = None


class _Nodes(msgspec.Struct, gc=False):
    count: Num = None
    range: str | None = None


class _Energy(msgspec.Struct, gc=False):
    consumed: Num = None


class _Statistics(msgspec.Struct, gc=False):
    energy: _Energy | None = None


class _Step(msgspec.Struct, gc=False):
    state: Words
    step: _StepName
    time: _Times
    exit_code: Exit | int | None = None
    nodes: _Nodes | None = None
    statistics: _Statistics | None = None
    tres: _Allocated | None = None


_JOB: Final = msgspec.json.Decoder(Shape)
_STEP: Final = msgspec.json.Decoder(_Step)
_FAILED: Final = frozenset(("FAILED", "NODE_FAIL"))
_STEP_NAMES: Final = {2**32 - 5: "batch", 2**32 - 4: "extern", 2**32 - 6: "interactive"}
"""Numbers of the steps that have a name."""


_NO_ARRAY: Final = _Array()
_NO_HET: Final = _Het()
_NO_ASSOCIATION: Final = _Association()
_NO_NODES: Final = _Nodes()


def read_job(
    raw: msgspec.Raw, name_cluster: Callable[[str | None], str], index: int, teller: str
) -> tuple[Draft, Steps]:
    """The draft of one record and its steps, each read by a call; a step may raise where its job is sound.

    name_cluster: our name of the cluster for the one the record names. index: place of the record.
    teller: kind of the source, `sacct` or `slurmdbd`.
    Raises Bad with a JSON pointer inside the record, and what msgspec raises on another shape.
    """
    job = _JOB.decode(raw)
    cluster = name_cluster(job.cluster)
    span = _span(job.time, unplaced=job.nodes in UNPLACED, waiting="PENDING" in words(job.state.current))
    data = _job(job, cluster, span)
    key = key_of(cluster, data.job_id, None, span)
    draft = Draft("job.reported", data, key, occurred_us(span), index, source=f"{teller}:{cluster}")
    return draft, [(step, partial(_read_step, step, data, draft)) for step in job.steps or ()]


def _span(time: _Times, *, unplaced: bool, waiting: bool) -> Span:
    submit = at("/time/submission", epoch, time.submission)
    start, end = at("/time/start", epoch, time.start), at("/time/end", epoch, time.end)
    span = settle(submit, start, end, unplaced=unplaced, waiting=waiting)
    if span.start is not None and end is not None and end < span.start:
        raise Bad("negative_duration", f"{end} lies {span.start - end} s before the start {span.start}", "/time/end")
    return span


def _job(job: Shape, cluster: str, span: Span) -> JobReported:
    who = _identity(job)
    size = NO_SIZE if span.start is None else _size(job.tres, job.allocation_nodes, "/allocation_nodes")
    state = at("/state/current", accounting_state, words(job.state.current))
    code, signal = _exit(job.exit_code, state)
    comment = None if job.comment is None else at("/comment/job", values.free, job.comment.job or "")
    association = job.association or _NO_ASSOCIATION
    minutes = at("/time/limit", number, job.time.limit)
    suspended = at("/time/suspended", number, job.time.suspended)
    return JobReported(
        cluster=cluster,
        job_id=who.job_id,
        state=state,
        submit=span.submit,
        eligible=at("/time/eligible", epoch, job.time.eligible),
        start=span.start,
        end=span.end,
        array_job_id=who.array_job_id,
        array_task=who.array_task,
        het_job_id=who.het_job_id,
        het_offset=who.het_offset,
        account=at("/account", values.label, job.account or association.account or ""),
        user=at("/user", values.label, job.user or association.user or ""),
        partition=at("/partition", values.short, job.partition or ""),
        qos=at("/qos", values.short, job.qos or ""),
        name=at("/name", values.free, job.name or ""),
        comment=comment,
        reason=None if job.state.reason in (None, "", "None") else job.state.reason[:400],
        exit_code=code,
        exit_signal=signal,
        nodes=size.nodes,
        cpus=size.cpus,
        gpus=size.gpus,
        gpu_types=size.gpu_types,
        node_list=None if job.nodes in UNPLACED else job.nodes,
        suspended_seconds=suspended_within(suspended, span, str(suspended), "/time/suspended"),
        limit_seconds=None if minutes is None else minutes * 60,
        energy_j=at("/tres/allocated", energy_of, (job.tres and job.tres.allocated) or ()),
        run=run_of(comment) if comment else None,
        restarts=at("/restart_cnt", number, job.restart_cnt),
    )


def _identity(job: Shape) -> Identity:
    array, het = job.array or _NO_ARRAY, job.het or _NO_HET
    return numbered(
        at("/job_id", number, job.job_id),
        at("/array/job_id", number, array.job_id),
        at("/array/task_id", number, array.task_id),
        array.task,
        at("/het/job_id", number, het.job_id),
        at("/het/job_offset", number, het.job_offset),
    )


def _exit(told: Exit | int | None, state: State) -> tuple[int | None, int | None]:
    code, signal = at("/exit_code", exit_of, told)
    return (None, None) if state in _FAILED and not code and not signal else (code, signal)


def _size(told: _Allocated | None, nodes: Num, place: str) -> Tres:
    size = at("/tres/allocated", tres_of, (told and told.allocated) or ())
    return size if size.nodes is not None else size._replace(nodes=at(place, number, nodes))


def _read_step(raw: msgspec.Raw, job: JobReported, of: Draft) -> Draft:
    """The draft of a step of the job that was drafted as `of`. Raises as `read_job`, with a pointer inside the step."""
    step = _STEP.decode(raw)
    span = _span(step.time, unplaced=False, waiting=False)
    span = span._replace(submit=span.start)
    name = at("/step/id", values.label, _step_name(step.step))
    if name is None:
        raise Bad("identity_missing", "the step does not tell its number or name", "/step/id")
    nodes = step.nodes or _NO_NODES
    size = NO_SIZE if span.start is None else _size(step.tres, nodes.count, "/nodes/count")
    state = at("/state", accounting_state, words(step.state))
    code, signal = _exit(step.exit_code, state)
    energy = step.statistics and step.statistics.energy
    data = StepReported(
        cluster=job.cluster,
        job_id=job.job_id,
        step=name,
        state=state,
        submit=span.submit,
        start=span.start,
        end=span.end,
        name=at("/step/name", values.free, step.step.name or ""),
        exit_code=code,
        exit_signal=signal,
        nodes=size.nodes,
        cpus=size.cpus,
        gpus=size.gpus,
        gpu_types=size.gpu_types,
        node_list=None if nodes.range in UNPLACED else nodes.range,
        energy_j=at("/statistics/energy/consumed", number, energy.consumed if energy else None),
    )
    key = f"{of.native_key}/{name}"
    return Draft("step.reported", data, key, occurred_us(span), of.index, source=of.source)


def _step_name(told: _StepName) -> str:
    """`batch` of "batch" (22.05), "15.batch" (23.11), 4294967291, or an object with `step_id`."""
    found = told.id.step_id if isinstance(told.id, _StepId) else told.id
    if isinstance(found, str):
        return found.rpartition(".")[2]
    value = number(found)
    return "" if value is None else _STEP_NAMES.get(value, str(value))
