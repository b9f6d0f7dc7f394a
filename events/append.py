"""The only writer of the log: a batch of facts becomes events in commit order, without holes and without doubles.

Rows are encoded without a lock; then the head row is locked, what is already there is dropped, keys and events
go by binary COPY straight into their tables at the next positions, and the head advances. A rollback gives its
positions back, so a reader is `position > p order by position` and a hole is damage. Under the lock a fact costs
one probe of the key index and one row in each table, and Python only puts the positions in front.
Cost: linear in the batch; the key index grows with the log.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction

from events.types import REGISTRY, EventStruct
from events.wire import EVENT_COLUMNS, KEY_COLUMNS, Fact, event_rows, event_tails, key_rows

__all__ = ["Claim", "ClaimTaken", "Fact", "LogBusy", "Outcome", "StreamMoved", "append", "digest_of", "fact", "key_of"]

LOCK = """
SET LOCAL lock_timeout = '2s';
WITH head AS MATERIALIZED (SELECT position, hash FROM events_head WHERE shard = %s FOR UPDATE)
SELECT position, hash, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM head
"""
FIRST = "INSERT INTO events_head (shard, position, hash) VALUES (%s, 0, ''::bytea) ON CONFLICT DO NOTHING"
KNOWN = "SELECT key, position, digest FROM events_eventkey WHERE shard = %s AND key = ANY(%s::uuid[])"
ADVANCE = """
INSERT INTO events_block (shard, upto, count, recorded_at, hash)
    VALUES (%(shard)s, %(upto)s, %(count)s,
            timestamptz 'epoch' + %(seconds)s * interval '1 second' + %(rest)s * interval '1 microsecond', %(hash)s);
UPDATE events_head SET position = %(upto)s, hash = %(hash)s WHERE shard = %(shard)s
"""

_canonical = msgspec.json.Encoder(order="sorted")
_ENTRY = struct.Struct(">q32s").pack


class Outcome(NamedTuple):
    """What became of one fact; `position` is its own or that of the event already there."""

    status: Literal["accepted", "duplicate", "conflict"]
    position: int


class Claim(NamedTuple):
    """Something only one stream may hold, taken together with the append."""

    kind: str
    key: str
    stream: str


class LogBusy(Exception):
    """Another writer held the head of the log for longer than two seconds; try again."""


class StreamMoved(Exception):
    """A stream has an event after the position the caller had read."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"{stream} is at position {actual}, not {expected}: read it again")
        self.stream, self.expected, self.actual = stream, expected, actual


class ClaimTaken(Exception):
    """Another stream holds what was claimed."""

    def __init__(self, claim: Claim, holder: str) -> None:
        super().__init__(f"{claim.kind} {claim.key} is held by {holder}")
        self.claim, self.holder = claim, holder


def key_of(source: str, source_key: str) -> bytes:
    """First 16 bytes of sha256 over source, a zero byte and source_key: the identity of a fact for ever."""
    return hashlib.sha256(f"{source}\0{source_key}".encode()).digest()[:16]


def digest_of(
    source: str, source_key: str, type_: str, version: int, stream: str, occurred_us: int, actor: str, data: bytes
) -> bytes:
    """sha256 over the sorted compact JSON of everything a fact says (32 bytes)."""
    said = (source, source_key, type_, version, stream, occurred_us, actor, msgspec.Raw(data))
    return hashlib.sha256(msgspec.json.encode(said)).digest()


def fact(
    data: EventStruct,
    *,
    type_: str,
    source: str,
    source_key: str,
    occurred_us: int,
    actor: str,
    delivery: uuid.UUID | None = None,
) -> Fact:
    """Build the fact of one validated struct of a registered type (its latest version)."""
    kind = REGISTRY.get(type_)
    body = _canonical.encode(data)
    stream = kind.stream(data)
    digest = digest_of(source, source_key, kind.name, kind.version, stream, occurred_us, actor, body)
    key = key_of(source, source_key)
    return Fact(key, digest, source, source_key, kind.name, kind.version, stream, occurred_us, actor, delivery, body)


def append(
    facts: Sequence[Fact],
    *,
    expect: Mapping[str, int] | None = None,
    claims: Iterable[Claim] = (),
    using: str = DEFAULT_DB_ALIAS,
) -> list[Outcome]:
    """Append facts in their order; one outcome each, in the same order.

    expect: stream -> last position the caller has read (0: none); a stream that moved raises StreamMoved.
    claims: taken in the same transaction; one held by another stream raises ClaimTaken.
    Raises LogBusy when the head stays locked for 2 s. Nothing is kept when it raises.
    """
    first, repeats = _unique(facts)
    if not facts:
        return []
    try:
        with transaction.atomic(using=using), connections[using].cursor() as cursor:
            if expect or claims:
                _guard(cursor, expect or {}, list(claims))
            outcomes = _appended(cursor, facts, first)
            _take(cursor, claims, outcomes)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == "55P03":
            raise LogBusy("the log is busy: another writer holds its head") from error
        raise
    for index, original in repeats.items():
        same = facts[index].digest == facts[original].digest or _same_fact(facts[index], facts[original])
        outcomes[index] = Outcome("duplicate" if same else "conflict", outcomes[original].position)
    return [outcomes[index] for index in range(len(facts))]


def _unique(facts: Sequence[Fact]) -> tuple[list[int], dict[int, int]]:
    """Indexes of the first fact of each key, and later index -> first index for the repeats."""
    seen: dict[bytes, int] = {}
    first: list[int] = []
    repeats: dict[int, int] = {}
    for index, item in enumerate(facts):
        original = seen.setdefault(item.key, index)
        if original == index:
            first.append(index)
        else:
            repeats[index] = original
    return first, repeats


def _appended(cursor: Any, facts: Sequence[Fact], indexes: list[int]) -> dict[int, Outcome]:
    """Under the head's lock: what is known already, and the rest at the next positions."""
    tails = dict(zip(indexes, event_tails(map(facts.__getitem__, indexes)), strict=True))
    position, chain, recorded_us = _locked(cursor)
    outcomes = _known(cursor, facts, indexes)
    fresh = [index for index in indexes if index not in outcomes] if outcomes else indexes
    if fresh:
        new = [facts[index] for index in fresh]
        with cursor.db.wrap_database_errors:
            _copy(cursor, "events_eventkey", KEY_COLUMNS, key_rows(new, settings.SHARD, position + 1))
            rows = event_rows([tails[index] for index in fresh], settings.SHARD, position + 1, recorded_us)
            _copy(cursor, "events_event", EVENT_COLUMNS, rows)
        _advance(cursor, position, recorded_us, chain, new)
        outcomes.update((index, Outcome("accepted", at)) for at, index in enumerate(fresh, position + 1))
    return outcomes


def _locked(cursor: Any) -> tuple[int, bytes, int]:
    """Lock the head: last position, its hash, and the time of recording."""
    while True:
        cursor.execute(LOCK, [settings.SHARD])
        cursor.nextset()
        if row := cursor.fetchone():
            return int(row[0]), bytes(row[1]), int(row[2])
        cursor.execute(FIRST, [settings.SHARD])


def _known(cursor: Any, facts: Sequence[Fact], indexes: list[int]) -> dict[int, Outcome]:
    """Outcomes of the facts that are in the log already."""
    keys = "{" + ",".join([facts[index].key.hex() for index in indexes]) + "}"
    cursor.execute(KNOWN, [settings.SHARD, keys])
    found = {key.bytes: (position, bytes(digest)) for key, position, digest in cursor.fetchall()}
    if not found:
        return {}
    stored = {index: found[facts[index].key] for index in indexes if facts[index].key in found}
    doubtful = {at: index for index, (at, digest) in stored.items() if digest != facts[index].digest}
    conflicts = _conflicts(cursor, facts, doubtful) if doubtful else set()
    return {index: Outcome("conflict" if index in conflicts else "duplicate", at) for index, (at, _) in stored.items()}


def _copy(cursor: Any, table: str, columns: Sequence[str], rows: bytes) -> None:
    with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(rows)


def _advance(cursor: Any, position: int, recorded_us: int, chain: bytes, new: Sequence[Fact]) -> None:
    """The block of these facts, and the head after it: one hash over the one before, the time and every digest."""
    said = b"".join(
        [
            _ENTRY(at, item.digest) + (item.delivery.bytes if item.delivery else b"")
            for at, item in enumerate(new, position + 1)
        ]
    )
    hash_ = hashlib.sha256(chain + recorded_us.to_bytes(8, "big", signed=True) + said).digest()
    seconds, rest = divmod(recorded_us, 1_000_000)
    values = {"shard": settings.SHARD, "upto": position + len(new), "count": len(new), "seconds": seconds,
              "rest": rest, "hash": hash_}  # fmt: skip
    cursor.execute(ADVANCE, values)


def _conflicts(cursor: Any, facts: Sequence[Fact], doubtful: dict[int, int]) -> set[int]:
    """Of the facts whose digest differs: those that say another thing, not the same thing by another actor."""
    cursor.execute(
        """SELECT position, type, version, stream, (extract(epoch FROM occurred_at) * 1000000)::bigint, data::text
           FROM events_event WHERE shard = %s AND position = ANY(%s)""",
        [settings.SHARD, list(doubtful)],
    )
    found = {row[0]: row for row in cursor.fetchall()}
    return {index for at, index in doubtful.items() if not _says(found.get(at), facts[index])}


def _says(row: tuple[Any, ...] | None, item: Fact) -> bool:
    if row is None:  # its partition was archived: the digest alone decides
        return False
    stored = msgspec.json.encode(msgspec.json.decode(row[5]), order="sorted")
    return (*row[1:5], stored) == (item.type, item.version, item.stream, item.occurred_us, item.data)


def _same_fact(one: Fact, other: Fact) -> bool:
    """Same statement, whoever brought it and in whichever delivery."""
    return one._replace(actor="", delivery=None, digest=b"") == other._replace(actor="", delivery=None, digest=b"")


def _guard(cursor: Any, expect: Mapping[str, int], claims: list[Claim]) -> None:
    """Check expectations and claims under the head's lock."""
    cursor.execute("SET LOCAL lock_timeout = '2s'")
    cursor.execute("SELECT position FROM events_head WHERE shard = %s FOR UPDATE", [settings.SHARD])
    for stream, expected in expect.items():
        cursor.execute(
            "SELECT coalesce(max(position), 0) FROM events_event WHERE shard = %s AND stream = %s",
            [settings.SHARD, stream],
        )
        actual = cursor.fetchone()[0]
        if actual != expected:
            raise StreamMoved(stream, expected, actual)
    for claim in claims:
        cursor.execute(
            "SELECT stream FROM events_claim WHERE shard = %s AND kind = %s AND key = %s",
            [settings.SHARD, claim.kind, claim.key],
        )
        holder = cursor.fetchone()
        if holder and holder[0] != claim.stream:
            raise ClaimTaken(claim, holder[0])


def _take(cursor: Any, claims: Iterable[Claim], outcomes: dict[int, Outcome]) -> None:
    last = max((outcome.position for outcome in outcomes.values()), default=0)
    for claim in claims:
        cursor.execute(
            """INSERT INTO events_claim (shard, kind, key, stream, position) VALUES (%s, %s, %s, %s, %s)
               ON CONFLICT DO NOTHING""",
            [settings.SHARD, claim.kind, claim.key, claim.stream, last],
        )
