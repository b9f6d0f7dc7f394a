"""Energy against integrals worked out by hand, exact to the micro-joule where the samples allow it."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.derive.energy import Limits, Reading, Stretch, counter_uj, metered, pieces_of, power_mw

J = 1_000_000
"""Micro-joules in a joule."""
MINUTE = 60_000
TIGHT = Limits(gap_ms=20_000, unknown_ms=300_000, extend_ms=0)


def powers(*pairs: tuple[int, int]) -> list[Reading]:
    """(ms, watts)."""
    return [Reading(t_ms, power_mw=watts * 1000) for t_ms, watts in pairs]


def counters(*pairs: tuple[int, int]) -> list[Reading]:
    """(ms, joules)."""
    return [Reading(t_ms, energy_uj=joules * J) for t_ms, joules in pairs]


def one(readings: list[Reading], start: int, end: int, limits: Limits = TIGHT) -> Stretch:
    """The whole as a single stretch."""
    (found,) = metered(readings, start, end, (), limits._replace(longest_ms=10**12))
    return found


class TestPower:
    def test_constant(self) -> None:
        """640 W for a minute are 38,400 J."""
        found = one(powers(*((t, 640) for t in range(0, MINUTE + 1, 15_000))), 0, MINUTE)
        assert found == Stretch(0, MINUTE, 38_400 * J, 0, MINUTE, 0, 0, 0)

    def test_ramp(self) -> None:
        """From 100 W to 700 W in a minute: 24,000 J; the first half 7,500 J: 100 W to 400 W."""
        ramp = powers(*((t, 100 + t // 100) for t in range(0, MINUTE + 1, 15_000)))
        assert one(ramp, 0, MINUTE).uj == 24_000 * J
        assert one(ramp, 0, 30_000).uj == 7_500 * J
        assert one(ramp, 5_000, 10_000).uj == 875 * J  # 150 W to 200 W for 5 s, inside one interval

    def test_sine(self) -> None:
        """400 W + 200 W sin(2 pi t / 10 min), 5 min: 120,000 J + 200 * 600 / pi J. Trapezoid at 15 s: 0.06 % off."""
        samples = [
            Reading(t, power_mw=round(1000 * (400 + 200 * math.sin(2 * math.pi * t / 600_000))))
            for t in range(0, 300_001, 15_000)
        ]
        truth = 120_000 + 200 * 600 / math.pi
        assert one(samples, 0, 300_000).uj / J == pytest.approx(truth, rel=6e-4)

    def test_gaps(self) -> None:
        gap = powers((0, 600), (15_000, 600), (75_000, 300), (90_000, 300))
        found = one(gap, 0, 90_000)
        assert found.uj == (9_000 + 27_000 + 4_500) * J  # the minute at 450 W on average
        assert (found.estimated_uj, found.measured_ms, found.estimated_ms) == (27_000 * J, 30_000, 60_000)

    def test_a_gap_over_five_minutes_is_missing_but_for_its_ends(self) -> None:
        gap = powers((0, 600), (400_000, 300))
        found = one(gap, 0, 400_000, Limits())
        assert found.uj == found.estimated_uj == (18_000 + 9_000) * J
        assert (found.measured_ms, found.estimated_ms, found.missing_ms) == (0, 60_000, 340_000)

    def test_before_the_first_and_after_the_last_sample(self) -> None:
        found = one(powers((100_000, 600), (110_000, 500)), 0, 200_000, Limits())
        assert found.uj == (600 * 30 + 550 * 10 + 500 * 30) * J
        assert (found.measured_ms, found.estimated_ms, found.missing_ms) == (10_000, 60_000, 130_000)

    def test_no_samples_are_no_zeros(self) -> None:
        assert one([], 0, MINUTE) == Stretch(0, MINUTE, 0, 0, 0, 0, MINUTE, 0)
        assert one(powers((0, 0), (10_000, 0)), 0, 10_000) == Stretch(0, 10_000, 0, 0, 10_000, 0, 0, 0)


class TestCounter:
    def test_the_counter_beats_power(self) -> None:
        """Power is a running average on newer GPUs: 187 J by the counter, 327 J by power for the same 5 s."""
        both = [Reading(0, 0, 65_400), Reading(5_000, 187 * J, 65_400)]
        assert one(both, 0, 5_000).uj == 187 * J

    def test_a_gap_is_bridged_and_nothing_is_lost(self) -> None:
        found = one(counters((0, 0), (15_000, 9_000), (4_000_000, 1_900_000), (4_010_000, 1_906_000)), 0, 4_010_000)
        assert found.uj == 1_906_000 * J
        assert (found.measured_ms, found.estimated_ms, found.missing_ms) == (25_000, 3_985_000, 0)

    def test_a_reset_counts_what_the_counter_shows_since(self) -> None:
        """900,000 J, a reboot, then 3,000 J: at least that was used in the interval, and it is marked."""
        found = one(counters((0, 900_000), (15_000, 909_600), (30_000, 3_000), (45_000, 12_600)), 0, 45_000)
        assert found.uj == (9_600 + 3_000 + 9_600) * J
        assert (found.resets, found.estimated_uj, found.estimated_ms) == (1, 3_000 * J, 15_000)

    def test_a_counter_of_32_bits_rolls_over(self) -> None:
        """2^32 mJ are 4,294,967.296 J."""
        readings = [Reading(0, 4_294_960_000 * 1_000), Reading(15_000, 2_704 * 1_000)]
        found = one(readings, 0, 15_000)
        assert found == Stretch(0, 15_000, 10_000 * 1_000, 0, 15_000, 0, 0, 0)  # 10,000 mJ

    def test_a_counter_that_falls_by_a_trifle_was_not_reset(self) -> None:
        """NVIDIA/dcgm-exporter 417: it goes down now and then; adding all it shows would add megajoules."""
        found = one([Reading(0, 100 * J), Reading(15_000, 100 * J - 3_000), Reading(30_000, 101 * J)], 0, 30_000)
        assert (found.uj, found.resets, found.estimated_ms) == (J + 3_000, 0, 0)

    def test_what_no_gpu_can_use_is_not_believed(self) -> None:
        """A spike of the counter: power fills in."""
        readings = [
            Reading(0, 400_000 * J, 600_000),
            Reading(15_000, 10**9 * J, 600_000),
            Reading(30_000, 418_000 * J, 600_000),
        ]
        found = one(readings, 0, 30_000)
        assert (found.uj, found.resets, found.measured_ms) == (18_000 * J, 0, 30_000)
        bare = [reading._replace(power_mw=None) for reading in readings]
        assert one(bare, 0, 30_000) == Stretch(0, 30_000, 0, 0, 0, 0, 30_000, 0)

    def test_power_speaks_where_the_counter_does_not(self) -> None:
        readings = [
            *counters((0, 0), (10_000, 6_000), (20_000, 12_000)),
            *powers((20_000, 300), (30_000, 300), (40_000, 500)),
        ]
        assert one(readings, 0, 40_000).uj == (12_000 + 3_000 + 4_000) * J

    def test_power_says_when_inside_an_interval(self) -> None:
        """Counter 5,000 J in 10 s, power from 0 W to 1,000 W: a quarter of it in the first half."""
        readings = [Reading(0, 0, 0), Reading(10_000, 5_000 * J, 1_000_000)]
        first, second = metered(readings, 0, 10_000, [5_000], TIGHT)
        assert (first.uj, second.uj) == (1_250 * J, 3_750 * J)

    def test_a_counter_that_is_held_back_comes_to_the_same(self) -> None:
        """An exporter reads every 30 s, a scrape every 15 s: each value twice."""
        held = counters(*((t, t // 30_000 * 18_000) for t in range(0, 600_001, 15_000)))
        assert one(held, 0, 600_000).uj == 360_000 * J


class TestValues:
    def test_counter(self) -> None:
        assert counter_uj(898_000_123.0) == 898_000_123_000
        for none in (None, math.nan, math.inf, -1.0, 9223372036854775794.0):
            assert counter_uj(none) is None

    def test_power(self) -> None:
        assert power_mw(640.0625) == 640_062
        for none in (None, math.nan, math.inf, -1.0, 5_000.0):
            assert power_mw(none) is None
        assert power_mw(5_000.0, 20_000_000) == 5_000_000


class TestStretches:
    def test_at_most_five_minutes_and_cut_where_attempts_begin_and_end(self) -> None:
        samples = powers(*((t, 600) for t in range(0, 1_200_001, 15_000)))
        found = metered(samples, 100_000, 1_000_000, [430_500, 50, 2_000_000], TIGHT)
        assert [(s.start_ms, s.end_ms) for s in found] == list(
            pairwise([100_000, 300_000, 430_500, 600_000, 900_000, 1_000_000])
        )
        assert sum(s.uj for s in found) == 540_000 * J
        assert [s.uj for s in found][1] == 78_300 * J  # 130.5 s at 600 W


VALUES = st.one_of(st.none(), st.integers(0, 3_000_000 * J))
READINGS = st.lists(
    st.builds(
        Reading, st.integers(0, 900).map(lambda s: s * 1_000), VALUES, st.one_of(st.none(), st.integers(0, 2_000_000))
    ),
    max_size=30,
)
CUTS = st.lists(st.integers(-100_000, 1_000_000), max_size=6)
LIMITS = st.sampled_from(
    [Limits(), TIGHT, Limits(gap_ms=60_000, unknown_ms=100_000, extend_ms=90_000, longest_ms=77_777)]
)


def whole(found: list[Stretch]) -> tuple[int, ...]:
    return tuple(sum(column) for column in list(zip(*found, strict=True))[2:])


class TestInvariants:
    @settings(max_examples=150)
    @given(READINGS, LIMITS, st.randoms(use_true_random=False))
    def test_any_order_and_any_duplication_give_the_same(
        self, readings: list[Reading], limits: Limits, dice: random.Random
    ) -> None:
        shuffled = readings + dice.choices(readings, k=len(readings)) if readings else []
        dice.shuffle(shuffled)
        assert metered(shuffled, 0, 900_000, [333_333], limits) == metered(readings, 0, 900_000, [333_333], limits)

    @settings(max_examples=150)
    @given(READINGS, LIMITS, CUTS)
    def test_slices_add_up_to_the_whole(self, readings: list[Reading], limits: Limits, cuts: list[int]) -> None:
        uncut = metered(readings, -50_000, 950_000, (), limits._replace(longest_ms=10**9))
        found = metered(readings, -50_000, 950_000, cuts, limits)
        assert whole(found) == whole(uncut)
        for each in found:
            assert each.measured_ms + each.estimated_ms + each.missing_ms == each.end_ms - each.start_ms
            assert 0 <= each.estimated_uj <= each.uj
            assert min(each) >= -50_000
            assert min(each[2:]) >= 0

    @settings(max_examples=150)
    @given(READINGS, LIMITS, CUTS)
    def test_windows_folded_apart_are_the_whole_folded_at_once(
        self, readings: list[Reading], limits: Limits, cuts: list[int]
    ) -> None:
        """Each window sees its own samples, the last of each kind before it and the first of each after it."""
        bounds = sorted({0, 900_000, *(cut for cut in cuts if 0 < cut < 900_000)})
        apart = [
            s for low, high in pairwise(bounds) for s in metered(around(readings, low, high), low, high, (), limits)
        ]
        assert apart == metered(readings, 0, 900_000, cuts, limits)

    @given(READINGS, LIMITS)
    def test_pieces_do_not_overlap(self, readings: list[Reading], limits: Limits) -> None:
        found = pieces_of(readings, limits)
        assert all(one.end_ms <= other.start_ms for one, other in pairwise(found))
        assert all(p.from_ms <= p.start_ms < p.end_ms <= p.to_ms for p in found)


def around(readings: list[Reading], low: int, high: int) -> list[Reading]:
    """What a window needs to know."""
    kinds = (lambda r: r.energy_uj is not None, lambda r: r.power_mw is not None)
    times = set()
    for kind in kinds:
        told = [r.t_ms for r in readings if kind(r)]
        times |= {t for t in told if low <= t <= high}
        times |= {max((t for t in told if t < low), default=low), min((t for t in told if t > high), default=high)}
    return [r for r in readings if r.t_ms in times]


@pytest.mark.parametrize("every_ms", [5_000, 15_000, 30_000])
def test_a_day_of_a_gpu_against_its_integral(every_ms: int) -> None:
    """300 W + 200 W sin over 47 min; jobs begin and end off the samples. Counter and trapezoid within 0.01 %."""
    omega = 2 * math.pi / (47 * 60)

    def joules(ms: int) -> float:
        return 300 * ms / 1000 + 200 / omega * (1 - math.cos(omega * ms / 1000))

    def watts(ms: int) -> float:
        return 300 + 200 * math.sin(omega * ms / 1000)

    day, bounds = 86_400_000, [7_123_456, 41_000_007, 80_000_001]
    times = range(0, day + 1, every_ms)
    by_counter = [Reading(t, counter_uj(joules(t) * 1000)) for t in times]
    by_power = [Reading(t, None, power_mw(watts(t))) for t in times]
    for readings in (by_counter, by_power):
        found = metered(readings, 0, day, bounds, TIGHT._replace(gap_ms=45_000))
        assert max(s.end_ms - s.start_ms for s in found) <= 300_000
        for low, high in pairwise([0, *bounds, day]):
            own = [s for s in found if low <= s.start_ms and s.end_ms <= high]
            assert sum(s.end_ms - s.start_ms for s in own) == high - low
            assert sum(s.uj for s in own) / J == pytest.approx(joules(high) - joules(low), rel=1e-4)
            assert sum(s.measured_ms for s in own) == high - low
