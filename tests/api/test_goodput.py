"""Goodput in REST: rows of attempts, saves, the report, and who may see them. REST, command line and page agree."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from events import projector
from events.append import append
from jobs.goodput import PARTS
from tests.hand import gpus, job, mapped, place, project, say
from tests.jobs.test_training import BEGIN, FAULT, LOST, ms

Make = Callable[..., Client]


@pytest.fixture
def books(hall: Any) -> None:
    """Job 1 met a fault, job 2 of another project told nothing."""
    fields = {"state": "NODE_FAIL", "nodes": 2, "run": "big", "eligible": BEGIN - 300, "user": "ann"}
    say(place(), project("nlp"), project("vision"), mapped("a", "nlp"), mapped("b", "vision"),
        job("1", BEGIN, BEGIN + 3600, **gpus(16), **fields),
        job("2", BEGIN, BEGIN + 3600, account="b", **gpus(4)))  # fmt: skip
    append(list(FAULT))
    projector.catch_up()


def rows(client: Client, path: str) -> list[dict[str, Any]]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return list(answer.json()["results"])


@pytest.mark.usefixtures("books")
def test_rows_of_attempts(caller: Make) -> None:
    client = caller("read")
    (row,) = rows(client, "/api/v1/goodput")
    assert {part: row[part] for part in PARTS if row[part]} == LOST
    assert (row["allocated"], row["project"], row["work_lost"], row["tokens"]) == (16 * 3600, "nlp", True, 3000)
    assert rows(client, "/api/v1/goodput?project=vision") == []
    assert len(rows(client, f"/api/v1/goodput?run={row['run']}&running=false&work_lost=true")) == 1
    assert client.get("/api/v1/goodput?runn=1").status_code == 400


@pytest.mark.usefixtures("books")
def test_saves_as_rows_and_as_a_file(caller: Make) -> None:
    client = caller("read")
    late, early = rows(client, "/api/v1/checkpoints?kind=committed")
    assert (early["step"], early["blocking_ms"], early["total_ms"], early["bytes"]) == (300, 30_000, 120_000, 10**12)
    assert early["state"] == "2026-03-01T10:30:00Z"
    assert late["step"] == 450
    answer = client.get("/api/v1/checkpoints?format=csv&fields=step,kind&ordering=position")
    text = b"".join(answer.streaming_content).decode()
    assert list(csv.reader(io.StringIO(text)))[1:] == [["committed", "300"], ["committed", "450"]]
    assert ms(30) == BEGIN * 1000 + 1_800_000


@pytest.mark.usefixtures("books")
def test_a_project_s_token_sees_its_own_attempts_only(caller: Make) -> None:
    client = caller("read", projects=["vision"])
    assert rows(client, "/api/v1/goodput") == []
    assert rows(client, "/api/v1/checkpoints") == []
    answer = client.get("/api/v1/reports/goodput?from=2026-03-01&to=2026-04-01").json()
    assert [row["project"] for row in answer["rows"]] == ["vision"]
    assert answer["total"]["instrumented_gpu_seconds"] == 0
    assert answer["total"]["goodput"] is None


@pytest.mark.usefixtures("books")
def test_rest_and_the_command_line_give_the_same_report(caller: Make) -> None:
    query = "from=2026-03-01&to=2026-04-01&group_by=project,month"
    answer = caller("read").get(f"/api/v1/reports/goodput?{query}").json()
    said = io.StringIO()
    call_command("report", "goodput", "--from=2026-03-01", "--to=2026-04-01", "--group-by=project,month",
                 "--format=json", stdout=said)  # fmt: skip
    told = json.loads(said.getvalue())
    assert (told["rows"], told["total"]) == (answer["rows"], answer["total"])
    by_project = {row["project"]: row for row in answer["rows"]}
    assert by_project["nlp"]["goodput"] == round(1460 / 3600, 6)
    assert by_project["vision"]["goodput"] is None
    assert answer["total"]["allocated_gpu_seconds"] == 3600 * 20
    for form in ("csv", "xlsx"):
        assert b"".join(caller("read").get(f"/api/v1/reports/goodput?{query}&format={form}"))
