"""From folded jobs to rows of the read models; keys derive from streams, so every rebuild makes the same."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from events.derive.attempts import Attempt, Job, Segment

SPACE: Final = uuid.UUID("6f0f4e8e-6f0e-5f0b-9d53-5a5a3c1d9e10")
"""Namespace of the uuid5 keys of jobs and attempts."""
YEAR_2000: Final = 946_684_800
"""The server counts the microseconds of an instant from here (epoch seconds)."""
MOST: Final = 2**63 - 1
"""What a sum is cut to: absurd sizes must not stop the books."""
_TEXT_OID: Final = 25
_INT4_OID: Final = 23

# Types as they go over the wire: an instant is a whole number there, an array is packed once for all equal ones.
JOB: Final = ("id", "stream", "cluster", "job_id", "seq", "array_job_id", "array_task", "het_job_id", "het_offset",
              "account", "user_id", "partition", "qos", "name", "comment", "submit", "eligible", "start", "end",
              "state", "reason", "limit_seconds", "asked_nodes", "asked_cpus", "asked_gpus", "dependency", "attempts",
              "run", "run_name", "generation", "position")  # fmt: skip
JOB_TYPES: Final = ("uuid", "text", "text", "text", "int4", "text", "text", "text", "int4", "text", "text", "text",
                    "text", "text", "text", "int8", "int8", "int8", "int8", "text",
                    "text", "int8", "int4", "int4", "int4", "text", "int4", "uuid", "text",
                    "int4", "int8")  # fmt: skip
RUN: Final = ("id", "name", "generation", "named", "cluster", "account", "user_id", "submit", "start_at", "end_at",
              "state", "jobs", "attempts", "gpus", "gpu_seconds", "node_seconds", "position")  # fmt: skip
RUN_TYPES: Final = ("uuid", "text", "int4", "bool", "text", "text", "text", "int8", "int8", "int8", "text", "int4",
                    "int4", "int4", "int8", "int8", "int8")  # fmt: skip
ATTEMPT: Final = ("id", "stream", "job", "cluster", "job_id", "number", "record", "account", "user_id", "partition",
                  "qos", "submit", "eligible", "start_at", "end_at", "state", "reason", "exit_code", "exit_signal",
                  "nodes", "cpus", "gpus", "node_list", "suspended_seconds", "energy_j", "confirmed", "disagree",
                  "corrected", "lost", "run", "gpu_seconds", "gpu_indices", "sources", "position")  # fmt: skip
ATTEMPT_TYPES: Final = ("uuid", "text", "uuid", "text", "text", "int4", "int8", "text", "text", "text", "text",
                        "int8", "int8", "int8", "int8", "text", "text", "int4", "int4",
                        "int4", "int4", "int4", "text", "int8", "int8", "bool", "bool", "bool", "bool", "uuid",
                        "int8", "text", "text", "int8")  # fmt: skip
SEGMENT: Final = ("attempt", "seq", "run", "stream", "cluster", "account", "user_id", "partition", "start_at", "end_at",
                  "nodes", "cpus", "gpus", "classes", "units", "suspended_seconds", "opening", "closing",
                  "job_opening", "job_closing")  # fmt: skip
SEGMENT_TYPES: Final = ("uuid", "int4", "uuid", "text", "text", "text", "text", "text", "int8", "int8", "int4",
                        "int4", "int4", "bytea", "bytea", "int8", "bool", "bool", "bool", "bool")  # fmt: skip
Row = tuple[Any, ...]


def instant(seconds: int | None) -> int | None:
    """Epoch seconds as the server's instant."""
    return None if seconds is None else (seconds - YEAR_2000) * 1_000_000


def job_row(stream: str, cluster: str, raw: str, job: Job) -> Row:
    """One row of jobs_job."""
    first = job.attempts[0] if job.attempts else None
    return (
        job_key(stream, job.seq), stream, cluster, raw, job.seq, job.array_job_id, job.array_task, job.het_job_id,
        job.het_offset, job.account or "", job.user or "", job.partition or "", job.qos or "", job.name or "",
        job.comment or "", instant(job.submit), instant(job.eligible), instant(first.start if first else None),
        instant(job.over), job.state, job.reason or "", job.limit_seconds, *job.asked, job.dependency or "",
        len(job.attempts), run_key(stream, job), job.run or "", job.generation, job.last_position,
    )  # fmt: skip


def run_row(stream: str, cluster: str, job: Job) -> Row:
    """The row of jobs_run of a job without a run name. Runs of several jobs: `sql/runs.sql`."""
    first = job.attempts[0] if job.attempts else None
    ended = [one for one in job.attempts if one.end is not None]
    return (
        job_key(stream, job.seq), "", 1, False, cluster, job.account or "", job.user or "", instant(job.submit),
        instant(first.start if first else None), instant(job.over), job.state, 1, len(job.attempts),
        max((segment.gpus or 0 for one in job.attempts for segment in one.segments), default=0),
        min(MOST, sum(held_seconds(one, "gpus") for one in ended)),
        min(MOST, sum(held_seconds(one, "nodes") for one in ended)),
        job.last_position,
    )  # fmt: skip


def held_seconds(attempt: Attempt, what: str) -> int:
    """Seconds times `gpus` or `nodes` over the stretches of an ended attempt."""
    return sum(((one.end or one.start) - one.start) * (getattr(one, what) or 0) for one in attempt.segments)


def run_key(stream: str, job: Job) -> uuid.UUID:
    """Key of the run a job belongs to: of account and name, or the job's own."""
    return named_run_key(job.account or "", job.run, job.generation) if job.run else job_key(stream, job.seq)


@lru_cache(maxsize=4096)
def named_run_key(account: str, name: str, generation: int = 1) -> uuid.UUID:
    """Key of the run that the jobs of an account name; generation: one more with each closing of the name."""
    return uuid.uuid5(SPACE, f"run/{account}/{name}" + (f"/{generation}" if generation > 1 else ""))


@lru_cache(maxsize=64)
def job_key(stream: str, seq: int) -> uuid.UUID:
    """Key of the seq-th job of a stream."""
    return uuid.uuid5(SPACE, f"{stream}#{seq}")


def attempt_key(stream: str, seq: int, number: int) -> uuid.UUID:
    """Key of the number-th attempt of the seq-th job of a stream."""
    return uuid.uuid5(SPACE, f"{stream}#{seq}.{number}")


def attempt_row(stream: str, cluster: str, raw: str, job: Job, attempt: Attempt) -> Row:
    """One row of jobs_attempt."""
    size = attempt.segments[0] if attempt.segments else None
    return (
        attempt_key(stream, job.seq, attempt.number), stream, job_key(stream, job.seq), cluster, raw,
        attempt.number, attempt.record, attempt.account or "", attempt.user or "", attempt.partition or "",
        attempt.qos or "", instant(attempt.submit), instant(attempt.eligible), instant(attempt.start),
        instant(attempt.end), attempt.state, attempt.reason or "", attempt.exit_code, attempt.exit_signal,
        size.nodes if size else None, size.cpus if size else None, size.gpus if size else None,
        attempt.node_list or "", attempt.suspended_seconds, attempt.energy_j, attempt.confirmed, attempt.disagree,
        attempt.corrected, attempt.lost, run_key(stream, job),
        None if attempt.end is None else held_seconds(attempt, "gpus"), " ".join(attempt.gpu_indices),
        ",".join(attempt.sources), attempt.last_position,
    )  # fmt: skip


def segment_rows(attempt_id: uuid.UUID, stream: str, cluster: str, job: Job, attempt: Attempt) -> Iterator[Row]:
    """The rows of jobs_segment of one attempt."""
    last = len(attempt.segments) - 1
    final = attempt.number == job.attempts[-1].number and job.over is not None
    run = run_key(stream, job)
    for seq, segment in enumerate(attempt.segments):
        closing = seq == last and segment.end is not None
        classes, units = resource_classes(segment)
        held = packed_texts(tuple(classes)), packed_numbers(tuple(units))
        yield (
            attempt_id, seq, run, stream, cluster, attempt.account or "", attempt.user or "", attempt.partition or "",
            instant(segment.start), instant(segment.end), segment.nodes or 0, segment.cpus or 0, segment.gpus or 0,
            *held, attempt.suspended_seconds if closing else 0, seq == 0, closing,
            seq == 0 and attempt.number == job.attempts[0].number, closing and final,
        )  # fmt: skip


def resource_classes(segment: Segment) -> tuple[list[str], list[int]]:
    """Which resource classes a stretch holds, and how many units of each.

    GPUs by type in lower case, those without a type as `gpu`; an allocation without GPUs holds CPUs.
    """
    if not segment.gpus:
        return (["cpu"], [segment.cpus]) if segment.cpus else ([], [])
    # A type called `cpu` must not pass for the class of allocations without GPUs.
    typed = [("gpu" if name.lower() == "cpu" else name.lower(), count) for name, count in segment.gpu_types if count]
    rest = segment.gpus - sum(count for _, count in typed)
    if rest < 0:  # types that do not add up to the total: the total is what was allocated
        typed, rest = [], segment.gpus
    found = typed + ([("gpu", rest)] if rest else [])
    return [name for name, _ in found], [count for _, count in found]


@lru_cache(maxsize=4096)
def packed_texts(words: tuple[str, ...]) -> bytes:
    """A text[] as it goes over the wire."""
    return _packed(_TEXT_OID, [word.encode() for word in words])


@lru_cache(maxsize=4096)
def packed_numbers(numbers: tuple[int, ...]) -> bytes:
    """An int4[] as it goes over the wire. Raises struct.error for a number that is none."""
    return _packed(_INT4_OID, [struct.pack(">i", number) for number in numbers])


def _packed(oid: int, items: Sequence[bytes]) -> bytes:
    if not items:
        return struct.pack(">iii", 0, 0, oid)
    return struct.pack(">iiiii", 1, 0, oid, len(items), 1) + b"".join(
        struct.pack(">i", len(item)) + item for item in items
    )
