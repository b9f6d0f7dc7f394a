"""What one sighting of a job's stream says, and how far it is believed (pure: no clock, no database)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from events.types.corrections import RecordCorrected
from events.types.jobs import JobFound, JobLost, JobReported
from events.types.training import RunDeclared

__all__ = ["ACCOUNTING", "CLOCKED", "ENDED", "HOOK", "NEAR", "PENDING", "RUNNING", "SLURMCTLD", "Sighting",
           "Told", "is_resumed", "near", "tell"]  # fmt: skip

NEAR: Final = 2
"""Seconds within which two sources mean the same instant."""
ACCOUNTING: Final = 100
_JOBCOMP: Final = 80
SLURMCTLD: Final = 60
HOOK: Final = 20
_RANKS: Final = {"jobcomp": _JOBCOMP, "slurmctld": SLURMCTLD, "epilogslurmctld": 40, "hook": HOOK}
"""How far a source is believed; any other one speaks for the accounting itself (sacct, slurmdbd, a trace)."""
CLOCKED: Final = 40
"""Sources up to this rank tell the time of a script on a node, not the scheduler's."""
PENDING, RUNNING, ENDED = 0, 1, 2
_PHASES: Final = {
    "PENDING": PENDING, "REQUEUE_HOLD": PENDING, "REQUEUE_FED": PENDING, "RESV_DEL_HOLD": PENDING,
    "SPECIAL_EXIT": PENDING, "RUNNING": RUNNING, "SUSPENDED": RUNNING, "CONFIGURING": RUNNING,
    "STOPPED": RUNNING, "SIGNALING": RUNNING, "COMPLETING": RUNNING, "STAGE_OUT": RUNNING,
}  # fmt: skip
_CLOSING: Final = frozenset({"COMPLETING", "STAGE_OUT"})


class Sighting(NamedTuple):
    """One stored event of a job's stream; `occurred_us` is in microseconds since 1970."""

    position: int
    source: str
    source_key: str
    type: str
    occurred_us: int
    data: JobReported | RecordCorrected | JobLost | JobFound | RunDeclared


class Told(NamedTuple):
    """A report with its ranks; `data` holds only what a source in that phase can know.

    freed: for the epilog of one node, that node; the run is over once all its nodes are free.
    """

    phase: int
    rank: int
    sighting: Sighting
    data: JobReported
    freed: str | None = None

    @property
    def instant(self) -> int:
        """When it was true, epoch seconds: its end, else the moment of the report."""
        return self.sighting.occurred_us // 1_000_000 if self.data.end is None else self.data.end


def near(one: int | None, other: int | None) -> bool:
    """Whether both instants (epoch seconds) are known and the same, within what sources differ."""
    return one is not None and other is not None and -NEAR <= one - other <= NEAR


def is_resumed(submit: int | None, start: int | None) -> bool:
    """Whether a record continues a resized run: only then is it submitted after its own start."""
    return submit is not None and start is not None and submit > start


@lru_cache(maxsize=1024)
def _source_rank(source: str) -> int:
    return _RANKS.get(source.partition(":")[0].partition("/")[0], ACCOUNTING)


def tell(sighting: Sighting, data: JobReported) -> Told:
    """The report with its ranks, without what its source only expects (planned times, sizes asked for)."""
    phase, rank = _PHASES.get(data.state, ENDED), _source_rank(sighting.source)
    if rank == HOOK and data.state == "COMPLETING":
        # The epilog of one node: the run may go on elsewhere, and its list names that node only.
        return Told(phase, rank, sighting, replace(data, end=None, node_list=None), data.node_list or "")
    if phase == ENDED:
        phase, data = _tell_ended(phase, data)
    elif phase == RUNNING:
        # A scheduler gives a running job the end it expects; only a closing one has really stopped.
        if data.end is not None and data.state not in _CLOSING:
            data = replace(data, end=None)
    elif rank == _JOBCOMP and data.start is not None and data.end is not None:
        # jobcomp calls the record that a requeue closes PENDING, with the times of the closed run.
        phase, data = ENDED, replace(data, state="REQUEUED")
    else:
        data = _without_plans(data)
    return Told(phase, rank, sighting, data)


def _tell_ended(phase: int, data: JobReported) -> tuple[int, JobReported]:
    if data.state == "UNKNOWN" and data.end is None:
        return (PENDING, data) if data.start is None else (RUNNING, data)
    allocated = data.nodes or data.cpus or data.gpus or data.node_list
    if data.state == "CANCELLED" and data.start == data.end and not allocated:
        return phase, replace(data, start=None)  # jobcomp's way of saying that it never started
    return phase, data


def _without_plans(data: JobReported) -> JobReported:
    """A waiting job without its expected start and the sizes that it only asks for."""
    plans = (data.start, data.end, data.nodes, data.cpus, data.gpus, data.node_list)
    if plans == (None, None, None, None, None, None) and not (data.gpu_types or data.gpu_indices):
        return data
    return replace(
        data, start=None, end=None, nodes=None, cpus=None, gpus=None, gpu_types=(), node_list=None, gpu_indices=()
    )  # fmt: skip
