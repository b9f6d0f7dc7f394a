"""What a scheduler says about jobs: sightings. Attempts are folded from them, never logged."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from events.types.registry import PERSON, TEXT, EventStruct, event

# Names are keys of read models: three of 160 characters fit an index row in any script.
Name = Annotated[str, Meta(min_length=1, max_length=160, pattern=r"^[^/\x00-\x1f]+$")]
Short = Annotated[str, Meta(max_length=400)]
Word = Annotated[str, Meta(max_length=160)]
TypeCount = Annotated[str, Meta(max_length=80)]
Epoch = Annotated[int, Meta(ge=0, le=253402300799)]
"""Whole seconds since 1970-01-01 UTC, as Slurm counts them (up to the year 9999)."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
Size = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""A count of things: what an integer column holds. An event that no projection can store stops the books."""
Exit = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Native = Annotated[int, Meta(ge=0, le=2**63 - 1)]
State = Literal["PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "PREEMPTED", "RESIZING", "COMPLETED",
                "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED",
                "CONFIGURING", "STAGE_OUT", "STOPPED", "SIGNALING", "SPECIAL_EXIT", "REQUEUE_FED", "REQUEUE_HOLD",
                "RESV_DEL_HOLD", "UNKNOWN"]  # fmt: skip
"""Base state words of Slurm (22.05 to 25.11); what follows the word ("by 1001") is left out."""

_EXPECTED = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_PLAN_SECONDS = 366 * 86_400
_RUNNING = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING"})


def _happened(state: str, submit: int | None, start: int | None, end: int | None) -> tuple[str, int] | None:
    """The latest of the times that are no plans: a start of a waiting job and an end of a running one are.

    A plan may lie a year ahead and no more: beyond, it is a mistake that would be kept as a real time one day.
    """
    found = [("submit", submit or 0)]
    waits = state in _EXPECTED
    if start is not None:
        found.append(("start", start - _PLAN_SECONDS if waits else start))
    if end is not None:
        found.append(("end", end - _PLAN_SECONDS if waits or state in _RUNNING else end))
    return max(found, key=lambda item: item[1])


@event("job.reported", stream=lambda e: f"job/{e.cluster}/{e.job_id}")
class JobReported(EventStruct, frozen=True):
    """One source's report about a job or one of its attempts (a sighting).

    Times are epoch seconds; a time that the source does not know is left out. `gpus` counts whole GPUs
    allocated (AllocTRES `gres/gpu`, never summed with its typed parts, never ReqTRES); `gpu_types` holds
    `type=count` of the typed parts. `suspended_seconds` lie inside [start, end).
    """

    cluster: Name
    job_id: Name
    state: State
    submit: Epoch | None = None
    eligible: Epoch | None = None
    start: Epoch | None = None
    end: Epoch | None = None
    record: Native | None = None
    """Native number of the accounting record (Slurm's DBIndex)."""
    array_job_id: Name | None = None
    array_task: Name | None = None
    het_job_id: Name | None = None
    het_offset: Size | None = None
    account: Name | None = None
    user: Annotated[str, Meta(min_length=1, max_length=200, extra={"mark": PERSON})] | None = None
    partition: Word | None = None
    qos: Short | None = None
    name: Annotated[str, Meta(max_length=20_000, extra={"mark": TEXT})] | None = None
    comment: Annotated[str, Meta(max_length=20_000, extra={"mark": TEXT})] | None = None
    reason: Short | None = None
    exit_code: Exit | None = None
    exit_signal: Exit | None = None
    nodes: Size | None = None
    cpus: Size | None = None
    gpus: Size | None = None
    gpu_types: tuple[TypeCount, ...] = ()
    node_list: Annotated[str, Meta(max_length=200_000)] | None = None
    suspended_seconds: Count | None = None
    limit_seconds: Count | None = None
    energy_j: Count | None = None
    run: Name | None = None
    """Name of the training effort it belongs to, as its user gave it (`run=` in the comment, an environment)."""
    restarts: Size | None = None
    """How often the job was requeued before this, where the source counts it (hooks and slurmctld do)."""
    gpu_indices: tuple[Annotated[str, Meta(max_length=400)], ...] = ()
    """Which GPUs of which node, one entry per node: `gpu001=0-3,6`. Part of the nodes may be told."""
    asked_nodes: Size | None = None
    """What a waiting job asks for; never counted as used."""
    asked_cpus: Size | None = None
    asked_gpus: Size | None = None
    dependency: Short | None = None
    """What a waiting job must wait for, as its scheduler writes it (`afterok:412`)."""

    def happened(self) -> tuple[str, int] | None:
        """The end, or the start of what runs, or the submission of what waits."""
        return _happened(self.state, self.submit, self.start, self.end)


@event("job.lost", stream=lambda e: f"job/{e.cluster}/{e.job_id}")
class JobLost(EventStruct, frozen=True):
    """The scheduler no longer shows a job that should be running, or it runs far past its limit: a runaway.

    The attempt that began at `start` is charged until `last_seen` (epoch seconds), until a source tells its end
    or the job is found again.
    """

    cluster: Name
    job_id: Name
    start: Epoch
    last_seen: Epoch
    why: Literal["unseen", "past_limit"]


@event("job.found", stream=lambda e: f"job/{e.cluster}/{e.job_id}")
class JobFound(EventStruct, frozen=True):
    """The scheduler shows a job again that was taken for lost: the attempt that began at `start` runs."""

    cluster: Name
    job_id: Name
    start: Epoch


@event("step.reported", stream=lambda e: f"step/{e.cluster}/{e.job_id}")
class StepReported(EventStruct, frozen=True):
    """One source's report about a step of a job (batch, extern or an srun)."""

    cluster: Name
    job_id: Name
    step: Name
    state: State
    submit: Epoch | None = None
    start: Epoch | None = None
    end: Epoch | None = None
    record: Native | None = None
    name: Annotated[str, Meta(max_length=20_000, extra={"mark": TEXT})] | None = None
    exit_code: Exit | None = None
    exit_signal: Exit | None = None
    nodes: Size | None = None
    cpus: Size | None = None
    gpus: Size | None = None
    gpu_types: tuple[TypeCount, ...] = ()
    node_list: Annotated[str, Meta(max_length=200_000)] | None = None
    energy_j: Count | None = None

    def happened(self) -> tuple[str, int] | None:
        """As of a job."""
        return _happened(self.state, self.submit, self.start, self.end)
