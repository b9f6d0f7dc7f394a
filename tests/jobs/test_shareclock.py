"""The clock of fair share: edges, factors over dated half-lives, resets, and how its settings are written."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from events.types.accounts import AssociationReported, AssociationWithdrawn
from events.types.shares import FairshareConfigured, Weights, weights_of
from jobs.balances import EVER, NEVER, Point, dated_associations, dated_configurations
from jobs.shareclock import Clock, Piece, Stretch
from jobs.shares import BadSetting, seconds_of, weights_from
from tests.hand import DAY, HOUR, at

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = date(2026, 3, 29)
"""A day of 23 hours in Berlin."""


def config(**fields: Any) -> FairshareConfigured:
    return FairshareConfigured(**{"cluster": "c", "from_day": "2026-01-01", "half_life_seconds": DAY, **fields})


def clock(*configs: FairshareConfigured, zone: ZoneInfo = BERLIN) -> Clock:
    rows = dated_configurations(list(enumerate(configs)))
    return Clock([Stretch(start, end, one) for (_, start, end, _), one in zip(rows, configs, strict=True)], zone)


def test_edges_are_midnights_or_the_first_slice_end_after_them() -> None:
    """Midnight of 30 March in Berlin is 22:00 UTC; slices of 300 s that end 42 s after a whole number of them."""
    midnight = at("2026-03-29 22:00")
    assert clock(config(mode="continuous")).edge(date(2026, 3, 30)) == midnight
    assert clock(config(phase_seconds=42)).edge(date(2026, 3, 30)) == midnight + 42
    assert clock(config(phase_seconds=0)).edge(date(2026, 3, 30)) == midnight


@pytest.mark.parametrize(("second", "day"), [(0, "2026-03-29"), (1, "2026-03-30"), (42, "2026-03-30")])
def test_an_instant_at_an_edge_belongs_to_the_day_before_it(second: int, day: str) -> None:
    found = clock(config(mode="continuous")).day_of(at("2026-03-29 22:00") + second)
    assert found == date.fromisoformat(day)


def test_what_is_left_over_dated_half_lives_is_a_product() -> None:
    """A half-life of a day until 2 April, of two days from then on: 2^-2 x 2^-1 from 31 March to 4 April."""
    changing = clock(config(mode="continuous"),
                     config(mode="continuous", from_day="2026-04-02", half_life_seconds=2 * DAY))  # fmt: skip
    assert changing.carry(date(2026, 3, 31), date(2026, 4, 4)) == pytest.approx(1 / 8, rel=1e-14)
    assert changing.carry(SPRING, date(2026, 3, 30)) == pytest.approx(2 ** (-23 / 24), rel=1e-14)


def test_a_change_of_weights_holds_from_its_day_on() -> None:
    """1 CPU from noon UTC of 1 April to noon of 3 April: weight 1 until midnight of 2 April in Berlin, then 3."""
    before = config(half_life_seconds=0, calc_period_seconds=1)
    after = config(half_life_seconds=0, calc_period_seconds=1, from_day="2026-04-02", weights=("*=cpu:3000",))
    piece = Piece(at("2026-04-01 12:00"), at("2026-04-03 12:00"), 1, 0, 1)
    found = clock(before, after).whole([piece], "x", at("2026-04-05 00:00"))
    assert found.plain == 1000 * 10 * HOUR + 3000 * 38 * HOUR
    assert found.decayed == found.plain


@pytest.mark.parametrize(("reset", "first"), [
    ("daily", "2026-04-01"), ("weekly", "2026-04-05"), ("monthly", "2026-05-01"), ("quarterly", "2026-07-01"),
    ("yearly", "2027-01-01"),
])  # fmt: skip
def test_resets_as_slurm_has_them(reset: str, first: str) -> None:
    """Weeks begin on Sundays: 5 April 2026 is one. Seen from 1 April on, whose own day has begun."""
    found, day = clock(config(reset=reset)), date(2026, 4, 1)
    start = day if reset == "daily" else date(2026, 4, 2)
    wanted = date.fromisoformat(first)
    assert found.forgotten(wanted, date.fromordinal(wanted.toordinal() + 1))
    assert reset == "daily" or not found.forgotten(start, wanted)


def test_a_resize_is_charged_again_for_its_slice_in_slurm_mode_only() -> None:
    """4 GPUs for 25 s, then 2 for 16 s, in a slice of 60 s: Slurm charges 4 x 25 + 2 x 41, true are 4 x 25 + 2 x 16."""
    start = at("2026-04-01 12:00")
    pieces = [Piece(start, start + 25, 0, 4, 1), Piece(start + 25, start + 41, 0, 2, 1, began=start)]
    for mode, decayed in (("slurm", 4 * 25 + 2 * 41), ("continuous", 4 * 25 + 2 * 16)):
        one = clock(config(mode=mode, half_life_seconds=10**12, calc_period_seconds=60, weights=("*=gpu:1000",)))
        used = one.whole(pieces, "x", start + 41)
        assert used.decayed == pytest.approx(1000 * decayed, rel=1e-6)
        assert used.plain == 1000 * (4 * 25 + 2 * 16)


# --- settings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "seconds"), [
    ("604800", 604_800), ("7d", 604_800), ("7-0", 604_800), ("1-12:30:15", 131_415), ("00:05:00", 300), ("5min", 300),
    ("12h", 43_200), ("2w", 1_209_600), ("0", 0),
])  # fmt: skip
def test_lengths_of_time(text: str, seconds: int) -> None:
    assert seconds_of("half_life", text) == seconds


@pytest.mark.parametrize("text", ["", "a week", "5:00", "-1", "7.5d", "1-"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(BadSetting, match="is no length of time"):
        seconds_of("half_life", text)


def test_weights_as_slurm_writes_them() -> None:
    found = weights_from(["train=CPU=0.125,GRES/gpu=10", "*=Node=1.5"])
    assert found == ("train=cpu:125,gpu:10000", "*=node:1500")
    assert weights_of(found) == {"train": Weights(125, 10_000, 0), "*": Weights(0, 0, 1500)}


@pytest.mark.parametrize("text", ["train", "train=cpu", "train=cpu:1,cpu:2:3", "train=mem:1", "=cpu:1", "train=cpu:-1"])
def test_weights_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="weights"):
        config(weights=(text,))


def test_weights_of_one_partition_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        config(weights=("a=cpu:1", "a=cpu:2"))


# --- dated associations ----------------------------------------------------------------------------------------


def told(when: int, position: int, shares: int | None, user: str | None = None) -> Point:
    data = AssociationReported(cluster="c", account="a", user=user, parent="root", shares=shares,
                               shares_of_parent=shares is None)  # fmt: skip
    return Point(when, position, data)


def test_what_a_cluster_was_told_first_holds_since_ever_and_the_rest_from_then_on() -> None:
    gone = Point(30, 4, AssociationWithdrawn(cluster="c", account="a", user="u"))
    points = [told(10, 1, 5), told(20, 3, None), told(20, 2, 7), told(15, 5, 1, "u"), gone]
    assert dated_associations(points) == [
        ("c", "a", "", "", EVER, 20, "root", 5), ("c", "a", "", "", 20, NEVER, "root", None),
        ("c", "a", "u", "", 15, 30, "root", 1),
    ]  # fmt: skip


def test_of_two_configurations_with_one_day_the_later_position_wins() -> None:
    rows = dated_configurations([(5, config(half_life_seconds=1)), (7, config(half_life_seconds=2)),
                                 (6, config(half_life_seconds=3)), (1, config(from_day="2026-02-01"))])  # fmt: skip
    assert [(start.isoformat(), end.isoformat()) for _, start, end, _ in rows] == [
        ("2026-01-01", "2026-02-01"), ("2026-02-01", "9999-12-31"),
    ]  # fmt: skip
    assert '"half_life_seconds":2' in rows[0][3]


def test_days_far_off_do_not_end_it() -> None:
    one = clock(config(mode="continuous", from_day="1970-01-01"))
    assert one.day_of(int(datetime(2140, 1, 1, tzinfo=UTC).timestamp())) == date(2140, 1, 1)
    assert one.begin == -3600
