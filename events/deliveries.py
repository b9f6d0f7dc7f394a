"""Bodies kept as sent: one INSERT before the 2xx, and the drain that turns them into events afterwards.

Many web workers insert at once and share the server's flushes; the log's lock is only taken by the drain, for
up to 5,000 deliveries at a time. The drain is one transaction: after kill -9 a batch is wholly in the log and
done, or wholly pending.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import psycopg
from django.conf import settings
from django.db import DataError, connection, transaction
from psycopg.types.json import Jsonb

from events.adapters import Draft, Refusal, cloudevents
from events.intake import Refused, Said, Voice, admit, now_us, sift
from events.validate import refusal

__all__ = ["ADAPTERS", "accept_delivery", "drain", "overloaded", "pending"]

Adapter = Callable[[str, Mapping[str, str], bytes], list[Draft | Refusal]]
"""(content type, chosen headers in lower case, body) -> drafts and refusals."""
ADAPTERS: Final[dict[str, Adapter]] = {"cloudevents": cloudevents.translate}

logger = logging.getLogger(__name__)

_INSERT: Final = """
INSERT INTO events_delivery (shard, received_at, id, source, kind, content_type, headers, body, sha256, actor)
VALUES (%s, clock_timestamp(), %s, %s, %s, %s, %s, %b, %b, %s)"""
_TAKE: Final = """
SELECT id, received_at, source, kind, content_type, headers, body, actor FROM events_delivery
WHERE shard = %s AND state = 'pending' ORDER BY received_at, id LIMIT %s FOR UPDATE SKIP LOCKED"""
_SETTLE: Final = """
UPDATE events_delivery d SET state = s.state, error = s.error, tries = d.tries + 1
FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[], %s::text[]) AS s (id, received_at, state, error)
WHERE d.shard = %s AND d.received_at = s.received_at AND d.id = s.id"""


def accept_delivery(
    *,
    source: str,
    kind: str,
    content_type: str,
    headers: Mapping[str, str],
    body: bytes,
    actor: str,
) -> uuid.UUID:
    """Keep a body as sent and return its id; committed on return unless the caller has a transaction open.

    source: who says it, where the body's records do not. kind: key of ADAPTERS. headers: the chosen ones, with
    names in lower case; never credentials. Raises django.db.OperationalError when the database cannot take it.
    """
    id_ = uuid.uuid4()
    sha256 = hashlib.sha256(body).digest()
    row = (settings.SHARD, id_, source, kind, content_type, Jsonb(dict(headers)), body, sha256, actor)
    with connection.wrap_database_errors, _cursor() as cursor:
        cursor.execute(_INSERT, row, prepare=True)
    return id_


def _cursor() -> psycopg.Cursor[Any]:
    """A cursor with parameters bound by the server, so that its statement is prepared once per connection."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    if raw.prepare_threshold is None:  # Django switches it off; its own cursors never prepare
        raw.prepare_threshold = 5
    return psycopg.Cursor(raw)


def pending(most: int) -> int:
    """How many deliveries wait, counted up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(*) FROM (SELECT FROM events_delivery WHERE shard = %s AND state = 'pending'
               LIMIT %s) AS waiting""",
            [settings.SHARD, most],
        )
        return int(cursor.fetchone()[0])


@dataclass
class _Gauge:
    """Whether too much waits, looked up at most once a second per process."""

    looked_up: float = -1e9
    full: bool = False


_gauge: Final = _Gauge()


def overloaded() -> bool:
    """True when MAX_PENDING_DELIVERIES (default 200,000) wait: answer 503, so that the sender keeps them."""
    now = time.monotonic()
    if now - _gauge.looked_up > 1:
        most = int(getattr(settings, "MAX_PENDING_DELIVERIES", 200_000))
        _gauge.full = pending(most) >= most
        _gauge.looked_up = now
    return _gauge.full


@dataclass(frozen=True, slots=True)
class _Kept:
    """One delivery as taken by the drain."""

    id: uuid.UUID
    received_at: datetime
    source: str
    kind: str
    content_type: str
    headers: dict[str, str]
    body: bytes
    actor: str

    @property
    def voice(self) -> Voice:
        return Voice(self.source, self.actor, f"{self.kind} delivery", self.id)


_Settled = tuple[str, str]
"""State and error of a delivery."""


def drain(limit: int = 5000) -> int:
    """Turn pending deliveries into events, oldest first; returns how many were settled.

    A delivery whose adapter raises, or whose facts the database refuses, becomes a Rejection and is settled
    as rejected; the others go on. Two drains at once take different deliveries. Raises events.append.LogBusy.
    """
    with transaction.atomic():
        kept = _taken(limit)
        if kept:
            _settle(kept, _enter(kept))
    return len(kept)


def _taken(limit: int) -> list[_Kept]:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [settings.SHARD, limit])
        return [_kept(row) for row in cursor.fetchall()]


def _kept(row: Sequence[Any]) -> _Kept:
    id_, received_at, source, kind, content_type, headers, body, actor = row
    known = msgspec.json.decode(headers) if isinstance(headers, str) else headers
    return _Kept(id_, received_at, source, kind, content_type, known, bytes(body), actor)


def _enter(kept: Sequence[_Kept]) -> list[_Settled]:
    """Append what the deliveries say, in halves where the database refuses the data of one of them."""
    try:
        with transaction.atomic():
            return _entered(kept)
    except (DataError, ValueError) as error:
        if len(kept) == 1:
            logger.warning("delivery %s cannot be appended: %s", kept[0].id, type(error).__name__)
            text = f"the log cannot hold it: {type(error).__name__}"
            return _entered(kept, [[_whole(kept[0], "append_error", text)]])
        middle = len(kept) // 2
        return [*_enter(kept[:middle]), *_enter(kept[middle:])]


def _entered(kept: Sequence[_Kept], translated: Sequence[list[Draft | Refusal]] | None = None) -> list[_Settled]:
    said: list[Said] = []
    refused: list[Refused] = []
    for delivery, items in zip(kept, translated or [_translated(each) for each in kept], strict=True):
        # The clock of a delivery is its receipt: a backlog must not make a wrong clock look right.
        good, bad = sift(items, delivery.voice, _us(delivery.received_at))
        said += good
        refused += bad
    good_of: dict[uuid.UUID | None, int] = {}
    why: dict[uuid.UUID | None, str] = {}
    for voice, result in admit(said, refused):
        if result.status == "rejected":
            why.setdefault(voice.delivery, f"{result.code}: {result.text}")
        else:
            good_of[voice.delivery] = good_of.get(voice.delivery, 0) + 1
    return [
        ("rejected" if each.id in why and each.id not in good_of else "done", why.get(each.id, "")[:1000])
        for each in kept
    ]


def _translated(delivery: _Kept) -> list[Draft | Refusal]:
    try:
        return ADAPTERS[delivery.kind](delivery.content_type, delivery.headers, delivery.body)
    except Exception as error:  # noqa: BLE001 - one delivery that its adapter cannot bear must not stop the others
        logger.warning("delivery %s: its adapter raised %s", delivery.id, type(error).__name__)
        return [_whole(delivery, "adapter_error", f"{delivery.kind}: {type(error).__name__}: {error}")]


def _whole(delivery: _Kept, code: str, text: str) -> Refusal:
    return refusal(0, "", code, text.replace("\0", "�")[:1000], delivery.body)


def _us(at: datetime) -> int:
    return min(int(at.timestamp() * 1_000_000), now_us())


def _settle(kept: Sequence[_Kept], settled: Sequence[_Settled]) -> None:
    columns = (
        [each.id for each in kept],
        [each.received_at for each in kept],
        [state for state, _ in settled],
        [error for _, error in settled],
    )
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE, [*columns, settings.SHARD])
