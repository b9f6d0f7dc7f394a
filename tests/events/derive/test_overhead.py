"""What a node uses beside its GPUs: nothing is added twice, nothing lost in the division."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.derive.energy import Stretch
from events.derive.overhead import shared

J = 1_000_000


def stretch(uj: int, missing_ms: int = 0) -> Stretch:
    return Stretch(0, 60_000, uj, 0, 60_000 - missing_ms, 0, missing_ms, 0)


def gpus(*joules: int) -> dict[int, Stretch]:
    return {index: stretch(each * J) for index, each in enumerate(joules)}


def test_a_node_with_one_job() -> None:
    """8 GPUs at 640 W in a node of 6,600 W, a minute: 307,200 J and 88,800 J beside, 11,100 J for each GPU."""
    found = shared(stretch(396_000 * J), gpus(*[38_400] * 8), range(8))
    assert found.overhead_uj == 88_800 * J
    assert found.by_gpu == dict.fromkeys(range(8), (38_400 + 11_100) * J)
    assert (found.idle_uj, found.short_uj, found.unknown_ms) == (0, 0, 0)


def test_gpus_that_are_held_share_it() -> None:
    found = shared(stretch(1_000 * J), gpus(100, 200, 300), [2, 0])
    assert found.by_gpu == {0: 300 * J, 1: 200 * J, 2: 500 * J}
    assert found.idle_uj == 0


def test_an_idle_node_is_idle() -> None:
    found = shared(stretch(1_000 * J), gpus(100, 200), [])
    assert (found.by_gpu, found.idle_uj) == ({0: 100 * J, 1: 200 * J}, 700 * J)


def test_what_does_not_divide_goes_to_the_first() -> None:
    assert shared(stretch(11), {n: stretch(0) for n in range(3)}, [0, 1, 2]).by_gpu == {0: 4, 1: 4, 2: 3}


def test_gpus_that_say_more_than_their_node() -> None:
    found = shared(stretch(250 * J), gpus(100, 200), [0])
    assert (found.overhead_uj, found.short_uj, found.by_gpu[0]) == (0, 50 * J, 100 * J)


def test_a_node_that_was_not_measured_has_no_overhead() -> None:
    found = shared(stretch(0, missing_ms=60_000), gpus(100), [0])
    assert (found.overhead_uj, found.short_uj, found.unknown_ms) == (0, 0, 60_000)
    half = shared(stretch(150 * J, missing_ms=30_000), gpus(100), [0])
    assert (half.overhead_uj, half.unknown_ms) == (100 * J, 30_000)  # 150 J less half of the GPU's


def test_other_bounds_and_gpus_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="bounds"):
        shared(stretch(1), {0: Stretch(0, 1, 0, 0, 0, 0, 1, 0)}, [])
    with pytest.raises(ValueError, match=r"\[7\]"):
        shared(stretch(1), gpus(1), [7])


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**10), min_size=1, max_size=8), st.sets(st.integers(0, 7)))
def test_owners_and_idle_are_the_node(node: int, each: list[int], held: set[int]) -> None:
    own = {index: stretch(uj) for index, uj in enumerate(each)}
    found = shared(stretch(node), own, held & own.keys())
    assert sum(found.by_gpu.values()) + found.idle_uj == node + found.short_uj
    assert sum(found.by_gpu.values()) + found.idle_uj == sum(each) + found.overhead_uj
    assert all(found.by_gpu[index] >= own[index].uj for index in own)
