"""What a request for the page of a report asks for, checked as REST checks it, and the addresses of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import QueryDict
from django.urls import reverse

from events import reports
from events.reports import BadParameter, Definition, Params
from web import asked
from web.asked import Wrong, project_address
from web.ranges import Days

__all__ = ["FIELDS", "MOST_GROUPS", "Question", "read", "refused"]

FIELDS: Final = ("from", "to", "timezone", "group_by", "project", "as_known_at", "view", "sort", "page", "paper")
MOST_GROUPS: Final = 3
MOST_PAGES: Final = 100_000
MOST_TEXT: Final = 200
"""Characters of any one of them."""
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Question:
    """A view of a report. Texts are '' where the usual is meant: the site's zone, everything, now, the first view.

    sort: a column, with - before it for downwards; '' is by the report's main column. page: counted from 1.
    """

    report: Definition
    days: Days
    groups: tuple[str, ...]
    zone: str = ""
    project: str = ""
    known: str = ""
    view: str = ""
    sort: str = ""
    page: int = 1

    def link(self, **changes: Any) -> str:
        """Address of the same view with something changed; the pages start anew."""
        return f"{reverse('report', args=[self.report.name])}?{self._query(**{'page': 1, **changes})}"

    def document(self, paper: str) -> str:
        """Address of the same figures as a PDF."""
        return f"{reverse('report-pdf', args=[self.report.name])}?{self._query(page=1)}&paper={paper}"

    def rest(self, site_zone: str, form: str = "") -> str:
        """Address of the same figures in REST; form: json, csv or xlsx."""
        given = {**self._texts(site_zone), "format": form}
        query = urlencode({name: value for name, value in given.items() if value}, safe=",:")
        return f"{reverse('api-report', args=[self.report.name])}?{query}"

    def project_link(self, project: str) -> str:
        """Address of a project's page over the same days."""
        query = {"from": self.days.first.isoformat(), "to": self.days.last.isoformat(), "as_known_at": self.known}
        return f"{project_address(project)}?{urlencode({name: value for name, value in query.items() if value})}"

    def params(self, site_zone: ZoneInfo, cut: datetime) -> Params:
        """The same as the report takes it. Raises Wrong."""
        given = self._texts("")
        try:
            return reports.parse(
                self.report.name, zone=site_zone, start=given["from"], end=given["to"], timezone=self.zone,
                group_by=given["group_by"], as_known_at=self.known, view=self.view, project=self.project,
                cut=None if self.known else cut,
            )  # fmt: skip
        except BadParameter as bad:
            raise refused(bad) from None

    def _texts(self, site_zone: str) -> dict[str, str]:
        """As REST names them; its end is exclusive."""
        return {
            "from": self.days.first.isoformat(), "to": (self.days.last + DAY).isoformat(),
            "timezone": self.zone or site_zone, "group_by": ",".join(self.groups), "project": self.project,
            "as_known_at": self.known, "view": self.view,
        }  # fmt: skip

    def _query(self, **changes: Any) -> str:
        other = replace(self, **changes)
        usual = other.groups == other.report.default
        given = {
            "from": other.days.first.isoformat(), "to": other.days.last.isoformat(), "timezone": other.zone,
            "group_by": "" if usual else ",".join(other.groups), "project": other.project,
            "as_known_at": other.known, "view": other.view, "sort": other.sort,
            "page": str(other.page) if other.page > 1 else "",
        }  # fmt: skip
        return urlencode({name: value for name, value in given.items() if value}, safe=",:")


def refused(bad: BadParameter) -> Wrong:
    """What a report says of a parameter, as pages say it."""
    return Wrong(bad.name, f"{bad.text[:1].upper()}{bad.text[1:]}.")


def read(given: QueryDict, report: Definition, usual: Days) -> Question:
    """The view asked for by GET parameters, names and texts only; `usual` where no days are given. Raises Wrong."""
    for name, value in given.items():
        if name not in FIELDS:
            raise Wrong(name[:80], f"There is no parameter {name[:80]!r} here; there are {', '.join(FIELDS)}.")
        if len(str(value)) > MOST_TEXT or "\0" in str(value):
            raise Wrong(name, f"Write at most {MOST_TEXT} characters.")
    texts = {name: given.get(name, "").strip() for name in FIELDS}
    days = asked.read({name: texts[name] for name in ("from", "to", "as_known_at")}, usual, "", [""]).days
    return Question(report, days, _groups(given, report), texts["timezone"], texts["project"], texts["as_known_at"],
                    texts["view"], texts["sort"], _page(texts["page"]))  # fmt: skip


def _groups(given: QueryDict, report: Definition) -> tuple[str, ...]:
    """Separated by commas, or given several times as a form does; what stands there twice is meant once."""
    parts = [part.strip() for text in given.getlist("group_by") for part in text.split(",")]
    groups = tuple(dict.fromkeys(part for part in parts if part)) or report.default
    if len(groups) > MOST_GROUPS:
        raise Wrong("group_by", f"Choose at most {MOST_GROUPS} groupings.")
    return groups


def _page(text: str) -> int:
    if not text:
        return 1
    if not (text.isdecimal() and len(text) < 7 and 1 <= int(text) <= MOST_PAGES):
        raise Wrong("page", "Pages are counted from 1.")
    return int(text)
