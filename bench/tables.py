"""Tables and fillings that the yardsticks need, in this bench's own database."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db import connection

from bench import base, data

PLAIN = """
CREATE TABLE bench_plain (id text PRIMARY KEY, source text NOT NULL, type text NOT NULL, time timestamptz NOT NULL,
    stream text NOT NULL, data jsonb NOT NULL)
"""


def create() -> None:
    """The DRF view's table."""
    base.owner_sql(PLAIN, "CREATE INDEX ON bench_plain (stream, time)", "GRANT ALL ON bench_plain TO PUBLIC")


def emptied(work: Callable[[], float]) -> float:
    """Run with an empty table."""
    base.owner_sql("TRUNCATE bench_plain")
    return work()


def owner_dsn() -> str:
    """Address of this bench's database as the owner."""
    return base.environment()["DATABASE_OWNER_URL"]


def fill_log(rows: Sequence[tuple[Any, ...]], count: int) -> None:
    """Put `count` events into the log by COPY, with their keys, and set its head; hashes are not of interest."""
    from bench.ingest import copy_into

    copy_into("events_event", _repeated(rows, count))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO events_eventkey SELECT shard, id, position, sha256(uuid_send(id)) FROM events_event"
        )
        cursor.execute("INSERT INTO events_head (shard, position, hash) VALUES (0, %s, '')", [count])
    base.owner_sql("VACUUM ANALYZE events_event", "VACUUM ANALYZE events_eventkey")


def _repeated(rows: Sequence[tuple[Any, ...]], count: int) -> Iterable[tuple[Any, ...]]:
    stream = data.LOG.index("stream")
    for number in range(count):
        row = list(rows[number % len(rows)])
        row[1] = number + 1
        row[2] = uuid.UUID(bytes=hashlib.sha256(str(number).encode()).digest()[:16])
        row[stream] = f"job/pod-z/{number}"
        yield tuple(row)
