"""Proof that the log is what was written: every digest, every position, every block of the hash chain."""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from events.append import digest_of, key_of

__all__ = ["Damage", "Sealed", "block_of", "seal", "verify_chain"]

CHUNK: Final = 20_000
EVENTS: Final = """
SELECT e.position, e.id, e.source, e.source_key, e.type, e.version, e.stream,
       (extract(epoch FROM e.occurred_at) * 1000000)::bigint, (extract(epoch FROM e.recorded_at) * 1000000)::bigint,
       e.actor, e.delivery, e.data::text, k.digest, k.position
FROM events_event e LEFT JOIN events_eventkey k ON k.shard = e.shard AND k.key = e.id
WHERE e.shard = %s AND e.position > %s AND e.position <= %s ORDER BY e.position
"""


class Damage(Exception):
    """The log is not what was written; the text names the position and what is wrong with it."""


class Sealed(NamedTuple):
    """What a verified log comes to: its last position, how many events were read, and the head hash."""

    position: int
    events: int
    hash: bytes


class _Event(NamedTuple):
    position: int
    id: uuid.UUID
    source: str
    source_key: str
    type: str
    version: int
    stream: str
    occurred_us: int
    recorded_us: int
    actor: str
    delivery: uuid.UUID | None
    data: str
    digest: bytes | None
    keyed: int | None


def verify_chain(
    since: int = 0, *, tick: Callable[[int], object] = lambda _count: None, using: str = DEFAULT_DB_ALIAS
) -> Sealed:
    """Walk the log and recompute everything. Raises Damage at the first position that is not as written.

    since: start after this position (the end of a block is taken as proven). tick: called with each count of
    events read. Reads one consistent snapshot; cost linear in the events read.
    """
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        head, root = _head(cursor)
        at, chain = _origin(cursor, since)
        count = 0
        for upto, recorded_us, block_hash, events in _blocks(cursor, at):
            chain = _verify_block(chain, at, upto, recorded_us, events)
            if chain != block_hash:
                raise Damage(f"positions {at + 1} to {upto}: the hash chain does not fit what is stored")
            count += upto - at
            tick(upto - at)
            at = upto
        if (at, chain) != (head, root):
            raise Damage(f"the head says position {head}, the last block ends at {at}")
        _verify_seals(cursor)
        if stray := _after(cursor, head):
            raise Damage(f"position {stray} lies after the head: it was not written by an append")
    return Sealed(head, count, root)


def block_of(cursor: Any, start: int, upto: int) -> bytes:
    """The chain's hash after the block that follows position `start` and ends at `upto`, from what is stored now.

    Takes the hash before the block as written. Raises Damage at the first event that is not as written.
    """
    _, chain = _origin(cursor, start)
    cursor.execute(
        """SELECT (extract(epoch FROM recorded_at) * 1000000)::bigint FROM events_block
           WHERE shard = %s AND upto = %s""",
        [settings.SHARD, upto],
    )
    (recorded_us,) = cursor.fetchone()
    cursor.execute(EVENTS, [settings.SHARD, start, upto])
    return _verify_block(chain, start, upto, int(recorded_us), [_Event(*row) for row in cursor.fetchall()])


def _head(cursor: Any) -> tuple[int, bytes]:
    cursor.execute("SELECT position, hash FROM events_head WHERE shard = %s", [settings.SHARD])
    row = cursor.fetchone()
    return (int(row[0]), bytes(row[1])) if row else (0, b"")


def _verify_seals(cursor: Any) -> None:
    """A head that was handed out must still be the end of a block: else the log was cut or written anew."""
    cursor.execute(
        """SELECT s.position FROM events_seal s
           LEFT JOIN events_block b ON b.shard = s.shard AND b.upto = s.position AND b.hash = s.hash
           WHERE s.shard = %s AND s.position > 0 AND b.upto IS NULL ORDER BY 1 LIMIT 1""",
        [settings.SHARD],
    )
    if row := cursor.fetchone():
        raise Damage(f"position {row[0]}: the head that was sealed there is no longer in the chain")


def _after(cursor: Any, head: int) -> int | None:
    """First position of an event after the head; None when there is none."""
    cursor.execute("SELECT min(position) FROM events_event WHERE shard = %s AND position > %s", [settings.SHARD, head])
    found: int | None = cursor.fetchone()[0]
    return found


def _origin(cursor: Any, since: int) -> tuple[int, bytes]:
    """The last block that ends at or before `since`: where to start, and the hash there."""
    cursor.execute(
        "SELECT upto, hash FROM events_block WHERE shard = %s AND upto <= %s ORDER BY upto DESC LIMIT 1",
        [settings.SHARD, since],
    )
    row = cursor.fetchone()
    return (int(row[0]), bytes(row[1])) if row else (0, b"")


def _blocks(cursor: Any, start: int) -> Iterator[tuple[int, int, bytes, list[_Event]]]:
    """Each block after a position: (upto, recorded, hash, its events)."""
    at = start
    while True:
        cursor.execute(
            """SELECT upto, count, (extract(epoch FROM recorded_at) * 1000000)::bigint, hash FROM events_block
               WHERE shard = %s AND upto > %s ORDER BY upto LIMIT 1000""",
            [settings.SHARD, at],
        )
        blocks = cursor.fetchall()
        if not blocks:
            return
        while blocks:
            taken, size = _some(blocks)
            cursor.execute(EVENTS, [settings.SHARD, at, taken[-1][0]])
            events = [_Event(*row) for row in cursor.fetchall()]
            for upto, count, recorded_us, hash_ in taken:
                if upto - at != count:
                    raise Damage(f"positions {at + 1} to {upto}: the block says {count} events")
                yield upto, recorded_us, bytes(hash_), [item for item in events if at < item.position <= upto]
                at = upto
            blocks = blocks[size:]


def _some(blocks: list[Any]) -> tuple[list[Any], int]:
    """The first blocks that together hold about CHUNK events, at least one."""
    total = 0
    for index, block in enumerate(blocks):
        total += block[1]
        if total > CHUNK:
            return blocks[: max(1, index)], max(1, index)
    return blocks, len(blocks)


def _verify_block(chain: bytes, at: int, upto: int, recorded_us: int, events: list[_Event]) -> bytes:
    """The chain's hash after one block, from its events. Raises Damage with the position."""
    running = hashlib.sha256(chain + struct.pack(">q", recorded_us))
    for expected, item in zip(range(at + 1, upto + 1), events, strict=False):
        if item.position != expected:
            raise Damage(f"position {expected} is missing")
        _verify_event(item, recorded_us)
        running.update(struct.pack(">q", item.position) + bytes(item.digest or b""))
        running.update(item.delivery.bytes if item.delivery else b"")
    if len(events) != upto - at:
        raise Damage(f"position {at + len(events) + 1} is missing")
    return running.digest()


def _verify_event(item: _Event, recorded_us: int) -> None:
    data = msgspec.json.encode(msgspec.json.decode(item.data), order="sorted")
    digest = digest_of(
        item.source, item.source_key, item.type, item.version, item.stream, item.occurred_us, item.actor, data
    )
    if item.id.bytes != key_of(item.source, item.source_key):
        raise Damage(f"position {item.position}: its id does not belong to its source and key")
    if item.digest is None or item.keyed != item.position:
        raise Damage(f"position {item.position}: its key is missing or names another position")
    if bytes(item.digest) != digest:
        raise Damage(f"position {item.position}: what is stored is not what was written (digest differs)")
    if item.recorded_us != recorded_us:
        raise Damage(f"position {item.position}: its time of recording was changed")


def seal(note: str, *, now: datetime) -> Sealed:
    """Write down the present head as handed out of the house (to whom: `note`), and return it."""
    with transaction.atomic(), connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        position, hash_ = _head(cursor)
        cursor.execute(
            """INSERT INTO events_seal (shard, position, hash, sealed_at, note) VALUES (%s, %s, %s, %s, %s)
               ON CONFLICT DO NOTHING""",
            [settings.SHARD, position, hash_, now, note],
        )
    return Sealed(position, position, hash_)
