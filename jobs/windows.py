"""A report's window in pieces, and use inside it as one SQL relation: from the roll-up by day or from stretches.

Both ways give the same figures; the roll-up is read when every piece is a whole day of the site, the stretches
themselves for any other window (hours, another zone, a time inside a day). Running attempts always come from
their stretches, cut at the instant of the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from events import queries as log
from events.access import Scope
from events.reports import BUCKETS, Column, Params, Row, bucket_edges, midnight
from events.sqlfiles import statements

DIMENSIONS: Final[dict[str, str]] = {
    "project": "f.project",
    "team": "jobs_ancestor(f.path, 'team')",
    "organisation": "jobs_ancestor(f.path, 'organisation')",
    "account": "f.account",
    "user": "f.user_id",
    "cluster": "f.cluster",
    "partition": "f.partition",
}
"""Groupings of use, and the SQL that gives them from a relation `f` of facts."""


@dataclass(frozen=True, slots=True)
class Window:
    """The pieces of a report's window. whole_days: every piece is a whole day of the site."""

    params: Params
    labels: tuple[str, ...]
    edges: tuple[datetime, ...]
    days: tuple[date, ...]
    buckets: tuple[int, ...]
    heads: tuple[bool, ...]
    whole_days: bool

    @property
    def arguments(self) -> dict[str, Any]:
        """Parameters of the statements in report_usage.sql."""
        return {
            "start": self.params.start, "end": self.params.end, "cut": min(self.params.cut_at, self.params.end),
            "edges": list(self.edges), "days": list(self.days), "buckets": list(self.buckets),
            "heads": list(self.heads), "pieces": len(self.days),
        }  # fmt: skip


def window(params: Params, site_zone: ZoneInfo) -> Window:
    """Cut a report's window at its buckets and at the site's midnights."""
    labels: list[str] = []
    edges, days, buckets, heads = [params.start], [], [], []
    whole = True
    for number, (label, start, end) in enumerate(bucket_edges(params)):
        labels.append(label)
        at, head = start, True
        while at < end:
            day = at.astimezone(site_zone).date()
            day_end = midnight(day + timedelta(days=1), site_zone)
            # Where clocks go back over midnight a day is met again after its end: go on by hours then.
            until = min(end, day_end if day_end > at else at + timedelta(hours=1))
            whole = whole and until == day_end and at == midnight(day, site_zone)
            edges.append(until)
            days.append(day)
            buckets.append(number)
            heads.append(head)
            at, head = until, False
    return Window(params, tuple(labels), tuple(edges), tuple(days), tuple(buckets), tuple(heads), whole)


def usage_facts(found: Window) -> str:
    """SQL of the use inside a window, one row per piece and key; parameters by `Window.arguments`."""
    pieces, sums, by_day, _, _ = statements("jobs", "report_usage")
    return _facts(found, pieces, sums, by_day)


def class_facts(found: Window) -> str:
    """SQL of the seconds of resource classes inside a window; parameters by `Window.arguments`."""
    pieces, _, _, sums, by_day = statements("jobs", "report_usage")
    return _facts(found, pieces, sums, by_day)


def _facts(found: Window, pieces: str, sums: str, by_day: str) -> str:
    if found.whole_days:
        running = sums.format(pieces=pieces.format(running="x.end_at IS NULL"))
        return f"{by_day} UNION ALL {running}"
    return sums.format(pieces=pieces.format(running="true"))


@dataclass(frozen=True, slots=True)
class Grouping:
    """How rows of facts are grouped: the bucket first, so that rows sort by time, then the other keys."""

    window: Window
    keys: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many of a row's first values are keys."""
        return len(self.keys)

    @property
    def sql(self) -> str:
        """The GROUP BY clause, by place."""
        return f"GROUP BY {', '.join(str(n + 1) for n in range(self.width))}" if self.keys else ""

    def select(self, sums: str) -> str:
        """The keys and sums to select."""
        return ", ".join([*self.columns, sums])

    def in_order(self, rows: Sequence[tuple[Any, ...]]) -> tuple[list[Row], list[tuple[Any, ...]]]:
        """Keys and rows sorted by time and by what is shown: users by the name they are known under.

        Surrogate ids are random, so sorting by them would give another order (and another row the odd cent) in
        another installation of the same books.
        """
        at = self.keys.index("user") if "user" in self.keys else None
        people = {} if at is None else log.people(row[at] for row in rows)

        def shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(people.get(value, value) if n == at else value for n, value in enumerate(row[: self.width]))

        ordered = sorted(rows, key=shown)
        return [self._keys(shown(row)) for row in ordered], ordered

    def _keys(self, values: tuple[Any, ...]) -> Row:
        """Keys by name in the order that was asked for; buckets by their label."""
        found = {
            key: self.window.labels[value] if key in BUCKETS else value
            for key, value in zip(self.keys, values, strict=True)
        }
        return {group: found[group] for group in self.window.params.group_by}

    def heads(self) -> tuple[Column, ...]:
        """Columns of the keys in the order that was asked for."""
        return tuple(
            Column(group, group.replace("_", " ").capitalize(), "time" if group in BUCKETS else "label")
            for group in self.window.params.group_by
        )


def grouping(window_: Window, dimensions: Mapping[str, str] = DIMENSIONS) -> Grouping:
    """How a window's parameters group its facts. dimensions: name of a grouping -> SQL on a relation `f`."""
    bucket = window_.params.bucket
    rest = tuple(group for group in window_.params.group_by if group != bucket)
    keys = (bucket, *rest) if bucket else rest
    columns = tuple("f.bucket" if key == bucket else dimensions[key] for key in keys)
    return Grouping(window_, keys, columns)


def scoped(scope: Scope, arguments: dict[str, Any]) -> str:
    """SQL condition on a relation `f`: only what the caller may see; adds its parameter."""
    if scope.projects is None:
        return "true"
    arguments["projects"] = sorted(scope.projects)
    return "f.path && %(projects)s::text[]"
