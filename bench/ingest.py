"""ingest: batches over HTTP into the log, against raw COPY, a DRF view and the `eventsourcing` recorder."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import psycopg
from django.db import connection

from api import tokens
from bench import data, load, tables
from bench.base import Measured, dsn, empty_log, median, own_database, owner_sql, rates
from bench.server import cpu_seconds, running

CLIENTS: Final = 4
TABLE: Final = "bench_copy"
RECORDER_CALL: Final = 500
"""Events a call of the recorder: with 1,000 of this size its pipelined inserts were seen to hang."""


def run(*, quick: bool) -> Measured:
    """200,000 events (quick: 10,000)."""
    count, repeats = (10_000, 1) if quick else (200_000, 3)
    with own_database(), running() as (port, pid):
        tables.create()
        _, token = tokens.create("bench", ["events:write"])
        forms = {
            "5000": _requests(token, data.bodies(count, 5000)),
            "1000": _requests(token, data.bodies(count, 1000)),
            "5000_mixed": _requests(token, data.bodies(count, 5000, mixed=True)),
        }
        first = _send(port, forms["5000"])
        rows = _stored_rows()
        plain = _requests(token, data.bodies(count // 20, 1000), "/bench/plain")
        plain_5000 = _requests(token, data.bodies(count // 10, 5000), "/bench/plain")
        variants: dict[str, Callable[[], float]] = {
            "copy": lambda: _copy(rows),
            **{f"ingest_{name}": _sender(port, form) for name, form in forms.items()},
            "recorder": lambda: _recorder(rows[: count // 4]) * 4,
            "drf": lambda: tables.emptied(lambda: _send(port, plain)) * 20,
            "drf_5000": lambda: tables.emptied(lambda: _send(port, plain_5000)) * 10,
        }
        found = rates(count, variants, repeats)
        before = cpu_seconds(pid)
        took = _send(port, forms["5000"])
        web_cpu = cpu_seconds(pid) - before
        figures = _figures(found, count, rows, web_cpu, took)
        figures["warm_up_per_s"] = count / first
        figures |= _growth(port, token, count, 50_000 if quick else 1_000_000, rows, repeats)
    runs = [ours / copy for ours, copy in zip(found["ingest_5000"], found["copy"], strict=True)]
    return Measured("ingest", median(runs), figures, runs)


def _figures(found: dict[str, list[float]], count: int, rows: Sequence[Any], web_cpu: float, took: float) -> Any:
    rate = {name: median(values) for name, values in found.items()}

    def ratio(ours: str, theirs: str) -> float:
        return median([one / other for one, other in zip(found[ours], found[theirs], strict=True)])

    return {
        "events": count,
        **{f"{name}_per_s": value for name, value in rate.items()},
        "ratio_5000": ratio("ingest_5000", "copy"),
        "ratio_1000": ratio("ingest_1000", "copy"),
        "ratio_5000_mixed": ratio("ingest_5000_mixed", "copy"),
        "times_drf": ratio("ingest_1000", "drf"),
        "times_drf_5000": ratio("ingest_5000", "drf_5000"),
        "times_recorder": ratio("ingest_1000", "recorder"),
        "web_cpu_us_per_event": 1e6 * web_cpu / count,
        "web_cpu_share_of_time": web_cpu / took,
        "data_bytes_mean": sum(len(row[-1]) - 1 for row in rows) / len(rows),
        "copy_indexes": "primary key and stream index, as the log",
    }


def _requests(token: str, bodies: Sequence[bytes], path: str = "/api/v1/events") -> list[bytes]:
    return [load.request(path, token, "application/x-ndjson", body) for body in bodies]


def _send(port: int, requests: Sequence[bytes]) -> float:
    sent = load.batches(port, requests, CLIENTS)
    if not sent.good:
        raise RuntimeError(f"not every batch was taken: {sent.statuses}")
    return sent.seconds


def _sender(port: int, requests: Sequence[bytes]) -> Callable[[], float]:
    def send() -> float:
        empty_log()
        return _send(port, requests)

    return send


def _stored_rows() -> list[tuple[Any, ...]]:
    """The log's rows as COPY takes them."""
    names = ", ".join(name for name in data.LOG if name != "data")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {names}, data::text FROM events_event ORDER BY position")
        return [(*row[:-1], b"\x01" + row[-1].encode()) for row in cursor.fetchall()]


def _copy(rows: Sequence[Any]) -> float:
    """Raw binary COPY of the same rows into a table with the log's indexes, one transaction, durable."""
    owner_sql(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} (LIKE events_event INCLUDING ALL)",
              f"GRANT ALL ON {TABLE} TO PUBLIC")  # fmt: skip
    return copy_into(TABLE, rows)


def copy_into(table: str, rows: Iterable[Any]) -> float:
    """COPY rows in the log's columns; seconds from begin to commit."""
    with psycopg.connect(dsn()) as peer:
        peer.adapters.register_dumper(bytes, psycopg.types.string.BytesBinaryDumper)
        begin = time.perf_counter()
        with peer.cursor().copy(f"COPY {table} ({', '.join(data.LOG)}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(data.LOG_TYPES)
            for row in rows:
                copy.write_row(row)
        peer.commit()
        return time.perf_counter() - begin


def _recorder(rows: Sequence[Any]) -> float:
    """The application recorder of the library `eventsourcing`, as the owner of its table."""
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

    address = urlsplit(tables.owner_dsn())
    store = PostgresDatastore(
        dbname=address.path[1:], host=unquote(address.netloc.rpartition("@")[2].partition(":")[0]),
        port=str(address.port or 5432), user=unquote(address.username or ""),
        password=unquote(address.password or "x"),
    )  # fmt: skip
    try:
        owner_sql("DROP TABLE IF EXISTS stored_events")
        recorder = PostgresApplicationRecorder(store)
        recorder.create_table()
        events = [StoredEvent(uuid.uuid4(), 1, row[5], row[-1][1:]) for row in rows]
        begin = time.perf_counter()
        for at in range(0, len(events), RECORDER_CALL):
            recorder.insert_events(events[at : at + RECORDER_CALL])
        return time.perf_counter() - begin
    finally:
        store.close()


def _growth(port: int, token: str, count: int, filled: int, rows: Sequence[Any], repeats: int) -> dict[str, Any]:
    """The rate when the log holds 100,000 events and when it holds 1,000,000."""
    most = min(count, 50_000)
    found = {}
    for held in (filled // 10, filled):
        empty_log()
        tables.fill_log(rows, held)
        took = [
            _send(port, _requests(token, data.bodies(most, min(most, 5000), tag=f"g{held}-{again}")))
            for again in range(repeats)
        ]
        found[held] = most / median(took)
    return {f"ingest_5000_per_s_over_{held}": rate for held, rate in found.items()} | {
        "growth": found[filled] / found[filled // 10]
    }
