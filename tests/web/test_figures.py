"""Numbers, dates and ranges as people read them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from web import figures, ranges
from web.ranges import Days
from web.usagefigs import change_of

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
    # halves away from zero, as people round: what a tile shows of 8,366.81 is 8,367
    rounded = {"146902.99": "146\u202f903", "8366.81": "8\u202f367", "8366.49": "8\u202f366", "0.5": "1", "7": "7",
               "-0.4": "0", "-2.5": "\u22123"}  # fmt: skip
    assert {amount: figures.whole_money(amount) for amount in rounded} == rounded
    assert figures.percent(1, 3) == "33.33"
    assert figures.percent(2, 3) == "66.67"
    assert figures.percent(1, 0) == "—"
    assert figures.key_hours(3_599_999) == "1\u202f000.0"
    assert figures.key_hours(3_601_799) == "1\u202f000"
    assert figures.key_hours(3_601_800) == "1\u202f001"
    assert figures.key_hours(18_495_360) == "5\u202f138"  # 5,137.6 hours


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


def test_the_usual_range_is_a_month_up_to_today_or_to_the_last_use() -> None:
    today = date(2026, 11, 30)
    assert ranges.default(None, today) == Days(date(2026, 11, 1), today)
    assert ranges.default((date(2026, 1, 5), date(2026, 11, 2)), today) == Days(date(2026, 11, 1), today)
    assert ranges.default((date(2026, 11, 28), today), today) == Days(date(2026, 11, 28), today)
    assert ranges.default((date(2026, 1, 5), date(2026, 10, 9)), today) == Days(date(2026, 9, 10), date(2026, 10, 9))
    assert ranges.default((date(2026, 10, 3), date(2026, 10, 9)), today) == Days(date(2026, 10, 3), date(2026, 10, 9))


def test_a_range_is_set_against_the_one_before() -> None:
    october, week = Days(date(2026, 10, 1), date(2026, 10, 31)), Days(date(2026, 10, 5), date(2026, 10, 11))
    assert (october.before, october.before_text) == (Days(date(2026, 9, 1), date(2026, 9, 30)), "September")
    assert (week.before, week.before_text) == (Days(date(2026, 9, 28), date(2026, 10, 4)), "the 7 days before")
    assert (october.text, week.text) == ("October 2026", "5 to 11 Oct 2026")
    assert Days(date(2028, 2, 1), date(2028, 2, 29)).is_month  # a leap year
    assert not Days(date(2028, 2, 1), date(2028, 2, 28)).is_month


def test_days_between_use_close_by_are_known() -> None:
    used = {date(2026, 10, 2), date(2026, 10, 10), date(2026, 10, 19)}
    known = [day for day in range(1, 32) if ranges.reached(date(2026, 10, day), used)]
    assert known == [*range(2, 11), 19]  # 8 days apart: a quiet week; 9 days apart: nobody told


@pytest.mark.parametrize(
    ("now", "before", "text", "way"),
    [(110, 100, "10.0 %", "more"), (90, 100, "10.0 %", "less"), (1001, 1000, "0.1 %", "more"),
     (10_001, 10_000, "as much", ""), (3, 2, "50.0 %", "more"), (2, 3, "33.3 %", "less")],
)  # fmt: skip
def test_changes(now: int, before: int, text: str, way: str) -> None:
    found = change_of(now, before)
    assert found is not None
    assert (found.text, found.href) == (text, way)


def test_there_is_no_change_from_nothing() -> None:
    assert change_of(5, 0) is None
