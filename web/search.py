"""The search box: one line of text, everything that it may mean, in groups; a single exact hit is opened at once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.queries_log import event_at, of_stream, people_like
from fleet.queries import Site, site
from fleet.queries_nodes import nodes_like
from jobs import queries_find as find
from jobs.queries import scope_of
from jobs.queries_life import life
from web import figures
from web.eventwords import stream_href
from web.frame import frame
from web.rights import link_to, page

__all__ = ["search"]

MOST: Final = 20
"""Hits of one group; a text with more is too short."""
FEW: Final = 8
"""People looked at for a caller who may not see everything: of each it must be asked whether it may be seen."""
LONGEST: Final = 200
_DIGITS: Final = re.compile(r"#?([\d\u202f ]{1,24})")
_HEX: Final = re.compile(r"[0-9a-f]{4,32}")


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found. exact: the text names just this."""

    text: str
    href: str
    note: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Hits of one kind. full: there may be more than are shown."""

    title: str
    hits: Sequence[Hit]

    @property
    def full(self) -> bool:
        """Whether it is as long as a group may be."""
        return len(self.hits) >= MOST


@page
def search(request: HttpRequest) -> HttpResponse:
    """GET ?q=: groups of hits; straight to the page of the only exact one, unless ?all=1."""
    scope, here = scope_of(request.user), site()
    text = " ".join(request.GET.get("q", "").replace("\0", "").split())[:LONGEST]
    groups = [Group(title, hits) for title, look in LOOKS if (hits := look(scope, text, here))] if text else []
    exact = [hit for group in groups for hit in group.hits if hit.exact and hit.href]
    if len({hit.href for hit in exact}) == 1 and request.GET.get("all") != "1":
        return HttpResponseRedirect(exact[0].href)
    context = {**frame(request, "search", log.as_of(), here), "text": text, "groups": groups, "whole": scope.fleetwide}
    return render(request, "web/search.html", context)


def _runs(scope: Scope, text: str, here: Site) -> list[Hit]:
    found = find.runs_named(scope, text, MOST)
    names = log.people({run.user for run in found})
    return [
        Hit(run.title, link_to("run", run.id),
            f"run of {_name(names, run.user)}, {_number(run.jobs, 'job')}, {_day(run.submit, here)}",
            text in (run.name, run.title))
        for run in found
    ]  # fmt: skip


def _jobs(scope: Scope, text: str, here: Site) -> list[Hit]:
    found = find.jobs_numbered(scope, text, MOST)
    names = log.people({job.user for job in found})
    return [
        Hit(_job_name(job), link_to("job", job.id),
            f"{job.state}, {_name(names, job.user)}, {job.account}, {_day(job.submit, here)}",
            text in (job.job_id, f"{job.array_job_id}_{job.array_task}"))
        for job in found
    ]  # fmt: skip


def _job_name(job: Any) -> str:
    array = f" ({job.array_job_id}_{job.array_task})" if job.array_job_id else ""
    return f"job {job.job_id}{array} on {job.cluster}"


def _keys(scope: Scope, text: str, _: Site) -> list[Hit]:
    """Runs, jobs and attempts by their id in REST."""
    key = _uuid(text)
    found = find.by_key(scope, key) if key else []
    return [Hit(*_named_by_key(row), exact=True) for row in found]


def _named_by_key(row: Any) -> tuple[str, str]:
    if hasattr(row, "named"):
        return f"run {row.title}", link_to("run", row.id)
    if hasattr(row, "array_job_id"):
        return _job_name(row), link_to("job", row.id)
    return f"attempt {row.number} of job {row.job_id} on {row.cluster}", link_to("attempt", row.id)


def _projects(scope: Scope, text: str, _: Site) -> list[Hit]:
    found = find.projects_like(scope, text, MOST)
    return [
        Hit(row.code, link_to("project", row.code) or f"{reverse('use')}?{urlencode({'project': row.code})}",
            f"{row.kind}{f', {row.title}' if row.title != row.code else ''}", row.code == text)
        for row in found
    ]  # fmt: skip


def _accounts(scope: Scope, text: str, _: Site) -> list[Hit]:
    return [
        Hit(row.account, f"{link_to('jobs')}?{urlencode({'account': row.account})}" if link_to("jobs") else "",
            f"account of {row.project} on {row.cluster}")
        for row in find.accounts_like(scope, text, MOST)
    ]  # fmt: skip


def _people(scope: Scope, text: str, _: Site) -> list[Hit]:
    ids = people_like(text, MOST if scope.projects is None else FEW)
    seen = find.uses_of(scope, list(ids))
    jobs, runs = link_to("jobs"), link_to("runs")
    found = []
    for id_, name in ids.items():
        if id_ in seen:
            said = urlencode({"user": name})
            found.append(Hit(name, f"{runs or jobs}?{said}" if runs or jobs else "", "person, runs and jobs"))
    return found


def _machines(scope: Scope, text: str, _: Site) -> list[Hit]:
    """Nodes by name or serial number."""
    if len(text) < 2:
        return []
    return [
        Hit(row.name, link_to("node", row.cluster, row.name),
            f"node of {row.cluster}, {row.state.replace('_', ' ')}{f', serial {row.serial}' if row.serial else ''}",
            text.lower() in (row.name.lower(), row.serial.lower()))
        for row in nodes_like(scope, text, MOST)
    ]  # fmt: skip


def _nodes(scope: Scope, text: str, here: Site) -> list[Hit]:
    """Attempts on a node of this name."""
    if not re.fullmatch(r"[A-Za-z][\w.-]{1,80}", text):
        return []
    return [
        Hit(f"job {row.job_id} on {row.cluster}", link_to("job", row.job),
            f"attempt {row.number}, {'running' if row.end is None else row.state}, started {_day(row.start, here)}")
        for row in find.on_node(scope, text, MOST)
    ]  # fmt: skip


def _positions(scope: Scope, text: str, _: Site) -> list[Hit]:
    found = _DIGITS.fullmatch(text)
    digits = re.sub(r"\D", "", found[1]) if found else ""
    row = event_at(scope, int(digits)) if digits and len(digits) < 19 else None
    if row is None:
        return []
    name = f"position {figures.thousands(row.position)}"
    return [Hit(name, reverse("event", args=[row.position]), f"{row.type} of {row.stream}", text.startswith("#"))]


def _streams(scope: Scope, text: str, _: Site) -> list[Hit]:
    """The stream of exactly this name, where the caller may see it."""
    if text.startswith("job/"):
        known = life(scope, text) is not None
    else:
        known = scope.fleetwide and bool(of_stream(text, most=1))
    return [Hit(text, stream_href(text), "stream of events", exact=True)] if known else []


def _rejections(scope: Scope, text: str, _: Site) -> list[Hit]:
    span = _uuid_span(text)
    if span is None:
        return []
    rows = log.rejections(scope).filter(id__gte=span[0], id__lte=span[1])[:MOST]
    return [
        Hit(str(row.id), reverse("rejection", args=[row.id]), f"rejection, {row.state}: {row.text[:120]}", _long(text))
        for row in rows
    ]


def _deliveries(scope: Scope, text: str, _: Site) -> list[Hit]:
    span = _uuid_span(text)
    if span is None:
        return []
    rows = log.deliveries(scope).filter(id__gte=span[0], id__lte=span[1])[:MOST]
    return [
        Hit(str(row.id), reverse("delivery", args=[row.id]), f"delivery of {row.source}, {row.state}", _long(text))
        for row in rows
    ]


def _long(text: str) -> bool:
    """Whether a part of an id is long enough to mean just one thing."""
    return len(text.replace("-", "")) >= 8


def _uuid(text: str) -> uuid.UUID | None:
    digits = text.lower().replace("-", "")
    return uuid.UUID(digits) if re.fullmatch(r"[0-9a-f]{32}", digits) else None


def _uuid_span(text: str) -> tuple[uuid.UUID, uuid.UUID] | None:
    """Least and greatest id that begins so; None where the text is no beginning of an id."""
    digits = text.lower().replace("-", "")
    if not _HEX.fullmatch(digits):
        return None
    return uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))


def _name(names: dict[str, str], user: str) -> str:
    return names.get(user, user) or "nobody named"


def _number(number: int, noun: str) -> str:
    return f"{figures.thousands(number)} {noun}{'' if number == 1 else 's'}"


def _day(instant: Any, here: Site) -> str:
    return figures.day(instant.astimezone(here.zone).date(), year=True) if instant else "no date"


Look = Callable[[Scope, str, Site], list[Hit]]
LOOKS: Final[tuple[tuple[str, Look], ...]] = (
    ("Runs", _runs), ("Jobs", _jobs), ("By id", _keys), ("Projects", _projects), ("Accounts", _accounts),
    ("People", _people), ("Nodes", _machines), ("On this node", _nodes), ("Streams", _streams),
    ("Event log", _positions), ("Rejections", _rejections), ("Deliveries", _deliveries),
)  # fmt: skip
"""Title of each group, and how its hits are found."""
