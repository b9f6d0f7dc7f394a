"""How a Slurm tells what happened: the accounting's text (`sacct -D -P` with epoch times), one row per record.

A requeue, a preemption and a resize open another record of the same job; both parts of a resized job begin at the
job's start (see the README of tests/payloads/slurm).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from config.demo.hall import CLUSTER, Hall
from config.demo.truth import Attempt, Job, Size

__all__ = ["COLUMNS", "node_list", "rows", "tres"]

COLUMNS: Final = (
    "JobIDRaw", "JobID", "DBIndex", "Cluster", "Account", "User", "Partition", "QOS", "JobName", "Comment", "Submit",
    "Eligible", "Start", "End", "State", "ExitCode", "Reason", "NNodes", "NCPUS", "AllocTRES", "NodeList",
    "Suspended", "TimelimitRaw",
)  # fmt: skip
EXIT_CODES: Final = {"FAILED": "1:0", "NODE_FAIL": "1:0", "OUT_OF_MEMORY": "0:125"}
FIRST_UID: Final = 42_000


def rows(hall: Hall, jobs: Iterable[Job]) -> Iterator[str]:
    """Every accounting record of these jobs, as lines without their ends."""
    for job in jobs:
        if job.id is None:
            continue
        for attempt in job.attempts:
            for place, size in enumerate(attempt.sizes):
                yield _row(hall, job, attempt, place, size)
        if not job.attempts or (job.state == "PENDING" and job.end is None):
            yield _waiting(job)


def _row(hall: Hall, job: Job, attempt: Attempt, place: int, size: Size) -> str:
    final = place == len(attempt.sizes) - 1
    end = attempt.end if final else attempt.sizes[place + 1].start
    return "|".join((
        *_who(job, size.record), str(size.opened), str(attempt.eligible), str(attempt.start), _time(end),
        _state(job, attempt.state) if final else "RESIZING",
        EXIT_CODES.get(attempt.state, "0:0"), "None", str(len(size.nodes)), str(size.cpus), tres(hall, size),
        node_list([hall.name(node) for node in size.nodes]), _clock(attempt.suspended if final and end else 0),
        str(job.ask.limit // 60),
    ))  # fmt: skip


def _waiting(job: Job) -> str:
    """A record without an allocation: it waits, or was cancelled while it did."""
    start, nodes = ("Unknown", "None assigned") if job.end is None else ("None", "None assigned")
    return "|".join((
        *_who(job, job.record), str(job.submit), _time(job.eligible), start, _time(job.end),
        _state(job, job.state), "0:0", job.reason if job.end is None else "None", "", "", "", nodes,
        "00:00:00", str(job.ask.limit // 60),
    ))  # fmt: skip


def _who(job: Job, record: int) -> tuple[str, ...]:
    ask = job.ask
    return (
        str(job.id), _shown_id(job), str(record), CLUSTER, ask.account, ask.user, ask.partition, ask.qos, ask.name,
        ask.comment,
    )  # fmt: skip


def _shown_id(job: Job) -> str:
    """The job as users see it: a task of an array, the tasks that wait, a part of a het job, or its number."""
    if job.array is not None:
        first = len(job.array.tasks) - job.array.waiting
        waits = not job.attempts and job.array.waiting > 1
        return f"{job.array.id}_[{first}-{job.task}]" if waits else f"{job.array.id}_{job.task}"
    if job.het is not None:
        return f"{job.het[0]}+{job.het[1]}"
    return str(job.id)


def _state(job: Job, state: str) -> str:
    return f"CANCELLED by {uid(job.ask.user)}" if state == "CANCELLED" else state


def uid(user: str) -> int:
    """A made-up number of a user, the same every time."""
    return FIRST_UID + sum(ord(letter) * (place + 1) * 7 for place, letter in enumerate(user)) % 5000


def _time(at: int | None) -> str:
    return "Unknown" if at is None else str(at)


def _clock(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"


def tres(hall: Hall, size: Size) -> str:
    """AllocTRES; GPUs in total and once more by type, as Slurm writes them."""
    types: dict[str, int] = {}
    for node, mask in zip(size.nodes, size.masks, strict=True):
        if mask:
            types[hall.gpu_type(node)] = types.get(hall.gpu_type(node), 0) + mask.bit_count()
    gpus = [f"gres/gpu:{name}={count}" for name, count in sorted(types.items())]
    total = [f"gres/gpu={size.gpus}"] if types else []
    return ",".join([f"cpu={size.cpus}", *gpus, *total, f"node={len(size.nodes)}"])


def node_list(names: Sequence[str]) -> str:
    """Host names as Slurm shortens them: `gpu[001-004,007]`."""
    if len(names) == 1:
        return names[0]
    numbers = [int(name[3:]) for name in sorted(names)]
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    parts = [f"{run[0]:03d}" if len(run) == 1 else f"{run[0]:03d}-{run[-1]:03d}" for run in runs]
    return f"{names[0][:3]}[{','.join(parts)}]"
