"""The days a page is about: what was asked, what is offered, and the calendar pieces a range is shown in.

For people a range has a first and a last day, both included; reports take instants [start, end).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from events.reports import Params, bucket_edges, midnight
from web import figures

__all__ = ["MOST_DAYS", "Days", "Piece", "default", "odd_days", "offers", "pieces"]

MOST_DAYS: Final = 7_305
"""Twenty years: reports cut a window at every midnight, so that a range needs an end to what it may ask."""
DAY: Final = timedelta(days=1)
Span = tuple[datetime, datetime] | None


@dataclass(frozen=True, slots=True)
class Days:
    """A range of calendar days of the site, first and last both included."""

    first: date
    last: date

    @property
    def number(self) -> int:
        """How many days."""
        return (self.last - self.first).days + 1

    @property
    def bucket(self) -> str:
        """The calendar bucket in which the range has a readable number of bars (at most about 240)."""
        if self.number == 1:
            return "hour"
        if self.number <= 93:
            return "day"
        return "week" if self.number <= 800 else "month"

    @property
    def text(self) -> str:
        """As people write it."""
        return figures.days(self.first, self.last)

    def params(self, zone: ZoneInfo, cut: datetime, *groups: str) -> Params:
        """The same range as a report takes it."""
        return Params(midnight(self.first, zone), midnight(self.last + DAY, zone), zone, groups, cut=cut)


@dataclass(frozen=True, slots=True)
class Piece:
    """One bucket of a range: the report's label, the instants [start, end), text for people, its days."""

    name: str
    start: datetime
    end: datetime
    text: str
    days: Days


def default(span: Span, zone: ZoneInfo, today: date) -> Days:
    """The last 7 days when they hold use, else the last 7 days up to the last use there is.

    It starts no earlier than the books do: a new installation sees its first day by hours.
    """
    latest = Days(today - 6 * DAY, today)
    if span is None:
        return latest
    begun = span[0].astimezone(zone).date()
    if span[1] > midnight(latest.first, zone):
        return Days(min(today, max(begun, latest.first)), today)
    last = _last_day(span, zone)
    return Days(max(begun, last - 6 * DAY), last)


def offers(span: Span, zone: ZoneInfo, today: date) -> list[tuple[str, Days]]:
    """Ranges one click away, in the order they are shown."""
    month = today.replace(day=1)
    before = month - DAY
    found = [
        ("Last 7 days", Days(today - 6 * DAY, today)),
        ("This month", Days(month, today)),
        ("Last month", Days(before.replace(day=1), before)),
    ]
    if span is not None:
        found.append(("All", Days(span[0].astimezone(zone).date(), _last_day(span, zone))))
    return found


def _last_day(span: tuple[datetime, datetime], zone: ZoneInfo) -> date:
    """The day that holds the last moment of [start, end), at least the first one's."""
    return max(span[0], span[1] - timedelta(microseconds=1)).astimezone(zone).date()


def pieces(days: Days, zone: ZoneInfo) -> list[Piece]:
    """The buckets of a range, in order, none left out."""
    params = days.params(zone, datetime.now(UTC), days.bucket)
    several_years = days.first.year != days.last.year
    found: list[Piece] = []
    for name, start, end in bucket_edges(params):
        inside = Days(start.astimezone(zone).date(), (end - timedelta(microseconds=1)).astimezone(zone).date())
        found.append(Piece(name, start, end, _text(days.bucket, start.astimezone(zone), inside, several_years), inside))
    return found


def _text(bucket: str, start: datetime, days: Days, year: bool) -> str:
    if bucket == "hour":
        # The hour that clocks show twice is told apart by the zone's name at that time.
        twice = start.replace(fold=0).utcoffset() != start.replace(fold=1).utcoffset()
        return f"{start:%H:%M %Z}" if twice else f"{start:%H:%M}"
    if bucket == "month":
        return f"{days.first:%b %Y}"
    first = figures.day(days.first, year=year)
    return first if bucket == "day" or days.number == 1 else f"{first} +{days.number - 1}"


def odd_days(days: Days, zone: ZoneInfo) -> Sequence[tuple[date, int]]:
    """Days of the range that are not 24 hours long, and their length in hours (whole hours, cut)."""
    found: list[tuple[date, int]] = []
    if days.number > 800:
        return found
    for offset in range(days.number):
        at = days.first + offset * DAY
        length = int((midnight(at + DAY, zone) - midnight(at, zone)).total_seconds()) // 3600
        if length != 24:
            found.append((at, length))
    return found
