"""What the weekly mail says: of each project that a person was granted, one ISO week beside the week before.

Every figure is read by the queries and reports that the pages read, with the person's own scope, so that both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.conf import settings

from events import queries as log
from events import reports
from events.access import Scope
from events.reports import Row
from fleet.queries import Site, site
from jobs.queries import granted_projects, scope_of
from web import book, figures, mailparts
from web.asked import Asked
from web.book import Book
from web.frame import as_of_words
from web.mailparts import Part
from web.mailtext import one_line
from web.ranges import DAY, Days
from web.state import one_state
from web.tables import Link
from web.usagefigs import change_of

__all__ = ["MOST_SECTIONS", "NoWeek", "Section", "Week", "days_of", "read", "week_before", "week_name"]

MOST_SECTIONS: Final = 12
"""Projects that are told of one by one; the others are rows of the first table."""
UNITS: Final = {"gpu_seconds": "GPU-h", "cpu_seconds": "CPU-h"}


class NoWeek(LookupError):
    """There is nothing to tell this person; the text says why."""


@dataclass(frozen=True, slots=True)
class Section:
    """One granted project. parts: its figures; unknown: sentences on what is not known."""

    code: str
    title: str
    href: str
    seconds: int
    unit: str
    used: str
    before: str
    change: str
    more: str
    parts: Sequence[Part]
    causes: Sequence[Part]
    waste: Sequence[Part]
    runs: Sequence[Part]
    standing: Sequence[Part]
    unknown: Sequence[str]
    links: Sequence[Link]


@dataclass(frozen=True, slots=True)
class Week:
    """The whole mail. adds_up: the projects' figures add up to the total, since none hangs below another."""

    name: str
    range: str
    value: str
    unit: str
    change: str
    more: str
    sections: Sequence[Section]
    adds_up: bool
    total: str
    site: Site
    as_of: dict[str, str]
    url: str
    gone: Sequence[str] = field(default_factory=tuple)

    @property
    def told(self) -> Sequence[Section]:
        """Those that are told of one by one."""
        return self.sections[:MOST_SECTIONS]

    @property
    def subject(self) -> str:
        """The week and the figure."""
        number = int(self.name[-2:])
        return one_line(f"Week {number} of {self.name[:4]}: {self.value} {self.unit} used, {self.change}", 150)


# --- weeks -----------------------------------------------------------------------------------------------------------


def week_name(days: Days) -> str:
    """`2026-W48`."""
    year, week, _ = days.first.isocalendar()
    return f"{year}-W{week:02d}"


def days_of(name: str) -> Days:
    """Monday to Sunday of an ISO week such as 2026-W48. Raises ValueError for what is none."""
    year, _, week = name.partition("-W")
    if not (len(year) == 4 and len(week) == 2 and year.isascii() and f"{year}{week}".isdecimal()):
        raise ValueError(f"{name!r} is no ISO week such as 2026-W48")
    first = date.fromisocalendar(int(year), int(week), 1)
    return Days(first, first + 6 * DAY)


def week_before(now: datetime, here: Site) -> Days:
    """The last ISO week that is over, by the site's calendar."""
    today = now.astimezone(here.zone).date()
    first = today - timedelta(days=today.weekday() + 7)
    return Days(first, first + 6 * DAY)


# --- reading ---------------------------------------------------------------------------------------------------------


def read(user: Any, days: Days, cut: datetime) -> Week:
    """What a person is told of a week. Raises NoWeek for one who was granted nothing that still exists.

    Its projects are those that were granted, also for staff, who see all; the scope is never wider than its own.
    """
    own, granted = scope_of(user), granted_projects(user)
    if not granted:
        raise NoWeek("no project is granted")
    scope = Scope.only(granted, money=own.money)
    with one_state():
        found = {code: _open(scope, code, days) for code in sorted(granted)}
        books = {code: one for code, one in found.items() if one is not None}
        if not books:
            raise NoWeek("no granted project exists any more")
        sections = [_section(scope, one) for one in books.values()]
        total, before = (_usage(scope, days_, cut) for days_ in (days, days.before))
        here = site()
        words = as_of_words(log.as_of(cut), here)
    sections.sort(key=lambda one: (-one.seconds, one.code))
    main = "gpu_seconds" if total["gpu_seconds"] or not total["cpu_seconds"] else "cpu_seconds"
    change, more = _change(total[main], before[main], days)
    alike = {one.main for one in books.values()} == {main}
    adds = alike and sum(one.total[main] for one in books.values()) == total[main]
    gone = [code for code, one in found.items() if one is None]
    return Week(
        week_name(days), days.text, figures.key_hours(total[main]), UNITS[main], change, more, sections,
        adds, figures.hours(total[main]), here, words, settings.SITE_URL, gone,
    )  # fmt: skip


def _open(scope: Scope, code: str, days: Days) -> Book | None:
    try:
        return book.open_book(scope, code, "", lambda _there, _cut: Asked(days, code, "user"))
    except LookupError:
        return None


def _usage(scope: Scope, days: Days, cut: datetime) -> Row:
    return reports.run("usage", scope, days.params(site().zone, cut)).total


def _change(now: int, before: int, days: Days) -> tuple[str, str]:
    """Against the week before, in words; and `more` or `less` for its colour."""
    week = f"week {days.before.first.isocalendar().week}"
    found = change_of(now, before)
    if found is None:
        return (f"nothing in {week} to compare with", "") if now else (f"as in {week}", "")
    return (f"{found.text} {found.href} than in {week}", found.href) if found.href else (f"as much as in {week}", "")


def _section(scope: Scope, found: Book) -> Section:
    view, main, project = found.asked, found.main, found.asked.project
    branch = found.shelf.project
    title = branch.title if branch is not None and branch.title != branch.name else ""
    wasted = mailparts.report(found, "waste", "cause", "run", "user")
    standing = mailparts.standing(scope, found)
    change, more = _change(found.total[main], found.before[main], view.days)
    return Section(
        one_line(branch.name if branch else project), one_line(title), mailparts.at(view.project_link(project)),
        found.total[main], UNITS[main], figures.hours(found.total[main]), figures.hours(found.before[main]), change,
        more,
        mailparts.figures_of(found, wasted), mailparts.causes(found), mailparts.waste(wasted),
        mailparts.wasting(wasted), standing, mailparts.unknown(found, wasted, standing), mailparts.links(found),
    )  # fmt: skip
