"""Reading what each interruption of a run cost: one row each, and sums that are the parts of the run's partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from events.access import Scope
from events.adapters.hostlist import expand
from events.adapters.sacct_values import Bad
from events.reports import Row
from fleet.models import Fault
from fleet.queries_faults import Ended, any_known, nearest
from jobs.goodput import Part
from jobs.interruptions import ENDING, STARTING, Interruption, Lived, Spent, interruptions, uncharged
from jobs.models import Attempt, Checkpoint, Goodput, Run
from jobs.told import LOSING

__all__ = ["COLUMNS", "PARTS", "RunInterruptions", "of_run"]

PARTS: Final[tuple[Part, ...]] = (*ENDING, *STARTING)
_SECONDS: Final[Mapping[Part, str]] = {
    "rollback_replay": "rolled_back_seconds", "detect": "detect_seconds", "teardown": "teardown_seconds",
    "partial_gang_wait": "gang_wait_seconds", "init_restore": "init_restore_seconds",
}  # fmt: skip
"""Where jobs_goodput holds the seconds of a part."""
COLUMNS: Final = (
    "attempt", "job_id", "number", "start", "end", "happened", "noticed", "state", "told", "told_why", "fault",
    "fault_title", "gpus",
    "last_step", *(f"{part}_seconds" for part in ENDING), "requeue_seconds",
    *(f"{part}_seconds" for part in STARTING), "stall_seconds", *(f"{part}_gpu_seconds" for part in ENDING),
    "requeue_gpu_seconds", *(f"{part}_gpu_seconds" for part in STARTING), "lost_gpu_seconds", "resumed_attempt",
    "resumed_start", "resumed_step",
)  # fmt: skip
"""Names of a row's values, in order."""
_ADDED: Final = tuple(name for name in COLUMNS if name.endswith("_seconds"))


@dataclass(frozen=True, slots=True)
class RunInterruptions:
    """rows: see COLUMNS; told_why is the id of a text. total: sums of what is known. told: GPU-seconds of each part
    in the run; uncharged: those that no interruption bears. count_untold: rows of which no program told. knows_faults:
    some source ever told of a fault, so that none beside a row means that none was seen."""

    rows: Sequence[Row]
    total: Row
    told: Mapping[Part, int]
    uncharged: Mapping[Part, int]
    count_untold: int
    knows_faults: bool


def of_run(run: Run) -> RunInterruptions | None:
    """Of a run that the caller may see; None where no program of it told anything."""
    told = {row.attempt: row for row in Goodput.objects.filter(run=run.id)}
    if not told:
        return None
    attempts = {row.id: row for row in Attempt.objects.filter(run=run.id)}
    steps = _restored_steps(run)
    lived = [_lived(row, told.get(row.id), restored=row.id in steps) for row in attempts.values()]
    found = interruptions(lived)
    faults = _faults(attempts[one.broken.attempt] for one in found)
    rows = [_row(one, attempts, told, steps) | _named(faults.get(one.broken.attempt)) for one in found]
    total = {name: sum(row[name] for row in rows if row[name] is not None) for name in _ADDED}
    whole = {part: sum(getattr(row, part) for row in told.values()) for part in PARTS}
    rest = {part: uncharged(lived, found, part) for part in PARTS}
    return RunInterruptions(rows, total, whole, rest, sum(row["stall_seconds"] is None for row in rows),
                            bool(faults) or any_known(Scope.everything()))  # fmt: skip


def _faults(ended: Iterable[Attempt]) -> dict[UUID, Fault]:
    """Attempt -> the fault on one of its nodes that may have ended it. Which nodes are broken is no secret."""
    found = {row.id: Ended(row.cluster, _nodes(row.node_list), row.end) for row in ended if row.end is not None}
    return nearest(Scope.everything(), found)


def _nodes(text: str) -> frozenset[str]:
    try:
        return frozenset(expand(text))
    except Bad:
        return frozenset()


def _named(fault: Fault | None) -> dict[str, Any]:
    return {"fault": fault.id, "fault_title": fault.title} if fault else {}


def _restored_steps(run: Run) -> dict[UUID, int]:
    """Attempt -> the step whose state it took up, as told first."""
    rows = Checkpoint.objects.filter(run=run.id, kind="restored").order_by("-position")
    return dict(rows.values_list("attempt", "step"))


def _lived(row: Attempt, told: Goodput | None, *, restored: bool) -> Lived:
    lost = row.state in LOSING if told is None else told.work_lost
    spent = None if told is None else Spent(
        {part: getattr(told, part) for part in PARTS}, {part: getattr(told, _SECONDS[part]) for part in PARTS}
    )  # fmt: skip
    start, end = round(row.start.timestamp()), None if row.end is None else round(row.end.timestamp())
    return Lived(row.id, row.job, start, end, lost and end is not None, restored, spent)


def _row(
    one: Interruption, attempts: Mapping[UUID, Attempt], told: Mapping[UUID, Goodput], steps: Mapping[UUID, int]
) -> dict[str, Any]:
    broken, words = attempts[one.broken.attempt], told.get(one.broken.attempt)
    resumed = None if one.resumed is None else attempts[one.resumed.attempt]
    known: dict[str, Any] = {
        "attempt": broken.id, "job_id": broken.job_id, "number": broken.number, "start": broken.start,
        "end": broken.end, **_moments(broken, words), "state": broken.state,
        "told": words.stopped_kind if words else "", "told_why": words.stopped_why if words else "", "fault": None,
        "fault_title": "",
        "gpus": broken.gpus if words is None else words.gpus, "last_step": words.last_step if words else None,
        "requeue_seconds": one.requeue_seconds, "requeue_gpu_seconds": None if resumed is None else 0,
        "stall_seconds": one.stall_seconds, "lost_gpu_seconds": one.lost_gpu_seconds,
        "resumed_attempt": resumed.id if resumed else None, "resumed_start": resumed.start if resumed else None,
        "resumed_step": steps.get(resumed.id) if resumed else None,
    }  # fmt: skip
    for part in PARTS:
        known[f"{part}_seconds"], known[f"{part}_gpu_seconds"] = one.seconds(part), one.gpu_seconds(part)
    return {name: known[name] for name in COLUMNS}


def _moments(broken: Attempt, words: Goodput | None) -> dict[str, datetime | None]:
    """When the last step ended and when it was noticed, from the parts after it; unknown where nothing was told."""
    if words is None or broken.end is None:
        return {"happened": None, "noticed": None}
    noticed = broken.end - timedelta(seconds=words.teardown_seconds)
    return {"happened": noticed - timedelta(seconds=words.detect_seconds), "noticed": noticed}
