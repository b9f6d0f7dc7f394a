"""Numbers, dates and ranges as people read them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from web import figures, ranges
from web.ranges import Days

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0"), (1, "<0.1"), (179, "<0.1"), (180, "0.1"), (3600, "1.0"), (206_456_040, "57\u202f348.9")],
)
def test_hours(seconds: int, text: str) -> None:
    assert figures.hours(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3960, "1 h 06 min"), (131_580, "36 h 33 min")],
)
def test_durations(seconds: int, text: str) -> None:
    assert figures.duration(seconds) == text


def test_numbers_and_money() -> None:
    assert figures.thousands(-4_182_907) == "−4\u202f182\u202f907"
    assert figures.money("146902.65") == "146\u202f902.65"
    assert figures.money("-0.05") == "−0.05"
    assert figures.whole_money("146902.99") == "146\u202f902"  # cut, not rounded
    assert figures.percent(1, 3) == "33.33"
    assert figures.percent(2, 3) == "66.67"
    assert figures.percent(1, 0) == "—"
    assert figures.key_hours(3_599_999) == "1\u202f000.0"
    assert figures.key_hours(3_603_599) == "1\u202f000"


def test_days_and_moments() -> None:
    assert figures.days(date(2026, 10, 1), date(2026, 10, 31)) == "1 to 31 Oct 2026"
    assert figures.days(date(2026, 9, 28), date(2026, 10, 3)) == "28 Sep to 3 Oct 2026"
    assert figures.days(date(2025, 12, 28), date(2026, 1, 3)) == "28 Dec 2025 to 3 Jan 2026"
    assert figures.days(date(2026, 10, 1), date(2026, 10, 1)) == "1 Oct 2026"
    assert figures.moment(datetime(2026, 11, 2, 8, 14, 6, tzinfo=UTC), BERLIN) == "2 Nov 2026 09:14:06 CET"


@pytest.mark.parametrize(
    ("first", "last", "bucket", "number"),
    [
        (date(2026, 10, 25), date(2026, 10, 25), "hour", 25),
        (date(2026, 3, 29), date(2026, 3, 29), "hour", 23),
        (date(2026, 10, 1), date(2026, 10, 31), "day", 31),
        (date(2026, 1, 1), date(2026, 12, 31), "week", 53),
        (date(2016, 1, 1), date(2026, 12, 31), "month", 132),
    ],
)
def test_pieces_cover_a_range_under_names_of_their_own(first: date, last: date, bucket: str, number: int) -> None:
    days = Days(first, last)
    found = ranges.pieces(days, BERLIN)
    assert (days.bucket, len(found)) == (bucket, number)
    assert len({piece.text for piece in found}) == number
    assert all(one.end == two.start for one, two in pairwise(found))
    whole = days.params(BERLIN, datetime.now(UTC))
    assert (found[0].start, found[-1].end) == (whole.start, whole.end)


def test_days_that_are_not_24_hours_long() -> None:
    year = Days(date(2026, 1, 1), date(2026, 12, 31))
    assert list(ranges.odd_days(year, BERLIN)) == [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25)]


def test_last_use_at_midnight_belongs_to_the_day_before() -> None:
    span = (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 9, 22, tzinfo=UTC))
    assert ranges.default(span, BERLIN, date(2026, 11, 30)) == Days(date(2026, 10, 3), date(2026, 10, 9))
