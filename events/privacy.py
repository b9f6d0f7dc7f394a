"""Names and free text of people stay out of the log: events carry surrogate ids, the words live here, erasable.

Ids are random, so an erased person cannot be found again by trying names. Set-based: two statements a batch.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection

from events.types import PERSON, REGISTRY, TEXT, EventStruct

TextKey = tuple[str, bytes]
"""Person id ('' when nobody is named) and sha256 of the text."""


def pseudonymise(items: Sequence[tuple[str, EventStruct]]) -> list[EventStruct]:
    """The same structs with marked fields (PERSON, TEXT) replaced by surrogate ids.

    items: (event type, struct). Equal names and texts get equal ids, also in later batches, until erased.
    """
    plans = {kind: _plan(kind) for kind in {kind for kind, _ in items}}
    people = person_ids({name for kind, data in items for name in _values(data, plans[kind][0])})
    named = [_with_people(data, plans[kind][0], people) for kind, data in items]
    texts: dict[TextKey, str] = {}
    for (kind, _), data in zip(items, named, strict=True):
        owner = next(_values(data, plans[kind][0]), "")
        for body in _values(data, plans[kind][1]):
            texts[_text_key(owner, body)] = body
    ids = _text_ids(texts)
    return [
        _with_texts(data, plans[kind], ids) if plans[kind][1] else data
        for (kind, _), data in zip(items, named, strict=True)
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
        cursor.execute(
            "UPDATE events_person SET name = NULL WHERE shard = %s AND id = %s", [settings.SHARD, person]
        )
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


def _with_people(data: EventStruct, fields: tuple[str, ...], ids: dict[str, str]) -> EventStruct:
    changes: dict[str, Any] = {f: ids[value] for f in fields if (value := getattr(data, f))}
    return msgspec.structs.replace(data, **changes) if changes else data


def _with_texts(
    data: EventStruct, plan: tuple[tuple[str, ...], tuple[str, ...]], ids: dict[TextKey, str]
) -> EventStruct:
    owner = next(iter(_values(data, plan[0])), "")
    changes: dict[str, Any] = {
        f: ids[_text_key(owner, value)] for f in plan[1] if (value := getattr(data, f))
    }
    return msgspec.structs.replace(data, **changes) if changes else data


def _text_key(owner: str, body: str) -> TextKey:
    return owner, hashlib.sha256(body.encode()).digest()


def _text_ids(texts: dict[TextKey, str]) -> dict[TextKey, str]:
    if not texts:
        return {}
    keys = sorted(texts)
    owners, digests = [owner for owner, _ in keys], [digest for _, digest in keys]
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
                [f"t-{secrets.token_hex(8)}" for _ in keys],
                [texts[key] for key in keys],
            ],
        )
        cursor.execute(query, [owners, digests, settings.SHARD])
        return {(person, bytes(digest)): id_ for person, digest, id_ in cursor.fetchall()}
