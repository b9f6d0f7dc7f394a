"""What every page carries around its content: where one can go, who is here, as of when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.reports import AsOf
from fleet.queries import Site
from fleet.queries_faults import open_count
from jobs.queries import scope_of
from jobs.queries_now import standing
from web import figures, theme

__all__ = ["Section", "as_of_words", "frame"]

SECTIONS: Final = (
    ("home", "Home", False, False), ("projects", "Projects", False, False), ("runs", "Runs", False, False),
    ("jobs", "Jobs", False, False), ("waiting", "Waiting", False, False), ("fairshare", "Fair share", False, False),
    ("fleet", "Fleet", False, False), ("faults", "Faults", False, False),
    ("scaling", "Scaling", False, False), ("reports", "Reports", False, False),
    ("log", "Event log", True, True), ("sources", "Sources", False, True),
    ("rejections", "Rejections", False, True), ("mail", "Mail", True, False), ("api-docs", "API docs", False, False),
)  # fmt: skip
"""Name of an address, the word that leads there, whether a gap stands before it, whether it is the raw log's."""

COUNTED: Final = {"runs": "runs that hold something now", "faults": "faults that are open",
                  "rejections": "records refused and open"}  # fmt: skip
"""What the number beside a word counts."""


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the menu. count: how many of it there are now, '' for none; meaning: what is counted."""

    text: str
    href: str
    current: bool
    gap: bool
    count: str
    meaning: str


def frame(request: HttpRequest, here: str, as_of: AsOf | None, site: Site, *, known: bool = False) -> dict[str, Any]:
    """Context for base.html. here: the section of the page; as_of: what its figures stand on, if it has any.

    known: the page shows what the log knew earlier, so that it has no lag.
    """
    user: Any = request.user
    scope = scope_of(user)
    return {
        "sections": _sections(scope, here),
        "site": site,
        "who": user.get_full_name() or user.get_username(),
        "role": "sees all projects" if scope.projects is None else "sees granted projects",
        "as_of": as_of_words(as_of, site, known=known) | _event(as_of, scope) if as_of else None,
        "q": request.GET.get("q", "")[:200] if here == "search" else "",
        "theme": theme.chosen(request),
        "themes": theme.THEMES,
        "back": request.get_full_path(),
    }


def _sections(scope: Scope, here: str) -> list[Section]:
    counts = {"runs": standing(scope).runs}
    if scope.fleetwide:
        counts["faults"] = open_count(scope)
        counts["rejections"] = log.rejections(scope).filter(state="open").count()
    found = []
    for name, word, gap, raw in SECTIONS:
        if raw and not scope.fleetwide:
            continue
        number = counts.get(name, 0)
        shown = figures.thousands(number) if number else ""
        found.append(Section(word, reverse(name), name == here, gap, shown, COUNTED.get(name, "") if number else ""))
    return found


def _event(as_of: AsOf, scope: Scope) -> dict[str, str]:
    """Where the event at the position stands, for who may see it."""
    return {"href": reverse("event", args=[as_of.position])} if scope.fleetwide and as_of.position else {}


def as_of_words(as_of: AsOf, site: Site, *, known: bool = False) -> dict[str, str]:
    """What figures stand on, as pages write it. known: an earlier state, so that there is no lag."""
    return {
        "position": figures.thousands(as_of.position),
        "time": figures.moment(as_of.time, site.zone),
        "iso": as_of.time.isoformat(timespec="seconds"),
        "lag": "" if known else _lag(as_of),
    }


def _lag(as_of: AsOf) -> str:
    """How long the oldest event that the figures lack has been waiting: '0 s' when they lack none."""
    since = log.recorded_after(as_of.position)
    if since is None:
        return "0 s"
    seconds = max(0.0, (datetime.now(UTC) - since).total_seconds())
    return f"{seconds:.1f} s" if seconds < 60 else figures.duration(int(seconds))
