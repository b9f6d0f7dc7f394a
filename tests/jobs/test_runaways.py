"""Attempts that nobody ends: found by what polls no longer show, or by their limit; charged to when last seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from events import projector
from events.deliveries import drain
from events.models import Event
from fleet.models import Source
from jobs.models import Attempt, Seen
from jobs.pulls import pull
from jobs.runaways import find_runaways, say_found
from jobs.seen import note_poll
from tests.fleet.slurmrestd import TOKEN, serving
from tests.hand import HOUR, at, gpus, job, tell

pytestmark = pytest.mark.django_db
START = at("2026-03-02 08:00")


def when(epoch: int) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def polls(shown: set[tuple[str, int]], *times: int) -> None:
    """Polls of pod-a at these times, as a pull makes them."""
    for time in times:
        source = Source.objects.get_or_create(name="a", kind="slurmrestd", cluster="pod-a", url="http://head")[0]
        note_poll("pod-a", shown, before=source.polled_at, now=when(time))
        source.polled_at = when(time)
        source.save()
        say_found("pod-a", shown, when(time))
        projector.catch_up()


def said(type_: str) -> list[dict[str, Any]]:
    return list(Event.objects.filter(type=type_).order_by("position").values_list("data", flat=True))


def look(epoch: int) -> int:
    found = find_runaways(when(epoch))
    projector.catch_up()
    return found


def attempt(job_id: str = "1") -> tuple[int | None, bool]:
    row = Attempt.objects.get(job_id=job_id)
    return (int(row.end.timestamp()) if row.end else None, row.lost)


def every(seconds: int, begin: int, end: int) -> range:
    return range(begin, end, seconds)


def test_an_attempt_that_no_poll_shows_for_a_quarter_of_an_hour_is_charged_to_when_it_was_seen() -> None:
    tell(job("1", START, None, **gpus(8)))
    polls({("1", START)}, *every(60, START + 60, START + HOUR + 1))
    gone = START + HOUR + 60
    polls(set(), *every(60, gone, gone + 15 * 60))
    assert look(gone + 15 * 60) == 0  # 14 minutes of polls so far
    polls(set(), gone + 15 * 60)
    assert look(gone + 15 * 60 + 1) == 1
    assert said("job.lost") == [
        {"cluster": "pod-a", "job_id": "1", "start": START, "last_seen": START + HOUR, "why": "unseen"}
    ]
    assert attempt() == (START + HOUR, True)
    assert look(gone + HOUR) == 0  # said once


def test_one_that_shows_up_again_is_found_and_may_be_lost_again() -> None:
    tell(job("1", START, None))
    polls({("1", START)}, START + 60)
    polls(set(), START + 120, START + 120 + 900)
    assert look(START + 1100) == 1
    assert attempt() == (START + 60, True)
    back = START + 2 * HOUR
    polls({("1", START)}, back, back + 10)
    assert said("job.found") == [{"cluster": "pod-a", "job_id": "1", "start": START}]
    assert attempt() == (None, False)
    polls(set(), back + 20, back + 20 + 900)
    assert look(back + 1000) == 1
    assert attempt() == (back + 10, True)


def test_the_end_that_a_source_tells_later_wins_over_the_loss() -> None:
    tell(job("1", START, None))
    polls({("1", START)}, START + 60)
    polls(set(), START + 120, START + 120 + 900)
    look(START + 1100)
    tell(job("1", START, START + 90))
    assert attempt() == (START + 90, False)
    polls(set(), START + 1200)
    assert not Seen.objects.exists()  # nothing is left to watch


def test_no_poll_is_no_evidence() -> None:
    """Hallbook, or slurmrestd, was away for a day: one poll after it that does not show the job is not enough."""
    tell(job("1", START, None))
    polls({("1", START)}, START + 60)
    back = START + 24 * HOUR
    assert look(back) == 0
    polls(set(), back)
    assert look(back + 10) == 0
    polls(set(), back + 10)
    assert look(back + HOUR) == 0  # polls fail again: still ten seconds of evidence
    polls(set(), back + 900)
    assert look(back + 901) == 1
    assert attempt() == (START + 60, True)


def test_a_job_of_which_only_others_tell_is_missing_from_the_next_poll_on() -> None:
    tell(job("1", START, None))
    polls(set(), START + HOUR, START + HOUR + 900)
    assert look(START + HOUR + 901) == 1
    assert attempt() == (START, True)  # nobody ever saw it run


def test_what_ended_in_time_is_no_runaway() -> None:
    tell(job("1", START, None))
    polls({("1", START)}, START + 60)
    tell(job("1", START, START + 100))
    polls(set(), START + 120, START + 120 + 900)
    assert look(START + 1100) == 0
    assert not Seen.objects.exists()


def test_sources_may_differ_by_two_seconds_on_a_start() -> None:
    tell(job("1", START + 2, None))
    polls({("1", START)}, START + 60, START + 2000)
    assert look(START + 2001) == 0
    assert Seen.objects.count() == 1


def test_polls_write_only_when_something_changes() -> None:
    tell(job("1", START, None))
    polls({("1", START)}, START + 60)
    before = Seen.objects.values_list("cluster", "missing_from", "last_seen").get()
    xmin = _versions()
    polls({("1", START)}, *every(60, START + 120, START + 600))
    assert Seen.objects.values_list("cluster", "missing_from", "last_seen").get() == before
    assert _versions() == xmin


def _versions() -> list[str]:
    """Where PostgreSQL keeps each row: another place after each UPDATE."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT ctid::text FROM jobs_seen ORDER BY 1")
        return [row[0] for row in cursor.fetchall()]


@pytest.mark.parametrize(("suspended", "late"), [(0, 1), (600, 1), (600, 0)])
def test_without_polls_a_job_is_lost_an_hour_past_its_limit(suspended: int, late: int) -> None:
    tell(job("1", START, None, limit_seconds=2 * HOUR, suspended_seconds=suspended))
    tell(job("2", START, None))  # no limit known: nothing can be said
    end = START + 2 * HOUR + suspended
    assert look(end + HOUR + late) == late
    if late:
        assert said("job.lost") == [
            {"cluster": "pod-a", "job_id": "1", "start": START, "last_seen": end, "why": "past_limit"}
        ]
        assert attempt() == (end, True)
    assert attempt("2") == (None, False)


def test_while_polls_show_it_a_job_may_run_past_its_limit() -> None:
    tell(job("1", START, None, limit_seconds=HOUR))
    polls({("1", START)}, *every(600, START + 600, START + 4 * HOUR))
    assert look(START + 4 * HOUR) == 0
    # Then the polls fail: it is charged to when it was last seen, not to its limit, which lies before.
    assert look(START + 6 * HOUR) == 1
    assert attempt() == (START + 4 * HOUR - 600, True)


def test_a_time_in_the_future_or_another_cluster_is_left_alone() -> None:
    tell(job("1", START, None))
    note_poll("pod-b", set(), before=None, now=when(START + 60))
    note_poll("pod-a", set(), before=None, now=when(START - 60))
    assert not Seen.objects.exists()


def test_a_pull_of_the_captured_slurm_finds_its_lost_job(tmp_path: Path) -> None:
    """The three running jobs of the capture; then slurmctld forgets one of them and never tells its end."""
    captured = 1_796_036_470
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with serving() as fake:
        Source.objects.create(
            name="a", kind="slurmrestd", cluster="pod-a", url=fake.url, token_file=str(token), accounting=False
        )
        from events.actions import declare_cluster

        declare_cluster("pod-a", actor="test")
        _pulled(captured)
        running = set(Seen.objects.values_list("job_id", flat=True))
        fake.jobs = [one for one in fake.jobs if one["job_id"] != 107]
        for time in (10, 20, 920):
            _pulled(captured + time)
        assert find_runaways(when(captured + 921)) == 1
    projector.catch_up()
    assert "107" in running
    assert list(Attempt.objects.filter(lost=True).values_list("job_id", "end")) == [("107", when(captured))]
    assert timedelta(0) < when(captured) - Attempt.objects.get(lost=True).start < timedelta(minutes=10)


def _pulled(epoch: int) -> None:
    assert pull("a", clock=lambda: when(epoch)).troubles == []
    drain()
    projector.catch_up()
