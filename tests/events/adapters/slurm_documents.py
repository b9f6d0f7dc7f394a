"""Reads the captured JSON of Slurm for the tests, and writes it anew as a younger generation would."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from events.adapters import Draft, Refusal
from events.adapters.slurm_json import sacct_json, slurmctld_jobs, slurmdb_jobs, squeue_json
from events.derive.attempts import Sighting
from events.types.jobs import JobReported, StepReported
from tests.events.adapters.sacct_files import SLURM, table

Items = list[Draft | Refusal]
Adapter = Callable[[str, dict[str, str], bytes], Items]
SACCT = SLURM / "sacct" / "all.json.gz"
SLURMDB = SLURM / "rest" / "slurmdb_v0.0.38_jobs.json.gz"
SLURMCTLD = SLURM / "rest" / "slurm_v0.0.38_jobs.json.gz"
OLDER = SLURM / "rest" / "slurm_v0.0.37_jobs.json.gz"
SQUEUE = SLURM / "scontrol" / "squeue.json.gz"
CONSTRUCTED = SLURM / "constructed"
MADE_BY: dict[Path, Adapter] = {
    SACCT: sacct_json,
    SLURMDB: slurmdb_jobs,
    SLURMCTLD: slurmctld_jobs,
    OLDER: slurmctld_jobs,
    SQUEUE: squeue_json,
}


def body(path: Path) -> bytes:
    """A stored body, unzipped."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def document(path: Path) -> dict[str, Any]:
    """A stored body as plain JSON."""
    loaded: dict[str, Any] = json.loads(body(path))
    return loaded


def dump(jobs: Iterable[Any], **more: Any) -> bytes:
    """A document of jobs."""
    return json.dumps({"meta": {}, "errors": [], **more, "jobs": list(jobs)}).encode()


def drafts_of(path: Path) -> list[Draft]:
    """The drafts of a captured document, which is wholly good."""
    made = MADE_BY[path]("application/json", {}, body(path))
    assert not [item for item in made if isinstance(item, Refusal)]
    return [item for item in made if isinstance(item, Draft)]


def jobs_of(path: Path) -> dict[tuple[str, int | None], JobReported]:
    """The job records of a captured document by job id and submission."""
    found = [draft.data for draft in drafts_of(path) if isinstance(draft.data, JobReported)]
    by_key = {(job.job_id, job.submit): job for job in found}
    assert len(by_key) == len(found)
    return by_key


def live(**job: Any) -> Draft | Refusal:
    """What becomes of one job of the scheduler, given by the fields that differ from a plain running one."""
    plain = {"job_id": 7, "cluster": "pod-a", "job_state": "RUNNING", "submit_time": 1000, "start_time": 1010}
    (made,) = slurmctld_jobs("", {}, dump([{**plain, **job}]))
    return made


def record(**job: Any) -> Items:
    """What becomes of one accounting record, given by the fields that differ from a plain completed one."""
    time = {"submission": 1000, "eligible": 1001, "start": 1010, "end": 1070, "suspended": 0, "limit": 2}
    plain = {"job_id": 7, "cluster": "pod-a", "nodes": "gpu001", "state": {"current": "COMPLETED"}, "time": time}
    return sacct_json("", {}, dump([{**plain, **job}]))


def of_job(item: Draft | Refusal) -> JobReported:
    """The data of a draft of a job."""
    assert isinstance(item, Draft), item
    assert isinstance(item.data, JobReported)
    return item.data


def of_step(item: Draft | Refusal) -> StepReported:
    """The data of a draft of a step."""
    assert isinstance(item, Draft), item
    assert isinstance(item.data, StepReported)
    return item.data


def sightings(drafts: Iterable[Draft]) -> dict[str, list[Sighting]]:
    """The sightings of jobs by job id, as the log would hold them."""
    streams: dict[str, list[Sighting]] = {}
    for position, draft in enumerate(drafts, 1):
        if isinstance(draft.data, JobReported):
            source = draft.source or "sacct:pod-a"
            one = Sighting(position, source, draft.native_key, draft.type, draft.occurred_us, draft.data)
            streams.setdefault(draft.data.job_id, []).append(one)
    return streams


def rows() -> dict[tuple[str, int], dict[str, str]]:
    """Rows of the accounting's own job table by job id and submission."""
    return {(row["id_job"], int(row["time_submit"])): row for row in table("job.tsv")}


# The same facts as a younger generation writes them: data_parser v0.0.40 to v0.0.44.

_BASE = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


def number(value: int | None) -> dict[str, Any]:
    """A number as v0.0.40 writes it."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def states(word: str) -> list[str]:
    """The base state and flags: a record that a requeue or a resize closed is pending in the database."""
    return [word] if word in _BASE else ["PENDING", word]


def exit_code(status: int) -> dict[str, Any]:
    """How a process with this wait status ended."""
    code, signal = status >> 8, status & 0x7F
    status_word = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return {
        "status": [status_word],
        "return_code": number(None if signal else code),
        "signal": {"id": number(signal or None), "name": "KILL" if signal else ""},
    }


def younger_record(old: dict[str, Any], status: int | None) -> dict[str, Any]:
    """An accounting record of 22.05 as 25.11 writes it; status: wait status in the database, if it is known."""
    new = {key: value for key, value in old.items() if key not in ("reservation", "required")}
    new["array"] = {**old["array"], "task_id": number(old["array"]["task_id"]), "task": old["array"]["task"] or ""}
    new["het"] = {"job_id": old["het"]["job_id"], "job_offset": number(old["het"]["job_offset"])}
    new["comment"] = {key: value or "" for key, value in old["comment"].items()}
    new["state"] = {"current": states(old["state"]["current"]), "reason": old["state"]["reason"]}
    new["time"] = {**old["time"], "limit": number(old["time"]["limit"]), "start": old["time"]["start"] or 0}
    new["exit_code"] = exit_code(0 if status is None else status)
    new["priority"] = number(old["priority"])
    new["restart_cnt"] = 0
    new["steps"] = [_younger_step(step, old["job_id"]) for step in old["steps"]]
    new["tres"] = {"allocated": [_younger_tres(one) for one in old["tres"]["allocated"]], "requested": []}
    return new


def _younger_step(old: dict[str, Any], job_id: int) -> dict[str, Any]:
    return {
        **old,
        "exit_code": _younger_exit(old["exit_code"]),
        "state": states(old["state"]),
        "time": {**old["time"], "start": number(old["time"]["start"]), "end": number(old["time"]["end"])},
        "statistics": {"energy": {"consumed": number(old["statistics"]["energy"]["consumed"])}},
        "step": {"id": f"{job_id}.{old['step']['id']}", "name": old["step"]["name"]},
        "pid": "",
    }


def _younger_exit(old: dict[str, Any]) -> dict[str, Any]:
    signal = old.get("signal", {}).get("signal_id")
    return {
        "status": [old["status"]],
        "return_code": number(old["return_code"]),
        "signal": {"id": number(signal), "name": ""},
    }


def _younger_tres(one: dict[str, Any]) -> dict[str, Any]:
    # An energy nobody read is the sentinel 2^64 - 2 as a signed number.
    return {**one, "name": one["name"] or "", "count": -2 if one["count"] is None else one["count"]}


_NUMBERS = ("array_job_id", "array_task_id", "cpus", "eligible_time", "end_time", "het_job_id", "het_job_offset",
            "last_sched_evaluation", "node_count", "pre_sus_time", "priority", "resize_time", "start_time",
            "submit_time", "suspend_time", "time_limit")  # fmt: skip


def younger_job(old: dict[str, Any]) -> dict[str, Any]:
    """A job of slurmctld of 22.05 as 25.11 writes it."""
    new = {**old, **{name: number(old[name]) for name in _NUMBERS}}
    new["job_state"] = states(old["job_state"])
    new["exit_code"] = exit_code(old["exit_code"])
    new["job_resources"] = {"nodes": {"count": 1, "list": old["nodes"], "allocation": []}} if old["nodes"] else {}
    return new
