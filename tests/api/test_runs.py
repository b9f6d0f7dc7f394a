"""Runs in REST, and what jobs and attempts say of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from events import projector
from tests.api.clouds import NDJSON, cloud, lines
from tests.api.test_read import told

Make = Callable[..., Client]
START = 1764496800
"""2025-11-30 10:00:00 UTC."""


@pytest.fixture
def books(hall: Any, caller: Make) -> None:
    """Run `big` of two jobs (1 h x 8 GPUs, then 2 h x 16 GPUs), job 3 without a name that runs, job 4 that waits."""
    setting = [
        told("site", "site.declared", name="Hall 1", timezone="Europe/Berlin", currency="EUR"),
        told("p1", "project.declared", project="nlp"), told("p2", "project.declared", project="vision"),
        told("a1", "account.mapped", cluster="pod-a", account="nlp", from_day="2025-01-01", project="nlp"),
        told("a2", "account.mapped", cluster="pod-a", account="eyes", from_day="2025-01-01", project="vision"),
    ]  # fmt: skip
    jobs = [
        cloud("1", data={"job_id": "1", "user": "ann", "run": "big", "submit": START - 60, "start": START,
                         "end": START + 3600, "gpus": 8, "nodes": 1}),
        cloud("2", data={"job_id": "2", "user": "ann", "run": "big", "submit": START, "start": START + 4000,
                         "end": START + 11200, "gpus": 16, "nodes": 2}),
        cloud("3", data={"job_id": "3", "account": "eyes", "user": "bob", "state": "RUNNING", "start": START,
                         "submit": START, "gpus": 4, "nodes": 1, "gpu_indices": ["gpu001=0-3"]}),
        cloud("4", data={"job_id": "4", "account": "eyes", "user": "bob", "state": "PENDING", "submit": START + 1}),
    ]  # fmt: skip
    for event in jobs[2:]:
        event["data"] = {name: value for name, value in event["data"].items() if name != "end"}
    jobs[3]["data"] = {name: value for name, value in jobs[3]["data"].items() if name != "start"}
    answer = caller("events:write").post("/api/v1/events", lines(*setting, *jobs), content_type=NDJSON)
    assert answer.json()["rejected"] == 0, answer.json()
    projector.catch_up()


def rows(client: Client, path: str) -> list[dict[str, Any]]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return list(answer.json()["results"])


@pytest.mark.usefixtures("books")
def test_a_named_run_sums_its_jobs(caller: Make) -> None:
    client = caller("read")
    (run,) = rows(client, "/api/v1/runs?named=true")
    assert (run["name"], run["project"], run["account"], run["user"]) == ("big", "nlp", "nlp", "ann")
    assert (run["jobs"], run["attempts"], run["gpus"], run["state"]) == (2, 2, 16, "COMPLETED")
    # 3,600 s x 8 GPUs + 7,200 s x 16 GPUs; 3,600 s x 1 node + 7,200 s x 2 nodes
    assert (run["gpu_seconds"], run["node_seconds"]) == (144_000, 18_000)
    assert (run["submit"], run["start"], run["end"]) == (
        "2025-11-30T09:59:00Z", "2025-11-30T10:00:00Z", "2025-11-30T13:06:40Z"
    )  # fmt: skip
    assert client.get(f"/api/v1/runs/{run['id']}").json() == run
    assert sorted(row["job_id"] for row in rows(client, f"/api/v1/jobs?run={run['id']}")) == ["1", "2"]
    attempts = rows(client, f"/api/v1/attempts?run={run['id']}&ordering=start")
    assert [(row["job_id"], row["gpu_seconds"], row["lost"]) for row in attempts] == [
        ("1", 28_800, False), ("2", 115_200, False)
    ]  # fmt: skip


@pytest.mark.usefixtures("books")
def test_what_runs_is_counted_until_the_answer(caller: Make) -> None:
    client = caller("read")
    answer = client.get("/api/v1/runs?running=true").json()
    (run,) = answer["results"]
    until = datetime.fromisoformat(answer["as_of"]["time"]).timestamp()
    assert run["end"] is None
    assert abs(run["gpu_seconds"] - 4 * (until - START)) <= 4
    body = client.get("/api/v1/attempts?running=true").json()
    (attempt,) = body["results"]
    until = datetime.fromisoformat(body["as_of"]["time"]).timestamp()
    assert abs(attempt["gpu_seconds"] - 4 * (until - START)) <= 4
    assert (attempt["gpu_indices"], attempt["run"]) == (["gpu001=0-3"], run["id"])
    (job,) = rows(client, "/api/v1/jobs?running=true")
    assert (job["job_id"], job["run"], job["run_name"], job["gpus"]) == ("3", run["id"], "", 4)
    assert [row["job_id"] for row in rows(client, f"/api/v1/jobs?run={run['id']}")] == ["3"]


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize(
    ("query", "jobs"),
    [
        ("waiting=true", ["4"]), ("waiting=false", ["1", "2", "3"]), ("running=false", ["1", "2", "4"]),
        ("lost=true", []), ("lost=false", ["1", "2", "3", "4"]),
        ("disagree=true", []), ("user=bob", ["3", "4"]), ("project=vision", ["3", "4"]),
        ("submit_from=2025-11-30", ["1", "2", "3", "4"]), ("submit_to=2025-11-30", []),
        ("submit_from=2025-11-30T10:00:00Z&submit_to=2025-11-30T10:00:01Z", ["2", "3"]),
    ],
)  # fmt: skip
def test_filters_of_jobs(caller: Make, query: str, jobs: list[str]) -> None:
    assert sorted(row["job_id"] for row in rows(caller("read"), f"/api/v1/jobs?{query}")) == jobs


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize(
    ("query", "number"),
    [("name=IG", 1), ("name=nope", 0), ("named=false", 2), ("gpus_from=5", 1), ("waiting=true", 1), ("user=ann", 1),
     ("project=nlp,vision", 3), ("account=eyes&state=RUNNING", 1), ("lost=true", 0), ("disagree=false", 3)],
)  # fmt: skip
def test_filters_of_runs(caller: Make, query: str, number: int) -> None:
    assert len(rows(caller("read"), f"/api/v1/runs?{query}")) == number


@pytest.mark.usefixtures("books")
def test_days_start_at_the_sites_midnight(caller: Make) -> None:
    """10:00 UTC on 30 November is the same day in Berlin; its midnight is 23:00 UTC of the day before."""
    client = caller("read")
    assert len(rows(client, "/api/v1/attempts?start_from=2025-11-30&start_to=2025-12-01")) == 3
    assert len(rows(client, "/api/v1/attempts?start_to=2025-11-30")) == 0
    answer = client.get("/api/v1/attempts?start_from=30.11.2025")
    assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (400, "start_from")
    assert "2026-11-30T10:00:00Z" in answer.json()["errors"][0]["text"]


@pytest.mark.usefixtures("books")
def test_a_token_of_a_project_sees_its_runs_only(caller: Make) -> None:
    client = caller("read", projects=("vision",))
    assert [row["account"] for row in rows(client, "/api/v1/runs")] == ["eyes", "eyes"]
    (foreign,) = rows(caller("read"), "/api/v1/runs?named=true")
    assert client.get(f"/api/v1/runs/{foreign['id']}").status_code == 404
    assert rows(client, f"/api/v1/attempts?run={foreign['id']}") == []


@pytest.mark.usefixtures("books")
def test_orders_put_what_has_no_end_last_in_time(caller: Make) -> None:
    client = caller("read")
    assert [row["end"] is None for row in rows(client, "/api/v1/runs?ordering=-end")] == [True, True, False]
    assert [row["end"] is None for row in rows(client, "/api/v1/runs?ordering=end")] == [False, True, True]
    assert [row["gpus"] for row in rows(client, "/api/v1/runs?ordering=-gpus")] == [16, 4, 0]


@pytest.mark.usefixtures("books")
def test_runs_as_csv(caller: Make) -> None:
    answer = caller("read").get("/api/v1/runs?format=csv&named=true&fields=name,gpu_seconds")
    assert list(csv.reader(io.StringIO(answer.getvalue().decode()))) == [["name", "gpu_seconds"], ["big", "144000"]]
