"""What waits now, as plain objects: a job, why, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from jobs.waitsfor import Free, Held, Holder, Limit, Unit

__all__ = ["CauseSum", "Depends", "DependsOn", "For", "Full", "HeldBack", "HeldNode", "Holding", "Nodes", "Others",
           "OwnLimit", "OwnShare", "Partition", "Stretch", "Total", "Unknown", "Waited", "Waiting",
           "WaitingJob"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DependsOn:
    """A job that must come first. job: its key, state: its state, where the caller may see it."""

    kind: str
    job_id: str
    task: str
    told: str
    job: UUID | None
    state: str


@dataclass(frozen=True, slots=True)
class Holding:
    """A job that runs and counts against a limit."""

    job: UUID
    job_id: str
    gpus: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """It is held, or may not start before `until`."""

    by: Held
    until: datetime | None
    kind: Literal["held"] = "held"


@dataclass(frozen=True, slots=True)
class Depends:
    """It waits for other jobs; `on` is empty where its scheduler does not tell which."""

    on: Sequence[DependsOn]
    kind: Literal["dependency"] = "dependency"


@dataclass(frozen=True, slots=True)
class OwnLimit:
    """Jobs that run use the limit `of` up: the largest MOST of them, and how many and how much they all are."""

    of: Limit
    running: Sequence[Holding]
    attempts: int
    gpus: int
    cpus: int
    kind: Literal["limit"] = "limit"


@dataclass(frozen=True, slots=True)
class OwnShare:
    """Others come first. before: those of its partition that its scheduler expects to start earlier.

    told: whether there is an estimate for this job; without one nobody tells its place. beside: all others that wait
    for the partition. free: GPUs of the partition that are free now, None where its nodes are not known.
    """

    told: bool
    jobs_before: int
    gpus_before: int
    jobs_beside: int
    gpus_beside: int
    free: int | None
    kind: Literal["share"] = "share"


@dataclass(frozen=True, slots=True)
class Full:
    """There is no room in its partition. held: so much runs there; free: as of Partition.

    enough_at: from when on as much as it asks for is free at the latest, if nobody else takes it: now where that is
    free already (then not where it needs it, or kept for others), else when limits have given back what is missing.
    """

    unit: Unit
    held: int
    free: int | None
    holders: Sequence[Holder]
    enough_at: datetime | None
    kind: Literal["full"] = "full"


class HeldNode(NamedTuple):
    """A node that takes no work. state: of events.types.nodes.Lifecycle, '' where nobody tells of it."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that it needs take no work, or are kept for others.

    held: those that its scheduler names, else those of its partition that take no work. known: how many nodes of the
    partition are known; 0 is no data.
    """

    held: Sequence[HeldNode] = ()
    known: int = 0
    kind: Literal["nodes"] = "nodes"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody asked its scheduler, or it gives no reason."""

    looked: bool
    kind: Literal["unknown"] = "unknown"


For = HeldBack | Depends | OwnLimit | OwnShare | Full | Nodes | Unknown


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """One job that waits; waiting tasks of an array are one. nodes, cpus, gpus: asked for, None where not told.

    since: its submission, or the end of its last attempt, None where nobody tells. eligible: from when on it could
    start, as far as told of its first attempt. looked_at: when its scheduler last said something new. expected: by when
    it then expected the start.
    """

    id: UUID
    run: UUID
    run_name: str
    cluster: str
    job_id: str
    array_job_id: str | None
    array_task: str | None
    het_job_id: str | None
    het_offset: int | None
    project: str
    account: str
    user: str
    partition: str
    qos: str
    nodes: int | None
    cpus: int | None
    gpus: int | None
    limit_seconds: int | None
    attempts: int
    since: datetime | None
    waited_seconds: int | None
    eligible: datetime | None
    cause: str
    reason: str
    cause_since: datetime | None
    looked_at: datetime | None
    expected: datetime | None
    waits_for: For


@dataclass(frozen=True, slots=True)
class Total:
    """Jobs of a project that wait for one cause. gpus: asked for, as far as told."""

    project: str
    cause: str
    jobs: int
    gpus: int
    waited_seconds: int


@dataclass(frozen=True, slots=True)
class Others:
    """What waits in projects that the caller may not see."""

    jobs: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition for room in which somebody waits. ends: the first MOST_ENDS; more: how many there are after them.

    free: GPUs of its nodes in service that nothing holds, whichever partition it runs in; None where its nodes are not
    known, and for CPUs.
    """

    cluster: str
    name: str
    unit: Unit
    held: int
    free: int | None
    holders: Sequence[Holder]
    ends: Sequence[Free]
    more: int
    without_limit: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits at `cut`: rows in order, their totals, and those of others. projects: all with something waiting."""

    cut: datetime
    projects: Sequence[str]
    rows: Sequence[WaitingJob]
    totals: Sequence[Total]
    others: Others
    partitions: Sequence[Partition]


class Stretch(NamedTuple):
    """A stretch of waiting of the number-th attempt of a job, until an instant. open: it goes on after that.

    begun: the attempt started; without that it is a wait that goes on, or that ended with the job.
    """

    job: UUID
    number: int
    cause: str
    reason: str
    start: datetime
    end: datetime
    open: bool
    since_eligible: bool
    since_submit: bool
    begun: bool

    @property
    def seconds(self) -> int:
        """How long it lasted until then."""
        return (self.end - self.start) // timedelta(seconds=1)


class CauseSum(NamedTuple):
    """Stretches of one cause: how many, how long; since_eligible and since_submit add up to the two waits."""

    cause: str
    stretches: int
    seconds: int
    since_eligible: int
    since_submit: int


@dataclass(frozen=True, slots=True)
class Waited:
    """Why something waited: its first stretches one by one, and the sums of all of them."""

    stretches: Sequence[Stretch]
    sums: Sequence[CauseSum]
