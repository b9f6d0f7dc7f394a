"""Nodes: the list of what stands in the hall, and the page of one node with its states and who held it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from fleet import queries_nodes
from fleet.filters import NodeFilter
from fleet.queries import clusters, site
from jobs.queries import scope_of
from jobs.queries_nodes import Running, running_on
from web import faults, figures, lists
from web.columns import span
from web.frame import frame
from web.lists import Column, Empty, Field, List, Seen, View
from web.rights import page
from web.state import one_state
from web.tables import Cell, Head, Link, Table, absent, count, label
from web.usagefigs import Figure

__all__ = ["NODES", "OWNERS", "STATES", "index", "one"]

STATES: Final = {
    "in_service": ("in service", "in_service"), "draining": ("draining", "draining"), "drained": ("drained", "drained"),
    "down": ("down", "down"), "maintenance": ("in maintenance", "maintenance"), "planned": ("planned", "planned"),
    "burn_in": ("burn-in", "burn_in"), "in_repair": ("in repair", "in_repair"), "retired": ("retired", "retired"),
}  # fmt: skip
"""A node's state -> its word and the class of its shape and colour."""
OWNERS: Final = {"operator": "an operator", "scheduler": "the scheduler itself", "policy": "a policy of Hallbook"}
_NOTES: Final = {
    "NOT_RESPONDING": "does not answer", "RESERVED": "reserved", "MAINTENANCE": "maintenance",
    "INVALID_REG": "set up wrongly", "POWERED_DOWN": "powered down", "POWERING_UP": "powering up",
    "POWERING_DOWN": "powering down", "REBOOT_REQUESTED": "reboot asked for", "REBOOT_ISSUED": "rebooting",
    "FAIL": "failing", "BLOCKED": "blocked",
}  # fmt: skip
MOST: Final = 100
"""Spells and holds that a node's page shows; older ones by the API."""


def _state(row: Any, _: Seen) -> Cell:
    word, css = STATES.get(row.state, (row.state, "s-odd"))
    notes = [_NOTES[flag] for flag in row.flags if flag in _NOTES]
    return Cell(word, "w", state=css, note=", ".join(notes))


def _reason(row: Any, seen: Seen) -> Cell:
    if row.state == "in_service" or not row.reason:
        return Cell()
    if not seen.scope.fleetwide:
        return Cell("seen by staff only", "nodata")
    who = seen.person(row.reason_by)
    return Cell(seen.text(row.reason) or "erased", note=f"by {who}" if who else "")


def _place(row: Any, _: Seen) -> Cell:
    parts = [part for part in (row.hall, row.pod, row.rack) if part]
    unit = f", unit {row.unit}" if row.unit is not None else ""
    return Cell(" · ".join(parts) + unit, "w") if parts else Cell("not declared", "nodata")


def _gpus(row: Any, _: Seen) -> Cell:
    if row.gpus is None:
        return absent()
    return Cell(figures.thousands(row.gpus), "n zero" if row.gpus == 0 else "n", note=row.gpu_model)


NODES: Final = List(
    name="nodes",
    title="Nodes",
    noun=("node", "nodes"),
    rows=queries_nodes.nodes,
    filters=NodeFilter,
    fields=(
        Field("state", "State", options=lambda _: [(name, word) for name, (word, _css) in STATES.items()]),
        Field("name", "Name or serial"),
        Field("rack", "Rack", options=lambda scope: [(rack, rack) for rack in queries_nodes.racks(scope)]),
        Field("cluster", "Cluster", options=lambda scope: [(row.name, row.name) for row in clusters(scope)], more=True),
        Field("partition", "Partition", more=True),
        Field("gpu_model", "GPU model", more=True),
        Field("held", "Takes no new work", kind="yes", more=True),
    ),
    columns=(
        Column("Node", lambda row, _: label(row.name, href=reverse("node", args=[row.cluster, row.name])), "name"),
        Column("State", _state, "state"),
        Column("Since", lambda row, seen: seen.minute(row.state_since), "state_since", "w", down=True),
        Column("Reason", _reason),
        Column("GPUs", _gpus, "gpus", css="n", down=True),
        Column("Place", _place, "rack"),
        Column("Partitions", lambda row, _: Cell(", ".join(row.partitions))),
        Column("Cluster", lambda row, _: Cell(row.cluster, "w")),
    ),
    order="name",
    key=("cluster", "name"),
    section="fleet",
    api="api-nodes",
    empty=Empty(
        "No node yet",
        "Nodes appear when a scheduler that is pulled shows them, when somebody posts a list of nodes, or when their "
        "owner describes them:",
        code="python manage.py import_nodes FILE.csv --cluster NAME",
    ),
    views=(
        View("All", ""),
        View("Taking no work", "held=true"),
        View("Down", "state=down"),
        View("Drained or draining", "state=drained,draining"),
    ),
    people=("reason_by",),
    texts=("reason",),
    lead="A node takes work while it is in service and nobody holds it; every reason for not is a hold of its own.",
)


@page
def index(request: HttpRequest) -> HttpResponse:
    """The nodes of the hall."""
    return lists.show(request, NODES)


@page
def one(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """GET nodes/CLUSTER/NAME/."""
    with one_state():
        scope, place, cut = scope_of(request.user), site(), datetime.now(UTC)
        node = queries_nodes.node_named(scope, cluster, name)
        if node is None:
            raise Http404
        as_of = log.as_of(cut)
        held = list(queries_nodes.holds(scope).filter(stream=node.stream).order_by("-since", "id")[:MOST])
        spells = list(queries_nodes.spells(scope, node)[:MOST])
        work = running_on(scope, node.cluster, node.name)
        people = log.people([node.reason_by, *(hold.by for hold in held)])
        texts = log.texts([node.reason, *(hold.reason for hold in held)])
        seen = Seen(scope, place, cut, people, texts)
        broken = faults.of_node(scope, node.cluster, node.name, seen)
        context = frame(request, "fleet", as_of, place) | {"faults": broken, "live": True}
    return render(request, "web/node.html", {**context, **_page(node, seen, spells, held, work)})


def _page(
    node: Any, seen: Seen, spells: Sequence[Any], held: Sequence[Any], work: Sequence[Running]
) -> dict[str, Any]:  # fmt: skip
    word, css = STATES.get(node.state, (node.state, "s-odd"))
    return {
        "node": node,
        "word": word,
        "css": css,
        "sentence": _sentence(node, seen, held),
        "figs": _figures(node, seen, spells),
        "facts": _facts(node, seen),
        "work": _work(work, seen),
        "holds": _holds(held, seen),
        "spells": _spells(spells, seen),
        "events": reverse("stream", args=[node.stream]) if seen.scope.fleetwide else "",
    }


def _sentence(node: Any, seen: Seen, held: Sequence[Any]) -> str:
    """Why it takes no work, whose that is, and since when; what is still on it."""
    open_ = [hold for hold in held if hold.until is None]
    if node.state == "in_service":
        notes = [_NOTES[flag] for flag in node.flags if flag in _NOTES]
        return f"takes work; it is marked: {', '.join(notes)}" if notes else "takes work"
    words = [f"held by {OWNERS.get(hold.owner, hold.owner)}{_why(hold, seen)}" for hold in open_]
    text = "; ".join(words) or "takes no work"
    return f"{text}; jobs still run on it" if node.works else text


def _why(hold: Any, seen: Seen) -> str:
    text = seen.text(hold.reason) if seen.scope.fleetwide else ""
    return f": {text}" if text else ""


def _figures(node: Any, seen: Seen, spells: Sequence[Any]) -> list[Figure]:
    since = int((seen.cut - node.state_since).total_seconds())
    total, up = _last_days(spells, seen.cut)
    share = f"{100 * up / total:.2f}".rstrip("0").rstrip(".") if total else figures.NO_DATA
    return [
        Figure("GPUs", figures.thousands(node.gpus) if node.gpus is not None else figures.NO_DATA, node.gpu_model),
        Figure("In this state for", figures.duration(max(0, since))),
        Figure("Took work, last 30 days", share, "%" if total else "", "of the time it was there"),
    ]


def _last_days(spells: Sequence[Any], cut: datetime, days: int = 30) -> tuple[int, int]:
    """Seconds in which the node was installed and in service, within the last days that its spells reach."""
    begin = cut.timestamp() - days * 86_400
    total = up = 0
    for spell in spells:
        start = max(begin, spell.start.timestamp())
        end = min(cut.timestamp(), spell.end.timestamp() if spell.end else cut.timestamp())
        seconds = max(0, round(end - start))
        if spell.state not in queries_nodes.ABSENT:
            total += seconds
            up += seconds if spell.state in ("in_service", "burn_in") else 0
    return total, up


def _facts(node: Any, seen: Seen) -> list[tuple[str, str]]:
    place = [(name, value) for name, value in (
        ("Site", node.site), ("Hall", node.hall), ("Pod", node.pod), ("Rack", node.rack),
        ("Rack unit", str(node.unit) if node.unit is not None else ""), ("Leaf switch", node.leaf),
        ("Serial number", node.serial),
    ) if value]  # fmt: skip
    size = [
        ("CPUs", figures.thousands(node.cpus) if node.cpus is not None else figures.NO_DATA),
        ("Memory", f"{figures.thousands(node.memory_mb)} MB" if node.memory_mb is not None else figures.NO_DATA),
        ("Partitions", ", ".join(node.partitions) or figures.NO_DATA),
        ("Features", ", ".join(node.features) or figures.NO_DATA),
        ("Booted", seen.minute(node.boot).text),
        ("There since", seen.minute(node.first_at).text),
        ("Counts for service levels", "yes" if node.guaranteed else "no"),
    ]
    return [*(place or [("Place", "not declared: import a file of nodes")]), *size]


def _work(work: Sequence[Running], seen: Seen) -> Table:
    """What runs on it: jobs of other projects without names."""
    rows = [
        (
            label(found.job, href=reverse("job", args=[found.key])) if found.key else Cell("a job of others", "nodata"),
            label(found.project, href=reverse("project", args=[found.project])) if found.key else Cell("", "nodata"),
            count(found.gpus),
            seen.minute(found.start),
        )
        for found in work
    ]
    heads = (Head("Job"), Head("Project"), Head("GPUs here", "n"), Head("Started", "w"))
    text = "By the node lists of attempts that run." if rows else "Nothing runs here now."
    return Table("work", "Runs here now", text, heads, rows, ())


def _holds(held: Sequence[Any], seen: Seen) -> Table:
    staff = seen.scope.fleetwide
    rows = [
        (
            seen.minute(hold.since), seen.minute(hold.until, "holds now"), label(OWNERS.get(hold.owner, hold.owner)),
            Cell(seen.text(hold.reason) or "no reason given") if staff else Cell("seen by staff only", "nodata"),
            Cell(seen.person(hold.by) if staff else ""), Cell(hold.flag.lower().replace("_", " "), "w"),
        )
        for hold in held
    ]  # fmt: skip
    heads = (Head("Since", "w"), Head("Until", "w"), Head("Held by"), Head("Reason"), Head("Set by"), Head("As", "w"))
    text = "Each reason is a hold of its own; clearing one clears no other." if rows else "Nobody ever held it."
    tools = (Link("API", f"{reverse('api-holds')}?node={held[0].node}&cluster={held[0].cluster}"),) if held else ()
    return Table("holds", "Holds", text, heads, rows, (), tools)


def _spells(spells: Sequence[Any], seen: Seen) -> Table:
    rows = []
    for spell in spells:
        word, css = STATES.get(spell.state, (spell.state, "s-odd"))
        seconds = int(((spell.end or seen.cut) - spell.start).total_seconds())
        rows.append(
            (Cell(word, "w", state=css), seen.minute(spell.start), seen.minute(spell.end, "now"), span(max(0, seconds)))
        )
    heads = (Head("State"), Head("From", "w"), Head("To", "w"), Head("For", "n"))
    return Table("states", "States", f"The latest {MOST}, newest first.", heads, rows, ())
