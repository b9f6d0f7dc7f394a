"""A run is the jobs of one account that carry one name; a job that nobody named is a run of its own."""

from __future__ import annotations

import pytest

from jobs.models import Attempt, Job, Run, Segment
from tests.hand import HOUR, at, gpus, instant, job, place, tell

pytestmark = pytest.mark.django_db
T = at("2026-03-10 06:00")


def test_a_job_without_a_name_is_a_run_of_its_own() -> None:
    tell(place(), job("1", T, T + 2 * HOUR, nodes=2, **gpus(16)))
    run, ran = Run.objects.get(), Job.objects.get()
    assert (run.id, run.name, run.named) == (ran.id, "", False)
    assert (run.jobs, run.attempts, run.gpus, run.gpu_seconds, run.node_seconds) == (1, 1, 16, 115_200, 14_400)
    assert (run.start, run.end) == (instant("2026-03-10 06:00"), instant("2026-03-10 08:00"))
    assert Segment.objects.get().run == Attempt.objects.get().run == run.id
    assert Attempt.objects.get().gpu_seconds == 115_200


def test_jobs_of_one_account_and_name_are_one_run() -> None:
    tell(
        place(),
        job("1", T, T + HOUR, run="big", state="FAILED", **gpus(8)),
        job("2", T + 2 * HOUR, T + 4 * HOUR, run="big", **gpus(16)),
        job("3", T, T + HOUR, run="big", account="other", **gpus(1)),
        job("4", T, T + HOUR, **gpus(1)),
    )
    runs = {(run.account, run.name): run for run in Run.objects.all()}
    assert set(runs) == {("a", "big"), ("other", "big"), ("a", "")}
    big = runs["a", "big"]
    # 8 GPUs for an hour and 16 for two: 8 + 32 GPU-hours.
    assert (big.jobs, big.attempts, big.gpus, big.gpu_seconds) == (2, 2, 16, 40 * HOUR)
    assert (big.state, big.start, big.end) == ("COMPLETED", instant("2026-03-10 06:00"), instant("2026-03-10 10:00"))
    assert {job.run for job in Job.objects.filter(job_id__in=("1", "2"))} == {big.id}


def test_a_run_is_open_while_a_job_of_it_runs_or_waits() -> None:
    tell(place(), job("1", T, T + HOUR, run="big", **gpus(8)), job("2", None, None, submit=T, run="big"))
    assert (Run.objects.get().state, Run.objects.get().end) == ("PENDING", None)
    tell(job("2", T + HOUR, None, run="big", submit=T, **gpus(8)))
    run = Run.objects.get()
    assert (run.state, run.end, run.attempts, run.gpu_seconds) == ("RUNNING", None, 2, 8 * HOUR)
    tell(job("2", T + HOUR, T + 2 * HOUR, run="big", submit=T, state="TIMEOUT", **gpus(8)))
    run = Run.objects.get()
    assert (run.state, run.end, run.gpu_seconds) == ("TIMEOUT", instant("2026-03-10 08:00"), 16 * HOUR)


def test_a_job_that_is_named_later_leaves_the_run_it_was() -> None:
    tell(place(), job("1", T, None, **gpus(8)))
    assert Run.objects.get().named is False
    tell(job("1", T, T + HOUR, run="first", **gpus(8)))
    assert [run.name for run in Run.objects.all()] == ["first"]
    tell(job("1", T, T + HOUR, run="second", reason="said again", **gpus(8)))
    assert [run.name for run in Run.objects.all()] == ["second"]


def test_a_job_cancelled_before_its_start_is_over() -> None:
    tell(place(), job("1", None, T + 60, submit=T, state="CANCELLED", run="big"))
    run = Run.objects.get()
    assert (run.state, run.start, run.end, run.attempts) == ("CANCELLED", None, instant("2026-03-10 06:01"), 0)
