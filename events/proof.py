"""The proof of one event: what it hashes to, where it stands in the chain, and what was sealed after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection

from events.access import Scope
from events.seal import Damage, block_of

__all__ = ["Proof", "prove"]


@dataclass(frozen=True, slots=True)
class Proof:
    """One event's place in the chain. Hashes are hexadecimal.

    first, last: the positions appended together with it. before, after: the chain's hash on either side of them.
    wrong: what does not fit, '' when all of it was computed again and fits. sealed_at: when a head at or after
    this position was first handed out, to whom `sealed_note` says; None while none was.
    """

    digest: str
    first: int
    last: int
    before: str
    after: str
    wrong: str
    sealed_position: int | None
    sealed_at: datetime | None
    sealed_note: str


def prove(scope: Scope, position: int) -> Proof | None:
    """Read the events that were appended together with one (mostly up to 5,000) and compute their hashes again.

    None when there is no such event or the caller may not see the raw log. That the blocks before fit together
    is what `manage.py verify` proves; here the hash before the block is taken as written.
    """
    if not scope.fleetwide:
        return None
    with connection.cursor() as cursor:
        found = _place(cursor, position)
        if found is None:
            return None
        digest, first, last, before, after = found
        try:
            wrong = "" if block_of(cursor, first - 1, last) == after else "the hash chain does not fit what is stored"
        except Damage as damage:
            wrong = str(damage)
        sealed = _sealed(cursor, position)
    return Proof(digest.hex(), first, last, before.hex(), after.hex(), wrong, *sealed)


def _place(cursor: Any, position: int) -> tuple[bytes, int, int, bytes, bytes] | None:
    """Digest, first and last position of the block, the chain's hash before and after it."""
    cursor.execute(
        """SELECT k.digest, b.upto - b.count + 1, b.upto, coalesce(p.hash, ''), b.hash
           FROM events_event e
           JOIN events_eventkey k ON k.shard = e.shard AND k.key = e.id
           JOIN LATERAL (SELECT upto, count, hash FROM events_block
                         WHERE shard = e.shard AND upto >= e.position ORDER BY upto LIMIT 1) b ON true
           LEFT JOIN events_block p ON p.shard = e.shard AND p.upto = b.upto - b.count
           WHERE e.shard = %s AND e.position = %s""",
        [settings.SHARD, position],
    )
    row = cursor.fetchone()
    return (bytes(row[0]), int(row[1]), int(row[2]), bytes(row[3]), bytes(row[4])) if row else None


def _sealed(cursor: Any, position: int) -> tuple[int | None, datetime | None, str]:
    cursor.execute(
        """SELECT position, sealed_at, note FROM events_seal WHERE shard = %s AND position >= %s
           ORDER BY position LIMIT 1""",
        [settings.SHARD, position],
    )
    row = cursor.fetchone()
    return (int(row[0]), row[1], str(row[2])) if row else (None, None, "")
