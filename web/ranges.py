"""The days a page is about: what was asked, what is offered, and the calendar pieces a range is shown in.

For people a range has a first and a last day, both included; reports take instants [start, end).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from events.reports import Params, bucket_edges, midnight
from web import figures

__all__ = ["DAY", "MOST_DAYS", "SILENCE", "Days", "Piece", "Span", "default", "odd_days", "offers", "pieces", "reached"]

MOST_DAYS: Final = 7_305
"""Twenty years: reports cut a window at every midnight, so that a range needs an end to what it may ask."""
DAY: Final = timedelta(days=1)
SILENCE: Final = 8
"""Days from one day with use to the next, at most, between which a day without use is known to be one."""
Span = tuple[date, date] | None
"""First and last day with use, both included."""


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
        """As people write it: a whole month by its name."""
        return f"{self.first:%B %Y}" if self.is_month else figures.days(self.first, self.last)

    @property
    def is_month(self) -> bool:
        """Whether it is one whole calendar month."""
        return self.first.day == 1 and self.last == _month_end(self.first)

    @property
    def before(self) -> Days:
        """What it is compared with: the month before a month, else as many days before it."""
        last = self.first - DAY
        return Days(last.replace(day=1), last) if self.is_month else Days(last - (self.last - self.first), last)

    @property
    def before_text(self) -> str:
        """The range before, as a sentence names it."""
        if self.is_month:
            return f"{self.before.first:%B}"
        return "the day before" if self.number == 1 else f"the {self.number} days before"

    def params(self, zone: ZoneInfo, cut: datetime, *groups: str, project: str = "") -> Params:
        """The same range as a report takes it."""
        start, end = midnight(self.first, zone), midnight(self.last + DAY, zone)
        return Params(start, end, zone, groups, cut=cut, project=project)


@dataclass(frozen=True, slots=True)
class Piece:
    """One bucket of a range: the report's label, the instants [start, end), text for people, its days."""

    name: str
    start: datetime
    end: datetime
    text: str
    days: Days


def default(span: Span, today: date) -> Days:
    """The last 30 days when they hold use, else the last 30 days up to the last use there is.

    It starts no earlier than the books do: a new installation sees its first day by hours.
    """
    latest = Days(today - 29 * DAY, today)
    if span is None:
        return latest
    begun, last = span
    if last >= latest.first:
        return Days(min(today, max(begun, latest.first)), today)
    return Days(max(begun, last - 29 * DAY), last)


def offers(span: Span, today: date) -> list[tuple[str, Days]]:
    """Ranges one click away, in the order they are shown."""
    month = today.replace(day=1)
    before = month - DAY
    found = [
        ("Last 7 days", Days(today - 6 * DAY, today)),
        ("30 days", Days(today - 29 * DAY, today)),
        ("This month", Days(month, today)),
        ("Last month", Days(before.replace(day=1), before)),
    ]
    if span is not None:
        found.append(("All", Days(*span)))
    return found


def _month_end(day: date) -> date:
    return (day.replace(day=1) + 32 * DAY).replace(day=1) - DAY


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


def reached(day: date, used: Collection[date]) -> bool:
    """Whether the books reach into a day: it has use, or days with use lie close to it on both sides.

    Where the whole hall did nothing for longer than SILENCE, nothing is known of the days between, which is not zero.
    """
    if day in used:
        return True
    before = next((n for n in range(1, SILENCE) if day - n * DAY in used), None)
    return before is not None and any(day + n * DAY in used for n in range(1, SILENCE - before + 1))


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
