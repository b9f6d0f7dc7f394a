"""Intervals, efficiency, failure rates: against the figures of the papers and of the research note."""

from __future__ import annotations

import pytest

from jobs.checkpoints import (
    OutOfRange,
    advise,
    daly_interval,
    efficiency,
    expected_ettr,
    failure_rate,
    job_mttf,
    storage_floor,
    young_interval,
)

DAY = 1440.0
"""Minutes."""


@pytest.mark.parametrize(("mttf", "minutes"), [(24 * 60, 116.69), (6 * 60, 56.71), (15, 9.141)])
def test_daly_as_in_his_captions(mttf: float, minutes: float) -> None:
    assert daly_interval(5, mttf) == pytest.approx(minutes, abs=0.005)


def test_daly_where_saving_takes_longer_than_the_work_lasts() -> None:
    assert daly_interval(31, 15) == 15


def test_young() -> None:
    assert young_interval(5, 1440) == pytest.approx(120)


@pytest.mark.parametrize(("interval", "expected"), [(82.54, 0.97334), (60, 0.97215)])
def test_efficiency(interval: float, expected: float) -> None:
    assert efficiency(interval, 1, 3461.54, 10) == pytest.approx(expected, abs=5e-6)


def test_efficiency_of_an_interval_nobody_survives() -> None:
    assert efficiency(1e6, 1, 1, 1) == 0


@pytest.mark.parametrize(
    ("nodes", "rate", "interval", "blocking", "expected"),
    [(64, 0.0065, 60 / DAY, 1 / DAY, 0.97224), (2048, 0.00379, 30 / DAY, 20 / 60 / DAY, 0.85574)],
)
def test_expected_ettr(nodes: int, rate: float, interval: float, blocking: float, expected: float) -> None:
    assert expected_ettr(nodes, rate, 10 / DAY, interval, blocking) == pytest.approx(expected, abs=5e-6)


def test_expected_ettr_is_refused_where_it_does_not_hold() -> None:
    with pytest.raises(OutOfRange, match="below 25%"):
        expected_ettr(16_384, 0.0065, 10 / DAY, 60 / DAY, 1 / DAY)


@pytest.mark.parametrize(("nodes", "hours"), [(64, 57.69), (128, 28.85), (2048, 1.80), (16_384, 0.225)])
def test_mttf_of_a_job(nodes: int, hours: float) -> None:
    assert job_mttf(nodes, 0.0065) * 24 == pytest.approx(hours, abs=0.005)


def test_the_band_holds_what_is_as_good_as_the_best() -> None:
    """mttf 3461.54 min, 1 min of saving, 10 min of restart: Daly gives 82.54 min; 60 min is only 0.12 points worse."""
    band = advise(1, 3461.54, 10)
    assert band.best == pytest.approx(82.54, abs=0.01)
    assert band.low < 60 < band.best < band.high
    assert not band.limited
    for edge in (band.low, band.high):
        assert efficiency(edge, 1, 3461.54, 10) == pytest.approx(band.best_efficiency - 0.002, abs=1e-5)


def test_storage_decides_where_it_is_slower() -> None:
    """980 GB at 1 GB/s take 980 s; 5 s of blocking with an hour between failures would want 185 s."""
    floor = storage_floor(980e9, 1e9)
    band = advise(5, 3600, 600, floor)
    assert (band.best, band.low, band.limited) == (980, 980, True)


def test_failure_rate_before_and_after_anything_was_seen() -> None:
    """Gamma(1, 200): mean 5 per 1,000 node-days; its quantiles are -ln(1 - p) / 200."""
    before = failure_rate(0, 0)
    assert before.mean == pytest.approx(0.005)
    assert before.low == pytest.approx(0.0512933 / 200, rel=1e-6)
    assert before.high == pytest.approx(2.9957323 / 200, rel=1e-6)
    # Four failures more in 800 node-days: Gamma(5, 1000). Chi-squared with 10 degrees: 3.940299 and 18.307038.
    after = failure_rate(4, 800)
    assert after.mean == pytest.approx(0.005)
    assert after.low == pytest.approx(3.940299 / 2000, rel=1e-6)
    assert after.high == pytest.approx(18.307038 / 2000, rel=1e-6)


@pytest.mark.parametrize("call", [lambda: young_interval(0, 1), lambda: daly_interval(1, -1), lambda: job_mttf(0, 1),
                                  lambda: failure_rate(-1, 1), lambda: failure_rate(1, 1, 1.0)])  # fmt: skip
def test_nonsense_is_refused(call: object) -> None:
    with pytest.raises(ValueError, match="give"):
        call()  # type: ignore[operator]
