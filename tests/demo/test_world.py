"""The simulated world: distributed as the published traces say, the same every time, and true to itself.

The bounds are those of the traces (docs: where the figures of the demo come from), not what the simulator gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from statistics import median

import pytest

from config.demo.hall import GPUS, PROJECTS, Hall
from config.demo.queue import Queue
from config.demo.tell import node_list, rows
from config.demo.truth import Attempt, Truth, days, percentile, project_of
from config.demo.world import World, midnight

BEGIN = date(2026, 9, 1)
DAYS = 90
FIRST = midnight(BEGIN)


@lru_cache(maxsize=1)
def world() -> World:
    return World("pod", 1, BEGIN)


@lru_cache(maxsize=1)
def truth() -> Truth:
    return world().run(midnight(BEGIN + timedelta(days=DAYS)))


def gpu_attempts() -> list[Attempt]:
    return [attempt for attempt in truth().attempts() if attempt.sizes[0].gpus]


def share(of: Callable[[Attempt], bool]) -> float:
    """Share of the GPU time of ended attempts."""
    ended = [attempt for attempt in gpu_attempts() if attempt.end is not None]
    found = sum(attempt.gpu_seconds(FIRST, truth().until) for attempt in ended if of(attempt))
    return found / sum(attempt.gpu_seconds(FIRST, truth().until) for attempt in ended)


def test_volume_is_that_of_a_busy_pod() -> None:
    """1,000 GPU jobs a day for 1,000 GPUs and .55 jobs without: 36,000 in 90 days, and what is tried again."""
    assert 34_000 < len(truth().known()) < 41_000


def test_cancelled_jobs_hold_more_gpu_time_than_failed_ones() -> None:
    cancelled = share(lambda a: a.state == "CANCELLED")
    failed = share(lambda a: a.state in ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"))
    assert cancelled > failed
    assert 0.45 < cancelled < 0.70
    assert 0.20 < share(lambda a: a.state == "COMPLETED") < 0.40


def test_most_gpu_time_is_in_jobs_of_whole_nodes() -> None:
    assert share(lambda a: a.job.ask.gpus >= GPUS) >= 0.6


def test_a_few_nodes_have_many_of_the_faults() -> None:
    faults = Counter(fault.node for fault in truth().faults)
    worst = -(-Hall(32).gpu_nodes * 5 // 100)
    assert sum(count for _, count in faults.most_common(worst)) >= 0.2 * sum(faults.values()) > 0


def test_faults_come_as_often_as_published() -> None:
    """0.3 to 0.8 per 1,000 GPU-days; over 20 halls of a pod, so that chance does not decide."""
    found = 0
    for seed in range(20):
        idle = Queue(Hall(32), seed, FIRST, lambda _job, _now: ())
        idle.run(midnight(BEGIN + timedelta(days=DAYS)))
        found += len(idle.faults)
    assert 0.3 < found / (20 * 256 * DAYS / 1000) < 0.8


def test_half_start_at_once_and_a_tenth_waits_for_hours() -> None:
    waits = sorted(attempt.wait for attempt in gpu_attempts())
    assert percentile(waits, 0.5) < 60
    assert 3600 <= percentile(waits, 0.9) <= 3 * 3600


def test_run_times_have_the_medians_of_the_traces() -> None:
    times = [attempt.end - attempt.start for attempt in gpu_attempts() if attempt.end is not None]
    assert 100 <= median(times) <= 1200


def test_three_quarters_of_the_gpus_are_allocated() -> None:
    used = sum(truth().gpu_seconds(FIRST, truth().until).values())
    assert 0.70 < used / (256 * (truth().until - FIRST)) < 0.80


def test_one_group_uses_its_share_and_one_hardly_any() -> None:
    used = truth().gpu_seconds(FIRST, truth().until, lambda a: project_of(a.account))
    span = 256 * (truth().until - FIRST)
    rates = [used[project.code] / (project.share * span) for project in PROJECTS]
    assert max(rates) > 0.9
    assert min(rates) < 0.1
    assert sum(project.share for project in PROJECTS) == pytest.approx(1)


def test_outcomes_by_number() -> None:
    ended = Counter(attempt.state for attempt in gpu_attempts() if attempt.end is not None)
    total = ended.total()
    assert 0.45 < ended["COMPLETED"] / total < 0.65
    assert 0.10 < ended["CANCELLED"] / total < 0.20
    assert 0.18 < ended["FAILED"] / total < 0.30


def test_all_kinds_of_histories_are_there() -> None:
    states = {attempt.state for attempt in truth().attempts()}
    assert states >= {
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "OUT_OF_MEMORY",
        "NODE_FAIL",
        "PREEMPTED",
        "RUNNING",
    }
    jobs = truth().known()
    assert any(len(attempt.sizes) == 2 for attempt in truth().attempts())
    assert any(attempt.suspended for attempt in truth().attempts())
    assert any(job.state == "CANCELLED" and not job.attempts for job in jobs)
    assert any(job.array for job in jobs)
    assert any(job.het for job in jobs)


def test_named_runs_go_on_over_many_jobs_and_faults() -> None:
    runs: dict[str, list[Attempt]] = {}
    for attempt in truth().attempts():
        if attempt.job.ask.run:
            runs.setdefault(attempt.job.ask.run, []).append(attempt)
    longest = max(runs.values(), key=lambda attempts: attempts[-1].start - attempts[0].start)
    assert longest[-1].start - longest[0].start > 10 * 86_400
    assert len({attempt.job.id for attempt in longest}) >= 3
    assert len(runs) >= 25
    assert any(attempt.state == "NODE_FAIL" for attempts in runs.values() for attempt in attempts)


def test_no_gpu_is_held_twice() -> None:
    """Every GPU's stretches, sorted, do not overlap."""
    held: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for attempt in truth().attempts():
        for start, end, size in attempt.stretches(truth().until):
            for node, mask in zip(size.nodes, size.masks, strict=True):
                for bit in range(mask.bit_length()):
                    if mask >> bit & 1:
                        held.setdefault((node, bit), []).append((start, end))
    assert len(held) == 256
    for spans in held.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_nothing_runs_on_a_node_that_is_out() -> None:
    for fault in truth().faults:
        for attempt in truth().attempts():
            if fault.node in attempt.sizes[0].nodes and attempt.sizes[0].gpus:
                end = truth().until if attempt.end is None else attempt.end
                assert end <= fault.start or attempt.start >= min(fault.end, truth().until)


def test_the_same_three_words_make_the_same_world() -> None:
    until = midnight(BEGIN + timedelta(days=6))
    once, twice = World("pod", 7, BEGIN), World("pod", 7, BEGIN)
    told = list(rows(once.hall, once.run(until).jobs))
    for stop in range(FIRST + 5000, until, 50_000):
        twice.run(stop)
    assert told == list(rows(twice.hall, twice.run(until).jobs))
    assert told != list(rows(once.hall, World("pod", 8, BEGIN).run(until).jobs))


def test_a_longer_world_begins_with_the_shorter() -> None:
    short = midnight(BEGIN + timedelta(days=3))
    ended = {
        (a.job.id, a.number, a.start, a.end, a.state) for a in World("small", 3, BEGIN).run(short).attempts() if a.end
    }
    longer = World("small", 3, BEGIN).run(midnight(BEGIN + timedelta(days=9)))
    assert ended <= {(a.job.id, a.number, a.start, a.end, a.state) for a in longer.attempts()}
    assert len(ended) > 50


def test_days_of_the_site_are_23_and_25_hours_long_when_clocks_change() -> None:
    lengths = {day: end - start for day, start, end in days(midnight(date(2026, 10, 24)), midnight(date(2026, 10, 27)))}
    assert lengths == {"2026-10-24": 86_400, "2026-10-25": 90_000, "2026-10-26": 86_400}
    spring = {day: end - start for day, start, end in days(midnight(date(2026, 3, 29)), midnight(date(2026, 3, 30)))}
    assert spring == {"2026-03-29": 82_800}


def test_node_lists_are_as_slurm_writes_them() -> None:
    assert node_list(["gpu001"]) == "gpu001"
    assert node_list(["gpu001", "gpu002", "gpu003", "gpu004", "gpu007"]) == "gpu[001-004,007]"
