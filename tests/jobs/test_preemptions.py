"""Preemptions in the advice on how often to save: no failures, but weighed. Worked by hand."""

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


def test_a_preemption_is_no_failure_but_is_weighed_beside_them() -> None:
    """One in the 36,000 s that it ran. Both: 1 / (1/8,676,000 + 1/36,000) = 35,851.24 s; Young: sqrt(60 x that)."""
    advice = advice_of(SAVES, state="PREEMPTED")
    assert (advice.failures, advice.preemptions, advice.ran, advice.mttp) == (0, 1, 36_000, 36_000)
    assert advice.mttf == pytest.approx(MTTF, rel=1e-9)
    assert advice.mtti == pytest.approx(35_851.2397, abs=1e-3)
    assert advice.young == pytest.approx(math.sqrt(60 * 35_851.2397), abs=1e-3)
    best = next(loss for loss in advice.losses if loss.word == "best")
    assert best.failing == pytest.approx((best.interval / 2 + advice.restart) / 35_851.2397, rel=1e-6)


def test_without_preemptions_the_interval_is_weighed_with_failures_alone() -> None:
    advice = advice_of(SAVES)
    assert (advice.failures, advice.preemptions, advice.mttp) == (0, 0, None)
    assert advice.mtti == pytest.approx(MTTF, rel=1e-9) == advice.mttf


def test_a_preemption_before_which_all_was_saved_loses_nothing_and_does_not_count() -> None:
    """Told to go at 600 it saves what it did until 599, and the run goes on from there."""
    last = [save(599, 599.9), heard(599.9, "run.interrupted", kind="signal", last_ms=ms(599))]
    books(heard(0, "gang.ready", ranks=16), steps(0, 599), *SAVES, *last, state="PREEMPTED", minutes=600, record=1)
    assert advised().preemptions == 1, "as long as nobody took it up"
    tell(job("1", BEGIN + 40_000, BEGIN + 50_000, submit=BEGIN + 36_000, run="big", record=2, nodes=2, **gpus(16)))
    append([heard(670, "checkpoint.restored", step=5990, state_ms=ms(599)), steps(671, 700)])
    projector.catch_up()
    assert (advised().preemptions, advised().failures) == (0, 0)


def test_a_silent_preempted_attempt_is_taken_to_have_lost_work() -> None:
    books(heard(0, "gang.ready", ranks=16), steps(0, 600), *SAVES, state="COMPLETED", minutes=600)
    tell(job("2", BEGIN + 40_000, BEGIN + 43_600, state="PREEMPTED", run="big", nodes=2, **gpus(16)))
    assert (advised().preemptions, advised().mttp) == (1, 39_600)
