"""Reports: one declared object each, one way to ask, the same figures on the command line, in REST and on pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection

from events.access import Scope

__all__ = ["AsOf", "BadParameter", "Column", "Definition", "Params", "Report", "bucket_edges", "definition",
           "names", "parse", "register", "run"]  # fmt: skip

BUCKETS: Final = ("hour", "day", "week", "month", "quarter", "year")
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(days=1)
LATEST: Final = datetime(2150, 1, 1, tzinfo=UTC)
MOST_HOURS: Final = timedelta(days=800)
Row = dict[str, Any]


class BadParameter(ValueError):
    """A parameter that cannot be used: its name, and what is expected."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


class AsOf(NamedTuple):
    """How far the figures reach: last position used, and the instant at which running things are cut."""

    position: int
    time: datetime


@dataclass(frozen=True, slots=True)
class Params:
    """What is asked for: [start, end) as instants, the zone of calendar buckets, and how to group."""

    start: datetime
    end: datetime
    zone: ZoneInfo
    group_by: tuple[str, ...] = ()
    as_known_at: int | None = None
    view: str = "price"
    cut: datetime | None = None
    """Instant at which running attempts are cut; now when it is not given."""
    project: str = ""
    """Narrows to a project, team or organisation and what hung below it on the day; '' is all in scope."""

    @property
    def bucket(self) -> str | None:
        """The calendar bucket among the groupings, if any."""
        return next((name for name in self.group_by if name in BUCKETS), None)

    @property
    def cut_at(self) -> datetime:
        """The instant at which running attempts are cut."""
        return self.cut or datetime.now(UTC)


Kind = Literal["label", "time", "integer", "seconds", "number", "money"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a report: machine name, head for people, kind (decides alignment and form), unit.

    none: why a row may have no value where that is no gap in what is known; '' where nothing is *no data*.
    """

    name: str
    head: str
    kind: Kind
    unit: str = ""
    none: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The answer: rows in order, a total over all rows, what it stands on, and what is missing."""

    name: str
    params: Params
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    total: Row
    as_of: AsOf
    gaps: Sequence[Row] = field(default_factory=tuple)
    """What the report could not price or measure, as rows: never hidden as zero."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A report that exists: its groupings, its default grouping, its views and who may read it.

    about: the question it answers, a sentence. measure: the additive column that rows are sorted by, the largest
    first, and that bars show; '' keeps the report's own order and draws nothing. parts: additive columns that are
    stacked in its place. attempts: which attempts its rows are made of: those that `ran`, `started` or `ended`
    inside the window; '' where no list shows them. mend: what closes its gaps, a sentence. note: what one has to know
    to set its figures against those of another report, a sentence for people.
    """

    name: str
    title: str
    groupings: tuple[str, ...]
    default: tuple[str, ...]
    compute: Callable[[Scope, Params], Report]
    views: tuple[str, ...] = ("price",)
    money: bool = False
    about: str = ""
    measure: str = ""
    parts: tuple[str, ...] = ()
    attempts: Literal["", "ran", "started", "ended"] = ""
    mend: str = ""
    note: str = ""


_REPORTS: dict[str, Definition] = {}


def register(report: Definition) -> None:
    """Declare a report; done once by the application that owns it."""
    _REPORTS[report.name] = report


def names() -> list[str]:
    """Names of the reports there are, sorted."""
    return sorted(_REPORTS)


def definition(name: str) -> Definition:
    """One report's declaration. Raises BadParameter for an unknown name."""
    if name not in _REPORTS:
        raise BadParameter("name", f"there is no report {name!r}; there are {', '.join(names())}")
    return _REPORTS[name]


def run(name: str, scope: Scope, params: Params) -> Report:
    """Compute a report for a caller. Raises BadParameter or events.access.Forbidden."""
    # One instant for all that runs: rows, total and what the answer stands on must not each have a now of their own.
    cut = params.cut or datetime.now(UTC).replace(microsecond=0)
    return definition(name).compute(scope, replace(params, cut=cut))


def parse(
    name: str,
    *,
    zone: ZoneInfo,
    start: str,
    end: str,
    timezone: str = "",
    group_by: str = "",
    as_known_at: str = "",
    view: str = "",
    project: str = "",
    cut: datetime | None = None,
) -> Params:
    """Parameters from the texts that people and programs give.

    zone: the site's. start and end: a date (midnight in the chosen zone) or an RFC 3339 time; end is exclusive.
    Raises BadParameter with the parameter's name and what is expected.
    """
    report = definition(name)
    chosen = named_zone(timezone) if timezone else zone
    first, last = instant("from", start, chosen), instant("to", end, chosen)
    _check_span(first, last, group_by)
    if last <= first:
        raise BadParameter("to", f"{end} is not after {start}; the end is exclusive")
    groups = _groups(report, group_by)
    if view and view not in report.views:
        raise BadParameter("view", f"{view!r} is not a view of {name}; there are {', '.join(report.views)}")
    known, when = known_at(as_known_at, chosen)
    cut = cut or when
    return Params(first, last, chosen, groups, known, view or report.views[0], cut, project.replace("\0", ""))


def _check_span(first: datetime, last: datetime, group_by: str) -> None:
    """Refuse what no person means and no machine should compute: other centuries, and hours of many years."""
    if first < EARLIEST or last > LATEST:
        raise BadParameter("from", f"only times from {EARLIEST:%Y} to {LATEST:%Y} can be asked for")
    if "hour" in group_by.split(",") and last - first > MOST_HOURS:
        raise BadParameter("to", f"by hour at most {MOST_HOURS.days} days can be asked for at once")


def _groups(report: Definition, text: str) -> tuple[str, ...]:
    groups = tuple(part.strip() for part in text.split(",") if part.strip()) if text else report.default
    for group in groups:
        if group not in report.groupings:
            raise BadParameter(
                "group_by", f"{group!r} is not a grouping of {report.name}; there are {', '.join(report.groupings)}"
            )
    if len(set(groups)) < len(groups):
        raise BadParameter("group_by", "a grouping is given twice")
    if sum(group in BUCKETS for group in groups) > 1:
        raise BadParameter("group_by", f"give at most one of {', '.join(BUCKETS)}")
    return groups


def known_at(text: str, zone: ZoneInfo) -> tuple[int | None, datetime | None]:
    """The position that `as_known_at` means, and until when running things count then; nothing for ''.

    Raises BadParameter.
    """
    position = _position(text, zone)
    if position is None:
        return None, None
    return position, _recorded(position) if text.isdecimal() else _known_when(text, zone)


def _position(text: str, zone: ZoneInfo) -> int | None:
    """A position of the log, given as such or as the time at which it was the last one."""
    if not text:
        return None
    with connection.cursor() as cursor:
        if not (text.isdecimal() and len(text) < 19):
            when = _known_when(text, zone)
            cursor.execute(
                "SELECT coalesce(max(upto), 0) FROM events_block WHERE shard = %s AND recorded_at <= %s",
                [settings.SHARD, when],
            )
            return int(cursor.fetchone()[0])
        cursor.execute("SELECT coalesce(max(position), 0) FROM events_head WHERE shard = %s", [settings.SHARD])
        (head,) = cursor.fetchone()
    if int(text) > head:
        raise BadParameter("as_known_at", f"position {text} is not in the log yet; its last one is {head}")
    return int(text)


def _known_when(text: str, zone: ZoneInfo) -> datetime:
    """An instant of the log's own clock, which is finer than a second."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is not None and found.tzinfo is not None and found.microsecond:
        return found.astimezone(UTC)
    return instant("as_known_at", text, zone)


def _recorded(position: int) -> datetime | None:
    """When a position was written: what was known then ran until then, so that the report can be made again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT recorded_at FROM events_block WHERE shard = %s AND upto >= %s ORDER BY upto LIMIT 1",
            [settings.SHARD, position],
        )
        row = cursor.fetchone()
        return row[0] if row else None


def named_zone(name: str) -> ZoneInfo:
    """A zone of the tz database by name. Raises BadParameter."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadParameter("timezone", f"{name!r} is not in the tz database (such as Europe/Berlin)") from None


def instant(name: str, text: str, zone: ZoneInfo) -> datetime:
    """A date as the zone's midnight, or an RFC 3339 time with its offset; as UTC."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return midnight(date.fromisoformat(text), zone)
        found = datetime.fromisoformat(text)
        found = found.astimezone(UTC) if found.tzinfo else found
    except (ValueError, OverflowError):
        found = None
    if found is None or found.tzinfo is None:
        raise BadParameter(name, f"{text!r} is neither a date (2026-11-30) nor a time with zone (2026-11-30T10:00:00Z)")
    if found.microsecond:
        raise BadParameter(name, f"{text!r}: use is kept in whole seconds")
    return found


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """The instant a calendar day starts in a zone, as UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def bucket_edges(params: Params) -> list[tuple[str, datetime, datetime]]:
    """The buckets that [start, end) touches, cut to it: (label, from, to) in order.

    Labels: hour `2026-11-30T10:00:00+01:00`, day `2026-11-30`, week `2026-W49`, month `2026-11`,
    quarter `2026-Q4`, year `2026`. Days of 23 and 25 hours have 23 and 25 hours.
    """
    if params.bucket is None:
        return [("", params.start, params.end)]
    edges: list[tuple[str, datetime, datetime]] = []
    at = params.start
    while at < params.end:
        label, following = _bucket(params.bucket, at, params.zone)
        edges.append((label, at, min(following, params.end)))
        at = following
    return edges


def _bucket(bucket: str, at: datetime, zone: ZoneInfo) -> tuple[str, datetime]:
    """Label of the bucket that holds an instant, and the instant it ends."""
    local = at.astimezone(zone)
    if bucket == "hour":
        # By what is left of the hour on the clock: where clocks move by half an hour, the floor is another hour's.
        left = timedelta(hours=1) - timedelta(minutes=local.minute, seconds=local.second)
        return local.replace(minute=0, second=0).isoformat(), at + left
    day = local.date()
    label, following = _calendar(bucket, day)
    return label, midnight(following, zone)


def _calendar(bucket: str, day: date) -> tuple[str, date]:
    if bucket == "day":
        return day.isoformat(), day + timedelta(days=1)
    if bucket == "week":
        year, week, weekday = day.isocalendar()
        return f"{year}-W{week:02d}", day + timedelta(days=8 - weekday)
    if bucket == "month":
        return f"{day:%Y-%m}", date(day.year + day.month // 12, day.month % 12 + 1, 1)
    if bucket == "quarter":
        quarter = (day.month - 1) // 3
        return f"{day.year}-Q{quarter + 1}", date(day.year + (quarter == 3), (quarter * 3 + 3) % 12 + 1, 1)
    return f"{day.year}", date(day.year + 1, 1, 1)
