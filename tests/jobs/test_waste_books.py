"""Waste of made-up books is what a slow reckoning finds that looks at every second of every attempt by itself.

The reckoning knows nothing of parts, sums or SQL: it asks what was going on at each second, and writes one word.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from events import projector
from events.append import Fact, append, fact
from events.types import REGISTRY
from events.types.jobs import JobReported
from jobs.models import Attempt
from jobs.report_waste import judged
from jobs.waste import CAUSES
from tests.hand import ask, at, column, gpus, job, mapped, place, project, say, summed
from tests.invariants.worlds import FEW, forgotten

pytestmark = pytest.mark.django_db
BEGIN = at("2026-03-28 18:00")
"""The evening before clocks change in Berlin."""
ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE",
        "REQUEUED")  # fmt: skip
LOSES = {"FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE", "REQUEUED", "TIMEOUT"}
WHOLE = {"FAILED": "failed", "NODE_FAIL": "failed", "OUT_OF_MEMORY": "failed", "DEADLINE": "failed",
         "CANCELLED": "cancelled", "TIMEOUT": "timed_out"}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """Seconds since its start at which a program's first rank came, all were there, steps began and ended, a state
    was saved (None: never) with steps standing still for so long, and its end was noticed."""

    first: int
    ready: int
    begun: int
    last: int
    saved: int | None
    blocking: int
    noticed: int


@dataclass(frozen=True)
class One:
    """An attempt as it was: sizes are (from second, GPUs)."""

    job: str
    number: int
    start: int
    length: int
    sizes: tuple[tuple[int, int], ...]
    state: str
    run: str
    account: str
    user: str
    told: Told | None
    shape: dict[str, Any]

    @property
    def end(self) -> int:
        return self.start + self.length

    def gpus_at(self, second: int) -> int:
        return max((since, held) for since, held in self.sizes if since <= second)[1]

    @property
    def allocated(self) -> int:
        return sum(self.gpus_at(second) for second in range(self.length))


# --- the slow reckoning ----------------------------------------------------------------------------------------------


def reckoned(world: list[One]) -> list[Counter[str]]:
    """GPU-seconds by cause of each attempt."""
    return [Counter(_judged(one, _before(one, world))) for one in world]


def _before(one: One, world: list[One]) -> list[One]:
    """The attempts of its run that had ended when it began and were the last of those to start."""
    over = [other for other in world if other.run == one.run and other.start < one.start and other.end <= one.start]
    latest = max((other.start for other in over), default=None)
    return [other for other in over if other.start == latest]


def _judged(one: One, before: list[One]) -> dict[str, int]:
    found: Counter[str] = Counter()
    if one.told is None:
        if one.allocated > 3600 and one.state in WHOLE:
            found[WHOLE[one.state]] = one.allocated
        return found
    after_fault = any(other.state in LOSES - {"TIMEOUT"} for other in before)
    for second in range(one.length):
        cause = _cause(one, one.told, second, after_fault=after_fault)
        if cause:
            found[cause] += one.gpus_at(second)
    return found


def _cause(one: One, told: Told, second: int, *, after_fault: bool) -> str:
    """What the GPUs were held in vain for at a second; '' where they were not."""
    if told.first <= second < told.ready:
        return "partial_gang"
    if second < told.begun:
        return "restart" if after_fault else ""
    if second < told.last:
        kept = told.begun if told.saved is None else told.saved + told.blocking
        return "rolled_back" if one.state in LOSES and second >= kept else ""
    return "restart" if one.state in LOSES - {"TIMEOUT"} else ""


# --- made-up books ---------------------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn, length: int) -> Told:
    """What a program did in an attempt of at least 40 s: eight moments in order, some of them the same."""
    first, ready, begun, last, noticed = sorted(draw(st.integers(0, length)) for _ in range(5))
    ready, begun = max(ready, first), max(begun, ready)
    last = max(last, begun + 2) if begun + 2 <= length else length
    begun = min(begun, last - 2)
    ready, first = min(ready, begun), min(first, begun)
    saved = draw(st.one_of(st.none(), st.integers(begun, last - 1)))
    blocking = draw(st.integers(0, last - saved)) if saved is not None else 0
    return Told(first, ready, begun, last, saved, blocking, max(noticed, last))


@st.composite
def attempts(draw: st.DrawFn, number: int, start: int, job_id: str, run: str, shape: dict[str, Any]) -> One:
    """One attempt, in one size or two, told of or not."""
    length = draw(st.one_of(st.integers(40, 300), st.integers(300, 4000)))
    sizes = [(0, draw(st.integers(0, 8)))]
    if draw(st.integers(0, 3)) == 0:
        sizes.append((draw(st.integers(1, length - 1)), draw(st.integers(0, 8))))
    told = draw(st.one_of(st.none(), programs(length)))
    state = draw(st.sampled_from(ENDS))
    return One(job_id, number, start, length, tuple(sizes), state, run, draw(st.sampled_from("ab")),
               draw(st.sampled_from("uv")), told, shape)  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> list[One]:
    """Jobs with up to two attempts each (the first requeued), some tasks of an array, some parts of a het job."""
    world: list[One] = []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        job_id = str(100 + number)
        shape: dict[str, Any] = draw(st.sampled_from([
            {}, {"array_job_id": "900", "array_task": job_id}, {"het_job_id": job_id, "het_offset": 0},
        ]))  # fmt: skip
        run = draw(st.sampled_from([job_id, "big", "big"]))
        start = BEGIN + draw(st.integers(0, 40)) * 600
        one = draw(attempts(1, start, job_id, run, shape))
        if one.state == "REQUEUED":
            again = draw(attempts(2, one.end + draw(st.integers(40, 900)), job_id, run, shape))
            world.append(_changed(one, account=again.account, user=again.user))
            one = _changed(again, state="FAILED") if again.state == "REQUEUED" else again
        world.append(one)
    return _of_one_account(world)


def _of_one_account(world: list[One]) -> list[One]:
    """A named run is of one account: of two accounts they are two runs."""
    return [_changed(one, run=f"{one.run} of {one.account}") if one.run == "big" else one for one in world]


def _changed(one: One, **fields: Any) -> One:
    return replace(one, **fields)


def records(one: One) -> list[JobReported]:
    """What the accounting says: a record for each size, all but the last as RESIZING."""
    named = {"run": "big"} if one.run.startswith("big") else {}
    edges = [*(since for since, _ in one.sizes[1:]), one.length]
    said = []
    for part, ((_, held), until) in enumerate(zip(one.sizes, edges, strict=True)):
        last = part == len(one.sizes) - 1
        said.append(job(
            one.job, one.start, one.start + until, state=one.state if last else "RESIZING",
            submit=one.start + (one.sizes[part][0] if part else 0), record=int(one.job) * 10 + one.number * 3 + part,
            account=one.account, user=one.user, **gpus(held), **named, **one.shape,
        ))  # fmt: skip
    return said


def words(one: One) -> list[Fact]:
    """What its program says."""
    told = one.told
    if told is None:
        return []
    said = [
        _word(one, "gang.ready", told.ready, ranks=8, first_ms=(one.start + told.first) * 1000),
        _word(one, "run.progressed", told.last, day="2026-03-28", step=told.last, steps=1, data_ms=0,
              period_ms=(told.last - told.begun) * 1000),
        _word(one, "run.interrupted", told.noticed, kind="error", last_ms=(one.start + told.last) * 1000),
    ]  # fmt: skip
    if told.saved is not None:
        said.append(_word(one, "checkpoint.committed", told.last, step=1, state_ms=(one.start + told.saved) * 1000,
                          blocking_ms=told.blocking * 1000, total_ms=0, bytes=1))  # fmt: skip
    return said


def _word(one: One, type_: str, second: int, **data: Any) -> Fact:
    key, us = f"{type_}/{one.job}/{one.number}", (one.start + second) * 1_000_000
    said = REGISTRY.get(type_).struct(cluster="pod-a", job_id=one.job, **data)
    return fact(said, type_=type_, source="training:pod-a", source_key=key, occurred_us=us, actor="test")


def tell(world: list[One]) -> None:
    say(place("Europe/Berlin"), project("p"), project("q"), mapped("a", "p"), mapped("b", "q"))
    say(*(record for one in world for record in records(one)))
    append([word for one in world for word in words(one)])
    projector.catch_up()


# --- they agree ------------------------------------------------------------------------------------------------------


def waste(by: str = "", **options: Any) -> Any:
    return ask("waste", "2026-03-01", "2026-05-01", by, **options)


@FEW
@given(worlds())
def test_each_second_of_any_books_is_judged_as_by_hand(world: list[One]) -> None:
    with forgotten():
        tell(world)
        assert Attempt.objects.count() == len(world)
        by_hand = reckoned(world)
        expected = Counter[str]()
        for counts in by_hand:
            expected += counts
        answer = waste("cause")
        assert column(answer, "cause", "gpu_seconds") == dict(expected)
        assert answer.total["gpu_seconds"] == sum(expected.values())
        assert answer.total["allocated_gpu_seconds"] == sum(one.allocated for one in world)
        assert answer.total["attempts"] == sum(bool(counts.total()) for counts in by_hand)
        unknown = [one for one in world if one.told is None and one.state in ("PREEMPTED", "REQUEUED")]
        gaps = [gap for gap in answer.gaps if gap["cause"] == "not known"]
        assert [(gap["attempts"], gap["gpu_seconds"]) for gap in gaps] == (
            [(len(unknown), sum(one.allocated for one in unknown))] if unknown else [])  # fmt: skip
        _by_key(world, by_hand)
        _sums(answer.total)
        _never_more_than_allocated()


def _by_key(world: list[One], by_hand: list[Counter[str]]) -> None:
    """By account and user, and by the day and project of all: the reckoning of the attempts of each."""
    wasted: dict[tuple[str, str], int] = {}
    for one, counts in zip(world, by_hand, strict=True):
        wasted[one.account, one.user] = wasted.get((one.account, one.user), 0) + counts.total()
    rows = waste("account,user").rows
    assert {(row["account"], row["user"]): row["gpu_seconds"] for row in rows} == wasted
    assert [row["gpu_seconds"] for row in rows] == sorted((row["gpu_seconds"] for row in rows), reverse=True)


def _sums(total: dict[str, Any]) -> None:
    """Sums over causes, days, months, runs and their crossings are the total."""
    additive = ("gpu_seconds", "allocated_gpu_seconds", "attempts", "attempts_ended")
    for by in ("hour", "day", "week", "month", "project", "run", "day,project", "cluster,partition", "month,user"):
        assert summed(waste(by).rows, additive) == {name: total[name] for name in additive}, by
    for by in ("cause", "cause,day", "project,cause", "run,cause", "cause,month,user"):
        assert summed(waste(by).rows, ["gpu_seconds"])["gpu_seconds"] == total["gpu_seconds"], by


def _never_more_than_allocated() -> None:
    """Of each attempt by itself."""
    wasted = " + ".join(f"coalesce({cause}, 0)" for cause in CAUSES)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({judged('true')}) x WHERE {wasted} > allocated OR {wasted} < 0")
        assert cursor.fetchone() == (0,)
