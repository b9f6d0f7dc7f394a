"""Closed runs: any order, duplication and split of jobs, closings and what takes them back gives the same runs.

What is said of one name and second keeps its order: there the later word holds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import projector
from events.append import Fact, append
from events.rebuild import known_at
from events.types.runs import RunClosed, RunReopened
from jobs.models import Run as RunRow
from tests.hand import facts, place, read_models
from tests.invariants.test_any_order import POSITION, project_at_once
from tests.invariants.worlds import FEW, Run, forgotten, moments, runs

pytestmark = pytest.mark.django_db


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Run], set[tuple[str, str, int]], list[Fact]]:
    """Jobs, the closings that stand, and everything that is said in some order. Closings are often just at a job's
    submission: a second before, at it, a second after. Each is said, taken back and said again some times."""
    ran = [replace(run, called=draw(st.sampled_from(["big", "big", "small"])), account=draw(st.sampled_from("aab")))
           for run in draw(runs(6))]  # fmt: skip
    submitted = [run.start - 2 * run.waited for run in ran]
    instant = st.one_of(moments(), st.builds(int.__add__, st.sampled_from(submitted), st.integers(-1, 1)))
    name = st.sampled_from([(run.account, str(run.called)) for run in ran])
    words = st.lists(st.sampled_from([RunClosed, RunReopened]), min_size=1, max_size=4)
    said = draw(st.dictionaries(st.tuples(name, instant), words, min_size=1, max_size=4))
    told = [[one for turn, kind in enumerate(kinds)
             for one in facts([kind(account=account, run=called, closed_s=at)], key=f"{turn}/")]
            for ((account, called), at), kinds in said.items()]  # fmt: skip
    stands = {(*key, at) for (key, at), kinds in said.items() if kinds[-1] is RunClosed}
    return ran, stands, mixed(draw, [*([one] for one in facts([place(), *(run.record for run in ran)])), *told])


def mixed(draw: st.DrawFn, told: list[list[Fact]]) -> list[Fact]:
    """All in some order that keeps the order of each list."""
    turns = draw(st.permutations([at for at, some in enumerate(told) for _ in some]))
    rest = [iter(some) for some in told]
    return [next(rest[at]) for at in turns]


def words_first(fact: Fact) -> bytes:
    """Sorts jobs by their keys after what is said of runs, which stays as it came."""
    return b"" if fact.type.startswith("run.") else fact.key


def expected(ran: list[Run], closed: set[tuple[str, str, int]]) -> Counter[tuple[str, str, int]]:
    """Jobs per account, name and number of the run: one more for each closing before the submission."""
    return Counter(
        (run.account, str(run.called), 1 + sum((a, c) == (run.account, run.called) and at < run.start - 2 * run.waited
                                               for a, c, at in closed))
        for run in ran
    )  # fmt: skip


@FEW
@given(worlds(), st.lists(st.sampled_from([1, 2, 5, 1000]), min_size=1, max_size=4), st.data())
def test_runs_do_not_depend_on_how_closings_arrive(
    world: tuple[list[Run], set[tuple[str, str, int]], list[Fact]], sizes: list[int], data: st.DataObject
) -> None:
    ran, closed, said = world
    again = data.draw(st.lists(st.sampled_from(said), max_size=3))
    with forgotten():
        cut = data.draw(st.integers(0, len(said)))
        for part, size in zip((said[:cut], said[cut:] + again), sizes * 2, strict=False):
            append(part)
            projector.catch_up(batch=size)
        found = read_models(POSITION)
        rows = RunRow.objects.filter(named=True)
        assert {(row.account, row.name, row.generation): row.jobs for row in rows} == expected(ran, closed)
        with known_at(projector.position(projector.groups()[-1])):
            assert read_models(POSITION) == found
    assert found == project_at_once(sorted(said, key=words_first))
