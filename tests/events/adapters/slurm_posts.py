"""The captured posts of jobcomp and of the hooks, as they were sent."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from events.adapters import Draft, Refusal, jobcomp, slurm_hook

SLURM = Path(__file__).parents[2] / "payloads" / "slurm"


@cache
def posts(name: str) -> tuple[tuple[float, bytes], ...]:
    """When each post of `jobcomp` or `hook` arrived (epoch seconds), and its body."""
    with gzip.open(SLURM / "http" / f"{name}_posts.jsonl.gz", "rt", encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return tuple((post["received"], post["body"].encode()) for post in found)


def read_jobcomp(body: bytes | dict[str, Any], cluster: str = "") -> Draft | Refusal:
    """What the adapter makes of one post."""
    headers = {"x-hallbook-cluster": cluster} if cluster else {}
    (item,) = jobcomp.translate("application/json", headers, body if isinstance(body, bytes) else _json(body))
    return item


def read_hook(body: bytes | dict[str, Any], kind: str = "application/json", cluster: str = "") -> list[Draft | Refusal]:
    """What the adapter makes of one call of a hook."""
    headers = {"x-hallbook-cluster": cluster} if cluster else {}
    return slurm_hook.translate(kind, headers, body if isinstance(body, bytes) else _json(body))


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()
