"""Ends that are no failures in the advice on how often to save: weighed where they lost work. Worked by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from events import projector
from events.append import append
from jobs.models import Run
from jobs.queries_goodput import of_run
from tests.hand import gpus, job, tell
from tests.jobs.test_training import BEGIN, advice_of, books, heard, ms, save, steps

pytestmark = pytest.mark.django_db
SAVES = [save(120 * n, 120 * n + 3) for n in range(1, 5)]
MTTF = 8_676_000
"""2 nodes for 10 h are 5/6 node-days without a failure: one in 200 5/6 node-days, or in 100.41667 days of the run."""


def advised() -> Any:
    found = of_run(Run.objects.get(), datetime.now(UTC))
    assert found is not None
    return found.advice


def second(state: str = "COMPLETED", step: int | None = None, minute: float = 0) -> None:
    """Job 2 of the run on 2 nodes for an hour; where a step is given it takes up the state of that minute."""
    tell(job("2", BEGIN + 40_000, BEGIN + 43_600, state=state, run="big", nodes=2, **gpus(16)))
    if step is not None:
        append([heard(668, "checkpoint.restored", "2", step=step, state_ms=ms(minute)), steps(671, 700, "2")])
        projector.catch_up()


def cancelled() -> None:
    """Run `big`: job 1 steps for 10 h and is cancelled, job 2 takes up the state of its 8th hour."""
    books(heard(0, "gang.ready", ranks=16), steps(0, 600), *SAVES, state="CANCELLED", minutes=600)
    second(step=4800, minute=480)


@pytest.mark.parametrize("state", ["PREEMPTED", "TIMEOUT"])
def test_an_end_that_lost_work_is_no_failure_but_is_weighed_beside_them(state: str) -> None:
    """One in the 36,000 s that it ran. Both: 1 / (1/8,676,000 + 1/36,000) = 35,851.24 s; Young: sqrt(60 x that)."""
    advice = advice_of(SAVES, state=state)
    assert (advice.failures, advice.others, advice.ran, advice.mtto) == (0, {state: 1}, 36_000, 36_000)
    assert advice.mttf == pytest.approx(MTTF, rel=1e-9)
    assert advice.mtti == pytest.approx(35_851.2397, abs=1e-3)
    assert advice.young == pytest.approx(math.sqrt(60 * 35_851.2397), abs=1e-3)
    best = next(loss for loss in advice.losses if loss.word == "best")
    assert best.failing == pytest.approx((best.interval / 2 + advice.restart) / 35_851.2397, rel=1e-6)


def test_a_cancellation_after_which_an_older_state_was_taken_up_is_weighed() -> None:
    """Two attempts ran 39,600 s on 2 nodes: 11/12 node-day without a failure, so one in 86,400 x 200 11/12 / 2 =
    8,679,600 s; with one end in 39,600 s: 1 / (1/8,679,600 + 1/39,600) = 39,420.1486 s."""
    books(heard(0, "gang.ready", ranks=16), steps(0, 600), *SAVES, state="CANCELLED", minutes=600)
    assert advised().others == {}, "as long as nobody took up an older state"
    second(step=4800, minute=480)
    advice = advised()
    assert (advice.failures, advice.others, advice.mtto) == (0, {"CANCELLED": 1}, 39_600)
    assert advice.mttf == pytest.approx(8_679_600, rel=1e-9)
    assert advice.mtti == pytest.approx(39_420.1486, abs=1e-3)


def test_a_cancellation_before_which_all_was_saved_does_not_count() -> None:
    last = [save(599, 599.9), heard(599.9, "run.interrupted", kind="signal", last_ms=ms(599))]
    books(heard(0, "gang.ready", ranks=16), steps(0, 599), *SAVES, *last, state="CANCELLED", minutes=600)
    second(step=5990, minute=599)
    assert (advised().others, advised().failures) == ({}, 0)


def test_without_other_ends_the_interval_is_weighed_with_failures_alone() -> None:
    advice = advice_of(SAVES)
    assert (advice.failures, advice.others, advice.mtto) == (0, {}, None)
    assert advice.mtti == pytest.approx(MTTF, rel=1e-9) == advice.mttf


def test_a_preemption_before_which_all_was_saved_loses_nothing_and_does_not_count() -> None:
    """Told to go at 600 it saves what it did until 599, and the run goes on from there."""
    last = [save(599, 599.9), heard(599.9, "run.interrupted", kind="signal", last_ms=ms(599))]
    books(heard(0, "gang.ready", ranks=16), steps(0, 599), *SAVES, *last, state="PREEMPTED", minutes=600, record=1)
    assert advised().others == {"PREEMPTED": 1}, "as long as nobody took it up"
    tell(job("1", BEGIN + 40_000, BEGIN + 50_000, submit=BEGIN + 36_000, run="big", record=2, nodes=2, **gpus(16)))
    append([heard(670, "checkpoint.restored", step=5990, state_ms=ms(599)), steps(671, 700)])
    projector.catch_up()
    assert (advised().others, advised().failures) == ({}, 0)


@pytest.mark.parametrize(("state", "number"), [("PREEMPTED", 1), ("TIMEOUT", 1), ("CANCELLED", 0), ("COMPLETED", 0)])
def test_of_a_silent_attempt_its_state_decides(state: str, number: int) -> None:
    books(heard(0, "gang.ready", ranks=16), steps(0, 600), *SAVES, state="COMPLETED", minutes=600)
    second(state)
    assert sum(advised().others.values()) == number
    assert advised().mtto == (39_600 if number else None)
