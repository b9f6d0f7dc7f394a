"""The fleet map: racks, nodes and GPUs as cells, now or at an earlier moment. Healthy is quiet, trouble is loud."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from fleet import queries_faults, queries_nodes
from fleet.queries import site
from fleet.queries_nodes import Standing
from jobs.queries import scope_of
from jobs.queries_nodes import Use, gpus_in_use
from web import figures
from web.faultwords import SEVERITIES
from web.frame import frame
from web.nodes import STATES
from web.rights import page
from web.state import one_state
from web.usagefigs import Figure

__all__ = ["fleet"]

WIDE: Final = 8
"""GPUs in one line of cells."""
DRAWN: Final = 64
"""GPUs of a node that are drawn one by one; of a larger one only the number stands there."""
COUNTED: Final = 4096
"""More GPUs than any node has: what says more is a mistake, and must not fill the memory."""
WORDS: Final = {"in_service": "in use", "free": "free", **{name: word for name, (word, _) in STATES.items()
                                                           if name != "in_service"}}  # fmt: skip
"""What a cell shows -> its word in the legend; the order is the legend's."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node on the map. cells: the class of each GPU; value: what stands at its right.

    fault: class of the mark of its worst open fault, '' where it has none.
    """

    name: str
    href: str
    css: str
    label: str
    cells: Sequence[str]
    value: str
    fault: str = ""

    @property
    def drawn(self) -> Sequence[str]:
        """The cells as far as they are drawn."""
        return self.cells if len(self.cells) <= DRAWN else ()


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack on the map, its nodes from the top down."""

    name: str
    note: str
    nodes: Sequence[Box]


@page
def fleet(request: HttpRequest) -> HttpResponse:
    """GET fleet/. Parameter at: a local time of the site."""
    with one_state():
        scope, place, cut = scope_of(request.user), site(), datetime.now(UTC)
        given = request.GET.get("at", "")[:40]
        at, wrong = _moment(given, place.zone, cut)
        as_of = log.as_of(cut)
        nodes = queries_nodes.stood(scope, at)
        used = gpus_in_use(scope, at or cut)
        faults = queries_faults.troubled(scope, at)
        context = frame(request, "fleet", as_of, place)
    status = 400 if wrong else 200
    shown = {"given": given, "wrong": wrong, "at": at, "live": at is None, "zone": place.timezone}
    return render(request, "web/fleet.html", {**context, **shown, **_map(nodes, used, faults)}, status=status)


def _moment(given: str, zone: ZoneInfo, cut: datetime) -> tuple[datetime | None, str]:
    """The moment asked for, None for now; and what is wrong with it."""
    if not given:
        return None, ""
    try:
        found = datetime.fromisoformat(given)
        when = (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None, "Write a time as 2026-11-30T10:00. The map shows now."
    if when > cut:
        return None, "This moment has not come yet. The map shows now."
    return when, ""


def _map(
    nodes: Sequence[Standing], used: Mapping[tuple[str, str], Use], faults: Mapping[tuple[str, str], tuple[str, int]]
) -> dict[str, Any]:  # fmt: skip
    keys = [(node.cluster, node.name) for node in nodes]
    boxes = [(node, _box(node, used.get(key), faults.get(key))) for node, key in zip(nodes, keys, strict=True)]
    pods = [
        {"name": pod or "Not placed", "racks": list(_racks(list(group)))}
        for pod, group in groupby(boxes, lambda pair: pair[0].pod)
    ]
    cells = Counter(cell for _, box in boxes for cell in box.cells)
    return {
        "pods": pods,
        "figs": _figures(nodes, cells, sum(key in faults for key in keys)),
        "legend": [(name, word, figures.thousands(cells[name])) for name, word in WORDS.items() if cells[name]],
        "sub": _sub(nodes),
    }


def _racks(boxes: Sequence[tuple[Standing, Box]]) -> Iterator[Rack]:
    for rack, group in groupby(boxes, lambda pair: pair[0].rack):
        inside = list(group)
        gpus = sum(node.gpus or 0 for node, _ in inside)
        note = f"{gpus} GPUs" if gpus else f"{len(inside)} nodes"
        yield Rack(rack or "No rack", note, [box for _, box in inside])


def _box(node: Standing, use: Use | None, fault: tuple[str, int] | None) -> Box:
    word, _ = STATES.get(node.state, (node.state, ""))
    cells = _cells(node, use)
    trouble = node.state != "in_service"
    busy = sum(cell == "in_service" for cell in cells)
    value = word if trouble else f"{busy} of {len(cells)}" if cells else "no GPUs"
    label = f"{node.name}: {word}" if trouble else f"{node.name}: {busy} of {len(cells)} GPUs in use"
    if fault:
        label += f", {fault[1]} open fault{'' if fault[1] == 1 else 's'}, the worst {SEVERITIES[fault[0]][0]}"
    silent = "NOT_RESPONDING" in node.flags and not trouble
    css = f"trouble {node.state}" if trouble else "trouble down" if silent else ""
    return Box(node.name, reverse("node", args=[node.cluster, node.name]), css,
               f"{label}, does not answer" if silent else label, cells, "no answer" if silent else value,
               SEVERITIES[fault[0]][1] if fault else "")  # fmt: skip


def _cells(node: Standing, use: Use | None) -> list[str]:
    """The class of each GPU: of a node in service those that are held are in use, first by index."""
    number = min(node.gpus or 0, COUNTED)
    if node.state != "in_service":
        return [node.state] * number
    places = use.places if use else set()
    loose = use.loose if use else 0
    cells = []
    for place in range(number):
        held = place in places
        if not held and loose:
            held, loose = True, loose - 1
        cells.append("in_service" if held else "free")
    return cells


def _figures(nodes: Sequence[Standing], cells: Mapping[str, int], broken: int) -> list[Figure]:
    installed = sum(cells.values())
    held = [node for node in nodes if node.state != "in_service"]
    unknown = sum(node.gpus is None for node in nodes)
    share = f"{figures.percent(cells.get('in_service', 0), installed)} % of installed" if installed else ""
    note = f"{unknown} nodes do not say how many GPUs they have" if unknown else ""
    busy, whole = figures.thousands(cells.get("in_service", 0)), figures.thousands(installed)
    return [
        Figure("GPUs in use", busy, f"of {whole}", share),
        Figure("Free", figures.thousands(cells.get("free", 0)), "", "on nodes that take work"),
        Figure("Nodes held", figures.thousands(len(held)), f"of {figures.thousands(len(nodes))}", note,
               f"{reverse('nodes')}?held=true" if held else ""),
        Figure("Nodes with an open fault", figures.thousands(broken), "", "warning or worse",
               f"{reverse('faults')}?open=true" if broken else ""),
    ]  # fmt: skip


def _sub(nodes: Sequence[Standing]) -> str:
    racks = len({(node.pod, node.rack) for node in nodes if node.rack})
    gpus = sum(node.gpus or 0 for node in nodes)
    return (
        f"{figures.thousands(racks)} racks, {figures.thousands(len(nodes))} nodes, {figures.thousands(gpus)} GPUs. "
        "Beside a node stand its GPUs in use, or why it takes no work, and a mark while it has an open fault."
    )
