"""Deliveries: bodies as outside systems sent them, and what became of each."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.deliveries import ADAPTERS, Kept, kept_delivery
from events.filters import DeliveryFilter
from events.queries_log import brought_by
from fleet.queries import Site, site
from jobs.queries import scope_of
from web import figures, lists
from web.eventwords import rows_of
from web.frame import frame
from web.lists import Column, Empty, Field, List, View
from web.pretty import as_sent
from web.rights import staff_page
from web.tables import Cell, Link, label, number

__all__ = ["LIST", "deliveries", "delivery", "delivery_body"]

STATES: Final = {"pending": ("waits", "draining"), "done": ("taken in", "in_service"), "rejected": ("refused", "down")}
"""State -> its word and the class of its shape."""
SHOWN_BYTES: Final = 256 * 1024
"""Of a body on the page; the file has all of it."""


def _received(row: Any, seen: lists.Seen) -> Cell:
    cell = seen.moment(row.received_at)
    return Cell(cell.text, "w", href=reverse("delivery", args=[row.id]), iso=cell.iso)


LIST: Final = List(
    name="deliveries",
    title="Deliveries",
    noun=("delivery", "deliveries"),
    rows=log.deliveries,
    filters=DeliveryFilter,
    fields=(
        Field("state", "State", options=lambda _: [(name, word) for name, (word, _) in STATES.items()]),
        Field("kind", "Kind", options=lambda _: [(name, name) for name in sorted(ADAPTERS)]),
        Field("source", "Source", hint="jobcomp:pod-a"),
        Field("received_from", "From", kind="day"),
        Field("received_to", "Before", kind="day"),
        Field("actor", "Brought by", more=True),
    ),
    columns=(
        Column("Received", _received, sort="received_at", css="w", down=True),
        Column("State", lambda row, _: Cell(STATES[row.state][0], "w", state=STATES[row.state][1])),
        Column("Source", lambda row, _: label(row.source or "not named")),
        Column("Kind", lambda row, _: Cell(row.kind, "w")),
        Column("Brought by", lambda row, _: Cell(row.actor, "w")),
        Column("Tries", lambda row, _: number(str(row.tries), zero=not row.tries), css="n"),
        Column("Error", lambda row, _: label(row.error[:240])),
    ),
    order="-received_at",
    api="api-deliveries",
    empty=Empty(
        "No delivery is kept", "Single events, and what a scheduler posts or is asked for, are kept here as they came.",
        Link("Connect a source", "/sources/"),
    ),
    views=(View("All", ""), View("Refused", "state=rejected"), View("Waiting", "state=pending")),
    lead="What outside systems sent, kept as it came for 35 days. A batch of events keeps no body.",
)  # fmt: skip


@staff_page
def deliveries(request: HttpRequest) -> HttpResponse:
    """The list."""
    return lists.show(request, LIST)


@staff_page
def delivery(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - name in the address
    """One delivery: its body, its headers, its events and rejections."""
    scope, here, now = scope_of(request.user), site(), datetime.now(UTC)
    row = log.deliveries(scope).filter(id=id).first()
    kept = kept_delivery(id)
    if kept is None:
        raise Http404
    context = {
        **frame(request, "sources", log.as_of(now), here),
        "kept": kept,
        "row": row,
        "state": STATES[row.state] if row else None,
        "about": _about(kept, row, here),
        "headers": sorted(kept.headers.items()),
        "body": _body(kept),
        "size": figures.thousands(len(kept.body)),
        "cut": len(kept.body) > SHOWN_BYTES,
        **_fate(scope, kept, row, here, now),
    }
    return render(request, "web/delivery.html", context)


def _about(kept: Kept, row: Any, here: Site) -> list[tuple[str, str]]:
    return [
        ("Received", figures.moment(kept.received_at, here.zone)),
        ("Source", kept.source or "not named"),
        ("Kind", kept.kind or "not noted"),
        ("Content type", kept.content_type),
        ("Brought by", kept.actor or "not noted"),
        ("Tries", str(row.tries) if row else "not noted"),
        ("SHA-256 of the body", bytes(row.sha256).hex() if row else "not noted"),
    ]


def _body(kept: Kept) -> list[Any]:
    return as_sent(kept.body[:SHOWN_BYTES].decode("utf-8", "replace").replace("\0", "�"), "")


def _fate(scope: Scope, kept: Kept, row: Any, here: Site, now: datetime) -> dict[str, Any]:
    """Its events and rejections; why there is none of either."""
    refused = list(log.rejections(scope).filter(delivery=kept.id).order_by("index")[:200])
    if row is not None and row.state == "pending":
        return {"why": "It waits to be taken in, which happens within a second unless much else waits.",
                "refused": refused, "rows": []}  # fmt: skip
    brought = brought_by(scope, kept.id, kept.received_at)
    why = ""
    if not brought.events and not refused:
        why = "It brought nothing new: all that it says was in the log already."
        if brought.read_to is not None:
            why = (
                f"Its events were not found up to position {figures.thousands(brought.read_to)}; search further below."
            )
    return {
        "why": why,
        "rows": rows_of(brought.events[:200], here.zone, now),
        "events_number": len(brought.events),
        "search": f"{reverse('log')}?delivery={kept.id}",
        "refused": refused,
    }


@staff_page
def delivery_body(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002
    """The body as it was sent, as a file: a browser must not take it for a page of ours."""
    kept = kept_delivery(id) if scope_of(request.user).fleetwide else None
    if kept is None:
        raise Http404
    response = HttpResponse(kept.body, content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="delivery-{id}.txt"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
