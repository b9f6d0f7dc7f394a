"""Facts as PostgreSQL's binary COPY rows, as far as they can be encoded before their positions are known.

One row is a few packed integers and the texts; the general encoder of a driver takes several times as long, and
what is left to do under the lock of the log's head is a position per row.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["EVENT_COLUMNS", "KEY_COLUMNS", "Fact", "event_rows", "event_tails", "key_rows"]

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
YEAR_2000_US: Final = 946_684_800_000_000
"""The server counts microseconds from here."""
EVENT_COLUMNS: Final = ("shard", "position", "recorded_at", "source", "type", "version", "actor", "delivery", "id",
                        "occurred_at", "source_key", "stream", "data")  # fmt: skip
KEY_COLUMNS: Final = ("shard", "key", "position", "digest")
_EVENT: Final = struct.Struct(">hihiqiq").pack
_TIMES: Final = struct.Struct(">i16siqi").pack
_KEY: Final = struct.Struct(">hihi16siqi32s").pack
_LENGTH: Final = struct.Struct(">i").pack
_JSON: Final = struct.Struct(">ib").pack
_JSONB_VERSION: Final = 1
_NULL: Final = _LENGTH(-1)
_SIXTEEN: Final = _LENGTH(16)


class Fact(NamedTuple):
    """One event ready to be appended. `data` is sorted compact JSON; times are microseconds since 1970 UTC."""

    key: bytes
    digest: bytes
    source: str
    source_key: str
    type: str
    version: int
    stream: str
    occurred_us: int
    actor: str
    delivery: uuid.UUID | None
    data: bytes


def event_tails(facts: Iterable[Fact]) -> list[bytes]:
    """Everything of the rows of events_event after position and time of recording.

    Raises ValueError for text that is no UTF-8.
    """
    tails = []
    for item in facts:
        key, stream, data = item.source_key.encode(), item.stream.encode(), item.data
        tails.append(
            _same(item.source, item.type, item.version, item.actor)
            + (_NULL if item.delivery is None else _SIXTEEN + item.delivery.bytes)
            + _TIMES(16, item.key, 8, item.occurred_us - YEAR_2000_US, len(key))
            + key
            + _LENGTH(len(stream))
            + stream
            + _JSON(len(data) + 1, _JSONB_VERSION)
            + data
        )
    return tails


@lru_cache(maxsize=256)
def _same(source: str, type_: str, version: int, actor: str) -> bytes:
    """The fields that most rows of a batch share."""
    return _text(source) + _text(type_) + struct.pack(">ih", 2, version) + _text(actor)


def _text(word: str) -> bytes:
    encoded = word.encode()
    return _LENGTH(len(encoded)) + encoded


def event_rows(tails: Sequence[bytes], shard: int, first: int, recorded_us: int) -> bytes:
    """A whole COPY of events_event: one row per tail, at the positions from `first` on."""
    width, at = len(EVENT_COLUMNS), recorded_us - YEAR_2000_US
    rows = [_EVENT(width, 2, shard, 8, position, 8, at) + tail for position, tail in enumerate(tails, first)]
    return b"".join((SIGNATURE, *rows, TRAILER))


def key_rows(facts: Iterable[Fact], shard: int, first: int) -> bytes:
    """A whole COPY of events_eventkey."""
    width = len(KEY_COLUMNS)
    rows = [
        _KEY(width, 2, shard, 16, item.key, 8, position, 32, item.digest) for position, item in enumerate(facts, first)
    ]
    return b"".join((SIGNATURE, *rows, TRAILER))
