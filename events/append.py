"""The only writer of the log: a batch of facts becomes events in commit order, without holes and without doubles.

Rows are staged by binary COPY into a temporary table without a lock; then one function of the database takes
the head row's lock, drops what is already there, inserts keys and events at the next positions and advances the
head. A rollback gives its positions back, so a reader is `position > p order by position` and a hole is damage.
Cost: linear in the batch; the key index grows with the log (one probe per fact).
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction
from psycopg.types.string import BytesBinaryDumper

from events.types import REGISTRY, EventStruct

__all__ = ["Claim", "ClaimTaken", "Fact", "LogBusy", "Outcome", "StreamMoved", "append", "digest_of", "fact", "key_of"]

STAGED = """
CREATE TEMP TABLE IF NOT EXISTS staged (
    ord integer, key uuid, digest bytea, source text, source_key text, type text, version smallint, stream text,
    occurred_us bigint, actor text, delivery uuid, data bytea, known bigint, same boolean);
TRUNCATE staged
"""
COLUMNS = ("ord", "key", "digest", "source", "source_key", "type", "version", "stream", "occurred_us", "actor",
           "delivery", "data")  # fmt: skip
# The key goes as bytes: a uuid is the same 16 on the wire, and an object less per fact.
TYPES = ("int4", "bytea", "bytea", "text", "text", "text", "int2", "text", "int8", "text", "uuid", "bytea")


_canonical = msgspec.json.Encoder(order="sorted")


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
    return Fact(
        key, digest, source, source_key, kind.name, kind.version, stream, occurred_us, actor, delivery, body
    )


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
            _stage(cursor, facts, first)
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


def _stage(cursor: Any, facts: Sequence[Fact], indexes: list[int]) -> None:
    cursor.execute(STAGED)
    cursor.adapters.register_dumper(bytes, BytesBinaryDumper)  # else a slower wrapper's dumper stands for bytea
    with cursor.copy(f"COPY staged ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(TYPES)
        write = copy.write_row
        for index in indexes:
            write((index, *facts[index]))


def _appended(cursor: Any, facts: Sequence[Fact], indexes: list[int]) -> dict[int, Outcome]:
    cursor.execute("SELECT ord, pos, same FROM events_append(%s::smallint)", [settings.SHARD])
    (_, position, _), *known = cursor.fetchall()
    stored = {index: (at, same) for index, at, same in known}
    doubtful = {at: index for index, (at, same) in stored.items() if not same}
    conflicts = _conflicts(cursor, facts, doubtful) if doubtful else set()
    outcomes: dict[int, Outcome] = {}
    for index in indexes:
        if index in stored:
            outcomes[index] = Outcome("conflict" if index in conflicts else "duplicate", stored[index][0])
        else:
            position += 1
            outcomes[index] = Outcome("accepted", position)
    return outcomes


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
