"""What a training program tells of itself: when all its ranks were there, how far it got, what it saved.

Times inside a program are in milliseconds, since an attempt is parted to the second; each event's own time says
when it happened. All name the job as its scheduler does, so that they join its attempts by time.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from events.types.jobs import Count, Name, Size
from events.types.registry import TEXT, EventStruct, event

__all__ = ["CheckpointCommitted", "CheckpointFailed", "CheckpointRestored", "CheckpointStarted", "GangReady",
           "RunDeclared", "RunInterrupted", "RunProgressed"]  # fmt: skip

Millis = Annotated[int, Meta(ge=0, le=400 * 86_400_000)]
"""Milliseconds, up to four hundred days."""
EpochMillis = Annotated[int, Meta(ge=0, le=253402300799999)]
PartsPerMillion = Annotated[int, Meta(ge=0, le=1_000_000)]
Why = Annotated[str, Meta(max_length=400, extra={"mark": TEXT})]
"""What a program printed may name people and folders."""


def _training(one: EventStruct) -> str:
    return f"training/{one.cluster}/{one.job_id}"  # type: ignore[attr-defined]


def _at(field: str, ms: int | None) -> tuple[str, int] | None:
    """What a program's clock says has happened is believed no more than its event's time."""
    return None if ms is None else (field, ms // 1000)


@event("run.declared", stream=lambda e: f"job/{e.cluster}/{e.job_id}")
class RunDeclared(EventStruct, frozen=True):
    """The program of a job says to which training effort it belongs; it beats a `run=` in the comment."""

    cluster: Name
    job_id: Name
    run: Annotated[str, Meta(min_length=1, max_length=160, pattern=r"^[^/\x00-\x1f]*[^/\x00-\x20][^/\x00-\x1f]*$")]


@event("gang.ready", stream=_training)
class GangReady(EventStruct, frozen=True):
    """All ranks of an attempt are there; before, the ranks that were waited for the others."""

    cluster: Name
    job_id: Name
    ranks: Size
    first_ms: EpochMillis | None = None
    """When the first rank was there, epoch milliseconds."""

    def happened(self) -> tuple[str, int] | None:
        """When the first rank was there."""
        return _at("first_ms", self.first_ms)


@event("run.progressed", stream=lambda e: f"progress/{e.cluster}/{e.job_id}/{e.day}")
class RunProgressed(EventStruct, frozen=True):
    """Steps done over a stretch of time that ends at the event's time. At most one in a few minutes.

    `step` is the number of the last step, `steps` how many were done. `period_ms` is the length of the stretch; inside
    it `data_ms` were spent waiting for data, `communication_ppm` of it in communication between ranks. `tokens` are
    those of all ranks in these steps, `loss_micro` is the last loss times a million. `flop_per_token` and
    `peak_gflops` (of one GPU) let the use of the hardware be worked out, by the convention named. `dropped`: so many
    earlier reports of the program were left out, as nothing took them and its disk was full.
    """

    cluster: Name
    job_id: Name
    day: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
    """UTC day of the event's time: it parts the stream."""
    step: Count
    steps: Size
    period_ms: Millis
    data_ms: Millis = 0
    tokens: Count | None = None
    loss_micro: Annotated[int, Meta(ge=-(2**53), le=2**53)] | None = None
    communication_ppm: PartsPerMillion | None = None
    flop_per_token: Count | None = None
    peak_gflops: Count | None = None
    convention: Annotated[str, Meta(max_length=160)] | None = None
    dropped: Size = 0


@event("checkpoint.started", stream=_training)
class CheckpointStarted(EventStruct, frozen=True):
    """A save began; the state it holds is that of the event's time."""

    cluster: Name
    job_id: Name
    step: Count
    path_class: Annotated[str, Meta(max_length=80)] | None = None


@event("checkpoint.committed", stream=_training)
class CheckpointCommitted(EventStruct, frozen=True):
    """A save can be restored from now on. `state_ms`: the instant whose state it holds, epoch milliseconds.

    `blocking_ms`: how long the steps stood still for it, from `state_ms` on; `total_ms`: until it was whole.
    """

    cluster: Name
    job_id: Name
    step: Count
    state_ms: EpochMillis
    blocking_ms: Millis
    total_ms: Millis
    bytes: Count | None = None
    path_class: Annotated[str, Meta(max_length=80)] | None = None

    def happened(self) -> tuple[str, int] | None:
        """The instant of its state."""
        return _at("state_ms", self.state_ms)


@event("checkpoint.failed", stream=_training)
class CheckpointFailed(EventStruct, frozen=True):
    """A save was given up after `blocking_ms` of standing still, from `state_ms` on."""

    cluster: Name
    job_id: Name
    step: Count
    state_ms: EpochMillis
    blocking_ms: Millis = 0
    why: Why | None = None

    def happened(self) -> tuple[str, int] | None:
        """The instant of its state."""
        return _at("state_ms", self.state_ms)


@event("checkpoint.restored", stream=_training)
class CheckpointRestored(EventStruct, frozen=True):
    """An attempt goes on from a saved state. `state_ms`: the instant whose state it is, where the program knows."""

    cluster: Name
    job_id: Name
    step: Count
    state_ms: EpochMillis | None = None
    restore_ms: Millis | None = None

    def happened(self) -> tuple[str, int] | None:
        """The instant of the state."""
        return _at("state_ms", self.state_ms)


@event("run.interrupted", stream=_training)
class RunInterrupted(EventStruct, frozen=True):
    """A program noticed that it cannot go on, was told to stop, or is done. The last one of an attempt counts.

    `last_ms`: the end of its last whole step. A program that was warned may go on and say more. `exited`: it ended
    without saying how.
    """

    cluster: Name
    job_id: Name
    kind: Literal["error", "signal", "hang", "finished", "exited"]
    last_ms: EpochMillis | None = None
    why: Why | None = None

    def happened(self) -> tuple[str, int] | None:
        """The end of the last step."""
        return _at("last_ms", self.last_ms)
