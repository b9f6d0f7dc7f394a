"""How fast the demo's programs went, and what interrupted them: the books against the simulator's own figures."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from config.demo.commissioning import EFFICIENCY
from config.demo.loading import load
from config.demo.truth import Program, Truth
from config.demo.world import World, midnight
from jobs import queries_interruptions, queries_scaling
from jobs.models import Attempt, Goodput, Run, ScalingRecord
from tests.demo.test_books import BEGIN, PLAN
from tests.hand import own_database

PEAK = 989.4e12
"""Operations per second of one GPU, as the programs of the demo tell it."""


@pytest.fixture(scope="module")
def truth(django_db_setup: None, django_db_blocker: Any) -> Iterator[Truth]:
    """A pod in a database of its own, until the middle of the tenth day."""
    with own_database(django_db_blocker), django_db_blocker.unblock():
        world, until = World(PLAN.pod, PLAN.seed, PLAN.begin), midnight(BEGIN + timedelta(days=9)) + 34_567
        yield load(PLAN, world, until, stdout=io.StringIO(), stderr=io.StringIO(), step=lambda _text: None)


def stepped(program: Program) -> list[tuple[int, int]]:
    """(length in ms, communication in millionths) of each stretch of steps that was told."""
    return [(end - start, program.communicated[end]) for start, end, what in program.did if what == "productive"]


def test_each_attempt_went_as_fast_as_it_did(truth: Truth) -> None:
    """Tokens of a step over its time; operations of a token over what the GPUs can do; stretches by their length."""
    ids = {(row.job_id, row.number): row.id for row in Attempt.objects.all()}
    found = queries_scaling.by_attempt(list(ids.values()))
    compared = 0
    for program in truth.programs:
        stretches = stepped(program)
        told = found.get(ids[str(program.attempt.job.id), program.attempt.number])
        assert bool(stretches) == (told is not None)
        if told is None:
            continue
        gpus, seconds = program.attempt.sizes[0].gpus, program.step_ms / 1000
        assert told.tokens_per_second == pytest.approx(program.tokens / seconds, rel=1e-12)
        assert told.tokens_per_gpu_second == pytest.approx(program.tokens / seconds / gpus, rel=1e-12)
        assert told.mfu == pytest.approx(program.tokens * program.flop / seconds / (gpus * PEAK), rel=1e-12)
        assert 0.3 < (told.mfu or 0) < 0.55
        whole = sum(length for length, _ in stretches)
        assert told.communication == pytest.approx(sum(n * ppm for n, ppm in stretches) / whole / 1e6, rel=1e-12)
        compared += 1
    assert compared > 5


def test_interruptions_are_the_ends_with_lost_work_and_cost_what_was_lost(truth: Truth) -> None:
    """Seconds of time within one for each part; the sums are the parts of the run's partition, exactly."""
    programs: dict[str, list[Program]] = defaultdict(list)
    for program in truth.programs:
        programs[program.attempt.job.ask.run].append(program)
    checked = 0
    for name, told in programs.items():
        answer = queries_interruptions.of_run(Run.objects.get(name=name))
        assert answer is not None
        lost = {(str(p.attempt.job.id), p.attempt.number): p.spent() for p in told if p.lost}
        rows = {(row["job_id"], row["number"]): row for row in answer.rows if row["stall_seconds"] is not None}
        assert rows.keys() == lost.keys()
        for key, row in rows.items():
            for part in ("rollback_replay", "detect", "teardown"):
                assert row[f"{part}_seconds"] == pytest.approx(lost[key][part] / 1000, abs=1), (key, part)
            checked += 1
        for part in queries_interruptions.PARTS:
            whole = sum(Goodput.objects.filter(run=Run.objects.get(name=name).id).values_list(part, flat=True))
            assert answer.total[f"{part}_gpu_seconds"] + answer.uncharged[part] == whole
    assert checked >= 2


def test_what_was_measured_at_acceptance(truth: Truth) -> None:
    """Of a pod of 256 GPUs: two models, each size held to the smallest of its model."""
    rows = list(ScalingRecord.objects.all())
    found = queries_scaling.judged(rows)
    small, big = {("gpt-8b", 8 * times) for times in EFFICIENCY}, {("gpt-70b", 32 * times) for times in (1, 2, 4, 8)}
    assert {(row.model, row.gpus) for row in rows} == small | big
    for row in rows:
        base = 8 if row.model == "gpt-8b" else 32
        assert found[row.position].efficiency == pytest.approx(EFFICIENCY[row.gpus // base] / 1000)
    assert truth.until
