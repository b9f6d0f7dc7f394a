"""Names stay out of the log; erasing a person breaks neither the chain nor a figure."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.db import connection

from events import projector, queries, reports
from events.access import Scope
from events.adapters import Draft
from events.intake import Intake
from events.privacy import erase_person, person_ids
from events.types.jobs import JobReported

START = 1_790_000_000


def take(job: str, user: str, name: str) -> None:
    data = JobReported(
        cluster="pod-a", job_id=job, state="COMPLETED", submit=START, start=START, end=START + 3600, gpus=2,
        account="vision", user=user, name=name,
    )  # fmt: skip
    draft = Draft("job.reported", data, f"pod-a/{job}", (START + 3600) * 1_000_000, 0)
    Intake(source="sacct:pod-a", actor="test").take([draft])


def gpu_seconds_by_user() -> dict[str, int]:
    params = reports.Params(
        datetime.fromtimestamp(START - 86_400, UTC),
        datetime.fromtimestamp(START + 86_400, UTC),
        ZoneInfo("UTC"),
        ("user",),
    )
    return {row["user"]: row["gpu_seconds"] for row in reports.run("usage", Scope.everything(), params).rows}


@pytest.mark.django_db
def test_no_name_and_no_text_of_a_person_is_in_the_log() -> None:
    take("1", "mueller", "secret-project-x")
    with connection.cursor() as cursor:
        cursor.execute("SELECT data::text, source_key, stream FROM events_event")
        said = " ".join(cursor.fetchone())
    assert "mueller" not in said
    assert "secret-project-x" not in said


@pytest.mark.django_db
def test_the_same_name_has_the_same_id_and_ids_are_random() -> None:
    first = person_ids(["mueller", "meier"])
    assert person_ids(["mueller"]) == {"mueller": first["mueller"]}
    assert first["mueller"] != first["meier"]


def test_an_erased_person_keeps_figures_and_chain(hall: dict[str, str]) -> None:
    take("1", "mueller", "first try")
    take("2", "meier", "second")
    projector.catch_up()
    assert gpu_seconds_by_user() == {"mueller": 7200, "meier": 7200}
    person = person_ids(["mueller"])["mueller"]
    assert erase_person(person) == 1
    assert gpu_seconds_by_user() == {person: 7200, "meier": 7200}
    assert queries.people([person]) == {person: person}
    call_command("verify")


def test_a_changed_rule_rebuilds_and_serves_meanwhile(hall: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from events.tasks import catch_up

    take("1", "mueller", "x")
    projector.catch_up()
    changed = replace(next(group for group in projector.groups() if group.name == "jobs"), version=99)
    monkeypatch.setitem(projector._GROUPS, "jobs", changed)
    take("2", "mueller", "y")
    projector.catch_up()
    assert gpu_seconds_by_user() == {"mueller": 7200}
    assert [group.name for group in projector.stale()] == ["jobs"]
    catch_up()
    assert gpu_seconds_by_user() == {"mueller": 14_400}
    assert projector.stale() == []
