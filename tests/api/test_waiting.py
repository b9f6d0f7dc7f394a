"""`GET /api/v1/waiting`: what waits, for whom, and what a token of one project is not told."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from events.actions import say
from events.types.clusters import ClusterDeclared
from tests.web.books import declare
from tests.web.test_waiting import HOUR, NOW, look, nodes, running, told

pytestmark = pytest.mark.django_db
URL = "/api/v1/waiting"


@pytest.fixture(autouse=True)
def books() -> None:
    """nlp: one job waits for room; vision: one for its turn, and 96 GPUs of the partition are held."""
    declare("nlp", "vision")
    say(ClusterDeclared(cluster="pod-a", scheduler="slurm"), type_="cluster.declared", actor="test")
    told(
        running(2, "vision", 96, 360, user_name="jxu"),
        look(10, "Resources", start_time=NOW + 5 * HOUR), look(20, "Priority", account="vision", user_name="jxu"),
    )  # fmt: skip


def asked(client: Client, query: str = "") -> dict[str, Any]:
    answer = client.get(f"{URL}{query}")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def test_every_job_with_its_cause(caller: Callable[..., Client]) -> None:
    body = asked(caller("read"))
    assert set(body) == {"rows", "totals", "others", "partitions", "estimates", "as_of"}
    (first, second) = sorted(body["rows"], key=lambda row: row["job_id"])
    assert (first["job_id"], first["project"], first["user"], first["cause"], first["reason"]) == (
        "10", "nlp", "mdietz", "full", "Resources")  # fmt: skip
    assert (first["gpus"], first["cpus"], first["nodes"], first["limit_seconds"]) == (64, 512, 8, 86_400)
    assert datetime.fromisoformat(first["since"]) == datetime.fromtimestamp(NOW - 2 * HOUR, UTC)
    assert first["waited_seconds"] == pytest.approx(2 * HOUR, abs=600)
    # 5 h ahead, which is told by the full hour.
    assert datetime.fromisoformat(first["expected"]).timestamp() == -(-(NOW + 5 * HOUR) // HOUR) * HOUR
    limit = datetime.fromtimestamp(NOW - HOUR + 6 * HOUR, UTC)
    full = first["waits_for"]
    assert (full["kind"], full["unit"], full["held"]) == ("full", "gpus", 96)
    assert datetime.fromisoformat(full["enough_at"]) == limit
    assert [(one["project"], one["amount"], one["attempts"]) for one in full["holders"]] == [("vision", 96, 1)]
    assert second["waits_for"] == {"kind": "share", "told": False, "jobs_before": 0, "gpus_before": 0,
                                   "jobs_beside": 1, "gpus_beside": 64, "free": None}  # fmt: skip
    assert [(one["project"], one["cause"], one["jobs"], one["gpus"]) for one in body["totals"]] == [
        ("nlp", "full", 1, 64), ("vision", "own_share", 1, 64)
    ]  # fmt: skip
    assert full["free"] is body["partitions"][0]["free"] is None, "no node is known"
    assert body["others"] == {"jobs": 0, "gpus": 0}
    assert body["partitions"][0]["ends"] == [
        {"at": limit.isoformat().replace("+00:00", "Z"), "project": "vision", "amount": 96, "total": 96}
    ]
    assert body["estimates"]["total"]["count"] == 0
    assert body["estimates"]["total"]["median"] is None


def test_gpus_that_are_free_now(caller: Callable[..., Client]) -> None:
    nodes("gpu001", "gpu002", "gpu003")  # 96 GPUs are in use on gpu001, none on the others
    body = asked(caller("read"))
    by_job = {row["job_id"]: row["waits_for"] for row in body["rows"]}
    assert (by_job["10"]["free"], by_job["20"]["free"], body["partitions"][0]["free"]) == (16, 16, 16)
    nodes("gpu004", "gpu005", "gpu006", "gpu007", "gpu008", "gpu009")
    (row,) = asked(caller("read"), "?cause=full")["rows"]
    assert row["waits_for"]["free"] == row["gpus"] == 64
    assert datetime.fromisoformat(row["waits_for"]["enough_at"]).timestamp() >= NOW
    assert datetime.fromisoformat(row["waits_for"]["enough_at"]).timestamp() < NOW + HOUR, "now, not when a limit ends"


def test_a_token_of_one_project_learns_counts_of_others(caller: Callable[..., Client]) -> None:
    client = caller("read", projects=("nlp",))
    answer = client.get(URL)
    assert b"vision" not in answer.content
    assert b"jxu" not in answer.content
    body = answer.json()
    assert [row["job_id"] for row in body["rows"]] == ["10"]
    assert body["others"] == {"jobs": 1, "gpus": 64}
    assert body["rows"][0]["waits_for"]["holders"][0] | {"next_end": ""} == {
        "project": None, "amount": 96, "attempts": 1, "next_end": ""
    }  # fmt: skip
    assert asked(client, "?project=vision")["rows"] == []


def test_as_a_table(caller: Callable[..., Client]) -> None:
    answer = caller("read").get(f"{URL}?format=csv&ordering=project")
    text = b"".join(answer).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["job_id"], row["project"], row["gpus"], row["cause"]) for row in rows] == [
        ("10", "nlp", "64", "full"), ("20", "vision", "64", "own_share")
    ]  # fmt: skip
    assert '"kind":"share"' in rows[1]["waits_for"]
    sheet = caller("read").get(f"{URL}?format=xlsx")
    assert sheet.headers["Content-Disposition"].endswith('waiting.xlsx"')
    assert b"".join(sheet).startswith(b"PK")


@pytest.mark.parametrize("query", ["?moon=1", "?cause=moon", "?ordering=moon", "?user=a%00b"])
def test_what_cannot_be_asked(caller: Callable[..., Client], query: str) -> None:
    answer = caller("read").get(URL + query)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["parameter"] in ("moon", "cause", "ordering", "user")
