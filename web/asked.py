"""What a request for the page of use asks for, checked, and the addresses of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final
from urllib.parse import urlencode

from web import figures
from web.ranges import MOST_DAYS, Days

__all__ = ["GROUPS", "MEASURES", "Asked", "Wrong", "read"]

GROUPS: Final = {"project": "Project", "user": "User", "account": "Account"}
MEASURES: Final = ("gpu_seconds", "node_seconds", "cpu_seconds", "attempts_started", "jobs_ended", "wait", "cost")
"""What the table can be sorted by, besides the name."""


class Wrong(ValueError):
    """Something asked for cannot be shown: the field and what to do about it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field, self.text = field, text


@dataclass(frozen=True, slots=True)
class Asked:
    """A view of use. project: '' is all. sort: '' is by the main measure. every: no row is folded away."""

    days: Days
    project: str = ""
    group: str = "project"
    sort: str = ""
    every: bool = False

    def link(self, **changes: Any) -> str:
        """Address of the same view with something changed."""
        other = replace(self, **changes)
        query = {"from": other.days.first.isoformat(), "to": other.days.last.isoformat(), "group": other.group}
        optional = {"project": other.project, "sort": other.sort, "all": "1" if other.every else ""}
        return "?" + urlencode({**query, **{name: value for name, value in optional.items() if value}})


def read(given: Mapping[str, str], usual: Days, projects: Sequence[str]) -> Asked:
    """The view asked for by GET parameters; `usual` where no days are given. Raises Wrong."""
    first, last = _day(given, "from"), _day(given, "to")
    days = Days(first or last or usual.first, last or first or usual.last)
    if days.number < 1:
        raise Wrong("to", f"The last day lies before the first, {figures.day(days.first, year=True)}.")
    if days.number > MOST_DAYS:
        raise Wrong("to", "Choose at most twenty years.")
    project, group, sort = given.get("project", ""), given.get("group", "") or "project", given.get("sort", "")
    if project and project not in projects:
        raise Wrong("project", "There is no such project that you may see.")
    if group not in GROUPS:
        raise Wrong("group", f"Group by {', '.join(GROUPS)}.")
    if sort.removeprefix("-") not in ("", "name", *MEASURES):
        raise Wrong("sort", "The table has no such column.")
    return Asked(days, project, group, sort, given.get("all") == "1")


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
