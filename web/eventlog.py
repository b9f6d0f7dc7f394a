"""The event log: search, and the permalink of one event with its proof. For those who see everything."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.proof import prove
from events.queries_log import Found, Wanted, event_at, neighbours, search
from events.types import REGISTRY
from fleet.queries import Site, site
from jobs.queries import scope_of
from jobs.queries_life import life
from web import figures
from web.eventwords import lag_text, rows_of, speaker_for, stream_href
from web.frame import frame
from web.pretty import pretty
from web.rights import link_to, staff_page
from web.tables import Link

__all__ = ["event", "events"]

PAGE: Final = 50
NAMES: Final = ("type", "stream", "source", "actor", "user", "delivery", "first", "last", "from", "to")
"""Fields of the form, in the order in which they stand."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A search as asked: the form's fields as written, what they mean, and what is wrong with which."""

    given: dict[str, str]
    wanted: Wanted
    wrong: dict[str, str]

    def link(self, **more: Any) -> str:
        """Address of the same search, at another place of the log."""
        return "?" + urlencode({**{name: text for name, text in self.given.items() if text}, **more})


@staff_page
def events(request: HttpRequest) -> HttpResponse:
    """Events, newest first, by type, stream, source, actor, person, delivery, position and time."""
    scope, here, now = scope_of(request.user), site(), datetime.now(UTC)
    ask = _ask(request.GET, here.zone)
    before, after = _number(request.GET.get("before", "")), _number(request.GET.get("after", ""))
    context = {**frame(request, "log", log.as_of(now), here), "given": ask.given, "wrong": ask.wrong, "types": _types()}
    if ask.wrong:
        return render(request, "web/events.html", context, status=400)
    found = search(scope, ask.wanted, before=before, after=None if before else after, limit=PAGE)
    context |= {
        "rows": rows_of(found.rows, here.zone, now),
        "pages": _pages(ask, found),
        "read": _read_text(found),
        "narrowed": any(ask.given.values()),
        "tools": _tools(ask),
        "head": log.head_position(),
        "live": not before and not after and not any(ask.given.values()),
    }
    return render(request, "web/events.html", context)


def _types() -> list[str]:
    return sorted({kind.name for kind in REGISTRY})


def _ask(given: Mapping[str, str], zone: ZoneInfo) -> Ask:
    """The search that the form asks for; what cannot be read is named beside its field."""
    said = {name: given.get(name, "").replace("\0", "").strip()[:400] for name in NAMES}
    wrong: dict[str, str] = {}
    if said["type"] and said["type"] not in _types():
        wrong["type"] = "There is no such type of event."
    first, last = (_position(said[name], name, wrong) for name in ("first", "last"))
    start, end = (_instant(said[name], name, zone, wrong) for name in ("from", "to"))
    if start and end and end <= start:
        wrong["to"] = "The end lies before the start."
    if first and last and last < first:
        wrong["last"] = "This position lies before the first one."
    wanted = Wanted(
        (said["type"],) if said["type"] else (), said["stream"], said["source"], said["actor"],
        _uuid(said["delivery"], wrong), first, last, start, end,
        tuple({said["user"], *log.ids_of_person(said["user"])}) if said["user"] else None,
    )  # fmt: skip
    return Ask(said, wanted, wrong)


def _number(text: str) -> int | None:
    digits = text.replace(figures.THIN, "").replace(" ", "")
    return int(digits) if digits.isascii() and digits.isdecimal() and 0 < len(digits) < 19 else None


def _position(text: str, name: str, wrong: dict[str, str]) -> int | None:
    found = _number(text)
    if text and found is None:
        wrong[name] = "A position is a whole number, such as 4182907."
    return found


def _instant(text: str, name: str, zone: ZoneInfo, wrong: dict[str, str]) -> datetime | None:
    """A day or a time in the site's zone; a day as the end is meant with it."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo else found.replace(tzinfo=zone)
        found += timedelta(days=1) if name == "to" and len(text) == 10 else timedelta()
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        wrong[name] = "Write a day as 2026-11-30, or a time as 2026-11-30T09:05."
        return None


def _uuid(text: str, wrong: dict[str, str]) -> uuid.UUID | None:
    if not text:
        return None
    try:
        return uuid.UUID(text)
    except ValueError:
        wrong["delivery"] = "A delivery has an id such as 0f8fad5b-d9cb-469f-a165-70867728950e."
        return None


def _pages(ask: Ask, found: Found) -> dict[str, str]:
    """Addresses of the neighbouring pages; '' where there is none."""
    return {
        "newest": ask.link() if found.newer is not None else "",
        "newer": ask.link(after=found.newer) if found.newer is not None else "",
        "older": ask.link(before=found.older) if found.older is not None else "",
    }


def _read_text(found: Found) -> str:
    if found.read_from > found.read_to:
        return "No position was searched."
    return f"Positions {figures.thousands(found.read_from)} to {figures.thousands(found.read_to)} searched."


def _tools(ask: Ask) -> list[Link]:
    """The same search as files and for programs; the API names some filters otherwise."""
    wanted = ask.wanted
    query: dict[str, Any] = {
        "type": ",".join(wanted.types), "stream_prefix": wanted.stream, "source": wanted.source,
        "actor": wanted.actor, "user": ask.given["user"], "delivery": wanted.delivery or "",
        "after": wanted.first - 1 if wanted.first else "", "upto": wanted.last or "",
        "occurred_from": _rfc(wanted.occurred_from), "occurred_to": _rfc(wanted.occurred_to),
    }  # fmt: skip
    said = urlencode({name: value for name, value in query.items() if value != ""})
    address = reverse("api-events") + (f"?{said}" if said else "")
    join = "&" if said else "?"
    return [
        Link("CSV", f"{address}{join}format=csv"), Link("XLSX", f"{address}{join}format=xlsx"), Link("API", address)
    ]  # fmt: skip


def _rfc(instant: datetime | None) -> str:
    return instant.isoformat().replace("+00:00", "Z") if instant else ""


@staff_page
def event(request: HttpRequest, position: int) -> HttpResponse:
    """One event: its data, the proof that it is as written, its delivery, and what became of it."""
    scope, here, now = scope_of(request.user), site(), datetime.now(UTC)
    row = event_at(scope, position)
    proof = prove(scope, position) if row else None
    if row is None or proof is None:
        raise Http404
    speaker = speaker_for(here.zone, [row])
    context = {
        **frame(request, "log", log.as_of(now), here),
        "row": row,
        "text": figures.thousands(row.position),
        "says": speaker.sentence(row.type, row.data),
        "fields": speaker.fields(row.data),
        "about": _about(row, here),
        "json": pretty(row.data, ""),
        "proof": proof,
        "proof_rows": _proof_rows(proof, here),
        "became": _became(scope, row),
        "near": _near(row),
        "api": reverse("api-event", args=[position]),
    }
    return render(request, "web/event.html", context)


def _about(row: Any, here: Site) -> list[tuple[str, str, str]]:
    """(name, value, address) of what surrounds the data."""
    delivery = reverse("delivery", args=[row.delivery]) if row.delivery else ""
    lag = lag_text(row.recorded_at - row.occurred_at)
    unit = "" if lag.endswith(("h", "min")) else " s"
    return [
        ("Type", f"{row.type}, version {row.version}", f"{reverse('log')}?type={row.type}"),
        ("Stream", row.stream, stream_href(row.stream)),
        ("Source", row.source, f"{reverse('log')}?{urlencode({'source': row.source})}"),
        ("Its key there", row.source_key, ""),
        ("Occurred", figures.moment(row.occurred_at, here.zone), ""),
        ("Recorded", f"{figures.moment(row.recorded_at, here.zone)}, {lag}{unit} later", ""),
        ("Brought by", row.actor, ""),
        (
            "Delivery",
            str(row.delivery) if row.delivery else "none: it came in a batch or from Hallbook itself",
            delivery,
        ),
    ]


def _proof_rows(proof: Any, here: Site) -> list[tuple[str, str]]:
    span = f"{figures.thousands(proof.first)} to {figures.thousands(proof.last)}"
    together = "alone" if proof.first == proof.last else f"with positions {span}"
    sealed = "not yet; manage.py seal hands out the head of the chain"
    if proof.sealed_at:
        note = f", {proof.sealed_note}" if proof.sealed_note else ""
        place = figures.thousands(proof.sealed_position)
        sealed = f"at position {place} on {figures.moment(proof.sealed_at, here.zone)}{note}"
    return [
        ("Digest of this event", proof.digest), ("Appended", together),
        ("Chain before", proof.before or "none: the log begins here"), ("Chain after", proof.after),
        ("Sealed", sealed),
    ]  # fmt: skip


def _became(scope: Scope, row: Any) -> dict[str, Any]:
    """What the projections made of it: how far they are, whether it is parked, and the job it speaks of."""
    behind = [group for group in log.groups() if group.position < row.position]
    found: dict[str, Any] = {
        "behind": [f"{group.group} stands at {figures.thousands(group.position)}" for group in behind],
        "parked": list(log.parked(scope).filter(position=row.position)),
    }
    if not row.stream.startswith("job/"):
        return found
    told = life(scope, row.stream)
    if told is None:
        return found
    pairs = zip(told.events, told.spoken, strict=True)
    spoken = next((about for event, about in pairs if event.position == row.position), None)
    job = told.rows.get(spoken.seq) if spoken else None
    if spoken and job:
        found |= {"job": job, "href": link_to("job", job.id), "attempt": spoken.attempt}
    return found


def _near(row: Any) -> dict[str, Sequence[Link]]:
    """The events beside it, in the log and in its stream."""
    before, after = neighbours(row)
    return {
        "stream": [_place(word, at) for word, at in (("Before", before), ("After", after)) if at],
        "log": [_place(word, at) for word, at in (("Before", row.position - 1), ("After", row.position + 1))
                if 0 < at <= log.head_position()],
    }  # fmt: skip


def _place(word: str, position: int) -> Link:
    return Link(f"{word}: {figures.thousands(position)}", reverse("event", args=[position]))
