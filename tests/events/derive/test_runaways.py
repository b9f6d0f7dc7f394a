"""Attempts that nobody ended: charged until they were last seen, for as long as they are taken for lost."""

from __future__ import annotations

from itertools import permutations

import pytest

from events.derive.attempts import Sighting, fold
from events.types.jobs import JobFound, JobLost
from tests.events.derive.sightings import attempt, corrected, gpu_seconds, only, spans, told

RUNS = told("RUNNING", 1, record=1, submit=100, start=110, gpus=4)


def lost(at: int, last_seen: int, position: int = 5, start: int = 110) -> Sighting:
    data = JobLost("pod-a", "7", start, last_seen, "unseen")
    return Sighting(position, "hallbook", f"lost{position}", "job.lost", at * 1_000_000, data)


def found(at: int, position: int = 6, start: int = 110) -> Sighting:
    data = JobFound("pod-a", "7", start)
    return Sighting(position, "hallbook", f"found{position}", "job.found", at * 1_000_000, data)


def test_it_is_charged_until_it_was_last_seen_and_keeps_its_state() -> None:
    job = only(RUNS, lost(1_000, 300))
    (one,) = job.attempts
    assert (one.lost, one.state, spans(one), gpu_seconds(one)) == (True, "RUNNING", [(110, 300, 4)], 4 * 190)
    assert (one.last_position, job.last_position, job.state) == (5, 5, "RUNNING")


def test_it_cannot_end_before_it_began() -> None:
    assert spans(attempt(RUNS, lost(1_000, 50))) == [(110, 110, 4)]


def test_its_suspended_seconds_fit_into_it() -> None:
    suspended = told("SUSPENDED", 1, record=1, start=110, suspended_seconds=500)
    assert attempt(suspended, lost(1_000, 200)).suspended_seconds == 90


def test_found_again_it_runs() -> None:
    one = attempt(RUNS, lost(1_000, 300), found(1_100))
    assert (one.lost, one.end, one.last_position) == (False, None, 6)
    assert attempt(RUNS, lost(1_000, 300), found(1_100), lost(2_000, 1_500, 7)).end == 1_500


@pytest.mark.parametrize("at", [900, 1_000])
def test_found_must_be_later(at: int) -> None:
    assert attempt(RUNS, lost(1_000, 300), found(at)).end == 300


@pytest.mark.parametrize("source", ["sacct:pod-a", "jobcomp:pod-a", "slurmctld:pod-a", "epilogslurmctld:pod-a"])
def test_an_end_told_by_any_source_settles_it(source: str) -> None:
    one = attempt(RUNS, lost(1_000, 300), told("COMPLETED", 8, source, submit=100, start=110, end=450))
    assert (one.lost, one.end, one.state) == (False, 450, "COMPLETED")


def test_the_next_run_of_the_id_settles_it_too() -> None:
    again = told("RUNNING", 8, record=2, submit=400, start=420)
    first, second = only(RUNS, lost(1_000, 300), again).attempts
    assert (first.lost, first.end, second.lost, second.end) == (False, 400, False, None)


def test_it_names_the_attempt_by_its_start() -> None:
    first = told("REQUEUED", 1, record=1, submit=100, start=110, end=200, gpus=4)
    second = told("RUNNING", 2, record=2, submit=200, start=220, gpus=4)
    assert [one.lost for one in only(first, second, lost(1_000, 300)).attempts] == [False, False]
    assert [one.lost for one in only(first, second, lost(1_000, 300, start=221)).attempts] == [False, True]


def test_a_resized_run_is_cut_in_its_last_part() -> None:
    before = told("RESIZING", 1, record=1, submit=100, start=110, end=200, gpus=4)
    after = told("RUNNING", 2, record=2, submit=200, start=110, gpus=2)
    assert spans(attempt(before, after, lost(1_000, 300))) == [(110, 200, 4), (200, 300, 2)]


def test_a_person_may_say_when_it_ended() -> None:
    one = attempt(RUNS, lost(1_000, 300), corrected("end", "280"))
    assert (one.end, one.lost, one.corrected) == (280, False, True)
    assert attempt(RUNS, lost(1_000, 300), corrected("account", "x")).lost


def test_any_order_and_repetition() -> None:
    said = [RUNS, lost(1_000, 300), found(1_100), lost(2_000, 1_500, 7)]
    assert {fold([*order, order[0]]) for order in permutations(said)} == {fold(said)}


def test_of_a_job_that_nobody_reported_nothing_is_made() -> None:
    assert fold([lost(1_000, 300)]) == fold([lost(1_000, 300), found(1_100)]) == ()
    assert only(told("PENDING", 1, submit=100), lost(1_000, 300)).attempts == ()
