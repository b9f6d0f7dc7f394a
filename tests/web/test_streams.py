"""The stream of one thing: a job's whole life, which attempt each sighting speaks of, and who may see it."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from events import projector
from events.adapters import Draft
from events.intake import Intake
from events.types.jobs import JobReported
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of, table, words

pytestmark = pytest.mark.usefixtures("hall")
STREAM = "/streams/job/pod-a/412/"


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def say(source: str, state: str, when: str, **fields: Any) -> None:
    """One sighting of job 412 of account atlas, submitted at 07:00."""
    told = {"submit": at("2026-10-02 07:00"), "account": "atlas", "user": "ben", **fields}
    data = JobReported(cluster="pod-a", job_id="412", state=state, **told)
    taken = Intake(source=source, actor="token:t").take([Draft("job.reported", data, "412", at(when) * 1_000_000, 0)])
    assert [result.status for result in taken] == ["accepted"]


def live() -> None:
    """Waits, runs, is preempted after two hours on 8 GPUs, runs again for one hour on 4 and completes."""
    declare("atlas", "vision")
    first = {"start": at("2026-10-02 08:00"), "nodes": 1, "gpus": 8}
    second = {"start": at("2026-10-02 11:00"), "nodes": 1, "gpus": 4, "submit": at("2026-10-02 10:00")}
    say("slurmctld:pod-a", "PENDING", "2026-10-02 07:00", reason="Priority")
    say("hook:pod-a", "RUNNING", "2026-10-02 08:00", **first)
    say("jobcomp:pod-a", "PREEMPTED", "2026-10-02 10:00", end=at("2026-10-02 10:00"), **first)
    say("hook:pod-a", "RUNNING", "2026-10-02 11:00", **second)
    say("jobcomp:pod-a", "COMPLETED", "2026-10-02 12:00", end=at("2026-10-02 12:00"), **second)
    projector.catch_up()


def test_every_sighting_stands_in_order_with_the_attempt_it_speaks_of(admin: Client) -> None:
    live()
    rows = table(html_of(admin, STREAM), "Events of Job 412 on pod-a in order of position")
    assert [row[0] for row in rows] == ["6", "7", "8", "9", "10"]
    assert [row[4] for row in rows] == [
        "slurmctld:pod-a", "hook:pod-a", "jobcomp:pod-a", "hook:pod-a", "jobcomp:pod-a",
    ]  # fmt: skip
    assert [row[5] for row in rows] == ["waiting", "attempt 1", "attempt 1", "attempt 2", "attempt 2"]


def test_each_says_what_it_changes_against_the_one_before(admin: Client) -> None:
    live()
    rows = table(html_of(admin, STREAM), "Events of Job 412 on pod-a in order of position")
    assert "State: PENDING → RUNNING" in rows[1][6]
    assert "GPUs: 8" in rows[1][6]
    assert "State: RUNNING → PREEMPTED; Ended: 2 Oct" in rows[2][6].replace(" 2026", "")
    assert rows[3][6].endswith("State: PREEMPTED → RUNNING; GPUs: 8 → 4")  # times are the new attempt's own
    assert "GPUs" not in rows[4][6].split("account atlas", 1)[1]


def test_the_verdict_adds_up_by_hand(admin: Client) -> None:
    live()
    read = main_of(html_of(admin, STREAM))
    # 2 h x 8 + 1 h x 4 = 20 GPU-hours, 3 h of running.
    assert "GPU-hours 20.0 at most 8 GPUs" in read
    assert "Attempts 2 1 job" in read
    assert "Wall 3 h 00 min" in read
    assert "Events 5 positions 6 to 10" in read
    assert (
        "Together COMPLETED: 2 attempts from 2 Oct 2026 08:00:00 CEST to 2 Oct 2026 12:00:00 CEST, 3 h 00 min of "
        "running, 20.0 GPU-h; the accounting has not confirmed it yet."
    ) in read


def test_it_can_be_read_as_it_was_known_earlier(admin: Client) -> None:
    live()
    read = main_of(html_of(admin, f"{STREAM}?as_of=8"))
    assert "PREEMPTED: 1 attempt" in read
    assert "16.0 GPU-h" in read
    assert "Nothing was known yet" in main_of(html_of(admin, f"{STREAM}?as_of=3"))
    assert "whole number" in main_of(html_of(admin, f"{STREAM}?as_of=x", 400))


def test_a_reused_id_is_two_jobs(admin: Client) -> None:
    live()
    book(job("atlas", "2026-11-20 08:00", 1, 2, job_id="412"))
    html = html_of(admin, STREAM)
    rows = table(html, "Events of Job 412 on pod-a in order of position")
    assert rows[-1][5] == "job 2, attempt 1"
    assert rows[0][5] == "job 1, waiting"
    assert "Job 2 of this id COMPLETED: 1 attempt" in main_of(html)


def test_a_lead_sees_the_streams_of_own_jobs_only() -> None:
    live()
    owner = signed_in(person("lea", projects=("atlas",)))
    other = signed_in(person("leo", projects=("vision",)))
    html = html_of(owner, STREAM)
    assert "Together COMPLETED" in main_of(html)
    assert "/events/" not in html.split("<main", 1)[1]
    assert "job/pod-a/412" not in html_of(other, STREAM, 404)
    assert html_of(other, "/streams/job/pod-a/9999/", 404)
    for stream in ("site", "project/atlas", "account/pod-a/atlas", "step/pod-a/412"):
        assert "only staff may see it" in words(html_of(owner, f"/streams/{stream}/", 403))


def test_a_stream_shared_with_a_foreign_job_stays_closed() -> None:
    """The number was used again by another project: what its sightings say is not the lead's to read."""
    live()
    book(job("vision", "2026-11-20 08:00", 1, 2, job_id="412"))
    html_of(signed_in(person("lea", projects=("atlas",))), STREAM, 404)
    html_of(signed_in(person("lou", projects=("atlas", "vision"))), STREAM)


def test_other_streams_are_plain_lists(admin: Client) -> None:
    live()
    read = main_of(html_of(admin, "/streams/account/pod-a/atlas/"))
    assert "Account atlas on pod-a" in read
    assert "Account atlas of pod-a belongs to atlas from 2020-01-01 on." in read
    assert "Speaks of" not in read
    html_of(admin, "/streams/project/nothing/", 404)


def test_the_file_holds_what_the_page_shows() -> None:
    live()
    owner = signed_in(person("lea", projects=("atlas",)))
    response = owner.get(f"{STREAM}?format=csv")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="job-pod-a-412.csv"'
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert [(row["position"], row["attempt"]) for row in rows] == [
        ("6", "0"), ("7", "1"), ("8", "1"), ("9", "2"), ("10", "2"),
    ]  # fmt: skip
    assert rows[1]["occurred_at"] == "2026-10-02T06:00:00+00:00"


def test_formulas_of_users_stay_text() -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8, job_id="412", state="COMPLETED", user="=cmd()", name="-1+1"))
    lead = signed_in(person("lea", projects=("atlas",)))
    text = lead.get(f"{STREAM}?format=csv").content.decode()
    assert all(not cell.startswith(("=", "-", "+", "@")) for row in csv.reader(io.StringIO(text)) for cell in row)
    assert "<" not in words(html_of(lead, STREAM)).split("Stream", 1)[1]
