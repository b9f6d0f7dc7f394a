"""The page Mail: what is sent to me, switched on and off; how the next weekly mail looks; what became of mails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from csp.constants import NONE, SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_POST

from events.queries import as_of
from fleet.queries import Site, site
from jobs.queries import granted_projects, scope_of
from web import figures, mailkinds, mailmake, mailout, mailplan, mailweek
from web.eventwords import when
from web.frame import frame
from web.mailkinds import KINDS, WEEKLY, Choice, Kind
from web.mailtext import one_line
from web.mailweek import NoWeek
from web.models import MailSent
from web.ranges import DAY
from web.rights import page
from web.tables import Cell, Head, Table, count, label

__all__ = ["STATES", "choose", "mail", "preview", "preview_text"]

MOST: Final = 20
STATES: Final = {
    "due": ("to be sent", "planned"), "sending": ("being sent", "planned"), "sent": ("sent", "in_service"),
    "failed": ("failed", "down"), "in_doubt": ("in doubt", "draining"), "dropped": ("not sent", "retired"),
}  # fmt: skip
"""State of the outbox -> word and class of its shape."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A kind, whether it is on, what there is to say about it, and whether this person can get it at all."""

    kind: Kind
    choice: Choice
    note: str
    possible: bool


@page
def mail(request: HttpRequest) -> HttpResponse:
    """GET mail/."""
    user: Any = request.user
    scope, here, now = scope_of(user), site(), datetime.now(UTC)
    granted = granted_projects(user)
    context = {
        **frame(request, "mail", as_of(now), here),
        "address": user.email,
        "offers": [_offer(user, kind, here, now, leads=bool(granted)) for kind in KINDS.values()],
        "granted": bool(granted), "week": mailweek.week_before(now, here).text if granted else "",
        "to_files": settings.MAIL_SERVER is None, "url": settings.SITE_URL, "url_given": settings.SITE_URL_GIVEN,
        "admin": scope.fleetwide,
        "tables": [
            *([_troubles(here, now)] if scope.fleetwide and mailout.troubles().exists() else []),
            *([_mine(user, here, now)] if MailSent.objects.filter(user_id=user.pk).exists() else []),
        ],
    }  # fmt: skip
    return render(request, "web/mail.html", context)


def _offer(user: Any, kind: Kind, here: Site, now: datetime, *, leads: bool) -> Offer:
    choice = mailkinds.choice_of(user, kind)
    if kind.leads and not leads:
        return Offer(kind, choice, "No project is granted to you, so there is nothing to tell.", False)
    since = f"since {when(choice.since, here.zone, now)}" if choice.since else "as usual"
    if not choice.wanted or kind is not WEEKLY:
        return Offer(kind, choice, since, True)
    at = mailplan.due_at(now, here)
    local = (at if at > now else mailplan.due_at(now + 7 * DAY, here)).astimezone(here.zone)
    text = f"{since}; the next one on {local:%A}, {figures.day(local.date())}, {figures.clock(local)} {local:%Z}"
    return Offer(kind, choice, text + _not_this_week(user, choice, at, here, now), True)


def _not_this_week(user: Any, choice: Choice, at: datetime, here: Site, now: datetime) -> str:
    """Why the mail that was due this Monday is not sent to this person; '' where it is, or where it is not due yet."""
    late = mailplan.too_late(user, choice, at)
    if late is None or at > now:
        return ""
    what = "your login was made" if late == user.date_joined else "you switched it on"
    monday = at.astimezone(here.zone)
    return f". That of {monday:%A}, {figures.day(monday.date())}, was due before {what} ({when(late, here.zone, now)})"


@login_required
@never_cache
@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """POST kind=NAME wanted=on|off, and back to the page."""
    try:
        kind = mailkinds.named(request.POST.get("kind", ""))
    except LookupError:
        raise Http404 from None
    mailkinds.choose(request.user, kind, datetime.now(UTC), wanted=request.POST.get("wanted") == "on")
    return HttpResponseRedirect(f"{reverse('mail')}#{kind.name}")


# --- preview -------------------------------------------------------------------------------------------------------

# A mail carries its style in its elements. So the preview is a page of its own, in a sandbox, that may do nothing else.
_BARE: Final = {"default-src": [NONE], "style-src": [UNSAFE_INLINE], "frame-ancestors": [SELF], "sandbox": [""],
                "form-action": [NONE], "base-uri": [NONE]}  # fmt: skip


@xframe_options_sameorigin
@csp_replace({**_BARE, "img-src": [NONE], "script-src": [NONE], "object-src": [NONE]})
@page
def preview(request: HttpRequest) -> HttpResponse:
    """GET mail/preview: the weekly mail as it would be sent now, by the template that sends it."""
    found, user = _week(request)
    return HttpResponse(mailmake.html_of(WEEKLY, found, user, preview=True))


@page
def preview_text(request: HttpRequest) -> HttpResponse:
    """GET mail/preview.txt: the same as plain text."""
    found, user = _week(request)
    return HttpResponse(mailmake.text_of(WEEKLY, found, user, preview=True), content_type="text/plain; charset=utf-8")


def _week(request: HttpRequest) -> tuple[mailweek.Week, Any]:
    now = datetime.now(UTC)
    try:
        return mailweek.read(request.user, mailweek.week_before(now, site()), now), request.user
    except NoWeek:
        raise Http404 from None


# --- tables --------------------------------------------------------------------------------------------------------


def _mine(user: Any, here: Site, now: datetime) -> Table:
    rows = MailSent.objects.filter(user_id=user.pk).order_by("-created_at", "id")[:MOST]
    heads = (Head("Mail"), Head("State"), Head("When", "w"), Head("What happened"))
    caption = f"The last {MOST}, for {mailout.DAYS_KEPT} days. Times in {here.timezone}."
    return Table("sent", "Mails to you", caption, heads, [_row(row, here, now) for row in rows], ())


def _row(row: MailSent, here: Site, now: datetime) -> list[Cell]:
    return [label(_about(row)), _state(row), _time(row.done_at or row.created_at, here, now), Cell(row.error)]


def _troubles(here: Site, now: datetime) -> Table:
    """For admins: what did not arrive, of everybody."""
    found = list(mailout.troubles()[:MOST])
    rows = [
        [label(one_line(row.user.get_username())), Cell(_about(row)), _state(row), count(row.tries),
         _time(row.next_try, here, now) if row.state == "due" else Cell("—", "w nodata"),
         Cell(row.error), Cell(str(row.id)[:8], "w note")]
        for row in found
    ]  # fmt: skip
    heads = (Head("To"), Head("Mail"), Head("State"), Head("Tries", "n"), Head("Next try", "w"), Head("Why"),
             Head("Id"))  # fmt: skip
    caption = "Tried again for a day, ever more rarely. What failed or is in doubt: manage.py mail again ID sends it."
    return Table("troubles", "Mails that did not arrive", caption, heads, rows, (), wide=True)


def _about(row: MailSent) -> str:
    kind = KINDS.get(row.kind)
    return row.subject or f"{kind.title if kind else row.kind}, {row.ref.partition('/')[0]}"


def _state(row: MailSent) -> Cell:
    word, css = STATES.get(row.state, (row.state, "planned"))
    return Cell(word, "w", state=css)


def _time(at: datetime, here: Site, now: datetime) -> Cell:
    return Cell(when(at, here.zone, now), "w", iso=at.astimezone(UTC).isoformat(timespec="seconds"))
