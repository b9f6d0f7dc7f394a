"""Closing runs by REST, and what REST says of them afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from events import projector
from events.models import Event
from events.types.jobs import JobReported
from jobs import actions
from tests.api.clouds import NDJSON, cloud, lines
from tests.api.test_runs import START, books, rows
from tests.api.test_scaling import at_once
from tests.hand import say

__all__ = ["books"]

Make = Callable[..., Client]
pytestmark = pytest.mark.usefixtures("books")


def big(client: Client) -> dict[str, Any]:
    (run,) = rows(client, "/api/v1/runs?named=true&ordering=submit")[:1]
    return run


def close(client: Client, run: str, what: str = "close", **headers: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post(f"/api/v1/runs/{run}/{what}", **headers)
    return answer.status_code, json.loads(answer.content)


def test_a_closed_run_says_since_when_and_later_jobs_are_number_two(caller: Make) -> None:
    lead = caller("runs:write", projects=("nlp",))
    run = big(lead)
    assert (run["title"], run["generation"], run["closed"]) == ("big", 1, None)
    status, said = close(lead, run["id"])
    assert (status, said["run"]) == (200, run["id"])
    assert said["actor"].startswith("token:test-")
    projector.catch_up()
    assert big(lead)["closed"] == said["closed"]
    after = int(datetime.fromisoformat(said["closed"]).timestamp()) + 1
    job = JobReported(cluster="pod-a", job_id="9", state="PENDING", submit=after, account="nlp", run="big")
    say(job)
    projector.catch_up()
    second, first = rows(lead, "/api/v1/runs?named=true")
    assert (first["id"], first["title"], first["jobs"]) == (run["id"], "big", 2)
    assert (second["title"], second["name"], second["generation"], second["closed"]) == ("big #2", "big", 2, None)
    (waiting,) = rows(lead, f"/api/v1/jobs?run={second['id']}")
    assert (waiting["job_id"], waiting["run_name"], waiting["generation"]) == ("9", "big", 2)


def test_again_under_the_same_key_is_the_same_answer(caller: Make) -> None:
    admin = caller("admin")
    run = big(admin)["id"]
    first = close(admin, run, HTTP_IDEMPOTENCY_KEY="k-1")
    assert close(admin, run, HTTP_IDEMPOTENCY_KEY="k-1") == first
    assert first[0] == 200
    status, again = close(admin, run, HTTP_IDEMPOTENCY_KEY="k-2")
    assert (status, again["code"]) == (409, "closed")
    status, other = close(admin, run, "reopen", HTTP_IDEMPOTENCY_KEY="k-1")
    assert (status, other["code"]) == (422, "key_used")
    assert first[1]["taken_back"] is None
    opened = close(admin, run, "reopen", HTTP_IDEMPOTENCY_KEY="k-3")
    assert (opened[0], opened[1]["closed"], opened[1]["taken_back"]) == (200, None, first[1]["closed"])
    assert close(admin, run, "reopen", HTTP_IDEMPOTENCY_KEY="k-3") == opened


def test_six_at_once_under_one_key_are_one_closing(books: Any, caller: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have looked for the key and found nothing before one speaks."""
    admin = caller("admin")
    run = big(admin)["id"]
    all_six, look = threading.Barrier(6), actions._closings

    def looked(row: Any) -> Any:
        all_six.wait(20)
        return look(row)

    monkeypatch.setattr(actions, "_closings", looked)
    answers = at_once([lambda: close(admin, run, HTTP_IDEMPOTENCY_KEY="k-6")] * 6)
    assert [status for status, _ in answers] == [200] * 6
    assert [said for _, said in answers] == [answers[0][1]] * 6
    assert Event.objects.filter(type="run.closed").count() == 1


def test_a_key_of_run_one_says_nothing_of_run_two(caller: Make) -> None:
    admin = caller("admin")
    run = big(admin)["id"]
    _, said = close(admin, run, HTTP_IDEMPOTENCY_KEY="k-1")
    after = int(datetime.fromisoformat(said["closed"]).timestamp()) + 1
    say(JobReported(cluster="pod-a", job_id="9", state="PENDING", submit=after, account="nlp", run="big"))
    projector.catch_up()
    second = next(row["id"] for row in rows(admin, "/api/v1/runs?named=true") if row["title"] == "big #2")
    status, told = close(admin, second, HTTP_IDEMPOTENCY_KEY="k-1")
    assert (status, told["code"]) == (422, "key_used")


@pytest.mark.parametrize(
    ("body", "status", "where", "said"),
    [({"At": "2026-03-01T10:00:00Z"}, 400, {"parameter": "At"}, "no such field; there are at"),
     ({"at": "2026-11-01T10:00:00"}, 400, {"parameter": "at"}, "no zone: write 2026-11-01T10:00:00Z for UTC"),
     ({"at": None}, 400, {"parameter": "at"}, "may not be null"),
     ({"at": "2020-01-01T00:00:00Z"}, 422, {"pointer": "/at"}, "no job of the run was submitted by then"),
     ({"at": "0001-01-01T00:00:00Z"}, 422, {"pointer": "/at"}, "no job of the run was submitted by then"),
     ({"at": "2199-01-01T00:00:00Z"}, 422, {"pointer": "/at"}, "has not come")],
)  # fmt: skip
def test_what_is_wrong_with_it_is_named_and_nothing_is_closed(
    caller: Make, body: dict[str, Any], status: int, where: dict[str, str], said: str
) -> None:
    admin = caller("admin")
    found, told = close(admin, big(admin)["id"], data=body, content_type="application/json")
    (error,) = told["errors"]
    assert (found, {**error, **where}) == (status, error)
    assert said in error["text"]
    assert not Event.objects.filter(type="run.closed").exists()


def test_an_address_that_leads_nowhere_is_404_for_every_method() -> None:
    """Also where forms are checked: no page of a browser comes back."""
    client = Client(enforce_csrf_checks=True, HTTP_AUTHORIZATION="Bearer x")
    for method in ("get", "post", "put", "delete"):
        answer = getattr(client, method)("/api/v1/ingest/slurm/foo")
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
        assert answer.json()["detail"] == "there is no /api/v1/ingest/slurm/foo"


@pytest.mark.parametrize("key", ["x" * 201, "dot\u00e9", "\u00a0", ""])
def test_a_key_that_is_none_is_400(caller: Make, key: str) -> None:
    admin = caller("admin")
    status, said = close(admin, big(admin)["id"], HTTP_IDEMPOTENCY_KEY=key)
    assert (status, said["errors"][0]["parameter"]) == (400, "Idempotency-Key")


def test_what_still_runs_is_named(caller: Make) -> None:
    more = cloud("5", data={"job_id": "5", "user": "ann", "run": "big", "state": "RUNNING", "start": START + 20_000})
    more["data"].pop("end")
    caller("events:write").post("/api/v1/events", lines(more), content_type=NDJSON)
    projector.catch_up()
    lead = caller("runs:write", projects=("nlp",))
    status, said = close(lead, big(lead)["id"])
    assert (status, said["code"]) == (409, "open")
    assert [(job["job_id"], job["state"]) for job in said["jobs"]] == [("5", "RUNNING")]
    assert "job 5 waits or runs" in said["detail"]


def test_a_run_of_one_unnamed_job_has_nothing_to_close(caller: Make) -> None:
    admin = caller("admin")
    (run, *_) = rows(admin, "/api/v1/runs?named=false")
    status, said = close(admin, run["id"])
    assert (status, said["code"]) == (422, "unnamed")


def test_only_who_sees_the_run_and_may_write_closes_it(caller: Make) -> None:
    run = big(caller("read"))["id"]
    assert close(caller("read"), run)[0] == 403
    assert close(caller("runs:write", projects=("vision",)), run)[0] == 404
    assert close(Client(), run)[0] == 401
