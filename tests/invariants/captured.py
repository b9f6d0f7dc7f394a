"""The captured cluster for the test of sources: what each source said, and what Slurm's own tables say is true.

The truth is computed here by hand from the accounting table (db/job.tsv): nothing of it comes out of the fold.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from events.adapters import Draft, Refusal
from events.adapters.jobcomp import translate as read_jobcomp
from events.adapters.sacct_delivery import sacct_text
from events.adapters.slurm_hook import translate as read_hook
from events.adapters.slurm_json import sacct_json, slurmctld_jobs, slurmdb_jobs, squeue_json
from events.derive.attempts import Sighting
from events.types.jobs import JobReported
from tests.events.adapters.slurm_posts import SLURM, posts

READ_AT: Final = 1796036476
"""When the table was read (captures.tsv: db/job.tsv at 1796036476.226)."""
DOCUMENTS: Final = {
    "sacct-text": (1796036465, "sacct/allocations.psv"),
    "sacct-json": (1796036465, "sacct/all.json.gz"),
    "slurmdb": (1796036470, "rest/slurmdb_v0.0.38_jobs.json.gz"),
    "slurmctld": (1796036469, "rest/slurm_v0.0.38_jobs.json.gz"),
    "squeue": (1796036466, "scontrol/squeue.json.gz"),
}
"""When each document was asked for (captures.tsv), and its file."""
ACCOUNTING: Final = ("sacct-text", "sacct-json", "slurmdb")
SNAPSHOTS: Final = ("slurmctld", "squeue")
SOURCES: Final = (*ACCOUNTING, "jobcomp", *SNAPSHOTS, "hooks")
_READERS: Final = {
    "sacct-text": sacct_text, "sacct-json": sacct_json, "slurmdb": slurmdb_jobs, "slurmctld": slurmctld_jobs,
    "squeue": squeue_json,
}  # fmt: skip
_CPU, _NODE, _GPU = "1", "4", "1001"


@dataclass(frozen=True, slots=True)
class Truth:
    """One attempt as it really was: epoch seconds, end None while it runs; seconds of use until the table was read.

    records: (start told, end) of the accounting records it consists of: two for the resized one.
    """

    job_id: str
    start: int
    end: int | None
    nodes: int
    gpu_seconds: int
    node_seconds: int
    cpu_seconds: int
    records: tuple[tuple[int, int | None], ...]

    @property
    def wall_seconds(self) -> int:
        return (READ_AT if self.end is None else self.end) - self.start


def table(name: str) -> list[dict[str, str]]:
    """Rows of a captured database table."""
    with (SLURM / "db" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def truth() -> dict[str, list[Truth]]:
    """The attempts of every job id of the table, by start; without one it never started."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in table("job.tsv"):
        rows[row["id_job"]].append(row)
    return {job_id: list(_attempts(job_id, found)) for job_id, found in rows.items()}


def _attempts(job_id: str, rows: list[dict[str, str]]) -> Iterable[Truth]:
    started = sorted((row for row in rows if row["time_start"] != "0"), key=lambda row: int(row["job_db_inx"]))
    while started:
        parts = [started.pop(0)]
        while parts[-1]["state"] == "8192":  # RESIZING: the next record is the same run, smaller
            parts.append(started.pop(0))
        yield _attempt(job_id, parts)


def _attempt(job_id: str, parts: list[dict[str, str]]) -> Truth:
    start = int(parts[0]["time_start"])
    used = dict.fromkeys((_GPU, _NODE, _CPU), 0)
    since = start
    for part in parts:
        until = int(part["time_end"]) or READ_AT
        tres = dict(one.split("=") for one in part["tres_alloc"].split(","))
        for kind in used:
            used[kind] += (until - since) * int(tres.get(kind, "0"))
        since = until
    records = tuple((int(part["time_start"]), int(part["time_end"]) or None) for part in parts)
    nodes = int(parts[0]["nodes_alloc"])
    return Truth(job_id, start, records[-1][1], nodes, used[_GPU], used[_NODE], used[_CPU], records)


# --- what each source said ---------------------------------------------------------------------------------------


@cache
def said(source: str) -> dict[str, list[Sighting]]:
    """The sightings of one source, by job id; posts count when they had arrived before the table was read."""
    if source in DOCUMENTS:
        headers = {"x-hallbook-cluster": "pod-a", "x-hallbook-timezone": "UTC"}
        made = _READERS[source]("", headers, body(DOCUMENTS[source][1]))
    else:
        read, name = (read_jobcomp, "jobcomp") if source == "jobcomp" else (read_hook, "hook")
        made = [item for at, post in posts(name) if at < READ_AT for item in read("application/json", {}, post)]
    streams: dict[str, list[Sighting]] = defaultdict(list)
    for place, item in enumerate(made):
        assert not isinstance(item, Refusal), item.text
        if isinstance(item.data, JobReported):
            streams[item.data.job_id].append(_sighting(item, place, source))
    return dict(streams)


def _sighting(item: Draft, place: int, source: str) -> Sighting:
    assert isinstance(item.data, JobReported)
    position = SOURCES.index(source) * 1000 + place
    return Sighting(position, item.source, f"{item.native_key}#{source}{place}", item.type, item.occurred_us, item.data)


def body(name: str) -> bytes:
    """A captured file, unzipped."""
    raw = (SLURM / name).read_bytes()
    return gzip.decompress(raw) if name.endswith(".gz") else raw


# --- what each source covers, by its raw content -----------------------------------------------------------------


@cache
def covered(source: str) -> frozenset[tuple[str, int]]:
    """(job id, start) of the attempts of which the source alone tells start, end and size exactly.

    The accounting tells every attempt as it stood when it was asked; jobcomp each run that ended, once its post
    had come (both of a resized one); slurmctld and squeue, asked once, the current run of the jobs in their
    memory, but of a resized one only its present part. Hooks tell nothing exactly.
    """
    every = [one for attempts in truth().values() for one in attempts]
    if source == "hooks":
        return frozenset()
    if source == "jobcomp":
        return frozenset((one.job_id, one.start) for one in every if _posted(one))
    at, _ = DOCUMENTS[source]
    settled = [one for one in every if one.start <= at and (one.end is None or one.end < at)]
    if source in SNAPSHOTS:
        settled = [one for one in settled if len(one.records) == 1 and _shows(source, one)]
    return frozenset((one.job_id, one.start) for one in settled)


def _posted(one: Truth) -> bool:
    return one.end is not None and {(one.job_id, end) for _, end in one.records} <= _posted_ends()


@cache
def _posted_ends() -> frozenset[tuple[str, int]]:
    bodies = [json.loads(post) for at, post in posts("jobcomp") if at < READ_AT]
    return frozenset((str(one["jobid"]), _utc(one["@end"])) for one in bodies)


def _utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _shows(source: str, one: Truth) -> bool:
    """Whether the snapshot shows this run as the job's current one: a waiting job has no current run."""
    shown = _documents(source).get(one.job_id)
    return shown is not None and shown["job_state"] != "PENDING" and shown["start_time"] == one.start


@cache
def _documents(source: str) -> dict[str, dict[str, Any]]:
    return {str(job["job_id"]): job for job in json.loads(body(DOCUMENTS[source][1]))["jobs"]}


@cache
def heard(job_id: str, start: int) -> tuple[bool, bool, bool]:
    """Whether a hook told (start, end, GPUs of every node) of the attempt, by the raw posts of its first 15 s and of
    15 s after its end."""
    one = next(one for one in truth()[job_id] if one.start == start)
    calls = [json.loads(post) for at, post in posts("hook") if at < READ_AT]
    mine = [call for call in calls if call["env"].get("SLURM_JOB_ID") == job_id]
    begun = [call for call in mine if call["hook"].startswith("prolog") and 0 <= call["time"] - start < 15]
    end = READ_AT if one.end is None else one.end
    ended = [call for call in mine if call["hook"].startswith("epilog") and 0 <= call["time"] - end < 15]
    over = any(call["hook"] == "epilogslurmctld" for call in ended) or len(_nodes(ended)) >= one.nodes
    return bool(begun), over or one.end is None, len(_nodes(begun) | _nodes(ended)) >= one.nodes


def _nodes(calls: list[dict[str, Any]]) -> set[str]:
    return {call["host"] for call in calls if call["hook"] in ("prolog", "epilog")}
