"""XID edges: the gauge holds its last code, so that only changes tell of faults."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from events.adapters.places import place_of
from events.adapters.remote_write import decode
from events.derive.xid import Occurrence, XidSample, XidState, occurrences, sightings, state_after
from tests.events.adapters.telemetry import bodies


def found(*pairs: tuple[int, float | None], before: XidState | None = None) -> list[Occurrence]:
    return occurrences([XidSample(*pair) for pair in pairs], before)


def test_a_change_is_a_fault_and_a_level_is_none() -> None:
    assert found((0, 0), (10, 79), (20, 79), (30, 79)) == [Occurrence(79, 0, 10, None)]
    assert found((0, 0), (10, 0)) == []


def test_a_code_that_stays_for_days_is_one() -> None:
    assert found((0, 0), *((at, 31) for at in range(10, 100_000, 15))) == [Occurrence(31, 0, 10, None)]


def test_the_same_code_twice_in_a_row_looks_like_one_and_after_another_it_is_two() -> None:
    assert found((0, 0), (10, 31), (20, 31), (30, 13), (40, 31)) == [
        Occurrence(31, 0, 10, 30), Occurrence(13, 20, 30, 40), Occurrence(31, 30, 40, None)]  # fmt: skip


def test_a_driver_that_was_loaded_again_forgets_and_the_code_may_come_anew() -> None:
    assert found((0, 0), (10, 79), (20, 0), (30, 79)) == [Occurrence(79, 0, 10, 20), Occurrence(79, 20, 30, None)]


def test_a_job_that_ends_clears_its_label_and_no_fault() -> None:
    """One series goes stale, another with the same code begins at the same instant."""
    assert found((0, 0), (10, 79), (20, None), (20, 79), (30, 79)) == [Occurrence(79, 0, 10, None)]


def test_a_target_that_is_gone_for_a_while() -> None:
    """Stale markers and a hole, then the same code: a restart in between would have left 0."""
    assert found((0, 0), (10, 79), (20, None), (500, 79)) == [Occurrence(79, 0, 10, None)]
    assert found((0, 0), (10, None), (500, 79)) == [Occurrence(79, 0, 500, None)]


def test_newer_exporters_make_a_series_for_each_code() -> None:
    assert found((0, 0), (10, 94), (20, None), (20, 31)) == [Occurrence(94, 0, 10, 20), Occurrence(31, 10, 20, None)]


def test_two_jobs_on_a_gpu_say_it_twice() -> None:
    assert found((0, 0), (0, 0), (10, 79), (10, 79), (20, 79), (20, 0)) == [Occurrence(79, 0, 10, None)]


def test_a_code_that_is_there_at_first_sight_is_of_unknown_age() -> None:
    assert found((10, 79), (20, 79)) == [Occurrence(79, None, 10, None)]


def test_what_was_shown_before_goes_on() -> None:
    shown = XidState(5, frozenset({79}))
    assert found((10, 79), (20, 79), before=shown) == []
    assert found((10, 79), (20, 31), before=shown) == [Occurrence(31, 10, 20, None)]
    assert found((10, 0), (20, 79), before=shown) == [Occurrence(79, 10, 20, None)]
    assert found((3, 31), (10, 79), before=shown) == []  # older than what is known


def test_values_that_are_no_codes_say_nothing() -> None:
    assert found((0, 0), (10, math.nan), (20, 9223372036854775794.0), (30, -1), (40, 7.5), (50, 0)) == []


def test_what_the_log_is_told() -> None:
    (firing,) = sightings(Occurrence(79, 0, 10, None), "pod-a", "gpu001", 5, "GPU-1")
    assert (firing.state, firing.started_ms, firing.xid, firing.fingerprint) == ("firing", 10, 79, "GPU-1/79/10")
    again, gone = sightings(Occurrence(79, 0, 10, 30), "pod-a", "gpu001", 5, "GPU-1")
    assert again == firing
    assert (gone.state, gone.started_ms, gone.ended_ms, gone.gpu) == ("resolved", 10, 30, 5)


GAUGE = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([0, 0, 31, 79, None])), max_size=30)


@given(GAUGE, st.randoms(use_true_random=False))
def test_any_order_and_any_duplication_give_the_same(
    pairs: list[tuple[int, float | None]], dice: random.Random
) -> None:
    shuffled = pairs + dice.choices(pairs, k=len(pairs)) if pairs else []
    dice.shuffle(shuffled)
    assert found(*shuffled) == found(*pairs)


@given(GAUGE, st.lists(st.integers(0, 60), max_size=3))
def test_any_split_in_time_finds_the_same_faults(pairs: list[tuple[int, float | None]], cuts: list[int]) -> None:
    """What is folded piece by piece, each from what was shown before, begins the same occurrences."""
    state, begun = None, []
    for low, high in zip([0, *sorted(cuts)], [*sorted(cuts), 61], strict=True):
        part = [XidSample(*pair) for pair in pairs if low <= pair[0] < high]
        begun += [(one.code, one.after_ms, one.at_ms) for one in occurrences(part, state)]
        state = state_after(part, state)
    assert begun == [(one.code, one.after_ms, one.at_ms) for one in found(*pairs)]


def test_the_capture(data: Path) -> None:
    """Its journal: XID 79 on gpu001 at +30 s, for good; XID 94 on gpu008 from +33 s to +135 s. Start: 1796035248.4."""
    gauges = defaultdict(list)
    for body in bodies(data / "telemetry" / "prometheus-run", "-rw.bin"):
        got = decode(body.content_type, body.headers, body.raw)
        for series, t_ms, value in zip(got.series, got.t_ms, got.value, strict=True):
            if body.answered == 204 and series.metric == "DCGM_FI_DEV_XID_ERRORS":
                place = place_of(series.named())
                gauges[place.node, place.gpu].append(XidSample(t_ms, value))
    assert len(gauges) == 64
    told = {gpu: faults for gpu, samples in gauges.items() if (faults := occurrences(samples))}
    assert told.keys() == {("gpu001", 5), ("gpu008", 2)}
    (off,), (ecc,) = told["gpu001", 5], told["gpu008", 2]
    assert (off.code, off.until_ms, ecc.code) == (79, None, 94)
    for instant, low, high in (
        (1_796_035_278_426, off.after_ms, off.at_ms),
        (1_796_035_281_425, ecc.after_ms, ecc.at_ms),
    ):
        assert low is not None
        assert low < instant <= high <= low + 5_000
    assert ecc.until_ms is not None
    assert 0 <= ecc.until_ms - 1_796_035_383_425 <= 5_000
