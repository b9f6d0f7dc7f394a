"""The block Waste of a run and of a project: causes, hours, what is not known, and the way to the report."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from events import projector
from events.append import append
from jobs.models import Run
from tests.jobs.test_training import FAULT
from tests.web.books import book, declare, job, person
from tests.web.test_goodput import told


@pytest.fixture
def chief(hall: Any, client: Client) -> Client:
    """Run `big` on 16 GPUs for an hour met a fault and told of it. Of others 8 GPU-h failed, 2 were cancelled, 24 were
    preempted and 10 completed, half a GPU-hour failed early."""
    declare("nlp", "vision")
    day = "2026-03-01"
    book(job("nlp", f"{day} 11:00", 1, 16, job_id="1", run="big", state="NODE_FAIL", nodes=2),
         job("nlp", f"{day} 13:00", 1, 8, state="FAILED"), job("nlp", f"{day} 13:00", 1, 2, state="CANCELLED"),
         job("nlp", f"{day} 13:00", 3, 8, state="PREEMPTED", run="moved"), job("nlp", f"{day} 13:00", 1, 10),
         job("nlp", f"{day} 13:00", 0.5, 1, state="FAILED"), job("vision", f"{day} 13:00", 1, 1))  # fmt: skip
    append(list(FAULT))
    projector.catch_up()
    client.force_login(person("chief", admin=True))
    return client


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_of_a_project(chief: Client) -> None:
    """By hand: rolled back 16 GPUs x 19.5 min, restart x 10 min, partial gang x 1 min, of 60.5 GPU-h that ended."""
    text = page(chief, "/projects/nlp/?from=2026-03-01&to=2026-03-31")
    assert told(text, "waste")[1:] == [
        ["failed", "1", "8.0", "13.22", ""], ["rolled back", "1", "5.2", "8.60", ""],
        ["restart after a fault", "1", "2.7", "4.41", ""], ["cancelled", "1", "2.0", "3.31", ""],
        ["partial gang", "1", "0.3", "0.44", ""], ["never used", "no data", "no data", "no data", ""],
        ["idle", "no data", "no data", "no data", ""], ["all causes", "3", "18.1", "29.97", ""],
    ]  # fmt: skip
    assert "of 60.5 GPU-h that they held" in text
    assert "1 attempt with 24.0 GPU-h that ended as preempted, requeued or unseen is not known" in text
    assert "/reports/waste/?from=2026-03-01&amp;to=2026-03-31&amp;group_by=user,cause&amp;project=nlp" in text
    assert "/api/v1/reports/waste?from=2026-03-01&amp;to=2026-04-01" in text


def test_of_a_run(chief: Client) -> None:
    text = page(chief, f"/runs/{Run.objects.get(name='big').id}/")
    assert told(text, "waste")[1:] == [
        ["rolled back", "1", "5.2", "32.50", ""], ["restart after a fault", "1", "2.7", "16.67", ""],
        ["partial gang", "1", "0.3", "1.67", ""], ["never used", "no data", "no data", "no data", ""],
        ["idle", "no data", "no data", "no data", ""], ["all causes", "1", "8.1", "50.83", ""],
    ]  # fmt: skip
    assert "/reports/waste/?from=2026-03-01&amp;to=2026-03-01&amp;group_by=run,cause&amp;project=nlp" in text


def test_a_run_of_which_it_is_not_known_and_one_without_waste(chief: Client) -> None:
    moved = page(chief, f"/runs/{Run.objects.get(name='moved').id}/")
    assert told(moved, "waste")[-1] == ["all causes", "0", "0.0", "0.00", ""]
    assert "24.0 GPU-h that ended as preempted, requeued or unseen is not known" in moved
    fine = Run.objects.get(account="vision")
    assert 'id="waste"' not in page(chief, f"/runs/{fine.id}/")


def test_a_project_without_an_end_in_these_days_has_no_block(chief: Client) -> None:
    assert 'id="waste"' not in page(chief, "/projects/vision/?from=2026-02-01&to=2026-02-20")
    assert 'id="waste"' not in page(chief, "/projects/")


def test_as_known_at_a_position_the_report_is_asked_at_it_too(chief: Client) -> None:
    text = page(chief, "/projects/nlp/?from=2026-03-01&to=2026-03-31&as_known_at=14")
    assert "&amp;as_known_at=14&amp;" in text.partition('id="waste"')[2]
