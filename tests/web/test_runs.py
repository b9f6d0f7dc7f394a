"""The page of a run: figures worked out by hand, equal to REST and to the report of costs, and its chart."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events import projector, reports
from events.access import Scope
from events.adapters import Draft
from events.intake import Intake
from events.types.jobs import JobLost, JobReported
from jobs import queries
from tests.web.books import BERLIN, at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, words
from web import run
from web.ranges import Days

COUNTS = Path(__file__).parent / "query_counts.json"
pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def table(html: str, title: str) -> list[list[str]]:
    """Rows of a table with its total, each as the words of its cells."""
    block = re.search(rf'<caption class="vh">{re.escape(title)}</caption>.*?<tbody>(.*?)</table>', html, flags=re.S)
    assert block, title
    rows = re.findall(r"<tr>(.*?)</tr>", block[1], flags=re.S)
    return [[words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.S)] for row in rows]


def fill() -> None:
    """Run `big` of atlas: job 1 ran 10 h on 8 GPUs until a node failed, was requeued and ran 5 h on 8 GPUs; job 2
    ran 2 h on 16 GPUs. Job 3 of vision belongs to no named run."""
    declare("atlas", "vision", rates={"h100": 2_000_000})
    first = {"job_id": "1", "run": "big", "name": "pretrain", "node_list": "gpu[001-002]"}
    failed = {"state": "NODE_FAIL", "exit_code": 0, "record": 11}
    book(
        job("atlas", "2026-10-02 08:00", 10, 8, user="ben", wait=3600, **failed, **first),
        job("atlas", "2026-10-02 20:00", 5, 8, user="ben", wait=7200, record=12, submit=at("2026-10-02 18:00"),
            eligible=at("2026-10-02 18:00"), **first),
        job("atlas", "2026-10-03 12:00", 2, 16, user="ben", wait=60, job_id="2", run="big", name="tune",
            node_list="gpu003"),
        job("vision", "2026-10-04 12:00", 1, 4, user="cai", job_id="3"),
    )  # fmt: skip


def key_of(name: str = "big") -> Any:
    return queries.runs(Scope.everything()).get(name=name).id


def running(account: str, since: datetime, gpus: int, **more: Any) -> Draft:
    """A job that began at an instant and runs."""
    began = int(since.timestamp())
    given: dict[str, Any] = {
        "cluster": "pod-a", "job_id": "77", "state": "RUNNING", "submit": began - 60, "eligible": began - 60,
        "start": began, "account": account, "user": "ben", "partition": "train", "nodes": 1, "cpus": 8, "gpus": gpus,
    }  # fmt: skip
    return Draft("job.reported", JobReported(**given | more), f"77 {more.get('end')}", began * 1_000_000, 1)


def test_figures_are_those_worked_out_by_hand(admin: Client) -> None:
    fill()
    read = main_of(html_of(admin, f"/runs/{key_of()}/"))
    assert "Run big Completed 3 Oct 2026 14:00:00 CEST after 3 attempts of 2 jobs on up to 2 nodes." in read
    # 10 x 8 + 5 x 8 + 2 x 16 = 152 GPU-h; one node up to 8 GPUs, two nodes for 16: 10 + 5 + 2 x 2 = 19 node-h
    assert "GPU-hours 152.0 16 GPUs at most" in read
    assert "Node-hours 19.0 17.0 h allocated" in read
    assert "Attempts 3 of 2 jobs" in read
    # 152 h at 2.00
    assert "Cost 304 EUR 2.000 per GPU-h, list price" in read
    assert "Wait before start 1 h 00 min could start 2 Oct 07:00" in read


def test_attempts_add_up_to_the_total(admin: Client) -> None:
    fill()
    rows = table(html_of(admin, f"/runs/{key_of()}/"), "Attempts")
    assert [(row[0], row[1], row[5], row[6], row[7]) for row in rows] == [
        ("1, 1", "node failed", "10.00", "8", "80.0"),
        ("1, 2", "completed", "5.00", "8", "40.0"),
        ("2, 1", "completed", "2.00", "16", "32.0"),
        ("3 attempts", "", "17.00", "", "152.0"),
    ]
    assert [row[4] for row in rows[:3]] == ["1 h 00 min", "2 h 00 min", "1 min"]
    assert rows[0][2:4] == ["2 Oct 08:00:00", "2 Oct 18:00:00"]
    assert rows[0][8] == "A node of it failed or stopped to answer."


def test_many_attempts_fold_and_still_add_up(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill()
    monkeypatch.setattr(run, "MOST", 1)
    html = html_of(admin, f"/runs/{key_of()}/")
    rows = table(html, "Attempts")
    assert [(row[0], row[5], row[7]) for row in rows] == [
        ("1, 1", "10.00", "80.0"), ("2 more", "7.00", "72.0"), ("3 attempts", "17.00", "152.0")
    ]  # fmt: skip
    assert "the chart shows how many GPUs were held" in main_of(html)
    spec = json.loads(re.search(r'<script id="spec"[^>]*>(.*?)</script>', html, flags=re.S)[1])  # type: ignore[index]
    bars = spec["layer"][0]["data"]["values"]
    assert len(bars) == 240
    # 152 GPU-h over 30 h, from the first start to the last end: the mean of the means
    assert sum(bar["v"] for bar in bars) / 240 == pytest.approx(152 / 30, rel=1e-3)


def test_the_page_says_what_rest_says(admin: Client) -> None:
    fill()
    found = admin.get(f"/api/v1/runs/{key_of()}").json()
    assert (found["gpu_seconds"], found["node_seconds"]) == (152 * 3600, 19 * 3600)
    attempts = admin.get(f"/api/v1/attempts?run={key_of()}&ordering=start").json()["results"]
    shown = table(html_of(admin, f"/runs/{key_of()}/"), "Attempts")[:-1]
    assert [row["gpu_seconds"] for row in attempts] == [round(float(cells[7]) * 3600) for cells in shown]
    jobs = table(html_of(admin, f"/runs/{key_of()}/"), "Jobs")
    assert [(row[0], row[1], row[2], row[7]) for row in jobs] == [
        ("1", "pretrain", "completed", "2"), ("2", "tune", "completed", "1")
    ]  # fmt: skip


def test_cost_is_the_reports(admin: Client) -> None:
    """Two prices and a class without one, over the night in which clocks go back."""
    declare("atlas", rates={"h100": 1_999_999})
    from events import actions
    from events.types.rates import RatePublished

    later = RatePublished(resource_class="h100", currency="EUR", micro_per_hour=3_333_333, from_day="2026-10-26")
    actions.say(later, type_="rate.published", actor="test")
    book(
        job("atlas", "2026-10-25 20:00", 7, 3, run="odd"),
        job("atlas", "2026-10-27 08:00", 1, 5, run="odd", gpu_types=("a100=5",)),
    )
    days = Days(datetime(2026, 10, 1).date(), datetime(2026, 10, 31).date())  # noqa: DTZ001 - a calendar day
    report = reports.run("costs", Scope.everything(), days.params(BERLIN, datetime.now(UTC), "project"))
    # 4 h x 3 at 1.999999, 3 h x 3 at 3.333333: 23.999988 + 29.999997 = 53.999985
    assert report.total["amount"]["amount"] == "54.00"
    html = html_of(admin, f"/runs/{key_of('odd')}/")
    rows = table(html, "Cost at list price")
    assert rows == [
        ["a100", "5.0", "no price", "no price"],
        ["h100", "12.0", "1.999999", "24.00"],
        ["h100", "9.0", "3.333333", "30.00"],
        ["cost", "", "", "54.00"],
    ]
    assert "part of the use has no price" in main_of(html)


def test_a_run_that_runs_is_counted_until_now(admin: Client) -> None:
    declare("atlas", rates={"gpu": 1_000_000})
    start = datetime.now(UTC) - timedelta(hours=10)
    book(running("atlas", start, 4, run="now"))
    html = html_of(admin, f"/runs/{key_of('now')}/")
    read = main_of(html)
    assert "GPU-hours 40.0" in read
    assert "Cost 40 EUR" in read
    assert re.search(r"Running since .*, in 1 attempt on up to 1 node\.", read)
    (row, _) = table(html, "Attempts")
    assert (row[3], row[5], row[7], row[9]) == ("runs", "10.00", "40.0", "")


def test_a_lost_attempt_is_said_and_charged_until_last_seen(admin: Client) -> None:
    declare("atlas")
    start = datetime.now(UTC) - timedelta(hours=10)
    book(running("atlas", start, 4, run="gone"))
    began = int(start.timestamp())
    lost = JobLost("pod-a", "77", began, began + 2 * 3600, "unseen")
    Intake(source="poll:pod-a", actor="test").take([Draft("job.lost", lost, "lost", began * 1_000_000, 2)])
    projector.catch_up()
    html = html_of(admin, f"/runs/{key_of('gone')}/")
    assert "Lost. 1 attempt: nobody told the end; charged until last seen. Show them" in main_of(html)
    (row, total) = table(html, "Attempts")
    assert (row[5], row[7], total[7]) == ("2.00", "8.0", "8.0")
    assert "lost" in row[1]
    assert "Nobody told its end" in row[8]


def test_a_run_that_waits_says_since_when(admin: Client) -> None:
    declare("atlas")
    since = datetime.now(UTC) - timedelta(hours=3)
    waits = {"state": "PENDING", "start": None, "submit": int(since.timestamp()), "reason": "Priority",
             "eligible": int(since.timestamp())}  # fmt: skip
    book(running("atlas", since, 0, **waits))
    (found,) = queries.runs(Scope.everything())
    html = html_of(admin, f"/runs/{found.id}/")
    read = main_of(html)
    assert re.search(r"Run of job 77 Waiting since .*Reason: Priority\.", read)
    assert "Wait before start 3 h 00 min so far" in read
    assert 'data-chart="spec"' in html


def test_chart_holds_every_attempt_and_wait(admin: Client) -> None:
    fill()
    html = html_of(admin, f"/runs/{key_of()}/")
    spec = json.loads(re.search(r'<script id="spec"[^>]*>(.*?)</script>', html, flags=re.S)[1])  # type: ignore[index]
    waits, ran, *_ = spec["layer"]
    hours = [(value["lane"], (value["b"] - value["a"]) / 3600) for value in ran["data"]["values"]]
    assert hours == [("1", 10), ("1", 5), ("2", 2)]
    assert [(value["lane"], value["b"] - value["a"]) for value in waits["data"]["values"]] == [
        ("1", 3600), ("1", 7200), ("2", 60)
    ]  # fmt: skip
    troubles = next(layer for layer in spec["layer"] if layer["mark"].get("type") == "point")
    assert [value["s"] for value in troubles["data"]["values"]] == ["node failed"]
    assert not re.search(r"#[0-9a-f]{6}", json.dumps(spec))


def test_a_lead_sees_runs_of_the_granted_project_only() -> None:
    fill()
    lead = signed_in(person("lea", projects=("atlas",)))
    html = html_of(lead, f"/runs/{key_of()}/")
    assert "152.0" in html
    foreign = queries.runs(Scope.everything()).get(account="vision").id
    assert lead.get(f"/runs/{foreign}/").status_code == 404
    assert lead.get("/runs/00000000-0000-4000-8000-000000000000/").status_code == 404
    assert Client().get(f"/runs/{foreign}/").status_code == 302


def test_links_lead_to_what_figures_are_made_of(admin: Client) -> None:
    fill()
    html = html_of(admin, f"/runs/{key_of()}/")
    from html import unescape

    local = {unescape(link) for link in re.findall(r'href="(/(?:runs|jobs|attempts|streams|api)[^"#]*)', html)}
    assert len(local) > 12
    for link in local:
        response = admin.get(link)
        assert response.status_code == 200, link
        assert b"".join(response) if response.streaming else response.content


@pytest.mark.parametrize("name", ["run", "job"])
def test_number_of_queries_stays_as_committed(admin: Client, name: str) -> None:
    fill()
    found = queries.jobs(Scope.everything()).get(job_id="1")
    path = f"/runs/{key_of()}/" if name == "run" else f"/jobs/{found.id}/"
    admin.get(path)
    with CaptureQueriesContext(connection) as captured:
        admin.get(path)
    frame = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT", "SET ")
    asked = [query["sql"] for query in captured.captured_queries if not query["sql"].startswith(frame)]
    committed: dict[str, Any] = json.loads(COUNTS.read_text(encoding="utf-8"))
    assert len(asked) == committed[f"page-{name}"], asked
