"""What a request for a page of use asks for, checked, and the addresses of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from web import figures
from web.ranges import MOST_DAYS, Days

__all__ = ["GROUPS", "MEASURES", "Asked", "Wrong", "project_address", "read"]

GROUPS: Final = {"project": "Project", "user": "User", "run": "Run", "account": "Account"}
MEASURES: Final = ("gpu_seconds", "node_seconds", "cpu_seconds", "attempts_started", "jobs_ended", "jobs_started",
                   "users", "wait", "cost", "last")  # fmt: skip
"""What tables can be sorted by, besides the name."""
KNOWN_MOST: Final = 60
"""Characters of a position or of a time."""


class Wrong(ValueError):
    """Something asked for cannot be shown: the field and what to do about it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field, self.text = field, text


@dataclass(frozen=True, slots=True)
class Asked:
    """A view of use. project: '' is all. sort: '' is by the main measure. every: no row is folded away.

    known: position or time at which the log is asked, '' for now.
    """

    days: Days
    project: str = ""
    group: str = "project"
    sort: str = ""
    every: bool = False
    known: str = ""

    def link(self, **changes: Any) -> str:
        """Address of the same view with something changed."""
        other = replace(self, **changes)
        optional = {"group": other.group if "group" in changes or other.group != "project" else "", "sort": other.sort,
                    "all": "1" if other.every else "", "as_known_at": other.known}  # fmt: skip
        kept = {name: value for name, value in optional.items() if value}
        return f"{project_address(other.project)}?{urlencode({**_days(other.days), **kept})}"

    def project_link(self, project: str) -> str:
        """Address of a project's page over the same days."""
        known = {"as_known_at": self.known} if self.known else {}
        return f"{project_address(project)}?{urlencode({**_days(self.days), **known})}"

    def document(self, paper: str) -> str:
        """Address of the same figures as a PDF."""
        query = {**_days(self.days), "paper": paper} | ({"as_known_at": self.known} if self.known else {})
        address = reverse("project-pdf", args=[self.project]) if self.project else reverse("projects-pdf")
        return f"{address}?{urlencode(query)}"

    def listed(self, name: str, **filters: str) -> str:
        """Address of a list (`jobs`, `attempts`, `runs`) of what started in these days, for the same project."""
        project = {"project": self.project} if self.project else {}
        start = {"start_from": self.days.first.isoformat(), "start_to": _after(self.days)}
        return f"{reverse(name)}?{urlencode({**project, **start, **filters})}"

    def report(self, name: str, zone: str, *groups: str, form: str = "") -> str:
        """Address of a report with the same figures."""
        days = {"from": self.days.first.isoformat(), "to": _after(self.days), "timezone": zone}
        rest = {"group_by": ",".join(groups), "project": self.project, "as_known_at": self.known, "format": form}
        kept = days | {key: value for key, value in rest.items() if value}
        return f"{reverse('api-report', args=[name])}?{urlencode(kept)}"


def project_address(project: str) -> str:
    """Address of a project's page; of the page of all projects for ''."""
    return reverse("project", args=[project]) if project else reverse("projects")


def _days(days: Days) -> dict[str, str]:
    return {"from": days.first.isoformat(), "to": days.last.isoformat()}


def _after(days: Days) -> str:
    return (days.last + timedelta(days=1)).isoformat()


def read(given: Mapping[str, str], usual: Days, project: str, groups: Sequence[str]) -> Asked:
    """The view asked for by GET parameters; `usual` where no days are given. Raises Wrong.

    groups: by what the page can be grouped, the usual one first.
    """
    first, last = _day(given, "from"), _day(given, "to")
    days = Days(first or last or usual.first, last or first or usual.last)
    if days.number < 1:
        raise Wrong("to", f"The last day lies before the first, {figures.day(days.first, year=True)}.")
    if days.number > MOST_DAYS:
        raise Wrong("to", "Choose at most twenty years.")
    group, sort = given.get("group", "") or groups[0], given.get("sort", "")
    if group not in groups:
        raise Wrong("group", f"Group by {', '.join(groups)}.")
    if sort.removeprefix("-") not in ("", "name", *MEASURES):
        raise Wrong("sort", "The table has no such column.")
    known = given.get("as_known_at", "").strip()
    if len(known) > KNOWN_MOST:
        raise Wrong("as_known_at", "Write a position of the log, or a time as 2026-11-30T10:00:00Z.")
    return Asked(days, project, group, sort, given.get("all") == "1", known)


def _day(given: Mapping[str, str], name: str) -> date | None:
    text = given.get(name, "").strip()
    if not text:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise Wrong(name, "Write a day as 2026-11-30.") from None
    if not 1970 <= found.year <= 9000:
        raise Wrong(name, "Choose a year from 1970 on.")
    return found
