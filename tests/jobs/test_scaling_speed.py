"""Sums of how fast attempts went: resizes, clocks, nonsense, any order. By hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from events import projector
from events.append import append
from jobs.models import Run, Speed
from jobs.queries_scaling import RunSpeed, of_run
from jobs.scaling import against
from tests.hand import gpus, job, place, say
from tests.jobs.test_training import BEGIN, MINUTE, heard

pytestmark = pytest.mark.django_db
MODEL = {"flop_per_token": 10**9, "peak_gflops": 1000, "convention": "6N"}


def told(first: float, last: float, tokens: int | None, **more: Any) -> Any:
    return heard(last, "run.progressed", day="2026-03-01", step=1, steps=10, tokens=tokens,
                 period_ms=round((last - first) * MINUTE), **more)  # fmt: skip


def speed() -> RunSpeed:
    found = of_run(Run.objects.get())
    assert found is not None
    return found


def resized() -> None:
    """16 GPUs for half an hour, then 8."""
    say(place(), job("1", BEGIN, BEGIN + 1800, state="RESIZING", record=1, **gpus(16)),
        job("1", BEGIN, BEGIN + 3600, submit=BEGIN + 1800, record=2, **gpus(8)))  # fmt: skip


WORDS = (told(0, 20, 19_200_000, **MODEL), told(20, 40, 14_400_000, **MODEL), told(40, 60, 9_120_000, **MODEL))
"""16,000 tokens/s on 16, 12,000 while resized (10 min on each), 7,600 on 8."""


def test_a_resized_run_has_a_line_per_size_and_what_was_told_across_it_in_none() -> None:
    """MFU: 16,000 x 1e9 / (16 x 1e12) = 1; 7,600 / 8,000 = 0.95; of all 42.72e6 x 1e9 / (16 x 1800 + 8 x 1800) / 1e12.

    Scaling of 16 against 8: 1,000 / 950.
    """
    resized()
    append(list(WORDS))
    projector.catch_up()
    small, large, across = speed().lines
    assert (small.gpus, large.gpus, across.gpus) == (8, 16, 0)
    assert (small.sums.mfu, large.sums.mfu, small.efficiency) == (0.95, 1.0, 1.0)
    assert large.efficiency == pytest.approx(1000 / 950)
    assert (across.efficiency, across.sums.tokens_per_second) == (None, 12_000)
    assert across.sums.tokens_per_gpu_second == 14_400_000 / (600 * 16 + 600 * 8)
    assert speed().mfu == {"6N": pytest.approx(42_720_000e9 / ((16 * 1800 + 8 * 1800) * 1e12))}


@pytest.mark.parametrize("seed", range(3))
def test_any_order_and_the_job_late_gives_the_same_sums(seed: int) -> None:
    words = list(WORDS)
    random.Random(seed).shuffle(words)
    append(words[:seed])
    projector.catch_up()
    resized()
    for word in [*words[seed:], *words]:
        append([word])
        projector.catch_up()
    rows = Speed.objects.order_by("gpus").values_list("gpus", "tokens", "tokens_gpu_ms", "flop", "capacity")
    assert list(rows) == [
        (0, 14_400_000, 14_400_000, 14_400_000 * 10**9, 1000 * 14_400_000),
        (8, 9_120_000, 9_600_000, 9_120_000 * 10**9, 1000 * 9_600_000),
        (16, 19_200_000, 19_200_000, 19_200_000 * 10**9, 1000 * 19_200_000)]  # fmt: skip


def test_a_report_that_began_before_the_attempt_by_its_clock_counts_whole() -> None:
    """20 s too early: 600 s on 16 GPUs are 9,600 GPU-s all the same."""
    say(place(), job("1", BEGIN, BEGIN + 3600, **gpus(16)))
    append([told(-1 / 3, 10 - 1 / 3, 9_600_000)])
    projector.catch_up()
    assert speed().whole.tokens_per_gpu_second == 1000


def test_what_an_mfu_lacks_is_no_data_and_nonsense_does_not_stop_the_books() -> None:
    say(place(), job("1", BEGIN, BEGIN + 3600, **gpus(16)))
    append([told(0, 10, None, **MODEL), told(10, 20, 100, flop_per_token=1, convention="6N"),
            told(20, 30, 100, peak_gflops=0, flop_per_token=1, convention="6N")])  # fmt: skip
    projector.catch_up()
    assert (speed().mfu, speed().whole.communication) == ({}, None)
    most = {"flop_per_token": 2**53, "peak_gflops": 2**53, "communication_ppm": 10**6}
    append([heard(31 + n / 100, "run.progressed", day="2026-03-01", step=1, steps=2**31 - 1, tokens=2**53,
                  period_ms=400 * 86_400_000, **most) for n in range(50)])  # fmt: skip
    projector.catch_up()
    assert Speed.objects.get().flop == 50 * 2**106
    assert speed().whole.communication == 1


@pytest.mark.parametrize(
    ("measure", "value", "gpus_", "said"),
    [("mfu", 0.4, 8, "met"), ("mfu", 0.3999, 8, "missed"), ("mfu", 0.61, 4096, "above"), ("mfu", None, 8, ""),
     ("scaling_efficiency", 0.9, 64, "missed"), ("scaling_efficiency", 0.9, 65, ""),
     ("scaling_efficiency", 0.901, 512, "met"), ("communication", 0.05, 32, "missed"),
     ("communication", 0.0499, 32, "met"), ("communication", 0.2, 33, "")],
)  # fmt: skip
def test_against_the_design(measure: str, value: float | None, gpus_: int, said: str) -> None:
    """Above 90 % to 64 GPUs, 40 to 60 %, below 5 % to 32 GPUs."""
    assert against(measure, value, gpus_) == said
