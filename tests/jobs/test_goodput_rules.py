"""The partition of an attempt: worked by hand, and what must hold of every one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.goodput import PARTS, Attempt, Progress, Save, Size, goodput, partition

MINUTE = 60_000


def parts(attempt: Attempt) -> dict[str, int]:
    found = partition(attempt)
    assert found is not None
    assert sum(found.gpu_seconds.values()) == found.allocated
    return {name: seconds for name, seconds in found.gpu_seconds.items() if seconds}


def test_an_attempt_from_the_first_rank_to_the_last_node() -> None:
    """60 min on 8 GPUs. 1 min of start, 2 min for the gang, 4 min of loading; steps from minute 7 to 57, with two
    saves of 30 s and 90 s of waiting for data; it finishes and is taken down for 3 min."""
    found = parts(Attempt(
        sizes=[Size(0, 60 * MINUTE, 8)], ended=True, lost=False,
        first_rank=1 * MINUTE, ready=3 * MINUTE,
        progress=[Progress(7 * MINUTE, 30 * MINUTE, 90_000), Progress(30 * MINUTE, 57 * MINUTE)],
        saves=[Save(20 * MINUTE, 30_000, 21 * MINUTE), Save(40 * MINUTE, 30_000, 41 * MINUTE)],
        last=57 * MINUTE, noticed=57 * MINUTE,
    ))  # fmt: skip
    assert found == {
        "init_restore": 8 * (60 + 240), "partial_gang_wait": 8 * 120, "checkpoint_stall": 8 * 60,
        "data_stall": 8 * 90, "productive": 8 * (50 * 60 - 60 - 90), "teardown": 8 * 180,
    }  # fmt: skip


def test_a_fault_throws_away_what_was_done_since_the_last_save() -> None:
    """Save at 30 min (20 s, whole at 32); another at 45 min that was never committed; the fault at 50 min, noticed at
    52, nodes free at 53: lost are 30:20 to 50:00, whatever it was spent on."""
    attempt = Attempt(
        sizes=[Size(0, 53 * MINUTE, 16)], ended=True, lost=True, ready=2 * MINUTE,
        progress=[Progress(5 * MINUTE, 50 * MINUTE)],
        saves=[Save(30 * MINUTE, 20_000, 32 * MINUTE), Save(45 * MINUTE, 20_000, None)],
        last=50 * MINUTE, noticed=52 * MINUTE,
    )  # fmt: skip
    lost = 20 * 60 - 20
    assert parts(attempt) == {
        "partial_gang_wait": 16 * 120, "init_restore": 16 * 180, "productive": 16 * 25 * 60,
        "checkpoint_stall": 16 * 20, "rollback_replay": 16 * lost, "detect": 16 * 120, "teardown": 16 * 60,
    }  # fmt: skip
    found = partition(attempt)
    assert found is not None
    assert found.rolled_back == lost


def test_a_fault_before_the_first_save_throws_everything_away() -> None:
    attempt = Attempt(sizes=[Size(0, 10 * MINUTE, 1)], ended=True, lost=True, ready=0,
                      progress=[Progress(MINUTE, 9 * MINUTE)])  # fmt: skip
    assert parts(attempt) == {"init_restore": 60, "rollback_replay": 480, "detect": 60}


def test_a_save_that_was_not_whole_at_the_fault_does_not_count() -> None:
    """Begun at 8 min, whole at 12, but the last step ended at 9: the state of the save at 4 min is what is left."""
    attempt = Attempt(sizes=[Size(0, 12 * MINUTE, 1)], ended=True, lost=True, ready=0,
                      progress=[Progress(0, 9 * MINUTE)], saves=[Save(4 * MINUTE, 0, 5 * MINUTE),
                      Save(8 * MINUTE, 0, 12 * MINUTE)], last=9 * MINUTE, noticed=12 * MINUTE)  # fmt: skip
    assert parts(attempt) == {"productive": 240, "rollback_replay": 300, "detect": 180}


def test_waiting_for_data_is_shared_by_the_steps_that_were_lost_later() -> None:
    """Steps from 0 to 10 min with 120 s of waiting; saved at 5, the fault at 10: half of the waiting is lost work."""
    attempt = Attempt(
        sizes=[Size(0, 10 * MINUTE, 2)],
        ended=True,
        lost=True,
        ready=0,
        progress=[Progress(0, 10 * MINUTE, 120_000)],
        saves=[Save(5 * MINUTE, 0, 6 * MINUTE)],
    )
    assert parts(attempt) == {"productive": 2 * 240, "data_stall": 2 * 60, "rollback_replay": 2 * 300}


def test_after_a_resize_each_second_counts_with_its_own_gpus() -> None:
    attempt = Attempt(sizes=[Size(0, 10 * MINUTE, 16), Size(10 * MINUTE, 20 * MINUTE, 8)], ended=True, lost=False,
                      ready=0, progress=[Progress(0, 20 * MINUTE)])  # fmt: skip
    assert parts(attempt) == {"productive": 600 * 16 + 600 * 8}


def test_a_program_that_says_nothing_has_no_partition() -> None:
    assert partition(Attempt(sizes=[Size(0, MINUTE, 8)], ended=True, lost=False)) is None
    assert goodput([]) is None


def test_what_nothing_is_said_of_is_other_and_flagged_above_a_fiftieth() -> None:
    attempt = Attempt(sizes=[Size(0, 100 * MINUTE, 1)], ended=False, lost=False, ready=0,
                      progress=[Progress(0, 90 * MINUTE), Progress(93 * MINUTE, 100 * MINUTE)])  # fmt: skip
    found = partition(attempt)
    assert found is not None
    assert (found.gpu_seconds["other"], found.unexplained) == (180, True)
    assert goodput([found]) == 0.97


TIMES = st.integers(-10_000, 4_000_000)
LONG = st.integers(0, 10**6)


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    """Any mixture of statements, also contradictory ones."""
    cuts = sorted(draw(st.lists(st.integers(0, 4000), min_size=2, max_size=4, unique=True)))
    sizes = [Size(a * 1000, b * 1000, draw(st.integers(0, 64))) for a, b in pairwise(cuts)]
    some = st.one_of(st.none(), TIMES)
    return Attempt(
        sizes, draw(st.booleans()), draw(st.booleans()), draw(some), draw(some),
        [Progress(a, a + n, d) for a, n, d in draw(st.lists(st.tuples(TIMES, LONG, LONG), max_size=6))],
        [Save(a, n, c) for a, n, c in draw(st.lists(st.tuples(TIMES, st.integers(0, 10**5), some), max_size=6))],
        draw(some), draw(some),
        [(a, a + n) for a, n in draw(st.lists(st.tuples(TIMES, st.integers(0, 10**6)), max_size=3))],
    )  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(attempts())
def test_the_parts_always_add_up(attempt: Attempt) -> None:
    found = partition(attempt)
    if found is None:
        assert not attempt.told
        return
    assert set(found.gpu_seconds) == set(PARTS)
    assert min(found.gpu_seconds.values()) >= 0
    assert (
        sum(found.gpu_seconds.values())
        == found.allocated
        == sum((s.end - s.start) * s.gpus for s in attempt.sizes) // 1000
    )
