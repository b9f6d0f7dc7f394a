"""Waste of the demo hall is what was in vain there: the simulator's own sums, made without Hallbook's code.

Without a word of its program an attempt is judged whole, so those causes are equal to the second. What programs told
is in milliseconds and booked in whole GPU-seconds, so each cause of each attempt may be off by less than one (`restart`
of three parts by less than three).
"""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.demo.loading import load
from config.demo.truth import Attempt, Program, Truth, project_of
from config.demo.world import World, midnight
from tests.demo.test_books import BEGIN, FIRST, PLAN
from tests.hand import ask, own_database

LOSES = {"NODE_FAIL", "FAILED", "OUT_OF_MEMORY", "PREEMPTED"}
WHOLE = {"FAILED": "failed", "OUT_OF_MEMORY": "failed", "NODE_FAIL": "failed", "CANCELLED": "cancelled",
         "TIMEOUT": "timed_out"}  # fmt: skip
PARTED = ("rolled_back", "partial_gang", "restart")


@pytest.fixture(scope="module")
def truth(django_db_setup: None, django_db_blocker: Any) -> Iterator[Truth]:
    """A pod in a database of its own, until the middle of the tenth day."""
    with own_database(django_db_blocker), django_db_blocker.unblock():
        world, until = World(PLAN.pod, PLAN.seed, PLAN.begin), midnight(BEGIN + timedelta(days=9)) + 34_567
        yield load(PLAN, world, until, stdout=io.StringIO(), stderr=io.StringIO(), step=lambda _text: None)


def waste(truth: Truth, by: str) -> Any:
    first, last = (datetime.fromtimestamp(at, UTC).isoformat() for at in (FIRST, truth.until))
    return ask("waste", first, last, by)


def ended(truth: Truth) -> list[Attempt]:
    return [attempt for attempt in truth.attempts() if attempt.end is not None and attempt.end < truth.until]


def in_vain(truth: Truth) -> list[tuple[Attempt, str, float]]:
    """(attempt, cause, GPU-seconds) of all that was in vain."""
    programs = {id(program.attempt): program for program in truth.programs}
    runs: dict[Any, list[Attempt]] = defaultdict(list)
    for attempt in truth.attempts():
        runs[attempt.job.ask.run or id(attempt.job)].append(attempt)
    found: list[tuple[Attempt, str, float]] = []
    for attempt in ended(truth):
        program, seconds = programs.get(id(attempt)), attempt.gpu_seconds(0, truth.until)
        if program is not None:
            run = runs[attempt.job.ask.run or id(attempt.job)]
            told = _told(program, after_fault=_follows_a_fault(attempt, run, programs))
            found += [(attempt, cause, vain) for cause, vain in told.items()]
        elif seconds > 3600 and attempt.state in WHOLE:
            found.append((attempt, WHOLE[attempt.state], seconds))
    return found


def _follows_a_fault(attempt: Attempt, run: list[Attempt], programs: dict[int, Program]) -> bool:
    before = [one for one in run if one.start < attempt.start and one.end is not None and one.end <= attempt.start]
    if not before:
        return False
    last = max(before, key=lambda one: one.start)
    return _faulty(last, programs.get(id(last)))


def _faulty(attempt: Attempt, program: Program | None) -> bool:
    lost = program.lost if program is not None else attempt.state in LOSES
    return lost and attempt.state != "TIMEOUT"


def _told(program: Program, *, after_fault: bool) -> dict[str, float]:
    spent = program.gpu_seconds()
    ends = spent.get("detect", 0) + spent.get("teardown", 0) if _faulty(program.attempt, program) else 0
    starts = spent.get("init_restore", 0) if after_fault else 0
    return {"rolled_back": spent.get("rollback_replay", 0), "partial_gang": spent.get("partial_gang_wait", 0),
            "restart": ends + starts}  # fmt: skip


def summed(truth: Truth, by: Callable[[Attempt], str]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = defaultdict(float)
    for attempt, cause, seconds in in_vain(truth):
        found[by(attempt), cause] += seconds
    return {key: seconds for key, seconds in found.items() if seconds}


@pytest.mark.parametrize(
    ("name", "by"),
    [("project", lambda a: project_of(a.account)), ("user", lambda a: a.job.ask.user),
     ("partition", lambda a: a.job.ask.partition), ("cluster", lambda _: "pod-a")],
)  # fmt: skip
def test_every_cause_is_what_happened(truth: Truth, name: str, by: Callable[[Attempt], str]) -> None:
    answer = waste(truth, f"{name},cause")
    booked = {(row[name], row["cause"]): row["gpu_seconds"] for row in answer.rows}
    happened = summed(truth, by)
    assert booked.keys() == happened.keys()
    attempts = Counter((by(attempt), cause) for attempt, cause, seconds in in_vain(truth) if seconds)
    for key, seconds in booked.items():
        allowed = {"restart": 3, "failed": 0, "cancelled": 0, "timed_out": 0}.get(key[1], 1) * attempts[key]
        assert abs(seconds - happened[key]) <= allowed, (key, seconds, happened[key])
    causes = {cause for _, cause in booked}
    assert causes == {*PARTED, "failed", "cancelled", "timed_out"}
    assert sum(booked.values()) == answer.total["gpu_seconds"]


def test_allocated_and_what_is_not_known(truth: Truth) -> None:
    programs = {id(program.attempt) for program in truth.programs}
    answer = waste(truth, "project")
    allocated = Counter[str]()
    for attempt in ended(truth):
        allocated[project_of(attempt.account)] += attempt.gpu_seconds(0, truth.until)
    assert {row["project"]: row["allocated_gpu_seconds"] for row in answer.rows} == allocated
    unknown = [a for a in ended(truth) if a.state in ("PREEMPTED", "REQUEUED") and id(a) not in programs]
    (gap,) = [gap for gap in answer.gaps if gap["cause"] == "not known"]
    assert gap["attempts"] == len(unknown)
    assert gap["gpu_seconds"] == sum(attempt.gpu_seconds(0, truth.until) for attempt in unknown)


def test_days_add_up_and_nothing_is_wasted_that_was_not_held(truth: Truth) -> None:
    whole = waste(truth, "project").total
    for by in ("day", "hour", "month", "day,cause", "run,cause", "run"):
        rows = waste(truth, by).rows
        assert sum(row["gpu_seconds"] for row in rows) == whole["gpu_seconds"], by
        assert all(row["gpu_seconds"] <= row["allocated_gpu_seconds"] for row in rows)
