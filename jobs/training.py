"""From what training programs say to checkpoints and to the partition of each attempt's GPU-seconds.

Part of the group `jobs`. Jobs that a range of the log touches are done anew from all their events, and with them the
earlier attempts of their runs whose work turns out to be lost; late and unordered events need no special case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from events.copying import copying
from events.projector import Batch
from events.sqlfiles import statements
from events.types import REGISTRY
from jobs.goodput import PARTS
from jobs.rows import YEAR_2000, Row
from jobs.speed import Key, Sums
from jobs.told import Parted, Restore, Span, Word, part, share_out

__all__ = ["TRAINING_TYPES", "begin", "finish", "meet"]

SAVE_TYPES: Final = ("checkpoint.committed", "checkpoint.failed", "checkpoint.restored")
TRAINING_TYPES: Final = (*SAVE_TYPES, "gang.ready", "run.progressed", "run.interrupted")
SUMMED: Final = tuple(one.name for one in fields(Sums))
PORTION: Final = 50_000
"""Events held at a time: about 1 kB of memory each."""
TOUCHED: Final = """
DROP TABLE IF EXISTS pg_temp.touched_training;
CREATE TEMP TABLE touched_training (stream text COLLATE "C" PRIMARY KEY) ON COMMIT DROP
"""
CHECKPOINT: Final = ("position", "kind", "attempt", "run", "stream", "cluster", "job_id", "account", "user_id",
                     "start_at", "step", "state", "at", "blocking_ms", "total_ms", "bytes", "path_class")  # fmt: skip
CHECKPOINT_TYPES: Final = ("int8", "text", "uuid", "uuid", "text", "text", "text", "text", "text", "int8", "int8",
                           "int8", "int8", "int8", "int8", "int8", "text")  # fmt: skip
GOODPUT: Final = ("attempt", "run", "stream", "cluster", "job_id", "number", "account", "user_id", "partition",
                  "start_at", "end_at", "until_at", "gpus", "work_lost", *PARTS, "allocated", "productive_seconds",
                  "rolled_back_seconds", "detect_seconds", "teardown_seconds", "init_restore_seconds",
                  "gang_wait_seconds", "stopped_kind", "stopped_why", "last_step", "steps", "tokens", "period_ms",
                  "communication_ms")  # fmt: skip
GOODPUT_TYPES: Final = ("uuid", "uuid", "text", "text", "text", "int4", "text", "text", "text", "int8", "int8", "int8",
                        "int4", "bool", *("int8",) * (len(PARTS) + 7), "text", "text", *("int8",) * 5)  # fmt: skip
SPEED: Final = ("attempt", "gpus", "convention", "run", "stream", "cluster", "job_id", "number", "account", "user_id",
                "start_at", *SUMMED)  # fmt: skip
SPEED_TYPES: Final = ("uuid", "int4", "text", "uuid", "text", "text", "text", "int4", "text", "text", "int8",
                      "int8", "int8", "numeric", "int8", "numeric", "numeric", "numeric", "int8", "numeric",
                      "int8")  # fmt: skip


def begin(batch: Batch) -> None:
    """Note which jobs' programs say something in the range. Before the jobs are folded."""
    batch.cursor.execute(TOUCHED)
    if batch.has(TRAINING_TYPES):
        for statement in statements("jobs", "training")[:4]:
            batch.cursor.execute(statement, _arguments(batch))


def meet(batch: Batch) -> None:
    """Note which of the touched streams are of instrumented jobs. After they were folded."""
    batch.cursor.execute(statements("jobs", "training")[4])


def finish(batch: Batch) -> None:
    """Compute what is touched anew. After all jobs of the range are folded."""
    cursor = batch.cursor
    cursor.execute("SELECT EXISTS (SELECT 1 FROM touched_training)")
    if cursor.fetchone()[0]:
        cursor.execute("ANALYZE touched_training")
        cursor.execute(statements("jobs", "training")[5], _arguments(batch))
        for table in ("jobs_checkpoint", "jobs_goodput", "jobs_speed"):
            cursor.execute(f"DELETE FROM {table} r USING touched_training t WHERE r.stream = t.stream")
        portions = list(_portions(batch))
        for streams in portions:  # all saves first: what a run took up decides of its earlier attempts
            _write_checkpoints(batch, streams)
        for streams in portions:
            _write_partitions(batch, streams)
    cursor.execute("DROP TABLE touched_training")


def _arguments(batch: Batch) -> dict[str, Any]:
    return {"shard": batch.shard, "start": batch.start, "end": batch.end, "types": list(TRAINING_TYPES)}


def _portions(batch: Batch) -> Iterator[list[str]]:
    """The touched jobs, by as many as have PORTION events."""
    batch.cursor.execute(statements("jobs", "training")[6], _arguments(batch))
    streams: list[str] = []
    events = 0
    for stream, count in batch.cursor.fetchall():
        if streams and events + count > PORTION:
            yield streams
            streams, events = [], 0
        streams.append(stream)
        events += count
    if streams:
        yield streams


# --- reading ---------------------------------------------------------------------------------------------------


def _spans(cursor: Any, streams: list[str]) -> dict[str, list[Span]]:
    """The attempts of some jobs, in order."""
    cursor.execute(statements("jobs", "training")[7], {"streams": streams})
    names = ("cluster", "job_id", "number", "account", "user_id", "partition")
    found: dict[str, list[Span]] = {}
    for stream, id_, run, start, end, state, *rest, sizes in cursor.fetchall():
        row = dict(zip(names, rest, strict=True))
        cut = [(first * 1000, None if last is None else last * 1000, gpus) for first, last, gpus in sizes]
        found.setdefault(stream, []).append(Span(id_, run, _ms(start), _ms(end) if end else None, state, cut, row))
    return found


def _ms(at: datetime) -> int:
    """Epoch milliseconds of a start or end, which are whole seconds."""
    return round(at.timestamp()) * 1000


def _words(batch: Batch, streams: list[str], types: Sequence[str]) -> dict[str, list[Word]]:
    """What the programs of some jobs said, up to the end of the range."""
    query = statements("jobs", "training")[8]
    batch.cursor.execute(query, {**_arguments(batch), "streams": streams, "types": list(types)})
    newest = {kind: REGISTRY.latest(kind) for kind in types}
    decoders = {kind: REGISTRY.get(kind).decoder.decode for kind in types}
    found: dict[str, list[Word]] = {}
    while chunk := batch.cursor.fetchmany(5000):
        for stream, position, kind, version, ms, data in chunk:
            body: Any = decoders[kind](data) if version == newest[kind] else REGISTRY.load(kind, version, data)
            found.setdefault(stream, []).append(Word(position, kind, ms, body))
    return found


def _restores(cursor: Any, runs: set[UUID]) -> dict[UUID, list[Restore]]:
    cursor.execute(statements("jobs", "training")[9], {"runs": list(runs)})
    found: dict[UUID, list[Restore]] = {}
    for run, start, state in cursor.fetchall():
        found.setdefault(run, []).append(Restore(start, state))
    return found


# --- writing ---------------------------------------------------------------------------------------------------


def _write_checkpoints(batch: Batch, streams: list[str]) -> None:
    spans, words = _spans(batch.cursor, streams), _words(batch, streams, SAVE_TYPES)
    with copying(batch.cursor, "jobs_checkpoint", CHECKPOINT, CHECKPOINT_TYPES) as write:
        for stream, said in words.items():
            by_id = {span.id: span for span in spans.get(stream, ())}
            for attempt, own in share_out(spans.get(stream, ()), said).items():
                for word in own:
                    write(_checkpoint_row(stream, by_id[attempt], word))


def _write_partitions(batch: Batch, streams: list[str]) -> None:
    spans, words = _spans(batch.cursor, streams), _words(batch, streams, TRAINING_TYPES)
    restores = _restores(batch.cursor, {span.run for found in spans.values() for span in found})
    speeds: list[Row] = []
    with copying(batch.cursor, "jobs_goodput", GOODPUT, GOODPUT_TYPES) as write:
        for stream, found in spans.items():
            own = share_out(found, words.get(stream, ()))
            for span in found:
                parted = part(span, own.get(span.id, ()), restores.get(span.run, ()))
                if parted is not None:
                    write(_goodput_row(stream, span, parted))
                    speeds += [_speed_row(stream, span, key, sums) for key, sums in parted.speeds.items()]
    with copying(batch.cursor, "jobs_speed", SPEED, SPEED_TYPES) as write:
        for line in speeds:
            write(line)


def _checkpoint_row(stream: str, span: Span, word: Word) -> Row:
    """One row of jobs_checkpoint."""
    data, row = word.data, span.row
    kind = word.kind.partition(".")[2]
    total = data.restore_ms if kind == "restored" else getattr(data, "total_ms", None)
    return (
        word.position, kind, span.id, span.run, stream, row["cluster"], row["job_id"], row["account"], row["user_id"],
        _instant(span.start), data.step, _instant(data.state_ms), _instant(word.ms), getattr(data, "blocking_ms", None),
        total, getattr(data, "bytes", None), getattr(data, "path_class", None) or "",
    )  # fmt: skip


def _goodput_row(stream: str, span: Span, parted: Parted) -> Row:
    """One row of jobs_goodput."""
    row, parts = span.row, parted.parts
    return (
        span.id, span.run, stream, row["cluster"], row["job_id"], row["number"], row["account"], row["user_id"],
        row["partition"], _instant(span.start), _instant(span.end), _instant(parted.until),
        span.sizes[-1][2] if span.sizes else 0, parted.lost, *(parts.gpu_seconds[name] for name in PARTS),
        parts.allocated, parted.seconds["productive"], parts.rolled_back, parted.seconds["detect"],
        parted.seconds["teardown"], parted.seconds["init_restore"], parted.seconds["partial_gang_wait"],
        *parted.stopped, parted.last_step, parted.steps, parted.tokens, parted.period, parted.communication,
    )  # fmt: skip


def _speed_row(stream: str, span: Span, key: Key, sums: Sums) -> Row:
    """One row of jobs_speed."""
    row = span.row
    return (
        span.id, key.gpus, key.convention, span.run, stream, row["cluster"], row["job_id"], row["number"],
        row["account"], row["user_id"], _instant(span.start), *(getattr(sums, name) for name in SUMMED),
    )  # fmt: skip


def _instant(ms: int | None) -> int | None:
    """Epoch milliseconds as the server's instant."""
    return None if ms is None else (ms - YEAR_2000 * 1000) * 1000
