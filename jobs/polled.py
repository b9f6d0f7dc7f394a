"""What of a polled document is new: only records that say something else than last time are kept as deliveries.

A scheduler republishes everything at each poll, with fields that move by themselves (priorities, estimates). What
counts is what the adapter makes of a record, so that is what is compared, by digest. Forgetting a digest loses
nothing: the record is kept once more, and in the log it is a duplicate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec
from django.db import connection

from events.adapters import Draft, Refusal
from events.types.jobs import JobReported

__all__ = ["Item", "changed", "chunks", "forget_ended", "forget_others", "items_of", "remember"]

CHUNK_BYTES: Final = 4 << 20
_canonical: Final = msgspec.json.Encoder(order="sorted")


@dataclass
class Item:
    """Records of a document that share one key: their places in it, and the digest of what they say."""

    digest: bytes
    indexes: list[int] = field(default_factory=list)
    ended: datetime | None = None


def items_of(found: Iterable[Draft | Refusal]) -> dict[str, Item]:
    """What an adapter made of a document, by native key; what it refused by content."""
    items: dict[str, Item] = {}
    keys: dict[int, str] = {}
    for one in found:
        said = _canonical.encode((one.type, one.data)) if isinstance(one, Draft) else one.payload.encode()
        own = one.native_key if isinstance(one, Draft) else hashlib.sha256(said).hexdigest()
        key = keys.setdefault(one.index, own)
        item = items.setdefault(key, Item(b""))
        item.digest = hashlib.sha256(item.digest + said).digest()
        if not item.indexes or item.indexes[-1] != one.index:
            item.indexes.append(one.index)
        if isinstance(one, Draft) and isinstance(one.data, JobReported):
            item.ended = _ended(one.data)
    return items


def _ended(data: JobReported) -> datetime | None:
    """When the record closed; of a running job the end is a plan."""
    if data.end is None or data.state in ("RUNNING", "SUSPENDED", "PENDING", "CONFIGURING"):
        return None
    return datetime.fromtimestamp(data.end, UTC)


def changed(source: str, view: str, items: Mapping[str, Item]) -> dict[str, Item]:
    """Those that say something else than when they were remembered."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT key, digest FROM jobs_polled WHERE source = %s AND view = %s AND key = ANY(%s)",
            [source, view, list(items)],
        )
        known = {str(key): bytes(digest) for key, digest in cursor.fetchall()}
    return {key: item for key, item in items.items() if known.get(key) != item.digest}


def remember(source: str, view: str, items: Mapping[str, Item]) -> None:
    """Keep the digests of what was kept as deliveries, in the same transaction."""
    if not items:
        return
    columns = (list(items), [item.digest for item in items.values()], [item.ended for item in items.values()])
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO jobs_polled (source, view, key, digest, ended)
               SELECT %s, %s, n.* FROM unnest(%s::text[], %s::bytea[], %s::timestamptz[]) AS n
               ON CONFLICT (source, view, key) DO UPDATE SET digest = excluded.digest, ended = excluded.ended""",
            [source, view, *columns],
        )


def forget_others(source: str, view: str, present: Iterable[str]) -> None:
    """Forget what a whole list no longer shows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM jobs_polled WHERE source = %s AND view = %s AND NOT key = ANY(%s)",
            [source, view, list(present)],
        )


def forget_ended(source: str, view: str, before: datetime) -> None:
    """Forget records that ended before any window that will be asked for again."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_polled WHERE source = %s AND view = %s AND ended < %s", [source, view, before])


def chunks(
    records: Sequence[msgspec.Raw], meta: msgspec.Raw, indexes: Iterable[int], most: int = CHUNK_BYTES,
    what: str = "jobs",
) -> Iterator[bytes]:  # fmt: skip
    """Documents of the chosen records, each as it was sent, of at most about `most` bytes. what: name of their list."""
    part: list[msgspec.Raw] = []
    size = 0
    for index in sorted(indexes):
        part.append(records[index])
        size += memoryview(records[index]).nbytes
        if size >= most:
            yield _document(part, meta, what)
            part, size = [], 0
    if part:
        yield _document(part, meta, what)


def _document(records: list[msgspec.Raw], meta: msgspec.Raw, what: str) -> bytes:
    return msgspec.json.encode({"meta": meta, "errors": [], what: records})
