"""healthz, readyz, metrics, the schema's page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.db import OperationalError
from django.test import Client

from api.views import health
from events import queries
from tests.api.clouds import NDJSON, cloud, lines

pytestmark = pytest.mark.django_db


def test_ready_with_database_and_migrations(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/healthz").content == b"ok\n"
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"], answer.json()["migrations"]) == (200, True, [])
    with monkeypatch.context() as patch:
        patch.setattr(health, "_unapplied", lambda: ["jobs.0009_more"])
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["migrations"]) == (503, ["jobs.0009_more"])
    with monkeypatch.context() as patch:
        patch.setattr(health, "_lags", lambda: {"jobs": 1_000_001})
        assert client.get("/readyz").status_code == 503

    def down() -> None:
        raise OperationalError("password of hallbook is wrong")

    monkeypatch.setattr(health, "_unapplied", down)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "database": "OperationalError"})


def test_metrics_are_prometheus_text(client: Client, caller: Callable[..., Client]) -> None:
    body = lines(cloud("a"), cloud("b"), cloud("c", data={"gpus": -1}))
    caller("events:write").post("/api/v1/events", body, content_type=NDJSON)
    answer = client.get("/metrics")
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    text = answer.content.decode()
    assert f"hallbook_events_total {queries.head_position()}\n" in text
    assert "hallbook_rejections_open 1\n" in text
    assert "hallbook_deliveries_pending 0\n" in text
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) hallbook_\w+ .+|hallbook_\w+(\{group="\w+"\})? \d+', line)


def test_docs_page_has_only_own_files_and_no_inline_script(client: Client) -> None:
    page = client.get("/api/docs").content.decode()
    sources = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(sources) == 4
    assert "http" not in page.replace("<!doctype html>", "")
    assert not re.search(r"<script(?![^>]*\ssrc=)", page)
    for source in sources:
        found = finders.find(source.removeprefix("/static/"))
        assert found
        assert Path(found).stat().st_size > 0
