"""Rejections: what could not become an event, why, and the two ways out: take it again, or let it go."""

from __future__ import annotations

import json
import uuid
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from events import queries as log
from events import rejections as settle
from events.access import Scope
from events.filters import RejectionFilter
from events.intake import LogBusy
from events.settle_many import Many, replay_many, waive_many
from fleet.queries import site
from jobs.queries import scope_of
from web import figures, lists
from web.frame import frame
from web.lists import Column, Empty, Field, List, View
from web.pretty import as_sent
from web.rights import actor_of, name_of, staff_action, staff_page
from web.tables import Cell, label

__all__ = ["LIST", "all_again", "all_waived", "rejection", "rejections", "replay", "waive"]

MOST: Final = 1_000
"""Rejections settled by one press of a button."""
SHORTEST_REASON: Final = 3
LONGEST_REASON: Final = 1000
STATES: Final = {"open": ("open", "down"), "replayed": ("taken again", "in_service"), "waived": ("let go", "retired")}
"""State -> its word and the class of its shape."""
CODES: Final = {
    "malformed": "not readable", "invalid": "a field is wrong", "unknown_type": "type of event unknown",
    "clock_ahead": "clock ahead of ours", "clock_behind": "time before 1900", "conflict": "said otherwise before",
    "nul": "holds a character that no field may", "too_long": "too long", "adapter_error": "could not be translated",
    "append_error": "could not be stored", "unknown_cluster": "cluster unknown", "bad_number": "no number",
    "bad_time": "no time", "bad_state": "no state", "bad_name": "no name", "bad_value": "value not understood",
    "bad_identity": "job id not understood", "bad_tres": "resources not understood", "bad_duration": "no duration",
    "bad_exit_code": "no exit code", "bad_timezone": "no time zone", "time_missing": "a time is missing",
    "identity_missing": "job id is missing", "cluster_missing": "cluster is missing",
    "timezone_missing": "time zone is missing", "time_missing_in_zone": "an hour that clocks skip",
    "field_count": "too many or too few fields", "unknown_hook": "hook unknown",
    "metric_missing": "no name of a metric", "label_bad": "a label cannot be", "label_twice": "a label twice",
    "too_many_labels": "too many labels", "value_missing": "a value is missing", "too_late": "came too late",
    "temporality_missing": "sum of what is not told", "other_value": "another value is kept",
    "bad_data": "cannot be stored", "unsupported": "protocol not known", "too_many": "too many at once",
    "too_large": "too large",
    "not_replayable": "cannot be taken again from here", "settled": "settled already", "missing": "gone",
}  # fmt: skip
NEXT: Final = {
    "clock_ahead": "Set the clock or the zone of the sender right, then take it again.",
    "clock_behind": "Correct the time at the source and send it again.",
    "unknown_type": "Spell the type as in the list, or update Hallbook; then take it again.",
    "unknown_cluster": "Declare the cluster, or mend its name at the source; then take it again.",
    "conflict": "If the change is right, send it under an id of its own, or as record.corrected; then let this go.",
    "adapter_error": "Report it with the payload: after an update of Hallbook it can be taken again.",
    "append_error": "Report it with the payload: after an update of Hallbook it can be taken again.",
}  # fmt: skip
"""Code -> what to do; for others the text says it."""
FROM_FILE: Final = (
    "It came in a file or a batch of which only this record is kept. Correct it at its source and bring it again: "
    "what is known already changes nothing. Then let this go."
)


def _codes(scope: Scope) -> list[tuple[str, str]]:
    found = log.rejections(scope).order_by("code").values_list("code", flat=True).distinct()
    return [(code, f"{CODES[code]} ({code})" if code in CODES else code) for code in found]


def _reason(row: Any, _: lists.Seen) -> Cell:
    """What is wrong in short, first: it must stand on a phone's screen too."""
    return label(CODES.get(row.code, row.code), href=reverse("rejection", args=[row.id]))


def _source(row: Any) -> str:
    return str(row.source) or "not named"


LIST: Final = List(
    name="rejections",
    title="Rejections",
    noun=("rejection", "rejections"),
    rows=log.rejections,
    filters=RejectionFilter,
    fields=(
        Field("state", "State", options=lambda _: [(name, word) for name, (word, _) in STATES.items()]),
        Field("code", "Reason", options=_codes),
        Field("source", "Source", hint="jobcomp:pod-a"),
        Field("recorded_from", "From", kind="day"),
        Field("recorded_to", "Before", kind="day"),
        Field("delivery", "Delivery", more=True),
    ),
    columns=(
        Column("Reason", _reason, sort="code"),
        Column("Recorded", lambda row, seen: seen.moment(row.recorded_at), sort="recorded_at", css="w", down=True),
        Column("State", lambda row, _: Cell(STATES[row.state][0], "w", state=STATES[row.state][1])),
        Column("Source", lambda row, _: label(_source(row)), sort="source"),
        Column("Where", lambda row, _: label(row.pointer or "the whole record")),
        Column("What is wrong", lambda row, _: label(row.text[:240])),
    ),
    order="-recorded_at",
    api="api-rejections",
    empty=Empty("Nothing was refused", "Every record that arrived became an event. What can not will stand here."),
    views=(View("Open", "state=open"), View("All", ""), View("Taken again", "state=replayed"),
           View("Let go", "state=waived")),
    lead="Records that arrived and could not become events. None is lost: each can be taken again, or let go.",
)  # fmt: skip


@staff_page
def rejections(request: HttpRequest) -> HttpResponse:
    """The list, and forms that settle all that it shows."""
    chosen = _chosen(request.GET)
    extra: dict[str, Any] = {"notices": messages.get_messages(request), "chosen": chosen.items()}
    found = _matching(scope_of(request.user), chosen)
    extra["matching"] = found[: MOST + 1].count() if found is not None else 0
    extra |= {"most": MOST, "most_text": figures.thousands(MOST), "live": False}
    return lists.show(request, LIST, "web/rejections.html", extra=extra)


def _chosen(given: QueryDict) -> dict[str, str]:
    names = getattr(RejectionFilter, "base_filters", {})
    return {name: text for name in names if (text := given.get(name, "").strip())}


def _matching(scope: Scope, chosen: dict[str, str]) -> Any:
    """Open rejections that fit the filters, oldest first; None when a filter cannot be used."""
    with timezone.override(site().zone):
        found = RejectionFilter(chosen, queryset=log.rejections(scope).filter(state="open"))
        return found.qs.order_by("recorded_at", "id") if found.is_valid() else None


@staff_page
def rejection(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - name in the address
    """One rejection: the record with the place marked, and the ways out."""
    row = _row(request, id)
    return _shown(request, row)


def _row(request: HttpRequest, id_: uuid.UUID) -> Any:
    row = log.rejections(scope_of(request.user)).filter(id=id_).first()
    if row is None:
        raise Http404
    return row


def _shown(request: HttpRequest, row: Any, *, wrong: str = "", why: str = "") -> HttpResponse:
    here = site()
    context = {
        **frame(request, "rejections", log.as_of(), here),
        "row": row,
        "reason": CODES.get(row.code, row.code),
        "recorded": figures.moment(row.recorded_at, here.zone),
        "state": STATES[row.state],
        "settled_by": name_of(row.settled_by),
        "lines": as_sent(row.payload, row.pointer),
        "next": NEXT.get(row.code, "") if _whole(row) else FROM_FILE,
        "replayable": _whole(row),
        "notices": messages.get_messages(request),
        "wrong": wrong,
        "why": why,
        "similar": f"{reverse('rejections')}?{urlencode({'state': 'open', 'code': row.code, 'source': row.source})}",
    }
    return render(request, "web/rejection.html", context, status=400 if wrong else 200)


def _whole(row: Any) -> bool:
    """Whether the record can be taken again from here: its delivery is kept, or it is a CloudEvent itself."""
    try:
        said = json.loads(row.payload)
    except (ValueError, RecursionError):
        return row.delivery is not None
    return row.delivery is not None or (isinstance(said, dict) and "specversion" in said)


@staff_action
def replay(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002
    """POST: take the record again, and say what came of it."""
    _row(request, id)
    try:
        fault = settle.replay(id, actor_of(request))
    except LogBusy:
        messages.error(request, "The log is busy. Nothing was changed: try again in a few seconds.")
    else:
        _tell(request, fault, "It was taken again and is in the log now.")
    return HttpResponseRedirect(reverse("rejection", args=[id]))


def _tell(request: HttpRequest, fault: settle.Fault | None, done: str) -> None:
    if fault is None:
        messages.success(request, done)
        return
    where = f" at {fault.pointer}" if fault.pointer else ""
    still = "" if fault.code in ("settled", "missing") else " It stays open."
    messages.error(request, f"{CODES.get(fault.code, fault.code).capitalize()}{where}: {fault.text}.{still}")


@staff_action
def waive(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002
    """POST why: let it go."""
    row = _row(request, id)
    why, wrong = _why(request.POST)
    if wrong:
        return _shown(request, row, wrong=wrong, why=why)
    _tell(request, settle.waive(id, actor_of(request), why), "It was let go. The record stays here.")
    return HttpResponseRedirect(reverse("rejection", args=[id]))


def _why(given: QueryDict) -> tuple[str, str]:
    """The reason for letting go, and what is wrong with it."""
    why = given.get("why", "").replace("\0", "").strip()
    if len(why) < SHORTEST_REASON:
        return why, "Say why, so that others understand it later."
    return (why, "") if len(why) <= LONGEST_REASON else (why[:LONGEST_REASON], "Say it in at most 1 000 characters.")


@staff_action
def all_again(request: HttpRequest) -> HttpResponse:
    """POST with the filters of the list: take all open ones that fit again."""
    chosen = _chosen(request.POST)
    found = _matching(scope_of(request.user), chosen)
    if found is None:
        messages.error(request, "These filters cannot be used. Nothing was changed.")
    else:
        many = replay_many(list(found.values_list("id", flat=True)[:MOST]), actor_of(request))
        _tell_many(request, many, "taken again")
    return HttpResponseRedirect(_back(chosen))


@staff_action
def all_waived(request: HttpRequest) -> HttpResponse:
    """POST why with the filters of the list: let all open ones that fit go."""
    chosen = _chosen(request.POST)
    found, (why, wrong) = _matching(scope_of(request.user), chosen), _why(request.POST)
    if found is None or wrong:
        messages.error(request, f"{wrong or 'These filters cannot be used.'} Nothing was changed.")
    else:
        many = waive_many(list(found.values_list("id", flat=True)[:MOST]), actor_of(request), why)
        _tell_many(request, many, "let go")
    return HttpResponseRedirect(_back(chosen))


def _tell_many(request: HttpRequest, many: Many, word: str) -> None:
    """Counts in words: how many are done, refused still and why, and left for lack of time."""
    failed = ", ".join(f"{figures.thousands(n)} {CODES.get(code, code)}" for code, n in many.failed.most_common())
    parts = [f"{figures.thousands(many.settled)} {word}."]
    if failed:
        parts.append(f"{figures.thousands(many.failed.total())} not, and stay open: {failed}.")
    if many.left:
        parts.append(f"{figures.thousands(many.left)} were not tried for lack of time: press again.")
    say = messages.success if many.settled and not many.failed else messages.warning
    say(request, " ".join(parts))


def _back(chosen: dict[str, str]) -> str:
    return reverse("rejections") + (f"?{urlencode(chosen)}" if chosen else "")
