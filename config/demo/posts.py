"""What a Slurm posts by itself: jobcomp/elasticsearch about an ended run, and the hooks of a run's start and end.

The shapes are those of the real posts in tests/payloads; only what a ledger needs of them is filled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from config.demo.hall import CLUSTER, Hall
from config.demo.tell import EXIT_CODES, node_list, tres, uid
from config.demo.truth import Attempt, Job, Size

__all__ = ["BROKEN", "ended", "epilogs", "prologs"]

HEAD: Final = "head01"
BROKEN: Final = (
    b'{"jobid":19990,"username":"mdietz","@start":"2026-01-05T10:57:47","@end":"2026-01-05T10:58:53",'
    b'"partition":"train","nodes":"gpu0'
)
"""A post whose connection broke in the middle."""


def ended(hall: Hall, job: Job, attempt: Attempt | None) -> Iterator[bytes]:
    """The jobcomp posts of an attempt that has ended, one for each size; None: cancelled before it began."""
    if attempt is None:
        yield _post(hall, job, (job.submit, job.end, job.end), job.state)
        return
    for place, size in enumerate(attempt.sizes[:-1]):
        closed = attempt.sizes[place + 1].start
        yield _post(hall, job, (attempt.submit, closed, closed), "RESIZING", size, attempt)
    last = attempt.sizes[-1]
    yield _post(hall, job, (attempt.submit, last.start, attempt.end), attempt.state, last, attempt)


def _post(
    hall: Hall, job: Job, times: tuple[int, int | None, int | None], state: str, size: Size | None = None,
    attempt: Attempt | None = None,
) -> bytes:  # fmt: skip
    """times: submission, start and end; of a part that a resize closed the resize is told as its start."""
    ask, (submit, start, end) = job.ask, times
    said: dict[str, Any] = {
        "jobid": job.id, "username": ask.user, "user_id": uid(ask.user), "groupname": "users", "group_id": 100,
        "@start": _utc(start), "@end": _utc(end),
        "elapsed": (end or 0) - (attempt.start if attempt else start or 0), "partition": ask.partition,
        "alloc_node": HEAD, "nodes": node_list([hall.name(node) for node in size.nodes]) if size else "",
        "total_cpus": size.cpus if size else 0, "total_nodes": len(size.nodes) if size else 0,
        "exit_code": EXIT_CODES.get(state, "0:0"), "state": state, "@submit": _utc(submit),
        "@eligible": _utc(attempt.eligible if attempt else job.eligible or submit), "cluster": CLUSTER, "qos": ask.qos,
        "time_limit": ask.limit, "job_name": ask.name, "account": ask.account,
    }  # fmt: skip
    if size:
        said["tres_alloc"] = tres(hall, size)
    if ask.comment:
        said["comment"] = ask.comment
    if job.array:
        said |= {"array_job_id": job.array.id, "array_task_id": job.task}
    if job.het:
        said |= {"het_job_id": job.het[0], "het_job_offset": job.het[1]}
    return json.dumps(said, separators=(",", ":")).encode()


def prologs(hall: Hall, attempt: Attempt) -> Iterator[bytes]:
    """PrologSlurmctld, and the prolog of each node with the GPUs that the job has there."""
    size = attempt.sizes[0]
    yield _hook(hall, attempt, "prologslurmctld", HEAD, attempt.start, "")
    for node, mask in zip(size.nodes, size.masks, strict=True):
        yield _hook(hall, attempt, "prolog", hall.name(node), attempt.start, _indices(mask))


def epilogs(hall: Hall, attempt: Attempt) -> Iterator[bytes]:
    """The epilog of each node, and EpilogSlurmctld; none comes from a node that failed."""
    size, end = attempt.sizes[-1], attempt.end or attempt.start
    if attempt.state != "NODE_FAIL":
        for node, mask in zip(size.nodes, size.masks, strict=True):
            yield _hook(hall, attempt, "epilog", hall.name(node), end, _indices(mask))
    yield _hook(hall, attempt, "epilogslurmctld", HEAD, end, "")


def _hook(hall: Hall, attempt: Attempt, name: str, host: str, at: int, gpus: str) -> bytes:
    job, ask, size = attempt.job, attempt.job.ask, attempt.sizes[0]
    each, odd = divmod(size.cpus, len(size.nodes))
    environment = {
        "SLURM_CLUSTER_NAME": CLUSTER, "SLURM_JOB_ID": str(job.id), "SLURM_JOB_USER": ask.user,
        "SLURM_JOB_ACCOUNT": ask.account, "SLURM_JOB_PARTITION": ask.partition,
        "SLURM_JOB_NODELIST": node_list([hall.name(node) for node in size.nodes]),
        "SLURM_JOB_NUM_NODES": str(len(size.nodes)), "SLURM_JOB_RESTART_COUNT": str(attempt.number - 1),
        "SLURM_JOB_START_TIME": str(attempt.start), "SLURMD_NODENAME": host if host != HEAD else "",
        "SLURM_JOB_CPUS_PER_NODE": "" if odd else f"{each}(x{len(size.nodes)})", "SLURM_JOB_GPUS": gpus,
    }  # fmt: skip
    if host == HEAD:
        environment["SLURM_JOB_NAME"] = ask.name
    if ask.comment:
        environment["SLURM_JOB_COMMENT"] = ask.comment
    told = {key: value for key, value in environment.items() if value}
    return json.dumps({"hook": name, "host": host, "time": at, "args": [], "env": told}, separators=(",", ":")).encode()


def _indices(mask: int) -> str:
    return ",".join(str(place) for place in range(mask.bit_length()) if mask >> place & 1)


def _utc(at: int | None) -> str:
    return "Unknown" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"
