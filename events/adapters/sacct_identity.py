"""Reads who a record of sacct is about: the job's own number, its step, its place in an array or het job."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from events.adapters.sacct_values import Bad, shown

__all__ = ["Identity", "numbered", "read_identity"]

_RAW_ID: Final = re.compile(r"([1-9][0-9]{0,18})(?:\.([^/\x00-\x1f]{1,200}))?")
_JOB_ID: Final = re.compile(
    r"([1-9][0-9]{0,18})(?:_([0-9]{1,18}|\[[^/\x00-\x1f\]]+\]?)|\+([0-9]{1,9}))?(?:\.([^/\x00-\x1f]{1,200}))?"
)


class Identity(NamedTuple):
    """The job's own number as text; step is None for a job record; the rest None outside array and het jobs.

    array_task is a number, or while tasks are pending their range such as `13-30%2` (cut to 160 characters).
    """

    job_id: str
    step: str | None = None
    array_job_id: str | None = None
    array_task: str | None = None
    het_job_id: str | None = None
    het_offset: int | None = None


def read_identity(raw: str, told: str) -> Identity:
    """Identity from the values of JobIDRaw and JobID, either of them empty when the file lacks it.

    Raises Bad: `bad_identity`, and `identity_missing` when JobID names a part of an array or het job (`33_5`,
    `35+0`) and JobIDRaw, which alone has the number of that part, is not there.
    """
    if raw == told and raw.isdecimal() and _RAW_ID.fullmatch(raw):
        return Identity(raw)
    base, task, offset, step = _parts(told)
    if raw:
        job_id, step = _raw_parts(raw)
    elif not base or task or offset:
        _missing(told)
    else:
        job_id = base
    if task:
        return Identity(job_id, step, base, task.strip("[]")[:160])
    return Identity(job_id, step, None, None, base, int(offset)) if offset else Identity(job_id, step)


def numbered(
    job: int | None, array: int | None, task: int | None, tasks: str | None, het: int | None, offset: int | None
) -> Identity:
    """Identity from the numbers that JSON tells, 0 and None where the job is no part of an array or het job.

    tasks: range of the tasks that are pending. Raises Bad `identity_missing`.
    """
    if not job:
        raise Bad("identity_missing", "no job id is told; every job of Slurm has one", "/job_id")
    if array:
        told = (tasks or "").strip("[]")[:160] if task is None else str(task)
        return Identity(str(job), None, str(array), told or None)
    return Identity(str(job), None, None, None, str(het), offset) if het else Identity(str(job))


def _parts(told: str) -> tuple[str | None, str | None, str | None, str | None]:
    if not told:
        return None, None, None, None
    match = _JOB_ID.fullmatch(told)
    if match is None:
        raise Bad("bad_identity", f"{shown(told)} is no job id of sacct", "JobID")
    return match[1], match[2], match[3], match[4]


def _raw_parts(raw: str) -> tuple[str, str | None]:
    match = _RAW_ID.fullmatch(raw)
    if match is None:
        raise Bad("bad_identity", f"{shown(raw)} is no raw job id; expected NUMBER or NUMBER.STEP", "JobIDRaw")
    return match[1], match[2]


def _missing(told: str) -> NoReturn:
    found = f"{shown(told)} is a part of a job and does not tell that part's own number" if told else "no job id"
    raise Bad("identity_missing", f"{found}; add the column JobIDRaw to --format", "JobIDRaw")
