"""Where the rows of a report lead: to the page of what they name, and to the attempts that they are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from django.urls import reverse

from events import reports
from events.access import Scope
from events.reports import BUCKETS, Params, Row, bucket_edges, midnight
from web.ranges import Days
from web.reportasked import Question
from web.tables import Link

__all__ = ["Links", "links_over"]

PROJECTS: Final = ("project", "branch", "team", "organisation")
PAGES: Final = {"run": "run", "job": "job", "attempt": "attempt"}
"""What has a page of its own, by the key that stands beside its name."""
LISTED: Final = ("user", "account", "cluster", "partition")
"""What leads to its attempts."""
FINER: Final = {"year": "month", "quarter": "month", "month": "day", "week": "day", "day": "hour"}
WINDOW: Final = {
    "ran": ("ran_from", "start_to"),
    "started": ("start_from", "start_to"),
    "ended": ("end_from", "end_to"),
}
UNMAPPED: Final = "unmapped/"


@dataclass(frozen=True)
class Links:
    """Addresses for the rows of one answer. projects: codes of which the caller may open the page."""

    question: Question
    params: Params
    site_zone: ZoneInfo
    projects: Collection[str]
    everything: bool
    edges: Mapping[str, tuple[datetime, datetime]]

    @classmethod
    def of(
        cls, question: Question, params: Params, site_zone: ZoneInfo, projects: Collection[str], *, everything: bool
    ) -> Links:
        """With the edges of the buckets of time, if it is grouped by one."""
        edges = {label: (start, end) for label, start, end in bucket_edges(params)} if params.bucket else {}
        return cls(question, params, site_zone, projects, everything, edges)

    def label(self, name: str, row: Row) -> str:
        """Where the name of a row leads; '' where it has no page."""
        value = row.get(name)
        if value in (None, ""):
            return ""
        if name in BUCKETS:
            return self._inside(name, str(value))
        if name in PROJECTS:
            return self.question.project_link(str(value)) if self._may_open(str(value)) else ""
        if name in PAGES:
            return _page_of(PAGES[name], row.get(f"{name}_id"))
        return self.attempts({name: value, **_place(row, name)}, "ran") if name in LISTED else ""

    def figure(self, row: Row) -> str:
        """The attempts a row is made of; '' where no list can be narrowed to them."""
        kind = self.question.report.attempts
        if not kind or self.question.known:  # lists are of now
            return ""
        keys = {name: value for name, value in row.items() if name in self._keys}
        return self.attempts(keys, kind)

    @property
    def _keys(self) -> tuple[str, ...]:
        return (*self.params.group_by, "run_id", "job_id", "account", "cluster")

    def attempts(self, keys: Row, kind: str) -> str:
        """Address of the list of attempts with the filters that the keys mean; '' where one of them is no filter."""
        start, end = self.params.start, self.params.end
        filters: dict[str, str] = {"project": self.question.project} if self.question.project else {}
        for name, value in keys.items():
            if name in BUCKETS and value in self.edges:
                start, end = self.edges[value]
                continue
            found = _filter(name, value, keys, narrowed=bool(self.question.project))
            if found is None:
                return ""
            filters |= found
        first, last = WINDOW[kind]
        days = {first: self._day(start), last: self._day(end)}
        return f"{reverse('attempts')}?{urlencode({**filters, **days}, safe=':')}"

    def _day(self, at: datetime) -> str:
        """An instant as lists take it: a day of the site where it is a midnight there."""
        local = at.astimezone(self.site_zone)
        if midnight(local.date(), self.site_zone) == at:
            return local.date().isoformat()
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _inside(self, bucket: str, label: str) -> str:
        """A bucket leads to its own pieces: a month to its days, a day to its hours."""
        if bucket not in FINER or label not in self.edges:
            return ""
        start, end = (at.astimezone(self.params.zone) for at in self.edges[label])
        days = Days(start.date(), (end - timedelta(microseconds=1)).date())
        finer = FINER[bucket] if FINER[bucket] in self.question.report.groupings else bucket
        groups = tuple(finer if group == bucket else group for group in self.question.groups)
        return self.question.link(days=days, groups=groups, sort="")

    def _may_open(self, code: str) -> bool:
        return code in self.projects or (self.everything and code.startswith(UNMAPPED))


def _page_of(name: str, key: Any) -> str:
    try:
        return reverse(name, args=[UUID(str(key))])
    except ValueError:
        return ""


def _place(row: Row, name: str) -> Row:
    """What tells apart things of one name: an account is one of its cluster."""
    return {"cluster": row["cluster"]} if name in ("account", "partition") and row.get("cluster") else {}


def _filter(name: str, value: Any, keys: Row, *, narrowed: bool) -> dict[str, str] | None:
    """The filter of the list of attempts that a key means; {} for what says nothing, None for what is no filter.

    narrowed: a project is asked for, so that a team above it must not widen the list again.
    """
    if name in ("run_id", "job_id"):
        return {name.removesuffix("_id"): str(value)}
    if name in PAGES:
        return {} if keys.get(f"{name}_id") else None
    text = "" if value is None else str(value)
    if not text or "," in text:
        return None
    if name == "project":
        return {"project": text}
    if name in PROJECTS:
        return None if narrowed else {} if keys.get("project") else {"project": text}
    return {name: text} if name in LISTED else None


def links_over(scope: Scope, days: Days, project: str = "", known: str = "") -> list[Link]:
    """The reports that the caller may read, over some days and for one project, for other pages."""
    found = [reports.definition(name) for name in reports.names()]
    return [Link(one.title, Question(one, days, one.default, project=project, known=known).link())
            for one in found if scope.money or not one.money]  # fmt: skip
