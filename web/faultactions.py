"""What staff say of a fault on its page: that they look after it, that it is over."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from events.intake import LogBusy
from fleet.actions_faults import Done, Refused, Speaker
from fleet.actions_faults import acknowledge as say_acknowledged
from fleet.actions_faults import close as say_closed
from jobs.queries import scope_of
from web.rights import actor_of, staff_action

__all__ = ["acknowledge", "close"]


@staff_action
def acknowledge(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """POST [note]: look after a fault."""
    note = request.POST.get("note", "").strip()[:2000]
    return _done(request, key, lambda speaker: say_acknowledged(speaker, key, note), "You look after this fault now.")


@staff_action
def close(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """POST closed_as [note]: close a fault."""
    note = request.POST.get("note", "").strip()[:2000]
    reason: Any = request.POST.get("closed_as", "")
    said = "The fault is closed. What its sources report anew from now on is a new fault."
    return _done(request, key, lambda speaker: say_closed(speaker, key, reason, note), said)


def _done(request: HttpRequest, key: uuid.UUID, act: Callable[[Speaker], Done], said: str) -> HttpResponse:
    speaker = Speaker(scope_of(request.user), actor_of(request), "page of the fault",
                      request.POST.get("key", "").strip()[:200])  # fmt: skip
    try:
        act(speaker)
    except Refused as refused:
        if refused.code == "missing":
            raise Http404 from None
        messages.error(request, f"{refused.text[0].upper()}{refused.text[1:]}. Nothing was changed.")
    except LogBusy:
        messages.error(request, "The log is busy. Nothing was changed: try again in a few seconds.")
    else:
        messages.success(request, said)
    return HttpResponseRedirect(reverse("fault", args=[key]))
