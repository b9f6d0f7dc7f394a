"""Real-shaped events, the same in every run: job sightings as schedulers report them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

T0: Final = 1_767_225_600
"""2026-01-01 UTC."""
STATES: Final = ("COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "TIMEOUT", "FAILED", "CANCELLED", "NODE_FAIL")
GPUS: Final = (8, 8, 8, 16, 32, 64, 1, 2, 4)
NAMES: Final = ("pretrain-{:04d}", "sft-{:04d}", "eval-{:04d}", "jupyter")


def job(number: int, choose: random.Random, span_days: int = 120) -> dict[str, Any]:
    """Data of one ended job's sighting."""
    gpus = choose.choice(GPUS)
    nodes = max(1, gpus // 8)
    first = choose.randrange(512 - nodes)
    submit = T0 + choose.randrange(span_days * 86_400)
    start = submit + choose.randrange(7200)
    found: dict[str, Any] = {
        "cluster": "pod-a", "job_id": str(1_000_000 + number), "state": choose.choice(STATES), "submit": submit,
        "eligible": submit, "start": start, "end": start + int(choose.expovariate(1 / 5000)) + 30,
        "account": f"acc{choose.randrange(40):02d}", "user": f"user{choose.randrange(300):03d}",
        "partition": choose.choice(("train", "train", "batch", "interactive")),
        "qos": choose.choice(("normal", "high")), "exit_code": 0, "nodes": nodes, "cpus": 12 * gpus, "gpus": gpus,
        "gpu_types": [f"h100={gpus}"],
        "node_list": f"node[{first:04d}-{first + nodes - 1:04d}]" if nodes > 1 else f"node{first:04d}",
        "limit_seconds": 86_400, "record": 50_000_000 + number,
    }  # fmt: skip
    if choose.random() < 0.3:
        found["name"] = choose.choice(NAMES).format(choose.randrange(200))
    return found


def small(number: int, choose: random.Random) -> dict[str, Any]:
    """Data of a job that is only known to wait or run: what hooks and polls send."""
    return {
        "cluster": "pod-a", "job_id": str(1_000_000 + number), "state": "PENDING",
        "submit": T0 + choose.randrange(120 * 86_400), "user": f"user{choose.randrange(300):03d}",
    }  # fmt: skip


def jobs(count: int, *, mixed: bool = False, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Data of `count` sightings; mixed: every other one is small."""
    choose = random.Random(seed)
    for number in range(count):
        yield small(number, choose) if mixed and number % 2 else job(number, choose)


def cloud_event(data: dict[str, Any], key: str, source: str = "slurmdbd:pod-a") -> bytes:
    """One CloudEvent as JSON."""
    at = datetime.fromtimestamp(data.get("end") or data["submit"], UTC).isoformat()
    said = {
        "specversion": "1.0", "id": key, "source": source, "type": "job.reported",
        "time": at.replace("+00:00", "Z"), "data": data,
    }  # fmt: skip
    return msgspec.json.encode(said)


def jobcomp(found: dict[str, Any]) -> bytes:
    """An ended job as Slurm's jobcomp/elasticsearch posts it."""

    def utc(name: str) -> str:
        return datetime.fromtimestamp(found[name], UTC).strftime("%Y-%m-%dT%H:%M:%S")

    gpus, cpus, nodes = found["gpus"], found["cpus"], found["nodes"]
    said = {
        "jobid": int(found["job_id"]), "username": found["user"], "user_id": 5000, "groupname": "users",
        "group_id": 100, "@start": utc("start"), "@end": utc("end"), "elapsed": found["end"] - found["start"],
        "partition": found["partition"], "alloc_node": "login01", "nodes": found["node_list"], "total_cpus": cpus,
        "total_nodes": nodes, "derived_ec": "0:0", "exit_code": "0:0", "state": found["state"],
        "cpu_hours": cpus * (found["end"] - found["start"]) / 3600, "het_job_id": 0, "het_job_offset": 0,
        "@submit": utc("submit"), "@eligible": utc("eligible"), "@queue_wait": found["start"] - found["eligible"],
        "work_dir": "/scratch", "cluster": found["cluster"], "qos": found["qos"], "ntasks": 0, "time_limit": 86_400,
        "job_name": found.get("name", "train.sh"), "account": found["account"],
        "tres_req": f"cpu={cpus},node={nodes},gres/gpu={gpus}",
        "tres_alloc": f"cpu={cpus},node={nodes},billing={cpus},gres/gpu={gpus},gres/gpu:h100={gpus}",
        "script": "#!/bin/sh\nsrun python train.py\n",
    }  # fmt: skip
    return msgspec.json.encode(said)


def bodies(count: int, per_body: int, *, mixed: bool = False, tag: str = "a") -> list[bytes]:
    """NDJSON bodies of `per_body` events each."""
    events = [
        cloud_event(data, f"{tag}-{index:07d}-{data['state']}") for index, data in enumerate(jobs(count, mixed=mixed))
    ]
    return [b"\n".join(events[at : at + per_body]) for at in range(0, count, per_body)]


LOG: Final = ("shard", "position", "id", "source", "source_key", "type", "version", "stream", "occurred_at",
              "recorded_at", "actor", "delivery", "data")  # fmt: skip
LOG_TYPES: Final = ("int2", "int8", "uuid", "text", "text", "text", "int2", "text", "timestamptz", "timestamptz",
                    "text", "uuid", "bytea")  # fmt: skip
"""jsonb goes as bytes: on the wire it is a version byte and the text."""
