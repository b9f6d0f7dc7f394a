"""Faults: the list of what is or was broken, and the page of one: what it did, what its class says to do."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.access import Scope
from fleet import queries_faults
from fleet.filters import FaultFilter
from fleet.queries import clusters, site
from jobs.queries import scope_of
from jobs.queries_faults import AFTER, Hurt, hurt_by
from web import columns, figures, lists
from web.eventwords import rows_of
from web.faultwords import ACTIONS, CLOSED_AS, REACH, REPLACE, SEVERITIES, place_of, state_of
from web.frame import frame
from web.lists import Column, Empty, Field, List, Seen, View
from web.rights import name_of, page
from web.state import one_state
from web.tables import Cell, Head, Link, Table, absent, count, label
from web.usagefigs import Figure

__all__ = ["FAULTS", "index", "of_node", "one"]

MOST: Final = 100
"""Attempts and events that a page shows."""


def _name(row: Any, _: Seen) -> Cell:
    return Cell(row.title, href=reverse("fault", args=[row.id]), note=f"XID {row.xid}" if row.xid is not None else "")


def _state(row: Any, _: Seen) -> Cell:
    word, css = state_of(row)
    return Cell(word, "w", state=css, note=CLOSED_AS.get(row.closed_as, ""))


def _severity(row: Any, _: Seen) -> Cell:
    word, css = SEVERITIES.get(row.severity, (row.severity, "s-odd"))
    return Cell(word, "w", state=css)


def _where(row: Any, _: Seen) -> Cell:
    href = reverse("node", args=[row.cluster, row.node]) if row.node and not row.wide else ""
    return Cell(place_of(row), "w", href=href)


def _lasted(row: Any, seen: Seen) -> Cell:
    seconds = columns.seconds_between(row.opened, row.closed or seen.cut)
    return columns.span(seconds, "" if row.closed else "so far")


def _kinds(_: Scope) -> list[tuple[str, str]]:
    return sorted(((one.id, f"{one.title} ({one.id})") for one in queries_faults.classes()), key=lambda pair: pair[1])


FAULTS: Final = List(
    name="faults",
    title="Faults",
    noun=("fault", "faults"),
    rows=queries_faults.faults,
    filters=FaultFilter,
    fields=(
        Field("open", "Open", kind="yes"),
        Field("severity", "Severity", options=lambda _: [(name, word) for name, (word, _css) in SEVERITIES.items()]),
        Field("node", "Node"),
        Field("kind", "Kind", options=_kinds),
        Field("unit", "Other unit", more=True),
        Field("xid", "XID", kind="number", more=True),
        Field("component", "Component", more=True),
        Field("acknowledged", "Looked after", kind="yes", more=True),
        Field("closed_as", "Closed as", options=lambda _: list(CLOSED_AS.items()), more=True),
        Field("cluster", "Cluster", options=lambda scope: [(row.name, row.name) for row in clusters(scope)], more=True),
        Field("opened_from", "Opened from", kind="day", more=True),
        Field("opened_to", "Opened before", kind="day", more=True),
    ),
    columns=(
        Column("Fault", _name, "kind"),
        Column("Severity", _severity, "severity"),
        Column("Where", _where, "node"),
        Column("State", _state),
        Column("Opened", lambda row, seen: seen.moment(row.opened), "opened", "w", down=True),
        Column("Lasted", _lasted, css="n"),
        Column("Reported", lambda row, _: count(row.times), "times", "n", down=True),
        Column("Cluster", lambda row, _: Cell(row.cluster, "w")),
    ),
    order="-opened",
    section="faults",
    api="api-faults",
    empty=Empty(
        "No fault yet",
        "Faults come from Alertmanager and from Redfish; docs/faults.md says how to connect them. Staff can report one "
        "by the API. None here means no data until something is connected.",
    ),
    views=(
        View("All", ""),
        View("Open", "open=true"),
        View("Nobody looks after", "open=true&acknowledged=false"),
        View("Fatal", "severity=fatal"),
    ),
    lead="One row per fault, however many alerts tell of it and however often they come.",
)


@page
def index(request: HttpRequest) -> HttpResponse:
    """The faults of the hall."""
    return lists.show(request, FAULTS)


@page
def one(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """GET faults/ID/."""
    with one_state():
        scope, place, cut = scope_of(request.user), site(), datetime.now(UTC)
        fault = queries_faults.fault_named(scope, key)
        if fault is None:
            raise Http404
        as_of = log.as_of(cut)
        hurt = hurt_by(scope, fault)
        texts = log.texts({fault.note, fault.closed_note} - {""}) if scope.fleetwide else {}
        people = log.people({one.attempt.user for one in hurt[:MOST]} - {""})
        seen = Seen(scope, place, cut, people, texts)
        events = list(log.events(scope).filter(position__in=fault.positions[:MOST])) if scope.fleetwide else []
        context = frame(request, "faults", as_of, place)
        shown = _page(fault, seen, hurt) | {"events": _events(events, seen, len(fault.positions)) if events else None}
    shown["notices"] = messages.get_messages(request)
    return render(request, "web/fault.html", {**context, **shown, "live": True})


def _page(fault: Any, seen: Seen, hurt: Sequence[Hurt]) -> dict[str, Any]:
    word, css = state_of(fault)
    return {
        "fault": fault,
        "where": place_of(fault),
        "word": word,
        "css": css,
        "sentence": _sentence(fault, seen),
        "figs": _figures(fault, seen, hurt),
        "facts": _facts(fault, seen),
        "steps": _steps(fault),
        "hurt": _hurt(fault, hurt, seen),
        "acts": seen.scope.fleetwide and fault.closed is None,
        "reasons": list(CLOSED_AS.items()),
    }


def _sentence(fault: Any, seen: Seen) -> str:
    """Since when, who looks after it, how it ended."""
    zone, staff = seen.site.zone, seen.scope.fleetwide
    text = f"since {figures.moment(fault.opened, zone)}"
    if fault.closed is not None:
        text = f"was open from {figures.moment(fault.opened, zone)} until {figures.moment(fault.closed, zone)}; "
        ended = CLOSED_AS.get(fault.closed_as, "its sources say that it is well again, which repairs nothing")
        text += ended + (f", says {name_of(fault.closed_by)}" if staff and fault.closed_by else "")
        note = seen.text(fault.closed_note)
        return f"{text}: {note}" if note else text
    if fault.acknowledged is None:
        return f"{text}; nobody looks after it yet"
    who = name_of(fault.acknowledged_by) if staff else "staff"
    return f"{text}; {who} has looked after it since {figures.moment(fault.acknowledged, zone)}"


def _figures(fault: Any, seen: Seen, hurt: Sequence[Hurt]) -> list[Figure]:
    lasted = int(((fault.closed or seen.cut) - fault.opened).total_seconds())
    word, _ = SEVERITIES.get(fault.severity, (fault.severity, ""))
    ended = [one for one in hurt if one.ended]
    lost = [one.lost_gpu_seconds for one in ended if one.lost_gpu_seconds is not None]
    known = f"of {figures.thousands(len(lost))} whose programs told" if lost else "no program told"
    return [
        Figure("Lasted" if fault.closed else "Open for", figures.duration(max(0, lasted))),
        Figure("Severity", word, note=f"reaches {REACH.get(fault.scope, fault.scope)}"),
        Figure("Attempts that ended then", figures.thousands(len(ended)), note="within 5 min of its opening"),
        Figure("Lost by their ends", figures.hours(sum(lost)) if lost else figures.NO_DATA, "GPU-h" if lost else "",
               known, css="" if lost else "nodata"),
    ]  # fmt: skip


def _facts(fault: Any, seen: Seen) -> list[tuple[str, str]]:
    xid = [("XID", str(fault.xid))] if fault.xid is not None else []
    many = [("Nodes", ", ".join(fault.nodes[:MOST])), ("Units", ", ".join(fault.units[:MOST]))] if fault.wide else []
    note = seen.text(fault.note)
    return [
        ("Kind", fault.kind), *xid, ("Component", fault.component), ("Cluster", fault.cluster),
        *((name, value) for name, value in many if value),
        ("Named by its sources", ", ".join(fault.names) or "reported by a person"),
        ("Sources", ", ".join(fault.sources)),
        ("Reported", f"{_times(fault.times)}; repeats of an alert that still fires do not count"),
        ("Last said of it", seen.moment(fault.last_seen).text), *([("Note", note)] if note else []),
    ]  # fmt: skip


def _times(number: int) -> str:
    return "once" if number == 1 else f"{figures.thousands(number)} times"


def _steps(fault: Any) -> list[tuple[str, str]]:
    """What its class says to do."""
    known = queries_faults.class_of(fault.kind)
    if known is None:
        return []
    return [
        ("First", ACTIONS.get(known.action, known.action)),
        ("If that does not help", ACTIONS.get(known.then, known.then)),
        ("Replace a part", REPLACE.get(known.replace, known.replace)),
    ]  # fmt: skip


def _hurt(fault: Any, hurt: Sequence[Hurt], seen: Seen) -> Table:
    rows = []
    for found in hurt[:MOST]:
        row = found.attempt
        after = columns.seconds_between(fault.opened, row.end) if found.ended else None
        rows.append(
            (
                label(row.job_id, href=reverse("attempt", args=[row.id])), columns.project(row, seen),
                columns.state(row), columns.size(row.gpus), seen.minute(row.start), seen.minute(row.end, "runs"),
                columns.span(after) if found.ended else Cell("went on", "n nodata"),
                columns.gpu_hours(found.lost_gpu_seconds) if found.lost_gpu_seconds is not None else absent(),
            )
        )  # fmt: skip
    heads = (Head("Job"), Head("Project"), Head("State"), Head("GPUs", "n"), Head("Started", "w"), Head("Ended", "w"),
             Head("After it opened", "n"), Head("Lost GPU-h", "n"))  # fmt: skip
    if not fault.nodes:
        text = "No data: nobody says which nodes hang on it."
    elif rows:
        text = (
            f"Attempts on its {'nodes' if fault.wide else 'node'} when it opened or within "
            f"{AFTER.seconds // 60} min after. That one ended then does not prove that the fault ended it."
        )
    else:
        own = "" if seen.scope.projects is None else " of yours"
        text = f"Nothing{own} ran there when it opened, or within {AFTER.seconds // 60} min after."
    return Table("hurt", "Runs it may have hurt", text, heads, rows, (), wide=True)


def _events(events: Sequence[Any], seen: Seen, number: int) -> Table:
    rows = [
        (label(row.text, href=row.href), Cell(row.occurred, "w", iso=row.iso), Cell(row.says, "says"), Cell(row.source))
        for row in rows_of(events, seen.site.zone, seen.cut)
    ]
    text = f"The first {MOST} of {figures.thousands(number)}." if number > MOST else "In the order in which they came."
    heads = (Head("Position", "w"), Head("Happened", "w"), Head("What it says"), Head("Source"))
    return Table("events", "The events that it is made of", text, heads, rows, ())


def of_node(scope: Scope, cluster: str, name: str, seen: Seen) -> Table | None:
    """Faults on a node, for its page; None where there never was one."""
    found = list(queries_faults.of_node(scope, cluster, name)[:MOST])
    if not found:
        return None
    rows = [
        (_name(row, seen), _severity(row, seen), label("" if row.wide else place_of(row).partition(", ")[2]),
         _state(row, seen), seen.moment(row.opened), _lasted(row, seen))
        for row in found
    ]  # fmt: skip
    heads = (Head("Fault"), Head("Severity"), Head("Part"), Head("State"), Head("Opened", "w"), Head("Lasted", "n"))
    tools = (Link("All", f"{reverse('faults')}?node={name}&cluster={cluster}"),
             Link("API", f"{reverse('api-faults')}?node={name}&cluster={cluster}"))  # fmt: skip
    return Table("faults", "Faults", "Those it had, the latest first.", heads, rows, (), tools)
