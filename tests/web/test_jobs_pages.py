"""The page of a job: sizes, ends, relations, sources, and the way in by a scheduler's id."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from events import projector
from events.access import Scope
from events.adapters import Draft
from events.intake import Intake
from events.types.jobs import JobReported
from jobs import queries
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of
from tests.web.test_runs import running, table
from web import states

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def key_of(job_id: str) -> Any:
    return queries.jobs(Scope.everything()).filter(job_id=job_id).latest("seq").id


def page(client: Client, job_id: str) -> str:
    return html_of(client, f"/jobs/{key_of(job_id)}/")


def said(source: str, key: str, **fields: Any) -> None:
    """One source's report about job 5 of atlas, which started on 2 October at 08:00."""
    given: dict[str, Any] = {
        "cluster": "pod-a", "job_id": "5", "state": "COMPLETED", "submit": at("2026-10-02 07:59"),
        "start": at("2026-10-02 08:00"), "end": at("2026-10-02 09:00"), "account": "atlas", "user": "ben", "nodes": 1,
        "gpus": 8,
    }  # fmt: skip
    draft = Draft("job.reported", JobReported(**given | fields), key, given["end"] * 1_000_000, 1)
    Intake(source=source, actor="test").take([draft])
    projector.catch_up()


def test_an_ended_job(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 2, 8, job_id="5", user="ben", name="tune", exit_code=137, state="FAILED",
             wait=600, limit_seconds=7200, record=901, suspended_seconds=300, node_list="gpu001",
             gpu_indices=("gpu001=0-7",)))  # fmt: skip
    html = page(admin, "5")
    read = main_of(html)
    assert "Job 5 on pod-a Failed 2 Oct 2026 10:00:00 CEST after 1 attempt." in read
    assert "Exit code 137, as of signal 9 (SIGKILL): it was killed at once" in read
    assert "GPU-hours 16.0" in read
    assert "Elapsed 2 h 00 min 5 min suspended" in read
    assert "Wait before start 10 min could start 2 Oct 07:50" in read
    assert "Time limit 2 h 00 min" in read
    assert "Accounting records 901" in read
    assert table(html, "Where it ran") == [["gpu001", "1", "gpu001=0-7", "1"]]
    assert 'id="attempt-1"' in html


def test_gpus_that_nobody_tells_are_not_guessed(admin: Client) -> None:
    declare("atlas")
    book(
        job("atlas", "2026-10-02 08:00", 2, 8, job_id="5", node_list="gpu001"),
        job("atlas", "2026-10-02 08:00", 1, 0, job_id="6"),
    )
    assert table(page(admin, "5"), "Where it ran") == [["gpu001", "1", "not told", "1"]]
    assert table(page(admin, "6"), "Where it ran") == [["not told", "1", "none", "1"]]


def test_sizes_after_a_resize(admin: Client) -> None:
    """Two records of one start: 16 GPUs for 1 h, closed by the resize, then 8 GPUs for 2 h."""
    declare("atlas")
    start = at("2026-10-02 08:00")
    same = {"job_id": "5", "eligible": start - 60}
    book(
        job("atlas", "2026-10-02 08:00", 1, 16, **same, submit=start - 60, state="RESIZING", record=1),
        job("atlas", "2026-10-02 08:00", 3, 8, **same, submit=start + 3600, record=2),
    )
    html = page(admin, "5")
    assert [(row[0], row[5], row[6], row[7]) for row in table(html, "Sizes")] == [
        ("1", "16", "1.00", "16.0"), ("1", "8", "2.00", "16.0")
    ]  # fmt: skip
    (row, total) = table(html, "Attempts")
    assert (row[5], row[6], row[7], total[7]) == ("3.00", "16 → 8", "32.0", "32.0")


def test_a_waiting_job_says_why(admin: Client) -> None:
    declare("atlas")
    since = at("2026-10-02 08:00")
    waits = {"state": "PENDING", "job_id": "5", "submit": since, "eligible": since, "reason": "Resources"}
    given = {"cluster": "pod-a", "account": "atlas", "user": "ben", **waits}
    book(Draft("job.reported", JobReported(**given), "5", since * 1_000_000, 1))
    read = main_of(page(admin, "5"))
    assert "Waiting since 2 Oct 2026 08:00:00 CEST. Reason: Resources." in read
    assert "so far, since 2 Oct 08:00" in read
    assert "GPUs asked for no data nobody tells Wait " in read
    assert "GPU-hours" not in read, "no zeros of what it never held"
    assert "Attempts" not in read


def test_a_running_job_says_when_its_limit_ends_it(admin: Client) -> None:
    from datetime import UTC, datetime, timedelta

    declare("atlas")
    since = datetime.now(UTC) - timedelta(hours=1, minutes=1)
    book(running("atlas", since, 4, job_id="5", limit_seconds=2 * 3600))
    assert re.search(r"; its time limit of 2 h 00 min ends it in 5[89] min\.", main_of(page(admin, "5")))
    book(running("atlas", since, 4, job_id="6", limit_seconds=3600))
    assert "; its time limit of 1 h 00 min passed 1 min ago." in main_of(page(admin, "6"))


def test_tasks_of_an_array_and_parts_of_a_heterogeneous_job(admin: Client) -> None:
    declare("atlas", "vision")
    tasks = [
        job("atlas", "2026-10-02 08:00", 1, 1, job_id=str(40 + n), array_job_id="40", array_task=str(n))
        for n in range(3)
    ]
    parts = [
        job(account, "2026-10-03 08:00", 1, 1, job_id=str(50 + n), het_job_id="50", het_offset=n)
        for n, account in enumerate(("atlas", "vision"))
    ]
    book(*tasks, *parts)
    html = page(admin, "41")
    assert "Job 40_1 on pod-a" in main_of(html)
    assert [row[0] for row in table(html, "Other tasks of array 40")] == ["40_0", "40_2"]
    html = page(admin, "50")
    assert "Job 50+0 on pod-a" in main_of(html)
    assert [row[0] for row in table(html, "Other parts of job 50")] == ["50+1"]
    lead = signed_in(person("lea", projects=("atlas",)))
    assert "50+1" not in page(lead, "50")


def test_ways_in_by_the_schedulers_own_id(admin: Client) -> None:
    declare("atlas", "vision")
    book(
        job("atlas", "2026-01-02 08:00", 1, 1, job_id="7"), job("atlas", "2026-10-02 08:00", 1, 1, job_id="7"),
        job("vision", "2026-10-02 08:00", 1, 1, job_id="41", array_job_id="40", array_task="1"),
        job("atlas", "2026-10-02 08:00", 1, 1, job_id="51", het_job_id="50", het_offset=1),
    )  # fmt: skip
    for name, job_id in (("7", "7"), ("40_1", "41"), ("41", "41"), ("50+1", "51"), ("51", "51")):
        assert admin.get(f"/go/job/pod-a/{name}")["Location"] == f"/jobs/{key_of(job_id)}/", name
    for name in ("8", "40_9", "50+x", "50+99999999999", "%00"):
        assert admin.get(f"/go/job/pod-a/{name}").status_code == 404, name
    assert admin.get("/go/job/pod-b/7").status_code == 404
    assert "the id again" in main_of(page(admin, "7"))
    lead = signed_in(person("lea", projects=("atlas",)))
    assert lead.get("/go/job/pod-a/41").status_code == 404
    assert lead.get(f"/jobs/{key_of('41')}/").status_code == 404


def test_an_attempt_leads_to_its_place(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 1, job_id="7"))
    (attempt,) = queries.attempts(Scope.everything())
    assert admin.get(f"/attempts/{attempt.id}/")["Location"] == f"/jobs/{key_of('7')}/#attempt-1"
    assert admin.get(f"/attempts/{key_of('7')}/").status_code == 404


def test_who_said_what_and_who_differs(admin: Client) -> None:
    declare("atlas")
    said("sacct:pod-a", "a", record=5)
    said("jobcomp:pod-a", "b", end=at("2026-10-02 09:01"), gpus=4)
    html = page(admin, "5")
    rows = table(html, "Who said what")
    assert [row[1] for row in rows] == ["the books", "job completion plugin, pod-a", "accounting (sacct), pod-a"]
    told = {row[1].split(",")[0]: row for row in rows}
    assert told["the books"][5:7] == ["2 Oct 09:00:00", "8"]
    assert told["accounting (sacct)"][5:7] == ["2 Oct 09:00:00", "8"]
    assert told["job completion plugin"][5:7] == ["2 Oct 09:01:00 differs", "4 differs"]
    assert "Sources disagree. 1 attempt" in main_of(html)
    assert "job completion plugin, pod-a 1 report accounting (sacct), pod-a 1 report" in main_of(html)


def test_one_source_has_nothing_to_compare(admin: Client) -> None:
    declare("atlas")
    said("sacct:pod-a", "a")
    html = page(admin, "5")
    assert "1 report; no other source spoke, so there is nothing to compare" in main_of(html)
    assert "Who said what" not in html


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        (None, None, ""), (0, 0, "0"), (1, 0, "1"), (127, 0, "127: the command was not found"),
        (0, 15, "0 with signal 15 (SIGTERM): it was asked to end"), (0, 53, "0 with signal 53"),
        (139, 0, "139, as of signal 11 (SIGSEGV): the program touched memory that is not its own"),
        (255, 0, "255"), (-1, None, "-1"),
    ],
)  # fmt: skip
def test_exit_codes_in_words(code: int | None, number: int | None, text: str) -> None:
    assert states.explain_exit(code, number) == text


def test_every_state_of_slurm_has_a_word() -> None:
    from typing import get_args

    from events.types.jobs import State

    assert set(states.STATES) == set(get_args(State))
    assert states.of("BRAND_NEW").word == "brand new"
