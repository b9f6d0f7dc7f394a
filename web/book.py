"""What the page of use shows, read from the reports: one cut, one state, one scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from events import reports
from events.access import Scope
from events.reports import AsOf, Report, Row
from fleet.queries import Site, site
from jobs import queries as jobs
from web import ranges
from web.asked import Asked
from web.charts import OTHER, SLOTS
from web.ranges import Piece
from web.state import one_state

__all__ = ["ADDITIVE", "Book", "Choice", "Shelf", "narrowed", "open_book", "shelf"]

ADDITIVE = ("gpu_seconds", "node_seconds", "cpu_seconds", "attempts_started", "jobs_ended")
"""Measures that add up over days and groups: only they stand in columns with a proven total."""
Span = tuple[datetime, datetime] | None


@dataclass(frozen=True, slots=True)
class Choice:
    """A project that the page can be narrowed to."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """What there is to choose from before anything is asked: projects, site, the time with use."""

    site: Site
    span: Span
    known: Span
    choices: Sequence[Choice]

    @property
    def zone(self) -> ZoneInfo:
        """The site's zone."""
        return self.site.zone


@dataclass(frozen=True)
class Book:
    """Figures of one view. main: the measure that the chart and the shares are about."""

    asked: Asked
    shelf: Shelf
    cut: datetime
    groups: Report
    over_time: Report
    waits: Report
    costs: Report | None

    @property
    def as_of(self) -> AsOf:
        """What the figures stand on."""
        return self.groups.as_of

    @property
    def total(self) -> Row:
        """The use of all groups together."""
        return self.groups.total

    @property
    def main(self) -> str:
        """GPU-seconds; where no GPU was used, CPU-seconds."""
        return "gpu_seconds" if self.total["gpu_seconds"] or not self.total["cpu_seconds"] else "cpu_seconds"

    @property
    def empty(self) -> bool:
        """Nothing ran, started or ended."""
        return not any(self.total[name] for name in ("attempts", *ADDITIVE))

    @cached_property
    def pieces(self) -> list[Piece]:
        """The buckets of the view."""
        return ranges.pieces(self.asked.days, self.shelf.zone)

    @cached_property
    def slots(self) -> dict[str, str]:
        """Group -> colour slot: the five largest in order of the main measure, then `other`."""
        used = [row for row in self.groups.rows if row[self.main]]
        used.sort(key=lambda row: (-row[self.main], row[self.asked.group]))
        names = [row[self.asked.group] for row in used]
        return {name: SLOTS[n] if n < len(SLOTS) else OTHER for n, name in enumerate(names)}

    @cached_property
    def by_bucket(self) -> dict[str, Row]:
        """Bucket -> its additive measures over all groups; buckets without use are left out."""
        return _sums(self.over_time.rows, lambda row: row[self.asked.days.bucket], ADDITIVE)

    def known(self, piece: Piece) -> bool:
        """Whether the books reach into a bucket: outside, nothing is known, which is not zero."""
        reach = self.shelf.known
        return reach is not None and piece.end > reach[0] and piece.start < max(reach[1], self._last_use)

    @property
    def _last_use(self) -> datetime:
        return self.shelf.span[1] if self.shelf.span else self.cut


def _sums(rows: Iterable[Row], key: Callable[[Row], str], names: Sequence[str]) -> dict[str, Row]:
    found: dict[str, Row] = defaultdict(lambda: dict.fromkeys(names, 0))
    for row in rows:
        into = found[key(row)]
        for name in names:
            into[name] += row[name]
    return dict(found)


def shelf(scope: Scope, project: str) -> Shelf:
    """What the caller may choose from. project: narrows the time with use when the caller may choose it.

    Whether a day has no use or is not known at all is decided by the reach of all books: no figure of others.
    """
    choices = _choices(scope)
    chosen = project if project in [choice.code for choice in choices] else ""
    span = jobs.span(narrowed(scope, chosen))
    everything = Scope.everything()
    known = span if scope == everything and not chosen else jobs.span(everything)
    return Shelf(site(), span, known, choices)


def _choices(scope: Scope) -> list[Choice]:
    """Projects to narrow to. Without fleet-wide scope only the granted ones: what hangs below one may have

    hung elsewhere before, where the caller must not look.
    """
    rows = jobs.projects(scope).values_list("code", "title")
    found = [
        Choice(code, f"{code} · {title}" if title and title != code else code)
        for code, title in rows
        if scope.projects is None or code in scope.projects
    ]
    unmapped = dict.fromkeys(account for _, account in jobs.unmapped_accounts(scope))
    return found + [Choice(f"unmapped/{account}", f"{account} (account without project)") for account in unmapped]


def narrowed(scope: Scope, project: str) -> Scope:
    """The scope of one project inside a caller's scope; the project must be one of the caller's choices."""
    return replace(scope, projects=frozenset({project})) if project else scope


def open_book(scope: Scope, given: Mapping[str, str], ask: Callable[[Shelf, datetime], Asked]) -> Book:
    """All figures of a view: `ask` decides what is asked for from what there is. Raises what `ask` raises."""
    cut = datetime.now(UTC)
    with one_state():
        there = shelf(scope, given.get("project", ""))
        asked = ask(there, cut)
        inside = narrowed(scope, asked.project)

        def run(name: str, *groups: str) -> Report:
            return reports.run(name, inside, asked.days.params(there.zone, cut, *groups))

        costs = run("costs", asked.group) if scope.money and "costs" in reports.names() else None
        return Book(
            asked, there, cut, run("usage", asked.group), run("usage", asked.days.bucket, asked.group),
            run("waits", asked.group), costs,
        )  # fmt: skip
