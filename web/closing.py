"""Closing a run, so that its name can be used again, and taking that back: the block on its page and its commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from events.intake import LogBusy
from jobs.actions import Closed, NotDone, Saying, close_run, closings_of, reopen_run, why_open
from jobs.queries import scope_of
from jobs.queries_closing import LONG_DAYS, first_gap
from web import figures
from web.lists import Seen
from web.rights import actor_of, name_of

__all__ = ["Block", "block", "close", "reopen"]


@dataclass(frozen=True, slots=True)
class Block:
    """What the page of a named run says of its name.

    closed: when and by whom, '' while it is open. blocked: why it cannot be closed now. last: its closing can be taken
    back. gap: a long time without a job, '' if there was none; gap_at: where it began, epoch seconds.
    """

    closed: str
    following: str
    others: str
    blocked: str
    last: bool
    gap: str = ""
    gap_at: int = 0
    long_days: int = LONG_DAYS


def block(run: Any, seen: Seen) -> Block:
    """Of a named run. Closings are read from the log itself, so that a command shows at once."""
    closings = closings_of(run.account, run.name)
    others = _runs_of(run) if closings else ""
    following = f"{run.name} #{run.generation + 1}"
    if run.generation <= len(closings):
        said = closings[run.generation - 1]
        when = f"{figures.moment(said.at, seen.site.zone)} by {name_of(said.actor)}"
        return Block(when, following, others, "", run.generation == len(closings))
    why = why_open(run)
    gap = first_gap(run)
    words = ""
    if gap is not None:
        days = figures.thousands((gap.end - gap.start).days)
        words = f"{days} days without a job, from {figures.moment(gap.start, seen.site.zone)} on"
    return Block("", following, others, why.text if why else "", False, words, _seconds(gap.start) if gap else 0)


def _runs_of(run: Any) -> str:
    return f"{reverse('runs')}?{urlencode({'name': run.name, 'account': run.account})}"


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


@login_required
@never_cache
@require_POST
def close(request: HttpRequest, key: UUID) -> HttpResponse:
    """POST [at, epoch seconds]: close the run, now or as of an earlier instant, and say what that means."""
    given = request.POST.get("at", "")
    at = datetime.fromtimestamp(int(given), UTC) if given.isascii() and given.isdecimal() and len(given) < 12 else None
    if given and at is None:
        messages.error(request, "That is no time. Nothing was changed.")
        return HttpResponseRedirect(reverse("run", args=[key]))
    said = "The run is closed. Jobs that carry its name and were submitted later are a run of their own."
    return _done(request, key, lambda saying, run: close_run(saying, run, at), said)


@login_required
@never_cache
@require_POST
def reopen(request: HttpRequest, key: UUID) -> HttpResponse:
    """POST: take the closing back."""
    return _done(request, key, reopen_run, "The run is open again. Later jobs of its name belong to it.")


def _done(request: HttpRequest, key: UUID, act: Callable[[Saying, UUID], Closed], said: str) -> HttpResponse:
    try:
        act(Saying(scope_of(request.user), actor_of(request)), key)
    except NotDone as fault:
        if fault.code == "missing":
            raise Http404 from None
        messages.error(request, f"{fault.text[0].upper()}{fault.text[1:]}. Nothing was changed.")
    except LogBusy:
        messages.error(request, "The log is busy. Nothing was changed: try again in a few seconds.")
    else:
        messages.success(request, said)
    return HttpResponseRedirect(reverse("run", args=[key]))
