"""Placement, scaling and MFU: vectors of the research note, worked by hand there."""

from __future__ import annotations

import pytest

from jobs.placement import mfu, placement, ring_crossings, scaling_efficiency


@pytest.mark.parametrize(
    ("counts", "quality", "spread", "crossing"),
    [((32, 16), 1.0, 1.0, None), ((24, 24), 0.8961, 1.0, 0.5106), ((10, 10, 10, 10, 8), 0.3377, 2.5, 0.8156)],
)
def test_quality_and_spread(counts: tuple[int, ...], quality: float, spread: float, crossing: float | None) -> None:
    found = placement([group for group, count in enumerate(counts) for _ in range(count)], 32)
    assert found is not None
    assert found.quality == pytest.approx(quality, abs=5e-5)
    assert found.spread == spread
    if crossing is not None:
        assert found.crossing == pytest.approx(crossing, abs=5e-5)


def test_one_node_cannot_lie_better() -> None:
    found = placement(["leaf1"], 8)
    assert found is not None
    assert (found.quality, found.spread, found.crossing) == (1.0, 1.0, 0.0)
    assert placement([], 8) is None
    with pytest.raises(ValueError, match="give 1 or more"):
        placement(["leaf1"], 0)


def test_ring_crossings_are_at_least_the_groups_used() -> None:
    assert ring_crossings(["a", "a", "b", "b"]) == 2
    assert ring_crossings(["a", "b", "a", "b"]) == 4
    assert ring_crossings(["a"]) == ring_crossings([]) == ring_crossings(["a", "a"]) == 0


def test_scaling() -> None:
    """8 GPUs 100,000 tokens/s, 64 GPUs 736,000: 92.0 %."""
    assert scaling_efficiency(64, 736_000, 8, 100_000) == pytest.approx(0.92)


def test_mfu() -> None:
    """593,400 tokens/s of a model of 8e9 parameters on 64 GPUs of 989 TFLOP/s: 0.4500."""
    assert mfu(593_400, 6 * 8e9, 64, 989e12) == pytest.approx(0.4500, abs=5e-5)
    with pytest.raises(ValueError, match="at least one GPU"):
        mfu(1, 1, 0, 1)
