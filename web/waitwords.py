"""What a waiting job waits for, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from jobs.waiting_now import (
    Depends,
    DependsOn,
    Full,
    HeldBack,
    Nodes,
    OwnLimit,
    OwnShare,
    Unknown,
    WaitingJob,
)
from jobs.waitsfor import Holder, Unit
from web import figures
from web.history import counted

__all__ = ["OTHERS", "depends_on", "holders", "limit", "unit", "waits_for"]

Moment = Callable[[datetime], str]
OTHERS: Final = "other projects"
_MOST: Final = 3
"""Projects and jobs that are named in a sentence."""
_HELD: Final = {
    "user": "its user, who holds it",
    "operator": "an operator, who holds it",
    "time": "the time from which it may start",
    "scheduler": "a release: its scheduler holds it after a failed start or with a deleted reservation",
}
_LIMITS: Final = {
    "array": "tasks of its array", "user": "jobs of its user", "user_qos": "jobs of its user",
    "account": "jobs of its account", "qos": "jobs of its QOS", "request": "",
}  # fmt: skip


def unit(kind: Unit, amount: int) -> str:
    """An amount with its unit: '96 GPUs'."""
    return counted(amount, "GPU" if kind == "gpus" else "CPU")


def waits_for(row: WaitingJob, moment: Moment) -> str:
    """What a row waits for. moment: how an instant is written."""
    match row.waits_for:
        case HeldBack(by, until):
            said = f"{_HELD[by]}{f', {moment(until)}' if until else ''}"
        case Depends(on):
            said = _jobs(on) if on else "other jobs or a time; its scheduler does not tell which"
        case OwnLimit() as found:
            said = limit(found)
        case OwnShare() as found:
            said = _share(found, row.partition)
        case Full() as found:
            said = _room(found, row, moment)
        case Nodes() as found:
            said = _nodes(found)
        case Unknown(looked):
            said = f"no data: {'its scheduler gives no reason' if looked else 'nobody asked its scheduler'}"
    return said


def _jobs(on: Sequence[DependsOn]) -> str:
    shown = [depends_on(one) for one in on[:_MOST]]
    return ", ".join(shown) + (f" and {len(on) - _MOST} more" if len(on) > _MOST else "")


def depends_on(one: DependsOn) -> str:
    """One condition: 'the end of job 412 (afterany)'."""
    if not one.job_id:
        return f"jobs of the same name and user ({one.kind})"
    task = f"_{one.task}" if one.task else ""
    return f"job {one.job_id}{task} ({one.kind})"


def limit(found: OwnLimit) -> str:
    """Whose running jobs use a limit up."""
    if found.of == "request":
        return "a larger limit: it asks for more than it may have"
    gpus = f", {counted(found.gpus, 'GPU')}" if found.gpus else ""
    if found.attempts == 1:
        return f"an end of a running {_LIMITS[found.of].replace('s of', ' of', 1)}{gpus}"
    return f"an end of {figures.thousands(found.attempts)} running {_LIMITS[found.of]}{gpus}"


def _share(found: OwnShare, partition: str) -> str:
    """Its place, how many wait beside it, and GPUs that are free all the same."""
    place = "its place is not told"
    if found.told:
        earlier = f"{counted(found.jobs_before, 'job')} expected earlier, {counted(found.gpus_before, 'GPU')}"
        place = earlier if found.jobs_before else "no job is expected earlier"
    said = f"its turn: {place}; {_beside(found, partition)}"
    if not found.free:
        return said
    be = "is" if found.free == 1 else "are"
    return f"{said}; {counted(found.free, 'GPU')} of {partition} {be} free; a larger job may be keeping them"


def _beside(found: OwnShare, partition: str) -> str:
    if not found.jobs_beside:
        return f"no other job waits for {partition}"
    wait = "waits" if found.jobs_beside == 1 else "wait"
    return f"{counted(found.jobs_beside, 'other job')} {wait} for {partition}, {counted(found.gpus_beside, 'GPU')}"


def _nodes(found: Nodes) -> str:
    """Which nodes take no work: '3 nodes that take no work: gpu003 draining, gpu005 drained, gpu006'."""
    if not found.held:
        return "nodes that it needs; which: no data" if not found.known else "nodes that are kept for others"
    shown = ", ".join(f"{one.name} {one.state.replace('_', ' ')}".strip() for one in found.held[:_MOST])
    rest = f" and {len(found.held) - _MOST} more" if len(found.held) > _MOST else ""
    return f"{counted(len(found.held), 'node')} that take no work: {shown}{rest}"


def _room(found: Full, row: WaitingJob, moment: Moment) -> str:
    """Who holds its partition, how much of it is free, and until when that is too little."""
    said = f"room in {row.partition}, in which nothing runs that the books know of"
    if found.held:
        said = f"room in {row.partition}: {unit(found.unit, found.held)} held by {holders(found.holders)}"
    wanted = row.gpus if found.unit == "gpus" else row.cpus
    if found.free is not None:
        free = f"{unit(found.unit, found.free)} {'is' if found.free == 1 else 'are'} free now"
        if wanted is not None and wanted <= found.free:
            return f"{said}; {free}, not where it needs them, or kept for others"
        said += f"; {free}" if found.free else "; none is free now"
    return f"{said}; limits give back enough by {moment(found.enough_at)}" if found.enough_at else said


def holders(found: Sequence[Holder]) -> str:
    """Who holds how much: 'atlas 64, vision 32, 2 more 16'."""
    shown = [f"{one.project or OTHERS} {figures.thousands(one.amount)}" for one in found[:_MOST]]
    rest = found[_MOST:]
    if rest:
        shown.append(f"{len(rest)} more {figures.thousands(sum(one.amount for one in rest))}")
    return ", ".join(shown)
