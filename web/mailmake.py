"""From what a mail says to the message: text and HTML of the same figures, and the headers around them."""

from __future__ import annotations

import uuid
from datetime import datetime
from email.utils import parseaddr
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMultiAlternatives
from django.core.validators import validate_email
from django.template.loader import render_to_string
from django.urls import reverse

from jobs.queries import granted_projects
from web import mailjob, mailkinds, mailoff, mailweek
from web.mailjob import Gone
from web.mailkinds import WEEKLY, Kind
from web.mailparts import at
from web.mailtext import one_line
from web.mailweek import NoWeek
from web.models import MailSent

__all__ = ["NotWanted", "html_of", "may_have", "message", "of_row", "text_of", "trial"]

_WIDEST: Final = 250


class NotWanted(Exception):
    """The mail is not to be sent any more, or not to this person; the text says why."""


def may_have(user: Any, kind: Kind) -> None:
    """Raises NotWanted for a person who may not get or does not want this kind now."""
    if not user.is_active:
        raise NotWanted("the login is closed")
    try:
        validate_email(user.email)
    except ValidationError:
        raise NotWanted("the e-mail address is none" if user.email else "the person has no e-mail address") from None
    if not mailkinds.choice_of(user, kind).wanted:
        raise NotWanted("the person has switched this kind of mail off")
    if kind.leads and not granted_projects(user):
        raise NotWanted("no project is granted to the person any more")


def of_row(row: MailSent, now: datetime) -> EmailMultiAlternatives:
    """The message of a row of the outbox, with the figures and rights of now. Raises NotWanted."""
    kind = mailkinds.named(row.kind)
    may_have(row.user, kind)
    try:
        if kind is WEEKLY:
            found: Any = mailweek.read(row.user, mailweek.days_of(row.ref.partition("/")[0]), now)
        else:
            found = mailjob.read(row.user, row.job, now) if row.job else _lost()
    except (NoWeek, Gone) as gone:
        raise NotWanted(str(gone)) from None
    return message(row.user, kind, found, str(row.id))


def _lost() -> Any:
    raise Gone("nobody knows of which job")


def text_of(kind: Kind, found: Any, user: Any, *, preview: bool = False) -> str:
    """The mail as plain text. preview: without the link that switches it off."""
    return render_to_string(f"mail/{kind.name}.txt", _context(kind, found, user) | {"preview": preview})


def html_of(kind: Kind, found: Any, user: Any, *, preview: bool = False) -> str:
    """The mail as HTML. preview: without the link that switches it off."""
    return render_to_string(f"mail/{kind.name}.html", _context(kind, found, user) | {"preview": preview})


def _context(kind: Kind, found: Any, user: Any) -> dict[str, Any]:
    return {"mail": found, "kind": kind, "off": mailoff.address(user, kind), "choices": at(reverse("mail")),
            "site_name": one_line(found.site.name) or "Hallbook"}  # fmt: skip


def message(user: Any, kind: Kind, found: Any, key: str) -> EmailMultiAlternatives:
    """The whole message. key: of the outbox; the same mail has the same Message-ID, however often it is sent."""
    off = mailoff.address(user, kind)
    made = EmailMultiAlternatives(
        subject=one_line(f"{one_line(found.site.name) or 'Hallbook'}: {found.subject}", _WIDEST),
        body=text_of(kind, found, user),
        to=[user.email],
        headers={
            **_common(key), "List-Unsubscribe": f"<{off}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "List-Id": f"<{kind.name}.hallbook.{_host()}>",
        },
    )  # fmt: skip
    made.attach_alternative(html_of(kind, found, user), "text/html")
    return made


def trial(to: str) -> EmailMultiAlternatives:
    """A mail that only shows that mails arrive. Raises NotWanted for what is no address."""
    try:
        validate_email(to)
    except ValidationError:
        raise NotWanted(f"{one_line(to)!r} is no e-mail address") from None
    made = EmailMultiAlternatives(
        subject="Hallbook can send mail",
        body=render_to_string("mail/trial.txt", {"url": settings.SITE_URL}),
        to=[to],
        headers=_common(str(uuid.uuid4())),
    )
    made.attach_alternative(render_to_string("mail/trial.html", {"url": settings.SITE_URL}), "text/html")
    return made


def _common(key: str) -> dict[str, str]:
    """Headers of every mail: nobody is there to answer, and it should not be answered by machines."""
    return {"Message-ID": f"<{key}@{_host()}>", "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All"}


def _host() -> str:
    """What stands behind the at sign of our own address; else the host of the site."""
    behind = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    return behind or urlsplit(settings.SITE_URL).hostname or "localhost"
