"""Every captured post of jobcomp and of the hooks through deliveries, drain and projections to the rows of jobs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection

from events import projector
from events.actions import declare_cluster
from events.deliveries import accept_delivery, drain
from events.models import Delivery, Event, Rejection
from tests.events.adapters.slurm_posts import posts
from tests.invariants.captured import READ_AT, covered, truth

pytestmark = pytest.mark.django_db
Row = tuple[str, int, int | None, int | None]


def deliver(name: str, kind: str) -> None:
    """Keep every post that had arrived when Slurm's table was read, and take them into the log."""
    for at, body in posts(name):
        if at < READ_AT:
            accept_delivery(
                source=name, kind=kind, content_type="application/json", headers={}, body=body, actor="token"
            )
    while drain():
        pass


def rows() -> set[Row]:
    """(job id, start, end, GPU-seconds) of every attempt."""
    projector.catch_up()
    with connection.cursor() as cursor:
        cursor.execute("SELECT job_id, start_at, end_at, gpu_seconds FROM jobs_attempt")
        return {(job, epoch(start) or 0, epoch(end), seconds) for job, start, end, seconds in cursor.fetchall()}


def epoch(at: datetime | None) -> int | None:
    return None if at is None else int(at.astimezone(UTC).timestamp())


def expected() -> set[Row]:
    return {
        (one.job_id, one.start, one.end, one.gpu_seconds)
        for attempts in truth().values() for one in attempts if (one.job_id, one.start) in covered("jobcomp")
    }  # fmt: skip


@pytest.fixture(autouse=True)
def cluster() -> None:
    declare_cluster("pod-a", actor="test")


def test_jobcomp_alone_gives_every_run_that_ended_and_a_repeat_changes_nothing() -> None:
    deliver("jobcomp", "jobcomp")
    assert rows() == expected()
    assert len(expected()) == 100
    before = Event.objects.count()
    deliver("jobcomp", "jobcomp")  # Slurm repeats what was not answered in time
    assert (Event.objects.count(), Rejection.objects.count()) == (before, 0)
    assert set(Event.objects.exclude(type="cluster.declared").values_list("source", flat=True)) == {"jobcomp:pod-a"}


def test_hooks_beside_it_move_no_second_and_add_what_runs() -> None:
    deliver("hook", "slurm-hook")
    assert Rejection.objects.count() == 0
    assert set(Delivery.objects.values_list("state", flat=True)) == {"done"}
    assert len(rows()) == 103  # all attempts of the table, each within a second
    deliver("jobcomp", "jobcomp")
    found = rows()
    assert expected() <= found
    # What runs: job 3, and 108 and 109, which ended after the table was read.
    assert {(job, start, end) for job, start, end, _ in found - expected()} == {
        (one.job_id, one.start + late, None)
        for attempts in truth().values() for one in attempts if one.end is None
        for late in (0, 1) if (one.job_id, one.start + late, None) in {row[:3] for row in found}
    }  # fmt: skip
    assert len(found) == 103


def test_the_rows_say_which_gpus_they_had() -> None:
    deliver("hook", "slurm-hook")
    projector.catch_up()
    with connection.cursor() as cursor:
        cursor.execute("SELECT gpu_indices, confirmed, lost FROM jobs_attempt WHERE job_id IN ('15', '9')")
        assert sorted(cursor.fetchall()) == [("gpu001=0-1 gpu002=4-5", False, False), ("gpu005=0-1", False, False)]
