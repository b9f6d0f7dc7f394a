"""How much came from whom: counted where deliveries are settled, read by the page of sources.

One row per (source, kind) and one statement per drain, so that a million deliveries are counted by reading a few
rows. Sources are named by those who send: beyond MOST of one kind, further ones share a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from events.access import Scope
from events.models import Tally

__all__ = ["MOST", "OTHERS", "Settled", "note", "tallies", "waiting"]

MOST: Final = 1000
OTHERS: Final = "(others)"

_ADD: Final = """
UPDATE events_tally t SET
    deliveries = t.deliveries + n.deliveries, refused = t.refused + n.refused, accepted = t.accepted + n.accepted,
    duplicate = t.duplicate + n.duplicate, rejected = t.rejected + n.rejected,
    last_received = greatest(t.last_received, n.last_received),
    lag_us = greatest(0, extract(epoch FROM clock_timestamp() - n.last_received) * 1000000)::bigint,
    last_error = CASE WHEN n.error = '' THEN t.last_error ELSE n.error END,
    last_error_at = CASE WHEN n.error = '' THEN t.last_error_at ELSE n.last_received END
FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
            %s::timestamptz[], %s::text[])
    AS n (source, kind, deliveries, refused, accepted, duplicate, rejected, last_received, error)
WHERE t.shard = %s AND t.source = n.source AND t.kind = n.kind
RETURNING t.source, t.kind"""
_FIRST: Final = """
INSERT INTO events_tally (shard, source, kind, deliveries, refused, accepted, duplicate, rejected, last_received,
    lag_us, last_error)
SELECT %s, n.source, n.kind, 0, 0, 0, 0, 0, 'epoch', 0, '' FROM unnest(%s::text[], %s::text[]) AS n (source, kind)
ON CONFLICT DO NOTHING"""


@dataclass
class Settled:
    """One settled delivery: whose, what became of its items, and the first reason of a refusal."""

    source: str
    kind: str
    received_at: datetime
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    error: str = ""


@dataclass
class _Sum:
    deliveries: int = 0
    refused: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    last: datetime | None = None
    error: str = field(default="")

    def add(self, one: Settled) -> None:
        self.deliveries += 1
        self.refused += bool(one.rejected and not one.accepted and not one.duplicate)
        self.accepted += one.accepted
        self.duplicate += one.duplicate
        self.rejected += one.rejected
        if self.last is None or one.received_at >= self.last:
            self.last = one.received_at
        self.error = one.error or self.error


def note(settled: Iterable[Settled]) -> None:
    """Count settled deliveries, in the caller's transaction: a drain that is rolled back counts nothing."""
    sums: dict[tuple[str, str], _Sum] = {}
    for one in settled:
        sums.setdefault((one.source, one.kind), _Sum()).add(one)
    if not sums:
        return
    missing = _add(sums)
    if missing:
        _add(_made(missing))


def _add(sums: dict[tuple[str, str], _Sum]) -> dict[tuple[str, str], _Sum]:
    """Add to the rows that exist; those that do not are given back. In order of key, so that two never deadlock."""
    keys = sorted(sums)
    rows = [sums[key] for key in keys]
    columns: list[list[Any]] = [[source for source, _ in keys], [kind for _, kind in keys]]
    names = ("deliveries", "refused", "accepted", "duplicate", "rejected", "last", "error")
    columns += [[getattr(row, name) for row in rows] for name in names]
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT FROM events_tally t JOIN unnest(%s::text[], %s::text[]) AS n (source, kind) USING (source, kind)
               WHERE t.shard = %s ORDER BY t.source, t.kind FOR UPDATE OF t""",
            [*columns[:2], settings.SHARD],
        )
        cursor.execute(_ADD, [*columns, settings.SHARD])
        known = {(str(source), str(kind)) for source, kind in cursor.fetchall()}
    return {key: one for key, one in sums.items() if key not in known}


def _made(missing: dict[tuple[str, str], _Sum]) -> dict[tuple[str, str], _Sum]:
    """Rows for what has none yet; beyond MOST of a kind one for all others. What is to be added to which."""
    out: dict[tuple[str, str], _Sum] = {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT kind, count(*) FROM events_tally WHERE shard = %s GROUP BY kind", [settings.SHARD])
        held: dict[str, int] = {str(kind): int(count) for kind, count in cursor.fetchall()}
        for (source, kind), one in sorted(missing.items()):
            held[kind] = held.get(kind, 0) + 1
            key = (source if held[kind] <= MOST else OTHERS, kind)
            _join(out.setdefault(key, _Sum()), one)
        keys = sorted(out)
        cursor.execute(_FIRST, [settings.SHARD, [source for source, _ in keys], [kind for _, kind in keys]])
    return out


def _join(into: _Sum, one: _Sum) -> None:
    for name in ("deliveries", "refused", "accepted", "duplicate", "rejected"):
        setattr(into, name, getattr(into, name) + getattr(one, name))
    into.last = max(filter(None, (into.last, one.last)), default=None)
    into.error = one.error or into.error


def tallies(scope: Scope) -> QuerySet[Tally]:
    """What came from each (source, kind), the newest first; nothing for a caller who may not see the raw log."""
    rows = Tally.objects.filter(shard=settings.SHARD)
    return rows.order_by("-last_received", "source", "kind") if scope.fleetwide else rows.none()


def waiting(scope: Scope) -> dict[tuple[str, str], tuple[int, datetime]]:
    """(source, kind) -> how many deliveries wait to be taken in, and the newest of them. Cost: those that wait."""
    if not scope.fleetwide:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT source, kind, count(*), max(received_at) FROM events_delivery
               WHERE shard = %s AND state = 'pending' GROUP BY 1, 2""",
            [settings.SHARD],
        )
        return {(str(s), str(k)): (int(count), newest) for s, k, count, newest in cursor.fetchall()}
