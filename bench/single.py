"""single: one-event webhooks of 8 clients, against single inserts of the same row by pgbench."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from api import tokens
from bench import data, load
from bench.base import Figures, Measured, dsn, median, own_database, owner_sql, program, settle
from bench.server import cpu_seconds, running

CLIENTS: Final = 8
# No colon in it: pgbench would take what follows for a variable.
INSERT: Final = """
INSERT INTO events_delivery (shard, received_at, id, source, kind, content_type, headers, body, sha256, actor)
VALUES (0, clock_timestamp(), gen_random_uuid(), 'slurmdbd', 'cloudevents', 'application/cloudevents+json',
        '{}', '\\x%(body)s', '\\x%(sha)s', 'token');
"""


def run(*, quick: bool) -> Measured:
    """8 clients for 5 s a run (quick: 1 s)."""
    seconds, repeats = (1, 1) if quick else (5, 3)
    with own_database(), running() as (port, pid):
        _, token = tokens.create("bench", ["events:write"])
        wanted = _requests(token)
        load.singles(port, wanted, CLIENTS, 0.5)
        runs, figures = _measured(port, pid, wanted, seconds, repeats)
    return Measured("single", median(runs), figures, runs)


def _measured(port: int, pid: int, wanted: Iterator[bytes], seconds: int, repeats: int) -> tuple[list[float], Figures]:
    ours, theirs, web_us, waits = [], [], [], []
    for _ in range(repeats):
        owner_sql("TRUNCATE events_delivery")
        settle()
        theirs.append(_pgbench(seconds))
        owner_sql("TRUNCATE events_delivery")
        settle()
        before = cpu_seconds(pid)
        sent = load.singles(port, wanted, CLIENTS, seconds)
        kept = owner_sql("SELECT count(*) FROM events_delivery")[0][0]
        if not sent.good or kept != len(sent.times):
            raise RuntimeError(f"{len(sent.times)} sent, {kept} kept, answers {sent.statuses}")
        ours.append(len(sent.times) / sent.seconds)
        web_us.append(1e6 * (cpu_seconds(pid) - before) / len(sent.times))
        waits += sent.times
    waits.sort()
    runs = [one / other for one, other in zip(ours, theirs, strict=True)] if all(theirs) else [0.0]
    return runs, {
        "webhooks_per_s": median(ours), "pgbench_per_s": median(theirs), "clients": CLIENTS,
        "web_cpu_us_per_event": median(web_us), "p50_ms": 1000 * waits[len(waits) // 2],
        "p95_ms": 1000 * waits[int(len(waits) * 0.95)], "load_generator": "raw sockets, one process",
    }  # fmt: skip


def _requests(token: str) -> Iterator[bytes]:
    """Requests for ever, each with an id of its own."""
    samples = list(data.jobs(200))
    for number in count():
        body = data.cloud_event(samples[number % 200], f"w-{number:09d}")
        yield load.request("/api/v1/events", token, "application/cloudevents+json", body)


def _pgbench(seconds: int) -> float:
    """Transactions per second of prepared single inserts of a row like a delivery; 0 without pgbench."""
    tool = program("pgbench")
    if tool is None:
        return 0.0
    body = data.cloud_event(next(data.jobs(1)), "w-000000000").hex()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "insert.sql"
        script.write_text(" ".join((INSERT % {"body": body, "sha": "00" * 32}).split()) + "\n")
        told = subprocess.run(
            [tool, "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1", "-T", str(seconds), "-f", script, dsn()],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    found = re.search(r"tps = ([\d.]+)", told.stdout)
    return float(found[1]) if found else 0.0
