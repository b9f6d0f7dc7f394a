"""What the pages of use show, read from the reports: one cut, one state, one scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Final
from zoneinfo import ZoneInfo

from events import reports
from events.access import Scope
from events.known import reading
from events.reports import AsOf, BadParameter, Report, Row
from fleet.queries import Site, site
from jobs import queries as jobs
from jobs.places import UNMAPPED
from jobs.queries_goodput import told_of
from jobs.queries_now import days_with_use, last_days, use_span
from jobs.usedruns import UsedRuns, run_days, used_runs
from web import ranges
from web.asked import Asked, Wrong
from web.charts import OTHER, SLOTS
from web.ranges import DAY, SILENCE, Days, Piece, Span

__all__ = ["ADDITIVE", "MOST_RUNS", "Band", "Book", "Branch", "Shelf", "open_book", "shelf"]

ADDITIVE: Final = ("gpu_seconds", "node_seconds", "cpu_seconds", "attempts_started", "jobs_ended")
"""Measures that add up over days and groups: only they stand in columns with a proven total."""
A_DAY: Final = ("2000-01-01", "2000-01-02")
"""Some days, to read a position alone by the rules of reports."""
MOST_RUNS: Final = 25
"""Runs that a page lists; the rest is one row, and all of them are one click away."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A project, team or organisation, and where it hangs. kind: '' for an account without project."""

    code: str
    title: str
    kind: str
    parent: str | None

    @property
    def name(self) -> str:
        """As people read it."""
        return self.code.removeprefix("unmapped/")


@dataclass(frozen=True, slots=True)
class Shelf:
    """What there is before anything is asked: the site, the days with use, the tree the caller may see.

    project: the one the page is about, None for all.
    """

    site: Site
    span: Span
    tree: Mapping[str, Branch]
    project: Branch | None

    @property
    def zone(self) -> ZoneInfo:
        """The site's zone."""
        return self.site.zone

    @property
    def groups(self) -> list[str]:
        """By what the page can be grouped, the usual one first."""
        if self.project is None:
            return ["project", "user", "account"]
        below = any(branch.parent == self.project.code for branch in self.tree.values())
        return [*(["project"] if below else []), "user", "run", "account"]


@dataclass(frozen=True, slots=True)
class Band:
    """One colour of the chart: a group, its total and its values by bucket, all of the main measure."""

    slot: str
    name: str
    total: int
    values: Mapping[str, int]


@dataclass(frozen=True)
class Book:
    """Figures of one view. before: the total of the range before; whole: of all projects over these days."""

    scope: Scope
    asked: Asked
    shelf: Shelf
    cut: datetime
    stands_on: AsOf
    groups: Report
    over_time: Report
    waits: Report
    costs: Report | None
    before: Row
    whole: Row | None
    runs: UsedRuns
    sizes: Sequence[Row]
    used_days: set[date]
    branches: Sequence[Row] = ()
    lasts: Mapping[str, date] = field(default_factory=dict)
    run_values: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    told: tuple[int, int] = (0, 0)
    """Productive and all GPU-seconds of attempts whose programs told where time went."""
    waste: Report | None = None
    """What ended in these days was held in vain, by cause; of one project."""

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
        """Group of the table -> colour slot: the five largest in order of the main measure, then `other`."""
        group = table_group(self.asked)
        used = [row for row in self.groups.rows if row[self.main]]
        used.sort(key=lambda row: (-row[self.main], row[group]))
        return {row[group]: SLOTS[n] if n < len(SLOTS) else OTHER for n, row in enumerate(used)}

    @cached_property
    def by_bucket(self) -> dict[str, Row]:
        """Bucket -> its additive measures over all groups; buckets without use are left out."""
        found = _sums(self.over_time.rows, lambda row: row[self.asked.days.bucket], ADDITIVE)
        return {name: row for name, row in found.items() if any(row.values())}

    @cached_property
    def bands(self) -> list[Band]:
        """The chart's colours, the largest group first, small ones together as the last."""
        return self._run_bands() if self.asked.group == "run" else self._group_bands()

    def _group_bands(self) -> list[Band]:
        group, bucket = self.asked.group, self.asked.days.bucket
        sums = {row[group]: row[self.main] for row in self.groups.rows}
        values: dict[str, dict[str, int]] = defaultdict(dict)
        for row in self.over_time.rows:
            if row[self.main]:
                into = values[self.slots[row[group]]]
                into[row[bucket]] = into.get(row[bucket], 0) + row[self.main]
        bands = [Band(slot, name, sums[name], values[slot]) for name, slot in self.slots.items() if slot != OTHER]
        rest = [name for name, slot in self.slots.items() if slot == OTHER]
        if rest:
            bands.append(Band(OTHER, f"{len(rest)} others", sum(sums[name] for name in rest), values[OTHER]))
        return bands

    def _run_bands(self) -> list[Band]:
        shown = [run for run in self.runs.rows[: len(SLOTS)] if run.gpu_seconds]
        bands = [
            Band(slot, run.name, run.gpu_seconds, self.run_values.get(str(run.id), {}))
            for slot, run in zip(SLOTS, shown, strict=False)
        ]
        rest = {
            name: row["gpu_seconds"] - sum(band.values.get(name, 0) for band in bands)
            for name, row in self.by_bucket.items()
        }
        number = self.runs.number - len(shown)
        total = self.total["gpu_seconds"] - sum(band.total for band in bands)
        return [*bands, Band(OTHER, f"{number} others", total, rest)] if total else bands

    def known(self, piece: Piece) -> bool:
        """Whether the books reach into a bucket: outside, nothing is known, which is not zero."""
        return any(ranges.reached(piece.days.first + DAY * n, self.used_days) for n in range(piece.days.number))


def _sums(rows: Iterable[Row], key: Callable[[Row], str], names: Sequence[str]) -> dict[str, Row]:
    found: dict[str, Row] = defaultdict(lambda: dict.fromkeys(names, 0))
    for row in rows:
        into = found[key(row)]
        for name in names:
            into[name] += row[name]
    return dict(found)


def table_group(asked: Asked) -> str:
    """By what the table of groups is: runs have a table of their own, users stand beside them."""
    return "user" if asked.group == "run" else asked.group


def shelf(scope: Scope, project: str) -> Shelf:
    """What the caller may choose from. Raises LookupError for a project that there is not, or not for the caller."""
    rows = jobs.projects(scope).values_list("code", "title", "kind", "parent")
    tree = {row[0]: Branch(*row) for row in rows}
    if not project:
        return Shelf(site(), use_span(scope), tree, None)
    if project not in tree and not jobs.may_choose(scope, project):
        raise LookupError(project)
    branch = tree.get(project) or Branch(project, "", "", None)
    return Shelf(site(), use_span(scope, project), tree, branch)


def open_book(scope: Scope, project: str, known: str, ask: Callable[[Shelf, datetime], Asked]) -> Book:
    """All figures of a view: `ask` decides what is asked for from what there is.

    Raises what `ask` raises, Wrong for a position that cannot be shown, LookupError for no such project.
    """
    position, cut = _position(known)
    try:
        with reading(position):
            there = shelf(scope, project)
            return _read(scope, there, ask(there, cut), cut, position)
    except BadParameter as bad:
        raise Wrong(bad.name, f"{bad.text[:1].upper()}{bad.text[1:]}.") from None


def _position(known: str) -> tuple[int | None, datetime]:
    """The position of the log to read at, None for now, and the instant at which running things are cut."""
    if not known.strip():
        return None, datetime.now(UTC)
    try:
        found = reports.parse("usage", zone=site().zone, start=A_DAY[0], end=A_DAY[1], as_known_at=known.strip())
    except BadParameter as bad:
        raise Wrong(bad.name, f"{bad.text[:1].upper()}{bad.text[1:]}.") from None
    return found.as_known_at, min(found.cut_at, datetime.now(UTC))  # nothing is known of a later moment


def _read(scope: Scope, there: Shelf, asked: Asked, cut: datetime, position: int | None) -> Book:
    def run(name: str, *groups: str, days: Days = asked.days, project: str = asked.project) -> Report:
        return reports.run(name, scope, days.params(there.zone, cut, *groups, project=project))

    group, bucket, tree = table_group(asked), asked.days.bucket, asked.group == "project"
    groups = run("usage", group)
    bare = [row["project"] for row in groups.rows if row["project"].startswith(UNMAPPED)] if tree else []
    runs = _runs(scope, there, asked, cut)
    money = scope.money and "costs" in reports.names()
    sizes = run("waits", "size") if asked.project else None
    everybody = bool(asked.project) and scope.projects is None
    first, last = asked.days.first - DAY * SILENCE, asked.days.last + DAY * SILENCE
    return Book(
        scope, asked, there, cut, AsOf(position, cut) if position is not None else groups.as_of, groups,
        over_time=run("usage", bucket) if asked.group == "run" else run("usage", bucket, asked.group),
        waits=run("waits", "branch" if tree else group),
        costs=run("costs", "branch" if tree else group) if money else None,
        before=run("usage", days=asked.days.before).total,
        whole=run("usage", project="").total if everybody else None,
        runs=runs, sizes=sizes.rows if sizes else (),
        used_days=days_with_use(first, last),
        branches=run("usage", "branch", "user").rows if tree else (),
        lasts=last_days(scope, [code.removeprefix(UNMAPPED) for code in bare]) if tree else {},
        run_values=_run_values(scope, there, asked, cut, runs) if asked.group == "run" else {},
        waste=run("waste", "cause") if asked.project else None,
        told=told_of(scope, asked.days.params(there.zone, cut, project=asked.project), there.zone),
    )  # fmt: skip


def _runs(scope: Scope, there: Shelf, asked: Asked, cut: datetime) -> UsedRuns:
    """Runs of a project; of the whole hall they would be too many to add up for a page."""
    if not asked.project:
        return UsedRuns(())
    return used_runs(scope, asked.days.params(there.zone, cut, project=asked.project), MOST_RUNS)


def _run_values(
    scope: Scope, there: Shelf, asked: Asked, cut: datetime, runs: UsedRuns
) -> Mapping[str, Mapping[str, int]]:
    params = asked.days.params(there.zone, cut, asked.days.bucket, project=asked.project)
    return run_days(scope, params, [run.id for run in runs.rows[: len(SLOTS)]])
