"""What the fold of a job stream gives: jobs, their attempts, and the size segments of these."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Attempt", "Job", "Segment", "cap"]


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
    asked: tuple[int | None, int | None, int | None] = (None, None, None)
    """Nodes, CPUs and GPUs that it asked for while it waited, as far as told."""
    dependency: str | None = None
    over: int | None = None
    """When it was over, also where it never started (epoch seconds); None while it waits, runs or is requeued."""
    generation: int = 1
    """Which run of its name it belongs to: one more with each closing before it was submitted."""


def cap(seconds: int, start: int, end: int | None) -> int:
    """Seconds inside [start, end), not more than it has."""
    return seconds if end is None else min(seconds, end - start)
