"""Cells that the lists and pages of what ran have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from events.access import Scope
from fleet.queries import clusters
from jobs.filters import WAITING
from jobs.queries import projects
from web import figures, states
from web.lists import Field, Options, Seen
from web.tables import Cell, Mark, absent, number

__all__ = ["DATES", "DISAGREE", "LOST", "NOT_YET", "PROJECT", "RUNS_IN", "STATE", "address", "asked", "elapsed",
           "gpu_hours", "marks", "person", "project", "seconds_between", "size", "span", "state", "waited"]  # fmt: skip

NOT_YET: Final = "—"
LOST: Final = Mark("lost", "Nobody told its end: it is charged until it was last seen.")
DISAGREE: Final = Mark("sources disagree", "Its sources contradict each other by more than 5 seconds.")
UNCONFIRMED: Final = Mark("unconfirmed", "Only scripts on the nodes speak of it so far, no accounting.")
CORRECTED: Final = Mark("corrected", "A person corrected what the sources say.")


def _projects(scope: Scope) -> Options:
    return [
        (row.code, f"{row.code} · {row.title}" if row.title and row.title != row.code else row.code)
        for row in projects(scope)
    ]


def _states(_: Scope) -> Options:
    return sorted(((name, shown.word) for name, shown in states.STATES.items()), key=lambda pair: pair[1])


def _clusters(scope: Scope) -> Options:
    return [(row.name, row.name) for row in clusters(scope)]


PROJECT: Final = Field("project", "Project and below", options=_projects)
STATE: Final = Field("state", "State", options=_states)
RUNS_IN: Final = (
    Field("cluster", "Cluster", options=_clusters, more=True),
    Field("account", "Account", more=True),
)
DATES: Final = (
    Field("start_from", "Started from", kind="day"),
    Field("start_to", "Started before", kind="day"),
    Field("submit_from", "Submitted from", kind="day", more=True),
    Field("submit_to", "Submitted before", kind="day", more=True),
    Field("end_from", "Ended from", kind="day", more=True),
    Field("end_to", "Ended before", kind="day", more=True),
)


def address(name: str, **query: Any) -> str:
    """Address of a list with filters."""
    return f"{reverse(name)}?{urlencode(query)}"


def state(row: Any, found: Sequence[Mark] = ()) -> Cell:
    """The state of a run, job or attempt with its marks."""
    shown = states.of(row.state)
    why = getattr(row, "reason", "") if row.state == "PENDING" else ""
    return Cell(shown.word, "w", state=shown.css, marks=found, note="" if why == "None" else why)


def marks(row: Any) -> list[Mark]:
    """What is odd about an attempt."""
    odd = ((row.lost, LOST), (row.disagree, DISAGREE), (not row.confirmed, UNCONFIRMED), (row.corrected, CORRECTED))
    return [mark for told, mark in odd if told]


def project(row: Any, _: Seen) -> Cell:
    """The project, leading to its use."""
    return Cell(row.project.removeprefix("unmapped/"), "w", href=reverse("project", args=[row.project]),
                tag="no project" if row.project.startswith("unmapped/") else "")  # fmt: skip


def person(row: Any, seen: Seen, name: str) -> Cell:
    """The user, leading to the same list of that user alone."""
    who = seen.person(row.user)
    return Cell(who, "w", href=address(name, user=who)) if who else absent("not named")


def seconds_between(start: datetime | None, end: datetime | None) -> int | None:
    """Whole seconds from one instant to another, at least 0; None where one is unknown."""
    return None if start is None or end is None else max(0, int((end - start).total_seconds()))


def span(seconds: int | None, note: str = "") -> Cell:
    """A duration in a column of durations."""
    if seconds is None:
        return absent(NOT_YET)
    exact = f"{figures.thousands(seconds)} s" if seconds >= 60 else ""
    return Cell(figures.duration(seconds), "n zero" if seconds == 0 else "n", note=note, title=exact)


def waited(row: Any, seen: Seen, since: datetime | None) -> Cell:
    """From an instant to the start; of what waits, until now."""
    if row.start is None and row.end is None and row.state in WAITING:
        return span(seconds_between(since, seen.cut), "so far")
    return span(seconds_between(since, row.start))


def elapsed(row: Any, seen: Seen) -> Cell:
    """From start to end; of what runs, until now."""
    return span(seconds_between(row.start, row.end or seen.cut))


def size(value: int | None) -> Cell:
    """A number of GPUs or nodes, or *no data*."""
    return absent() if value is None else number(figures.thousands(value), zero=value == 0)


def asked(value: int | None) -> Cell:
    """A number of GPUs or nodes that something asked for and does not hold."""
    return Cell(NOT_YET, "n nodata") if value is None else Cell(figures.thousands(value), "n", note="asked")


def gpu_hours(seconds: int | None, href: str = "") -> Cell:
    """GPU-hours with one decimal, leading to what they are made of."""
    if seconds is None:
        return absent(NOT_YET)
    return Cell(figures.hours(seconds), "n zero" if not seconds else "n", href=href if seconds else "")


def held(found: Mapping[Any, Any], key: Any, what: str) -> int:
    """A sum of `jobs.queries_runs.Held`, 0 where nothing was held."""
    return int(getattr(found[key], what)) if key in found else 0
