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
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec
import psycopg
from django.conf import settings
from django.db import DataError, connection, transaction
from psycopg.types.json import Jsonb

from events import tally
from events.adapters import (
    Draft,
    Refusal,
    alertmanager,
    cloudevents,
    jobcomp,
    redfish,
    sacct_delivery,
    slurm_hook,
    slurm_json,
    slurm_nodes,
)
from events.intake import Refused, Result, Said, Voice, admit, now_us, sift
from events.validate import refusal

__all__ = ["ADAPTERS", "Kept", "accept_delivery", "drain", "kept_delivery", "overloaded", "pending", "translated"]

Adapter = Callable[[str, Mapping[str, str], bytes], list[Draft | Refusal]]
"""(content type, chosen headers in lower case, body) -> drafts and refusals."""
ADAPTERS: Final[dict[str, Adapter]] = {
    "cloudevents": cloudevents.translate,
    "jobcomp": jobcomp.translate,
    "slurm-hook": slurm_hook.translate,
    "sacct-json": slurm_json.sacct_json,
    "slurmdb-jobs": slurm_json.slurmdb_jobs,
    "slurmctld-jobs": slurm_json.slurmctld_jobs,
    "squeue-json": slurm_json.squeue_json,
    "sacct-text": sacct_delivery.sacct_text,
    "slurm-nodes": slurm_nodes.slurm_nodes,
    "slurm-node-events": slurm_nodes.node_events,
    "alertmanager": alertmanager.translate,
    "redfish": redfish.translate,
}

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
class Kept:
    """One delivery with its body, as taken by the drain or for a replay."""

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
        """Who speaks where a record names no source of its own."""
        return Voice(self.source, self.actor, f"{self.kind} delivery", self.id)


@dataclass(slots=True)
class _Fate:
    """What became of a delivery's items, and why the first of them was refused."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    why: str = ""

    @property
    def state(self) -> str:
        return "rejected" if self.rejected and not (self.accepted or self.duplicate) else "done"

    def add(self, result: Result) -> None:
        setattr(self, result.status, getattr(self, result.status) + 1)
        if result.status == "rejected" and not self.why:
            self.why = f"{result.code}: {result.text}"[:1000]


def drain(limit: int = 5000) -> int:
    """Turn pending deliveries into events, oldest first; returns how many were settled.

    A delivery whose adapter raises, or whose facts the database refuses, becomes a Rejection and is settled
    as rejected; the others go on. Two drains at once take different deliveries. Raises events.append.LogBusy.
    """
    with transaction.atomic():
        kept = _taken(limit)
        if kept:
            fates = _enter(kept)
            _settle(kept, fates)
            tally.note(_settled(*pair) for pair in zip(kept, fates, strict=True))
    return len(kept)


def _taken(limit: int) -> list[Kept]:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [settings.SHARD, limit])
        return [_kept(row) for row in cursor.fetchall()]


def _kept(row: Sequence[Any]) -> Kept:
    id_, received_at, source, kind, content_type, headers, body, actor = row
    known = msgspec.json.decode(headers) if isinstance(headers, str) else headers
    return Kept(id_, received_at, source, kind, content_type, known, bytes(body), actor)


def _settled(kept: Kept, fate: _Fate) -> tally.Settled:
    counts = (fate.accepted, fate.duplicate, fate.rejected)
    return tally.Settled(kept.source, kept.kind, kept.received_at, *counts, error=fate.why)


def _enter(kept: Sequence[Kept]) -> list[_Fate]:
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


def _entered(kept: Sequence[Kept], items_of: Sequence[list[Draft | Refusal]] | None = None) -> list[_Fate]:
    said: list[Said] = []
    refused: list[Refused] = []
    for delivery, items in zip(kept, items_of or translated(kept), strict=True):
        # The clock of a delivery is its receipt: a backlog must not make a wrong clock look right.
        good, bad = sift(items, delivery.voice, _us(delivery.received_at))
        said += good
        refused += bad
    fates = {each.id: _Fate() for each in kept}
    for voice, result in admit(said, refused):
        if voice.delivery is not None:
            fates[voice.delivery].add(result)
    return [fates[each.id] for each in kept]


def translated(kept: Sequence[Kept]) -> list[list[Draft | Refusal]]:
    """What each delivery says; a record of a webhook that names a cluster nobody declared is refused."""
    found = [_translated(each) for each in kept]
    hooked = [items for each, items in zip(kept, found, strict=True) if each.kind != "cloudevents"]
    named = {name for items in hooked for item in items if (name := _cluster(item))}
    if unknown := named - _declared(named):
        for items in hooked:
            items[:] = [_unknown(item) if _cluster(item) in unknown else item for item in items]
    return found


def _cluster(item: Draft | Refusal) -> str:
    return getattr(item.data, "cluster", "") if isinstance(item, Draft) else ""


def _declared(names: set[str]) -> set[str]:
    """Which of these clusters are declared in the log."""
    if not names:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT DISTINCT stream FROM events_event
               WHERE shard = %s AND stream = ANY(%s) AND type = 'cluster.declared'""",
            [settings.SHARD, [f"cluster/{name}" for name in sorted(names)]],
        )
        return {str(stream).removeprefix("cluster/") for (stream,) in cursor.fetchall()}


def _unknown(item: Draft | Refusal) -> Refusal:
    name = _cluster(item)
    text = (
        f"cluster {name!r} is not declared here: a misspelt name, or the first post of a new cluster. Declare it "
        f"with `manage.py source add webhook NAME --cluster {name}`, then replay this"
    )
    payload = msgspec.json.encode(getattr(item, "data", None), order="sorted")
    return replace(refusal(item.index, "/cluster", "unknown_cluster", text, payload), source=item.source)


def kept_delivery(id_: uuid.UUID) -> Kept | None:
    """A delivery with its body, also when only its body was kept; None when it is gone."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT id, received_at, source, kind, content_type, headers, body, actor FROM events_delivery
               WHERE shard = %(shard)s AND id = %(id)s
               UNION ALL
               SELECT delivery, received_at, source, kind, content_type, headers, body, '' FROM events_keptbody
               WHERE shard = %(shard)s AND delivery = %(id)s LIMIT 1""",
            {"shard": settings.SHARD, "id": id_},
        )
        row = cursor.fetchone()
    return _kept(row) if row else None


def _translated(delivery: Kept) -> list[Draft | Refusal]:
    try:
        return ADAPTERS[delivery.kind](delivery.content_type, delivery.headers, delivery.body)
    except Exception as error:  # noqa: BLE001 - one delivery that its adapter cannot bear must not stop the others
        logger.warning("delivery %s: its adapter raised %s", delivery.id, type(error).__name__)
        return [_whole(delivery, "adapter_error", f"{delivery.kind}: {type(error).__name__}: {error}")]


def _whole(delivery: Kept, code: str, text: str) -> Refusal:
    return refusal(0, "", code, text.replace("\0", "�")[:1000], delivery.body)


def _us(at: datetime) -> int:
    return min(int(at.timestamp() * 1_000_000), now_us())


def _settle(kept: Sequence[Kept], fates: Sequence[_Fate]) -> None:
    columns = (
        [each.id for each in kept],
        [each.received_at for each in kept],
        [fate.state for fate in fates],
        [fate.why for fate in fates],
    )
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE, [*columns, settings.SHARD])
