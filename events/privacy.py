"""Names and free text of people stay out of the log: events carry surrogate ids, the words live here, erasable.

Ids are random, so an erased person cannot be found again by trying names. Set-based: two statements a batch.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection

from events.types import PERSON, REGISTRY, TEXT, EventStruct

Owned = tuple[str, str]
"""Person id ('' when nobody is named) and a text."""


def pseudonymise(items: Sequence[tuple[str, EventStruct]]) -> list[EventStruct]:
    """The same structs with marked fields (PERSON, TEXT) replaced by surrogate ids.

    items: (event type, struct). Equal names and texts get equal ids, also in later batches, until erased.
    """
    plans = {kind: _plan(kind) for kind in {kind for kind, _ in items}}
    people = person_ids({name for kind, data in items for name in _values(data, plans[kind][0])})
    owners = [people.get(next(_values(data, plans[kind][0]), ""), "") for kind, data in items]
    texts = _text_ids(
        {
            (owner, body)
            for owner, (kind, data) in zip(owners, items, strict=True)
            for body in _values(data, plans[kind][1])
        }
    )
    return [
        _renamed(data, plans[kind], people, owner, texts) for owner, (kind, data) in zip(owners, items, strict=True)
    ]


def person_ids(names: Iterable[str]) -> dict[str, str]:
    """Surrogate id of each name, made where the name is new."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    query = "SELECT name, id FROM events_person WHERE shard = %s AND name = ANY(%s)"
    with connection.cursor() as cursor:
        cursor.execute(query, [settings.SHARD, wanted])
        found = dict(cursor.fetchall())
        missing = [name for name in wanted if name not in found]
        if missing:
            cursor.execute(
                """INSERT INTO events_person (shard, name, id) SELECT %s, * FROM unnest(%s::text[], %s::text[])
                   ON CONFLICT DO NOTHING""",
                [settings.SHARD, missing, [f"u-{secrets.token_hex(8)}" for _ in missing]],
            )
            cursor.execute(query, [settings.SHARD, missing])
            found.update(cursor.fetchall())
    return found


def erase_person(person: str) -> int:
    """Forget a person's name and texts for ever. Returns how many texts went. Events keep only the id."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE events_person SET name = NULL WHERE shard = %s AND id = %s", [settings.SHARD, person])
        cursor.execute(
            """UPDATE events_text SET body = NULL, digest = NULL
               WHERE shard = %s AND person = %s AND body IS NOT NULL""",
            [settings.SHARD, person],
        )
        return int(cursor.rowcount)


def _plan(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    markers = REGISTRY.get(kind).markers.items()
    return (
        tuple(name for name, mark in markers if mark is PERSON),
        tuple(name for name, mark in markers if mark is TEXT),
    )


def _values(data: EventStruct, fields: tuple[str, ...]) -> Iterator[str]:
    return (value for field in fields if (value := getattr(data, field)))


def _renamed(
    data: EventStruct,
    plan: tuple[tuple[str, ...], tuple[str, ...]],
    people: dict[str, str],
    owner: str,
    texts: dict[Owned, str],
) -> EventStruct:
    changes: dict[str, Any] = {}
    for field in plan[0]:
        if value := getattr(data, field):
            changes[field] = people[value]
    for field in plan[1]:
        if value := getattr(data, field):
            changes[field] = texts[owner, value]
    return msgspec.structs.replace(data, **changes) if changes else data


def _text_ids(texts: Collection[Owned]) -> dict[Owned, str]:
    if not texts:
        return {}
    keys = {(owner, hashlib.sha256(body.encode()).digest()): body for owner, body in texts}
    owners, digests = [owner for owner, _ in sorted(keys)], [digest for _, digest in sorted(keys)]
    query = """SELECT t.person, t.digest, t.id
        FROM unnest(%s::text[], %s::bytea[]) AS w (person, digest)
        JOIN events_text t ON t.shard = %s AND t.person = w.person AND t.digest = w.digest"""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO events_text (shard, person, digest, id, body)
               SELECT %s, * FROM unnest(%s::text[], %s::bytea[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING""",
            [
                settings.SHARD,
                owners,
                digests,
                [f"t-{secrets.token_hex(8)}" for _ in owners],
                [keys[key] for key in zip(owners, digests, strict=True)],
            ],
        )
        cursor.execute(query, [owners, digests, settings.SHARD])
        return {(person, keys[person, bytes(digest)]): id_ for person, digest, id_ in cursor.fetchall()}
