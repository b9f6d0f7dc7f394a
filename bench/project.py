"""project: every group over the log from empty, its state fold and its roll-up apart, against reading the log."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import psycopg
from django.db import connection

from bench import data
from bench.base import Figures, Measured, dsn, empty_tables, median, own_database, owner_sql, seconds, settle
from bench.ingest import copy_into
from events import projector
from jobs import projections

READ: Final = f"""
SELECT {", ".join(name for name in data.LOG if name != "data")}, data FROM events_event
WHERE shard = 0 AND position <= %s ORDER BY position
"""


def run(*, quick: bool) -> Measured:
    """1,000,000 events (quick: 20,000): two sightings of each job."""
    count, repeats = (20_000, 1) if quick else (1_000_000, 3)
    with own_database():
        fill(0, count // 10)
        part = [_once(count // 10) for _ in range(repeats)]
        fill(count // 10, count)
        whole = [_once(count) for _ in range(repeats)]
    rate = _rates(whole)
    tenth = _rates(part)
    runs = [one["fold"] / one["read"] for one in _per_second(whole)]
    figures: Figures = {"events": count, **{f"{name}_per_s": value for name, value in rate.items()}}
    figures |= {
        "ratio_fold": median(runs),
        "ratio_roll_up": median([one["roll_up"] / one["read"] for one in _per_second(whole)]),
        "ratio_total": median([one["total"] / one["read"] for one in _per_second(whole)]),
        f"total_per_s_at_{count // 10}": tenth["total"],
        "growth_total": rate["total"] / tenth["total"],
        "growth_fold": rate["fold"] / tenth["fold"],
        "growth_roll_up": rate["roll_up"] / tenth["roll_up"],
    }
    return Measured("project", median(runs), figures, runs)


def fill(start: int, end: int) -> None:
    """Put events start+1..end into the log by COPY, and set its head."""
    copy_into("events_event", _rows(start, end))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO events_head (shard, position, hash) VALUES (0, %s, '') "
            "ON CONFLICT (shard) DO UPDATE SET position = excluded.position",
            [end],
        )
    owner_sql("VACUUM ANALYZE events_event")


def _rows(start: int, end: int) -> Iterator[tuple[Any, ...]]:
    """A job is seen when it starts, by the scheduler, and when it has ended, by its accounting; in order of ends."""
    encode = msgspec.json.Encoder(order="sorted").encode
    recorded = datetime(2026, 6, 1, tzinfo=UTC)
    position = start
    jobs = sorted(data.jobs((end - start) // 2, seed=start + 1), key=lambda found: found["end"])
    for number, found in enumerate(jobs, start // 2):
        found["job_id"] = str(1_000_000 + number)
        running = {**found, "state": "RUNNING"}
        for field in ("end", "exit_code"):
            running.pop(field)
        for source, said, at in (
            ("slurmctld:pod-a", running, found["start"]),
            ("slurmdbd:pod-a", found, found["end"]),
        ):
            position += 1
            key = f"{said['job_id']}-{said['state']}"
            id_ = uuid.UUID(bytes=hashlib.sha256(f"{source}\0{key}".encode()).digest()[:16])
            yield (
                0, position, id_, source, key, "job.reported", 1, f"job/pod-a/{said['job_id']}",
                datetime.fromtimestamp(at, UTC), recorded, "token:bench", None, b"\x01" + encode(said),
            )  # fmt: skip


def _once(count: int) -> dict[str, float]:
    """Seconds of reading, of the state fold, of the roll-up, and of all groups together."""
    empty_tables([model._meta.db_table for group in projector.groups() for model in group.tables])
    settle()
    found = {"events": float(count), "read": seconds(lambda: _read(count))}
    with _timed("_refold", found, "fold"), _timed("_roll_up", found, "roll_up"):
        begin = time.perf_counter()
        for group in projector.groups():
            found[group.name] = seconds(lambda group=group: _through(group))  # type: ignore[misc]
        found["total"] = time.perf_counter() - begin
    return found


def _through(group: projector.Group) -> None:
    while projector.advance(group):
        pass


@contextmanager
def _timed(name: str, into: dict[str, float], key: str) -> Iterator[None]:
    original: Callable[..., Any] = getattr(projections, name)

    def timed(*args: Any) -> Any:
        begin = time.perf_counter()
        try:
            return original(*args)
        finally:
            into[key] = into.get(key, 0.0) + time.perf_counter() - begin

    setattr(projections, name, timed)
    try:
        yield
    finally:
        setattr(projections, name, original)


def _read(count: int) -> None:
    """The same events through a binary server cursor."""
    with psycopg.connect(dsn()) as peer, peer.cursor("reader", binary=True) as cursor:
        cursor.itersize = 5000
        cursor.execute(READ, [count])
        while cursor.fetchmany(5000):
            pass


def _per_second(runs: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: run["events"] / value for name, value in run.items() if name != "events"} for run in runs]


def _rates(runs: list[dict[str, float]]) -> dict[str, float]:
    found = _per_second(runs)
    return {name: median([run[name] for run in found]) for name in found[0]}
