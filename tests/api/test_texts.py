"""Texts that JSON can say and a database cannot hold are refused by line, not by a failure of the whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.api.clouds import NDJSON, cloud, lines


@pytest.mark.django_db
@pytest.mark.parametrize("text", [r"\ud800", r"\udc00x", r"\u0000", "\\\\u0000", "😀", "\\n", "x" * 201])
@pytest.mark.parametrize("field", ["account", "partition", "name", "id", "source"])
def test_strange_texts(caller: Callable[..., Client], text: str, field: str) -> None:
    event = cloud("strange")
    (event if field in event else event["data"])[field] = "MARK"
    body = lines(event, cloud("good")).replace(b"MARK", text.encode())
    answer = caller("events:write").post("/api/v1/events", body, content_type=NDJSON)
    assert answer.status_code == 200
    assert answer.json()["results"][1]["status"] == "accepted"
    assert answer.json()["results"][0]["status"] in ("accepted", "rejected")
