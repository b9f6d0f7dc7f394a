"""What the scheduler's own list of jobs shows of those that wait, as somebody sees it who asks every 30 seconds.

Only what has changed since the look before is told, as Hallbook's own puller does. The shape is that of slurmrestd
v0.0.40 (see tests/payloads/slurm); only what a ledger needs of it is filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from config.demo.hall import CLUSTER, GPUS
from config.demo.truth import Array, Job, Why

__all__ = ["POLL", "Look", "at_last", "bodies", "in_bulk", "looks", "record", "rounded"]

POLL: Final = 30
"""Seconds between two looks, at every half and full minute."""
NEAR: Final = 7200
STEP, FAR = 600, 3600
"""An expected start within two hours moves by ten minutes, a later one by the hour: less is not told anew."""
BODY: Final = 2_000
"""Jobs in one list."""


class _Wait(NamedTuple):
    """One wait of a job, in [submit, end). array: its tasks that have never run wait together."""

    job: Job
    submit: int
    end: int | None
    eligible: int | None
    number: int
    array: Array | None = None


class Look(NamedTuple):
    """What is new of a job at the look at `at`."""

    at: int
    wait: _Wait
    why: Why


def looks(jobs: Iterable[Job], after: int, until: int) -> Iterator[Look]:
    """What was new at the looks in (after, until], job by job."""
    for job in jobs:
        if job.touched >= after or (job.end is None and job.state == "PENDING"):
            for wait in _waits(job):
                if wait.end is None or wait.end > after:
                    yield from _news(wait, after, until)


def at_last(found: Iterable[Look], now: int) -> list[Look]:
    """What the last look alone would have seen of all that was new since an earlier one."""
    at, kept = now - now % POLL, {}
    for look in found:
        if look.wait.end is None or look.wait.end > at:
            kept[id(look.wait.job)] = look._replace(at=at)
    return list(kept.values())


def _waits(job: Job) -> Iterator[_Wait]:
    """Its waits under a number of its own, before each attempt and at last; an array's under its last task."""
    array = job.array
    for attempt in job.attempts:
        if array is None or attempt.number > 1:
            yield _Wait(job, attempt.submit, attempt.start, attempt.eligible, attempt.number)
        elif job is array.tasks[-1]:
            yield _Wait(job, attempt.submit, attempt.start, attempt.eligible, 1, array)
    if job.state == "PENDING" or not job.attempts:
        together = array if array is not None and not job.attempts else None
        if together is None or job is together.tasks[-1]:
            yield _Wait(job, job.submit, job.end, job.eligible, len(job.attempts) + 1, together)


def _news(wait: _Wait, after: int, until: int) -> Iterator[Look]:
    last: tuple[str, int | None] | None = None
    for at, why in _seen(wait):
        if at > until or (wait.end is not None and at >= wait.end):
            return
        said = why.reason, rounded(why.expected, at)
        if said != last and at > after:
            yield Look(at, wait, why)
        last = said


def _seen(wait: _Wait) -> Iterator[tuple[int, Why]]:
    """At which look something else than before could be seen; of several things between two looks the last."""
    told = wait.array.told if wait.array is not None else wait.job.told
    ends = [why.at for why in told[1:]]
    seen: dict[int, Why] = {}
    for why, end in zip(told, [*ends, wait.end], strict=True):
        if why.at < wait.submit or (wait.end is not None and why.at >= wait.end):
            continue
        seen[-(-why.at // POLL) * POLL] = why
        near = -(-((why.expected or 0) - NEAR) // POLL) * POLL
        if near > why.at and (end is None or near < end):
            seen[near] = why
    yield from sorted(seen.items())


def rounded(expected: int | None, at: int) -> int | None:
    """As far as an expected start is told at a look."""
    if expected is None:
        return None
    step = STEP if expected - at <= NEAR else FAR
    return -(-expected // step) * step


def bodies(found: Iterable[Look]) -> Iterator[tuple[int, bytes]]:
    """(looked at, list of jobs) for each look at which something was new, in order."""
    for at, together in groupby(sorted(found, key=attrgetter("at")), key=attrgetter("at")):
        yield at, msgspec.json.encode({"jobs": [record(look) for look in together]})


def in_bulk(found: Iterable[Look]) -> Iterator[bytes]:
    """The same in few long lists, in which each job says itself when it was looked at."""
    ordered = sorted(found, key=attrgetter("at"))
    for first in range(0, len(ordered), BODY):
        yield msgspec.json.encode({"jobs": [record(look) for look in ordered[first : first + BODY]]})


def record(look: Look) -> dict[str, Any]:
    """One job of the list."""
    job, ask = look.wait.job, look.wait.job.ask
    nodes = max(1, ask.gpus // GPUS)
    asked = [f"cpu={ask.cpus}", f"node={nodes}", *([f"gres/gpu={ask.gpus}"] if ask.gpus else ())]
    return {
        "account": ask.account, "cluster": CLUSTER, "comment": ask.comment, "cpus": _number(ask.cpus),
        "dependency": "", "eligible_time": _number(_eligible(look) or 0), "job_id": job.id or _array_id(look),
        "job_state": ["PENDING"], "last_sched_evaluation": _number(look.at), "name": ask.name,
        "node_count": _number(nodes), "partition": ask.partition, "qos": ask.qos,
        "restart_cnt": look.wait.number - 1, "start_time": _number(look.why.expected or 0),
        "state_reason": look.why.reason, "submit_time": _number(look.wait.submit),
        "time_limit": _number(ask.limit // 60), "tres_req_str": ",".join(asked), "user_name": ask.user,
        **_together(look),
    }  # fmt: skip


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _array_id(look: Look) -> int:
    array = look.wait.job.array
    return array.id if array is not None else 0


def _eligible(look: Look) -> int | None:
    """Since when, or from when on, it could start; of a held job nobody knows."""
    wait = look.wait
    held = wait.job.ask.held if wait.number == 1 else None
    return None if held and look.at < wait.submit + held else wait.eligible


def _together(look: Look) -> dict[str, Any]:
    """The array or the other part that it belongs to."""
    job, array = look.wait.job, look.wait.job.array
    if job.het is not None:
        return {"het_job_id": _number(job.het[0]), "het_job_offset": _number(job.het[1])}
    if array is None:
        return {}
    task = {"array_job_id": _number(array.id), "array_task_id": _number(job.task), "array_task_string": ""}
    if look.wait.array is None:
        return task
    begun = sum(bool(one.attempts) and one.attempts[0].start <= look.at for one in array.tasks)
    if len(array.tasks) - begun == 1:
        return task
    return task | {
        "array_task_id": {"set": False, "infinite": False, "number": 0},
        "array_task_string": f"{begun}-{job.task}%{array.most}",
    }
