"""Closing a run on its page: who may, what keeps it open, what the page says afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from events import projector
from events.access import Scope
from events.adapters import Draft
from events.types.jobs import JobReported
from jobs import queries
from jobs.actions import closings_of
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of

pytestmark = pytest.mark.django_db


def key_of(generation: int = 1) -> Any:
    return queries.runs(Scope.everything()).get(name="big", generation=generation).id


def fill(later: str = "2026-10-03 12:00") -> None:
    """Run `big` of atlas: 10 h on 8 GPUs, and 2 h on 16 GPUs from `later` on, submitted a minute before."""
    declare("atlas", "vision")
    book(
        job("atlas", "2026-10-02 08:00", 10, 8, job_id="1", run="big"),
        job("atlas", later, 2, 16, job_id="2", run="big"),
    )


def test_a_lead_closes_a_run_and_takes_it_back() -> None:
    fill()
    ada = person("ada", projects=("atlas",))
    lead = signed_in(ada)
    page = f"/runs/{key_of()}/"
    assert "Jobs of account atlas that are named big belong to it. Close this run" in main_of(html_of(lead, page))
    assert lead.post(f"{page}close/").status_code == 302
    (closing,) = closings_of("atlas", "big")
    assert closing.actor == f"user:{ada.pk}"
    read = main_of(html_of(lead, page))
    assert "The run is closed." in read
    assert "by ada. Jobs of account atlas that are named big and were submitted later are the run big #2 ." in read
    projector.catch_up()
    assert "big closed" in main_of(html_of(lead, "/runs/"))
    assert "closed already" in main_of(lead.post(f"{page}close/", follow=True).content.decode())
    assert "The run is open again." in main_of(lead.post(f"{page}reopen/", follow=True).content.decode())
    assert closings_of("atlas", "big") == []


def test_what_runs_keeps_it_open() -> None:
    fill()
    began = at("2026-10-04 12:00")
    data = JobReported(
        cluster="pod-a", job_id="3", state="RUNNING", submit=began, start=began, account="atlas", run="big"
    )
    book(Draft("job.reported", data, "3", began * 1_000_000, 1))
    lead = signed_in(person("ada", projects=("atlas",)))
    read = main_of(html_of(lead, f"/runs/{key_of()}/"))
    assert "It cannot be closed now: job 3 waits or runs; close it when they have ended." in read
    assert "Close this run" not in read
    answer = lead.post(f"/runs/{key_of()}/close/", follow=True)
    assert "Job 3 waits or runs; close it when they have ended. Nothing was changed." in main_of(
        answer.content.decode()
    )
    assert closings_of("atlas", "big") == []


def test_only_who_sees_it_may_close_it() -> None:
    fill()
    key = key_of()
    assert signed_in(person("vi", projects=("vision",))).post(f"/runs/{key}/close/").status_code == 404
    assert Client().post(f"/runs/{key}/close/")["Location"].startswith("/login/")
    assert signed_in(person("ada", admin=True)).get(f"/runs/{key}/close/").status_code == 405
    assert Client(enforce_csrf_checks=True).post(f"/runs/{key}/close/").status_code == 403
    assert closings_of("atlas", "big") == []


def test_thirty_days_without_a_job_are_pointed_at_and_can_be_parted_there() -> None:
    """Job 1 ended on 2 October at 18:00; job 2 was submitted on 2 November at 11:59 (CET): 30 d 19 h after."""
    fill("2026-11-02 12:00")
    lead = signed_in(person("ada", projects=("atlas",)))
    page = f"/runs/{key_of()}/"
    html = html_of(lead, page)
    assert "It had 30 days without a job, from 2 Oct 2026 18:00:00 CEST on." in main_of(html)
    ended = at("2026-10-02 18:00")
    assert f'name="at" value="{ended}"' in html
    lead.post(f"{page}close/", {"at": str(ended)})
    projector.catch_up()
    first, second = (html_of(lead, f"/runs/{key_of(number)}/") for number in (1, 2))
    assert "GPU-hours 80.0" in main_of(first)
    assert "Closed on 2 Oct 2026 18:00:00 CEST by ada." in main_of(first)
    assert "Run big #2 Completed" in main_of(second)
    assert "GPU-hours 32.0" in main_of(second)
    assert "without a job" not in main_of(second)
    assert "big #2" in main_of(html_of(lead, "/search?q=big"))
    assert lead.get("/search?q=big %232")["Location"] == f"/runs/{key_of(2)}/"
    assert "big #2" in main_of(html_of(lead, "/jobs/"))


def test_under_thirty_days_nothing_is_asked() -> None:
    """Submitted on 1 November at 16:59 CET: 29 d 23 h 59 min after the end."""
    fill("2026-11-01 17:00")
    lead = signed_in(person("ada", projects=("atlas",)))
    assert "without a job" not in main_of(html_of(lead, f"/runs/{key_of()}/"))


@pytest.mark.parametrize(("given", "said"), [("soon", "That is no time"), ("99999999999", "has not come")])
def test_a_time_that_is_none_changes_nothing(given: str, said: str) -> None:
    fill()
    lead = signed_in(person("ada", projects=("atlas",)))
    answer = lead.post(f"/runs/{key_of()}/close/", {"at": given}, follow=True)
    assert said in main_of(answer.content.decode())
    assert closings_of("atlas", "big") == []
