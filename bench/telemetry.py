"""telemetry: remote write of 256 GPUs, decoded and staged, against decoding alone, COPY and a real receiver."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

import cramjam
import psycopg
from django.db import connection

from api import tokens
from bench import load
from bench.base import Figures, Measured, dsn, median, own_database, owner_sql, rates, seconds
from bench.server import cpu_seconds, resident_mb, running
from events.adapters import remote_write
from events.sampledays import ensure_day, keep_up

GPUS: Final = 256
METRICS: Final = (
    "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION", "GPU_TEMP", "MEMORY_TEMP", "GPU_UTIL", "MEM_COPY_UTIL", "SM_CLOCK",
    "FB_USED", "XID_ERRORS", "PCIE_REPLAY_COUNTER", "NVLINK_BANDWIDTH_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS",
)  # fmt: skip
SCRAPE_MS: Final = 15_000
SIZE: Final = 2000
"""Samples a body, as Prometheus 3 sends by default; 2.x sends 500."""
CLIENTS: Final = 4
PER_SECOND: Final = 10_000
PATH: Final = "/api/v1/ingest/prometheus/write"
MEDIA: Final = "application/x-protobuf"
SNAPPY: Final = "Content-Encoding: snappy\r\n"
COLUMNS: Final = ("shard", "series", "t_ms", "value", "start_ms")
TYPES: Final = ("int2", "uuid", "int8", "float8", "int8")
Row = tuple[Any, ...]


def run(*, quick: bool) -> Measured:
    """300,000 samples (quick: 12,000) as fast as they go, and 10,000 a second for 60 s (quick: 2 s)."""
    count, repeats, sustained = (12_000, 1, 2) if quick else (300_000, 3, 60)
    with own_database(), running() as (port, pid):
        _days()
        _, token = tokens.create("bench", ["events:write"])
        raw = list(bodies(count, SIZE, _now_ms()))
        small = _requests(token, bodies(count, 500, _now_ms()))
        large = _requests(token, raw)
        rows = _stored(port, large, count)
        weight = _bytes() / count
        variants: dict[str, Callable[[], float]] = {
            "decode": lambda: seconds(lambda: [remote_write.decode(MEDIA, {}, body) for body in raw]),
            "copy": lambda: _copy(rows),
            "door_2000": lambda: _sent(port, large),
            "door_500": lambda: _sent(port, small),
            "again_2000": lambda: _posted(port, large),
        }
        if receiver := _receiver():
            variants["prometheus"] = lambda: _into_prometheus(receiver, raw)
        found = rates(count, variants, repeats)
        figures = _figures(found, count) | {"bytes_per_sample": weight} | _sustained(port, pid, token, sustained)
    runs = [ours / copy for ours, copy in zip(found["door_2000"], found["copy"], strict=True)]
    return Measured("telemetry", median(runs), figures, runs)


def _figures(found: dict[str, list[float]], count: int) -> Figures:
    def ratio(ours: str, theirs: str) -> float:
        return median([one / other for one, other in zip(found[ours], found[theirs], strict=True)])

    figures: Figures = {"samples": count, **{f"{name}_per_s": median(values) for name, values in found.items()}}
    figures |= {"ratio_to_decode": ratio("door_2000", "decode"), "ratio_500": ratio("door_500", "copy")}
    if "prometheus" in found:
        figures["ratio_to_prometheus"] = ratio("door_2000", "prometheus")
    return figures


def _days() -> None:
    """Tables of the days, as upkeep makes them; the samples here begin an hour or two ago."""
    now = datetime.now(UTC)
    ensure_day((now - timedelta(days=1)).date())
    keep_up(now)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def bodies(count: int, size: int, until_ms: int) -> Iterator[bytes]:
    """Packed bodies of remote write 1.0 with `count` samples, scraped every 15 s until `until_ms`."""
    series = list(_series())
    scrapes = -(-count // len(series))
    begin = until_ms - scrapes * SCRAPE_MS
    points = (
        _field(1, labels + _field(2, _sample(float(number % 977), begin + scrape * SCRAPE_MS)))
        for scrape in range(scrapes)
        for number, labels in enumerate(series, scrape)
    )
    wanted = islice(points, count)
    while part := list(islice(wanted, size)):
        yield bytes(cramjam.snappy.compress_raw(b"".join(part)))


def _series() -> Iterator[bytes]:
    """The label sets as bytes, with the labels of dcgm-exporter and of a scrape."""
    for gpu in range(GPUS):
        node, index = f"gpu{gpu // 8:03d}", gpu % 8
        for metric in METRICS:
            labels = {
                "DCGM_FI_DRIVER_VERSION": "570.133.20", "Hostname": node,
                "UUID": f"GPU-{gpu:08x}-04fc-5685-8dd6-70c1756b7289", "__name__": f"DCGM_FI_DEV_{metric}",
                "cluster": "pod-a", "device": f"nvidia{index}", "gpu": str(index), "hpc_job": str(4100 + gpu // 64),
                "instance": f"{node}:9400", "job": "dcgm", "modelName": "NVIDIA H200",
                "pci_bus_id": f"00000000:{index:02X}:00.0", "replica": "prom-0",
            }  # fmt: skip
            pairs = ((name.encode(), value.encode()) for name, value in labels.items())
            yield b"".join(_field(1, _field(1, name) + _field(2, value)) for name, value in pairs)


def _field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


def _sample(value: float, t_ms: int) -> bytes:
    return b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(t_ms)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _requests(token: str, raw: Iterator[bytes] | Sequence[bytes], path: str = PATH) -> list[bytes]:
    return [load.request(path, token, MEDIA, body, SNAPPY) for body in raw]


def _stored(port: int, requests: Sequence[bytes], count: int) -> list[Row]:
    """The rows that are staged when all was sent once; and nothing is missing or there twice."""
    _posted(port, requests)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM events_sample ORDER BY t_ms, series")
        rows: list[Row] = cursor.fetchall()
    if len(rows) != count:
        raise RuntimeError(f"{count} samples sent, {len(rows)} staged")
    return rows


def _bytes() -> int:
    """What the staged samples take, with their indexes."""
    ((found,),) = owner_sql(
        "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'events_sample'::regclass"
    )
    return int(found)


def _sent(port: int, requests: Sequence[bytes]) -> float:
    owner_sql("TRUNCATE events_sample")
    return _posted(port, requests)


def _posted(port: int, requests: Sequence[bytes]) -> float:
    sent = load.batches(port, requests, CLIENTS)
    if set(sent.statuses) != {204}:
        raise RuntimeError(f"not every body was taken: {sent.statuses}")
    return sent.seconds


def _copy(rows: Sequence[Row]) -> float:
    """Raw binary COPY of the same rows into a table with the same key, one transaction, durable."""
    owner_sql("DROP TABLE IF EXISTS bench_copy", "CREATE TABLE bench_copy (LIKE events_sample INCLUDING ALL)",
              "GRANT ALL ON bench_copy TO PUBLIC")  # fmt: skip
    with psycopg.connect(dsn()) as peer:
        begin = time.perf_counter()
        with peer.cursor().copy(f"COPY bench_copy ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(TYPES)
            for row in rows:
                copy.write_row(row)
        peer.commit()
        return time.perf_counter() - begin


def _sustained(port: int, pid: int, token: str, lasting: int) -> Figures:
    """10,000 samples a second in bodies of 500: what of a core the web server and PostgreSQL take, and memory."""
    owner_sql("TRUNCATE events_sample")
    requests = _requests(token, bodies(PER_SECOND * lasting, 500, _now_ms()))
    size: dict[int, float] = {}

    def accepted(number: int) -> None:
        if number in (len(requests) // 4, len(requests) - 1):
            size[number] = resident_mb(pid)

    server = _postmaster()
    before = cpu_seconds(pid), cpu_seconds(server)
    begin = time.perf_counter()
    sent = load.paced(port, requests, PER_SECOND / 500, accepted)
    took = time.perf_counter() - begin
    if not sent.good:
        raise RuntimeError(f"not every body was taken: {sent.statuses}")
    waits = sorted(sent.answered[number] - at for number, at in enumerate(sent.sent))
    first, *_, last = size.values()
    return {
        "sustained_per_s": PER_SECOND * lasting / took, "web_cores": (cpu_seconds(pid) - before[0]) / took,
        "postgres_cores": (cpu_seconds(server) - before[1]) / took, "p95_ms": 1000 * waits[int(len(waits) * 0.95)],
        "web_mb_at_a_quarter": first, "web_mb_at_the_end": last,
    }  # fmt: skip


def _postmaster() -> int:
    """Process id of the database server, 0 where it is not on this machine."""
    with connection.cursor() as cursor, suppress(OSError):
        cursor.execute("SELECT pg_backend_pid()")
        stat = Path(f"/proc/{cursor.fetchone()[0]}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])
    return 0


def _receiver() -> str | None:
    """The program `prometheus`, of the variable PROMETHEUS or from the path."""
    return shutil.which(os.environ.get("PROMETHEUS", "prometheus"))


def _into_prometheus(program: str, raw: Sequence[bytes]) -> float:
    """The same bodies into an empty receiver, without a token; it answers before they are on disk."""
    with _prometheus(program) as port:
        return _posted(port, _requests("none", raw, "/api/v1/write"))


@contextmanager
def _prometheus(program: str) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="hallbook-bench-") as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text("storage:\n  tsdb:\n    out_of_order_time_window: 3h\n")
        process = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             "--web.enable-remote-write-receiver", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _ready(port)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def _ready(port: int) -> None:
    """Wait for the answer 200 of /-/ready."""
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
            peer.sendall(b"GET /-/ready HTTP/1.0\r\n\r\n")
            if b" 200 " in peer.recv(64):
                return
        time.sleep(0.1)
    raise RuntimeError("Prometheus did not get ready")
