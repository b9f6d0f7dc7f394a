"""The captured cluster, taken in through the doors as its senders used them: all documents and all posts."""

from __future__ import annotations

from typing import Any, Final

from django.test import Client

from api import tokens
from events import projector
from events.actions import declare_cluster
from events.deliveries import drain
from tests.events.adapters.slurm_posts import SLURM, posts
from tests.invariants.captured import READ_AT
from tests.web.books import declare

__all__ = ["take_in"]

ACCOUNTS: Final = ("robotics", "genomics", "speech", "vision")
DOCUMENTS: Final = (
    ("sacct", "sacct/allocations.psv", "text/plain"),
    ("sacct", "sacct/all_duplicates.psv.gz", "text/plain"),
    ("sacct", "sacct/all.json.gz", "application/json"),
    ("rest", "rest/slurmdb_v0.0.38_jobs.json.gz", "application/json"),
    ("rest", "rest/slurm_v0.0.38_jobs.json.gz", "application/json"),
    ("rest", "scontrol/squeue.json.gz", "application/json"),
)
"""Door, file and content type: texts of sacct, then documents of slurmrestd."""


def take_in() -> None:
    """A site in UTC whose four accounts are projects; then every document and every post until the tables were read."""
    declare(*ACCOUNTS, zone="UTC", rates={"h100": 2_000_000, "h200": 3_000_000})
    declare_cluster("pod-a", actor="test")
    _, secret = tokens.create("captures", ["events:write"])
    client = Client(HTTP_AUTHORIZATION=f"Bearer {secret}")
    for door in ("jobcomp", "hook"):
        for at, body in posts(door):
            if at < READ_AT:
                _send(client, door, body, "application/json")
    for door, name, kind in DOCUMENTS:
        packed = {"HTTP_CONTENT_ENCODING": "gzip"} if name.endswith(".gz") else {}
        _send(client, door, (SLURM / name).read_bytes(), kind, **packed)
    while drain():
        pass
    projector.catch_up()


def _send(client: Client, door: str, body: bytes, kind: str, **more: Any) -> None:
    query = "?cluster=pod-a&timezone=UTC" if kind == "text/plain" else "?cluster=pod-a"
    answer = client.generic("POST", f"/api/v1/ingest/slurm/{door}{query}", body, content_type=kind, **more)
    assert answer.status_code in (200, 202), (door, answer.status_code, answer.content[:300])
