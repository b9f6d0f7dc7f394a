"""A report's window in pieces, and use inside it as one SQL relation: from the roll-up by day or from stretches.

Both ways give the same figures; the roll-up is read when every piece is a whole day of the site, the stretches
themselves for any other window (hours, another zone, a time inside a day). Running attempts always come from
their stretches, cut at the instant of the report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

from events import queries as log
from events.access import Scope
from events.reports import BUCKETS, BadParameter, Column, Params, Row, bucket_edges, midnight
from events.sqlfiles import statements
from jobs.queries import may_choose

DIMENSIONS: Final[dict[str, str]] = {
    "project": "f.project",
    "branch": "unnest(f.path)",
    "team": "jobs_ancestor(f.path, 'team')",
    "organisation": "jobs_ancestor(f.path, 'organisation')",
    "account": "f.account",
    "user": "f.user_id",
    "cluster": "f.cluster",
    "partition": "f.partition",
}
"""Groupings of use, and the SQL that gives them from a relation `f` of facts.

`branch` counts a row for its project and for everything above it: its rows overlap and do not add up to the total.
"""
RUN: Final = "run"


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
    """SQL of the use inside a window, one row per piece and key; parameters by `Window.arguments` and `scoped`.

    Grouped by run it is read from the stretches themselves: the roll-up by day does not know runs.
    """
    pieces, sums, by_day, _, _ = statements("jobs", "report_usage")
    if RUN in found.params.group_by:
        return sums.format(pieces=_pieces(found, pieces, "true"), run="run,")
    return _facts(found, pieces, sums.replace("{run}", ""), by_day)


def run_pieces(found: Window, which: str = "true") -> str:
    """SQL of stretches cut to the pieces of a window; parameters by `Window.arguments` and `scoped`.

    which: SQL condition on a stretch `x`.
    """
    return _pieces(found, statements("jobs", "report_usage")[0], which)


def _pieces(found: Window, pieces: str, which: str) -> str:
    """Stretches cut to pieces; of one project only those of accounts that were ever under it."""
    return pieces.format(running=f"{which} AND {ACCOUNTS}" if found.params.project else which)


ACCOUNTS: Final = """x.account = ANY(ARRAY(
    SELECT a.account FROM jobs_accountplace a WHERE a.project = %(project)s
    UNION SELECT a.account FROM jobs_projectplace p JOIN jobs_accountplace a ON a.project = p.project
          WHERE p.path @> ARRAY[%(project)s]
    UNION SELECT substr(%(project)s, 10) WHERE %(project)s LIKE 'unmapped/%%'))"""
"""Narrows stretches and attempts `x` to accounts that ever belonged under a project: indexes know accounts."""


def class_facts(found: Window) -> str:
    """SQL of the seconds of resource classes inside a window; parameters by `Window.arguments`."""
    pieces, _, _, sums, by_day = statements("jobs", "report_usage")
    return _facts(found, pieces, sums, by_day)


def _facts(found: Window, pieces: str, sums: str, by_day: str) -> str:
    if found.whole_days:
        running = sums.format(pieces=_pieces(found, pieces, "x.end_at IS NULL"))
        return f"{by_day} UNION ALL {running}"
    return sums.format(pieces=_pieces(found, pieces, "true"))


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

    @property
    def with_total(self) -> str:
        """The same with one more row over everything."""
        return f"GROUP BY GROUPING SETS (({', '.join(str(n + 1) for n in range(self.width))}), ())"

    def select(self, sums: str) -> str:
        """The keys and sums to select."""
        return ", ".join([*self.columns, sums])

    def in_order(self, rows: Sequence[tuple[Any, ...]]) -> tuple[list[Row], list[tuple[Any, ...]]]:
        """Keys and rows sorted by time and by what is shown: users by the name they are known under.

        Surrogate ids are random, so sorting by them would give another order (and another row the odd cent) in
        another installation of the same books.
        """
        names = [self._names(n, key, rows) for n, key in enumerate(self.keys)]

        def shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(known.get(value, value) for known, value in zip(names, row[: self.width], strict=True))

        by_run = RUN in self.keys
        ordered = sorted(((shown(row), row) for row in rows), key=lambda one: (one[0], one[1][: self.width] * by_run))
        return [self._keys(row, values) for values, row in ordered], [row for _, row in ordered]

    @staticmethod
    def _names(at: int, key: str, rows: Sequence[tuple[Any, ...]]) -> Mapping[Any, str]:
        """What the values of a key are shown as, where that is not themselves."""
        if key == "user":
            return log.people(row[at] for row in rows)
        return run_names({row[at] for row in rows}) if key == RUN else {}

    def _keys(self, row: tuple[Any, ...], values: tuple[Any, ...]) -> Row:
        """Keys by name in the order that was asked for; buckets by their label, a run with its key beside it."""
        found = {
            key: self.window.labels[value] if key in BUCKETS else value
            for key, value in zip(self.keys, values, strict=True)
        }
        asked = {group: found[group] for group in self.window.params.group_by}
        return asked | ({"run_id": str(row[self.keys.index(RUN)])} if RUN in self.keys else {})

    def heads(self) -> tuple[Column, ...]:
        """Columns of the keys in the order that was asked for."""
        names = [*self.window.params.group_by, *(["run_id"] if RUN in self.keys else [])]
        return tuple(
            Column(name, name.replace("_", " ").capitalize(), "time" if name in BUCKETS else "label") for name in names
        )


def grouping(window_: Window, dimensions: Mapping[str, str] = DIMENSIONS) -> Grouping:
    """How a window's parameters group its facts. dimensions: name of a grouping -> SQL on a relation `f`."""
    bucket = window_.params.bucket
    rest = tuple(group for group in window_.params.group_by if group != bucket)
    keys = (bucket, *rest) if bucket else rest
    columns = tuple("f.bucket" if key == bucket else dimensions[key] for key in keys)
    return Grouping(window_, keys, columns)


def run_names(ids: Collection[UUID]) -> dict[UUID, str]:
    """What runs are called: by the name their user gave, else by cluster and job id."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT r.id, CASE WHEN NOT r.named THEN j.cluster || '/' || j.job_id
                                WHEN r.generation > 1 THEN r.name || ' #' || r.generation ELSE r.name END
               FROM jobs_run r LEFT JOIN jobs_job j ON j.id = r.id WHERE r.id = ANY(%s)""",
            [list(ids)],
        )
        return {key: str(name) for key, name in cursor.fetchall()}


_EVER: Final = """f.project = ANY(ARRAY(
    SELECT p.project FROM jobs_projectplace p WHERE p.path && {of} UNION SELECT unnest({of})))"""
"""Says nothing new of a row, but the roll-ups have an index by project and none by path."""


def scoped(scope: Scope, params: Params, arguments: dict[str, Any]) -> str:
    """SQL condition on a relation `f`: only what the caller may see and asks for; adds its parameters."""
    conditions = []
    if scope.projects is not None:
        arguments["projects"] = sorted(scope.projects)
        conditions += ["f.path && %(projects)s::text[]", _EVER.format(of="%(projects)s::text[]")]
    if params.project:
        arguments["project"] = params.project
        conditions += ["f.path @> ARRAY[%(project)s]", _EVER.format(of="ARRAY[%(project)s]")]
    return " AND ".join(conditions) or "true"


def check_project(scope: Scope, project: str) -> None:
    """Where nothing was found for a project: raises BadParameter when there is none that the caller may see."""
    if project and not may_choose(scope, project):
        raise BadParameter("project", f"there is no project {project[:80]!r} that you may see")
