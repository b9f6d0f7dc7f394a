"""The read API: lists, pages, filters, forms, rejections that are settled, reports."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
from django.test import Client

from events import paging, projector, queries
from events.access import Scope
from fleet import queries as fleet
from tests.api.clouds import NDJSON, STRUCTURED, cloud, lines

Make = Callable[..., Client]


def told(id_: str, type_: str, **data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0", "id": id_, "source": "tests", "type": type_, "time": "2025-11-01T00:00:00Z",
        "data": data,
    }  # fmt: skip


@pytest.fixture
def books(hall: Any, caller: Make) -> None:
    """Two projects with an account each; jobs 1 to 4 of nlp (8 GPUs, one hour each), job 5 of vision."""
    setting = [
        told("site", "site.declared", name="Hall 1", timezone="Europe/Berlin", currency="EUR"),
        told("cluster", "cluster.declared", cluster="pod-a", gpus=32),
        told("p1", "project.declared", project="nlp", title="Language"),
        told("p2", "project.declared", project="vision", title="=Vision"),
        told("a1", "account.mapped", cluster="pod-a", account="nlp", from_day="2025-01-01", project="nlp"),
        told("a2", "account.mapped", cluster="pod-a", account="eyes", from_day="2025-01-01", project="vision"),
        told("r1", "rate.published", resource_class="gpu", currency="EUR", micro_per_hour=2_500_000,
             from_day="2025-01-01"),
    ]  # fmt: skip
    jobs = [
        cloud(f"j{n}", data={"job_id": str(n), "user": "ann", "name": "=cmd()", "start": 1764496860 + n,
                             "end": 1764496860 + n + 3600})
        for n in range(1, 5)
    ]  # fmt: skip
    jobs.append(cloud("j5", data={"job_id": "5", "account": "eyes", "user": "bob", "name": "=cmd()"}))
    answer = caller("events:write").post("/api/v1/events", lines(*setting, *jobs), content_type=NDJSON)
    assert answer.json()["rejected"] == 0
    projector.catch_up()


def ids(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["job_id"] for row in answer.json()["results"]]


@pytest.mark.usefixtures("books")
def test_jobs_with_names_project_and_position(caller: Make) -> None:
    client = caller("read")
    body = client.get("/api/v1/jobs?ordering=job_id&limit=1").json()
    (row,) = body["results"]
    assert (row["job_id"], row["cluster"], row["user"], row["name"]) == ("1", "pod-a", "ann", "=cmd()")
    assert (row["project"], row["start"], row["end"]) == ("nlp", "2025-11-30T10:01:01Z", "2025-11-30T11:01:01Z")
    assert (body["count"], body["count_exact"], body["as_of"]["position"]) == (5, True, queries.head_position())
    assert client.get(f"/api/v1/jobs/{row['id']}").json() == row
    attempt = client.get(f"/api/v1/attempts?job={row['id']}").json()["results"][0]
    assert (attempt["gpus"], attempt["nodes"], attempt["user"]) == (8, 1, "ann")


@pytest.mark.usefixtures("books")
def test_filters(caller: Make) -> None:
    client = caller("read")

    def found(query: str) -> list[str]:
        return ids(client.get(f"/api/v1/jobs?ordering=job_id&{query}"))

    assert found("account=eyes") == ["5"]
    assert found("account=eyes,nlp&job_id=2") == ["2"]
    assert found("project=nlp") == ["1", "2", "3", "4"]
    assert found("user=bob") == ["5"]
    assert found("start_from=2025-11-30T10:01:03Z") == ["3", "4"]
    assert found("start_from=2025-11-30T11:01:03%2B01:00&start_to=2025-11-30T10:01:04Z") == ["3"]
    assert found("state=FAILED") == []


@pytest.mark.usefixtures("books")
def test_a_project_token_sees_its_project_only(caller: Make) -> None:
    client = caller("read", projects=("vision",))
    assert ids(client.get("/api/v1/jobs")) == ["5"]
    assert ids(client.get("/api/v1/attempts")) == ["5"]
    assert client.get("/api/v1/jobs").json()["count"] == 1
    assert [row["code"] for row in client.get("/api/v1/projects").json()["results"]] == ["vision"]
    assert [row["account"] for row in client.get("/api/v1/accounts").json()["results"]] == ["eyes"]
    assert client.get("/api/v1/projects/nlp").status_code == 404
    foreign = caller("read").get("/api/v1/jobs?job_id=1").json()["results"][0]["id"]
    assert client.get(f"/api/v1/jobs/{foreign}").status_code == 404
    assert client.get("/api/v1/jobs?format=csv").getvalue().decode().count("\r\n") == 2


@pytest.mark.usefixtures("books")
def test_pages_give_every_row_once_forwards_and_back(caller: Make) -> None:
    client = caller("read")
    for ordering in ("job_id", "-start", "end", "-submit", "position"):
        _pages(client, ordering)


def _pages(client: Client, ordering: str) -> None:
    whole = ids(client.get(f"/api/v1/jobs?ordering={ordering}"))
    assert sorted(whole) == ["1", "2", "3", "4", "5"]
    address, pages = f"/api/v1/jobs?ordering={ordering}&limit=2", []
    while address:
        answer = client.get(address)
        pages.append(ids(answer))
        last, address = answer.json(), answer.json()["next"]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [job for page in pages for job in page] == whole
    middle = client.get(last["previous"]).json()
    assert [row["job_id"] for row in middle["results"]] == whole[2:4]
    first = client.get(middle["previous"]).json()
    assert ([row["job_id"] for row in first["results"]], first["previous"]) == (whole[:2], None)


@pytest.mark.usefixtures("books")
def test_pages_over_empty_values(caller: Make) -> None:
    running = [cloud(f"k{n}", data={"job_id": f"9{n}", "state": "RUNNING", "end": None}) for n in range(3)]
    for event in running:
        del event["data"]["end"]
    caller("events:write").post("/api/v1/events", lines(*running), content_type=NDJSON)
    projector.catch_up()
    client = caller("read")
    for ordering in ("end", "-end"):
        seen: list[str] = []
        address = f"/api/v1/attempts?ordering={ordering}&limit=3"
        while address:
            answer = client.get(address)
            seen += ids(answer)
            address = answer.json()["next"]
        assert len(seen) == len(set(seen)) == 8
        # What still runs ends later than everything that has ended.
        assert set(seen[-3:] if ordering == "end" else seen[:3]) == {"90", "91", "92"}
        back = client.get(answer.json()["previous"])
        assert ids(back) == seen[3:6]
    assert sorted(ids(client.get("/api/v1/attempts?running=true"))) == ["90", "91", "92"]


@pytest.mark.usefixtures("books")
def test_large_counts_are_estimates(caller: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "COUNT_EXACT", 3)
    body = caller("read").get("/api/v1/jobs").json()
    assert body["count_exact"] is False
    assert body["count"] >= 4


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("acount=nlp", "acount"),
        ("ordering=secret", "ordering"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("cursor=x", "cursor"),
        ("fields=job_id,nope", "fields"),
        ("start_from=yesterday", "start_from"),
    ],
)
def test_bad_parameters_are_named(caller: Make, query: str, parameter: str) -> None:
    answer = caller("read").get(f"/api/v1/jobs?{query}")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert [error["parameter"] for error in json.loads(answer.content)["errors"]] == [parameter]


@pytest.mark.usefixtures("books")
def test_fields_csv_and_xlsx(caller: Make) -> None:
    client = caller("read")
    body = client.get("/api/v1/jobs?fields=job_id,user&limit=1&ordering=job_id").json()
    assert body["results"] == [{"job_id": "1", "user": "ann"}]
    answer = client.get("/api/v1/jobs?format=csv&fields=job_id,user,name,start&ordering=job_id")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.reader(io.StringIO(answer.getvalue().decode())))
    assert rows[:2] == [["job_id", "user", "name", "start"], ["1", "ann", "'=cmd()", "2025-11-30T10:01:01Z"]]
    assert len(rows) == 6
    assert client.get("/api/v1/jobs", headers={"Accept": "text/csv"}).getvalue().count(b"\r\n") == 6
    answer = client.get("/api/v1/projects?format=xlsx&ordering=code")
    sheet = openpyxl.load_workbook(io.BytesIO(answer.getvalue())).active
    assert [[cell.value for cell in row] for row in sheet.iter_rows(max_col=2)] == [
        ["code", "title"], ["nlp", "Language"], ["vision", "'=Vision"]
    ]  # fmt: skip
    assert client.get("/api/v1/jobs?format=pdf").status_code == 404


@pytest.mark.usefixtures("books")
def test_events_by_position_and_type(caller: Make) -> None:
    client = caller("log:read")
    head = queries.head_position()
    body = client.get(f"/api/v1/events?after={head - 2}").json()
    assert [row["source_key"] for row in body["results"]] == ["j4", "j5"]
    body = client.get("/api/v1/events?type=project.declared,site.declared").json()
    assert [row["source_key"] for row in body["results"]] == ["site", "p1", "p2"]
    row = client.get(f"/api/v1/events/{head}").json()
    assert (row["stream"], row["data"]["job_id"]) == ("job/pod-a/5", "5")
    assert "bob" not in json.dumps(row)


@pytest.mark.usefixtures("books")
def test_site_cluster_and_account(caller: Make) -> None:
    client = caller("read")
    assert client.get("/api/v1/site").json() == {
        "name": "Hall 1", "timezone": "Europe/Berlin", "currency": "EUR"
    }  # fmt: skip
    assert client.get("/api/v1/clusters/pod-a").json() == {"name": "pod-a", "scheduler": "slurm", "gpus": 32}
    found = client.get("/api/v1/accounts/pod-a/nlp").json()
    assert (found["project"], found["from_day"]) == ("nlp", "2025-01-01")
    assert fleet.site().name == "Hall 1"


def refused(caller: Make, **changes: Any) -> str:
    answer = caller("events:write").post(
        "/api/v1/events", json.dumps(cloud("again", **changes)), content_type=STRUCTURED
    )
    return str(answer.json()["results"][0]["rejection"])


@pytest.mark.django_db
def test_a_rejection_is_waived_once_with_a_reason(caller: Make) -> None:
    client, id_ = caller("admin"), refused(caller, data={"gpus": -1})
    address = f"/api/v1/rejections/{id_}"
    assert client.post(f"{address}/waive", {}, content_type="application/json").status_code == 400
    answer = client.post(f"{address}/waive", {"why": "a test record"}, content_type="application/json")
    assert answer.status_code == 204
    row = client.get(address).json()
    assert (row["state"], row["settled_why"]) == ("waived", "a test record")
    assert row["settled_by"].startswith("token:")
    answer = client.post(f"{address}/waive", {"why": "once more"}, content_type="application/json")
    assert answer.status_code == 409


@pytest.mark.django_db
def test_a_rejection_is_replayed_once_it_can_be_taken(caller: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    client, id_ = caller("admin"), refused(caller, time="2199-01-01T00:00:00Z")
    address = f"/api/v1/rejections/{id_}/replay"
    answer = client.post(address)
    assert (answer.status_code, answer.json()["code"], answer.json()["pointer"]) == (422, "clock_ahead", "/time")
    assert client.get(f"/api/v1/rejections/{id_}").json()["state"] == "open"
    monkeypatch.setattr("events.rejections.now_us", lambda: 7_226_582_400_000_000)  # 2199-01-01
    start = queries.head_position()
    assert client.post(address).status_code == 204
    assert client.get(f"/api/v1/rejections/{id_}").json()["state"] == "replayed"
    assert queries.events(Scope.everything()).get(position=start + 1).source_key == "again"
    assert client.post(address).status_code == 409


@pytest.mark.usefixtures("books")
def test_reports_as_json_csv_and_by_right(caller: Make) -> None:
    client = caller("read")
    known = {row["name"]: row for row in client.get("/api/v1/reports/").json()}
    assert {"usage", "waits", "costs"} <= set(known)
    query = "from=2025-11-01&to=2025-12-01&group_by=project"
    body = client.get(f"/api/v1/reports/usage?{query}").json()
    # 4 jobs x 8 GPUs x 3,600 s of nlp; job 5 of vision ran 8 GPUs x 3,600 s.
    assert [(row["project"], row["gpu_seconds"]) for row in body["rows"]] == [("nlp", 115_200), ("vision", 28_800)]
    assert body["total"]["gpu_seconds"] == 144_000
    assert body["as_of"]["position"] == queries.head_position()
    table = client.get(f"/api/v1/reports/usage?{query}&format=csv").getvalue().decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [(row["project"], row["gpu_seconds"]) for row in rows] == [("nlp", "115200"), ("vision", "28800")]
    answer = client.get(f"/api/v1/reports/costs?{query}")
    assert (answer.status_code, "money:read" in answer.json()["detail"]) == (403, True)
    # 32 GPU-hours and 8 GPU-hours at 2.50 EUR
    body = caller("money:read").get(f"/api/v1/reports/costs?{query}").json()
    assert [row["amount"] for row in body["rows"]] == [
        {"amount": "80.00", "currency": "EUR"}, {"amount": "20.00", "currency": "EUR"}
    ]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("to=2025-12-01", "from"),
        ("from=2025-11-01&to=2025-11-01", "to"),
        ("from=2025-11-01&to=2025-12-01&group_by=colour", "group_by"),
        ("from=2025-11-01&to=2025-12-01&timezone=Mars/Base", "timezone"),
        ("from=2025-11-01&to=2025-12-01&group-by=project", "group-by"),
        ("from=2025-11-01&to=2025-12-01&view=guess", "view"),
    ],
)
def test_bad_report_parameters_are_named(caller: Make, query: str, parameter: str) -> None:
    answer = caller("read").get(f"/api/v1/reports/usage?{query}")
    assert answer.status_code == 400
    assert [error["parameter"] for error in json.loads(answer.content)["errors"]] == [parameter]
