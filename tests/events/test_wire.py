"""Rows that we pack ourselves are read by the server as what was said."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
from django.db import DataError, connection, transaction

from events.append import Fact, append

pytestmark = pytest.mark.django_db

DELIVERY = uuid.UUID("11111111-2222-3333-4444-555555555555")


def said(**more: object) -> Fact:
    plain = Fact(
        bytes(range(16)), bytes(range(32)), "quelle", "schlüssel", "note.added", 3, "note/ä", 1_767_225_600_123_456,
        "token:x", None, b'{"a":1,"b":["\xc3\xa9",true]}',
    )  # fmt: skip
    return plain._replace(**more)  # type: ignore[arg-type]


def test_every_column_comes_back() -> None:
    append([said(), said(key=b"k" * 16, delivery=DELIVERY, source="", data=b"{}")])
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT position, id, source, source_key, type, version, stream, occurred_at, actor, delivery, data::text"
            " FROM events_event ORDER BY position"
        )
        one, two = cursor.fetchall()
        cursor.execute("SELECT key, position, digest FROM events_eventkey ORDER BY position")
        keys = [(key.bytes, position, bytes(digest)) for key, position, digest in cursor.fetchall()]
    at = datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)
    assert one == (
        1, uuid.UUID(bytes=bytes(range(16))), "quelle", "schlüssel", "note.added", 3, "note/ä", at, "token:x", None,
        '{"a": 1, "b": ["é", true]}',
    )  # fmt: skip
    assert (two[0], two[2], two[9], two[10]) == (2, "", DELIVERY, "{}")
    assert keys == [(bytes(range(16)), 1, bytes(range(32))), (b"k" * 16, 2, bytes(range(32)))]


@pytest.mark.parametrize("wrong", [{"stream": "a\0b"}, {"data": b"{"}, {"data": b'{"a":"\\u0000"}'}])
def test_what_the_server_cannot_hold_keeps_nothing(wrong: dict[str, object]) -> None:
    with pytest.raises(DataError), transaction.atomic():
        append([said(), said(key=b"k" * 16, **wrong)])
    with connection.cursor() as cursor:
        cursor.execute("SELECT (SELECT count(*) FROM events_event) + (SELECT count(*) FROM events_eventkey)")
        assert cursor.fetchone() == (0,)


def test_text_that_is_no_unicode_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        append([said(source_key="\ud800")])
