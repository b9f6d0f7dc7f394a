"""The outbox: what is to be sent is noted first, then handed to the mail server, each mail once at most.

A row goes due -> sending -> sent. `sending` is committed before the server hears of the mail, so that a process that
dies between leaves a row that says so: it becomes `in_doubt` and is never sent again by itself. That is the side we
chose: a mail may be lost by a crash (and is shown to admins, who can send it by hand), but it does not come twice.
What the server surely refused goes back to due and is tried again, each time later, for a day.
"""

from __future__ import annotations

import logging
import smtplib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.core.mail import EmailMessage, get_connection
from django.db import OperationalError, connection
from django.db.models import QuerySet

from web import mailmake
from web.mailkinds import Kind
from web.mailmake import NotWanted
from web.mailtext import one_line
from web.models import MailSent

__all__ = ["DAYS_KEPT", "GIVE_UP", "MailRefused", "Unsure", "again", "deliver", "gap", "note", "post", "tidy",
           "troubles"]  # fmt: skip

log = logging.getLogger("hallbook.mail")
GIVE_UP: Final = timedelta(hours=24)
"""So long after it was noted a mail is tried."""
LONGEST_GAP: Final = timedelta(hours=1)
DAYS_KEPT: Final = 90
MOST: Final = 200
"""Mails of one turn; the next tick goes on."""
_LOCK: Final = 7_240_012
_UNSURE: Final = "the server may have taken the mail, so it is not sent again by itself"
_DIED: Final = f"The process that sent it stopped meanwhile: {_UNSURE}."
_SILENT: Final = f"The server fell silent: {_UNSURE}."


class MailRefused(Exception):
    """The mail was surely not taken. final: asking again makes no sense."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(one_line(text, 300))
        self.final = final


class Unsure(Exception):
    """Nobody knows whether the mail was taken."""


# --- noting --------------------------------------------------------------------------------------------------------


def note(user: Any, kind: Kind, ref: str, now: datetime) -> bool:
    """Note a mail; False when one of this reference is there already, whatever became of it."""
    _, made = MailSent.objects.get_or_create(
        user_id=user.pk, kind=kind.name, ref=ref, defaults={"created_at": now, "next_try": now}
    )
    return made


def again(row: MailSent, now: datetime) -> None:
    """Let a person's word send a mail that failed or is in doubt once more."""
    rows = MailSent.objects.filter(pk=row.pk, state__in=("failed", "in_doubt", "dropped"))
    rows.update(state="due", created_at=now, next_try=now, tries=0, error="", done_at=None)


def tidy(now: datetime) -> int:
    """Forget what is long over. Nothing of it could be sent again: both kinds look back a day at most."""
    old = MailSent.objects.filter(created_at__lt=now - timedelta(days=DAYS_KEPT)).exclude(state__in=("due", "sending"))
    return old.delete()[0]


def troubles() -> QuerySet[MailSent]:
    """What did not arrive, or not yet, the latest first: failed, in doubt, or refused so far."""
    rows = MailSent.objects.filter(state__in=("failed", "in_doubt")) | MailSent.objects.filter(state="due", tries__gt=0)
    return rows.select_related("user").order_by("-created_at", "id")


# --- sending -------------------------------------------------------------------------------------------------------


def deliver(now: datetime | None = None) -> Counter[str] | None:
    """Send what is due. One process at a time does it; None when another one is at it.

    Gives how many mails came into which state. Each is made with the figures and the rights of this moment.
    """
    with _alone() as alone:
        if not alone:
            return None
        now = now or datetime.now(UTC)
        done: Counter[str] = Counter()
        done["in_doubt"] = MailSent.objects.filter(state="sending").update(state="in_doubt", error=_DIED, done_at=now)
        rows = MailSent.objects.filter(state="due", next_try__lte=now).select_related("user")
        away: MailRefused | None = None
        for row in rows.order_by("next_try", "id")[:MOST]:
            away = _send(row, now, away)
            done[row.state] += 1
        return +done


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other process sends now. The lock goes with the session, so it does not outlive a killed process."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])
        alone = bool(cursor.fetchone()[0])
        try:
            yield alone
        finally:
            if alone:
                try:
                    cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])
                except OperationalError:
                    connection.close()


def _send(row: MailSent, now: datetime, away: MailRefused | None) -> MailRefused | None:
    """Send one mail and say what became of it. away: why the server could not be reached this turn, if it could not."""
    try:
        made = mailmake.of_row(row, now)
    except NotWanted as why:
        _over(row, now, "dropped", str(why))
        return away
    except Exception as error:  # a figure that cannot be made must not stop the other mails
        log.exception("mail %s could not be made", row.pk)
        _later(row, now, MailRefused(f"it could not be made: {type(error).__name__}: {error}"))
        return away
    if away is not None:
        _later(row, now, away)
        return away
    return _hand_over(row, made, now)


def _hand_over(row: MailSent, made: EmailMessage, now: datetime) -> MailRefused | None:
    server = get_connection()
    try:
        server.open()
    except (OSError, smtplib.SMTPException) as error:  # nothing was handed over yet
        refused = MailRefused(f"the mail server cannot be reached: {_words(error)}")
        _later(row, now, refused)
        return refused
    try:
        if not _claim(row, made):
            return None
        _give(server, made)
    except MailRefused as refused:
        _later(row, now, refused)
    except Unsure as unsure:
        _over(row, now, "in_doubt", f"{_SILENT} {unsure}")
    else:
        _over(row, now, "sent", "")
    finally:
        _close(server)
    return None


def _claim(row: MailSent, made: EmailMessage) -> bool:
    """Committed before the server hears of it: from here on it is not sent a second time."""
    mine = MailSent.objects.filter(pk=row.pk, state="due")
    if not mine.update(state="sending", subject=made.subject):
        return False
    row.state, row.subject = "sending", str(made.subject)
    return True


def post(made: EmailMessage) -> None:
    """Send one mail now, past the outbox. Raises MailRefused and Unsure."""
    server = get_connection()
    try:
        server.open()
    except (OSError, smtplib.SMTPException) as error:
        raise MailRefused(f"the mail server cannot be reached: {_words(error)}") from None
    try:
        _give(server, made)
    finally:
        _close(server)


def _give(server: Any, made: EmailMessage) -> None:
    """Hand a mail over. Raises MailRefused where the server said no, Unsure where it said nothing."""
    try:
        server.send_messages([made])
    except smtplib.SMTPRecipientsRefused as error:
        code, words = next(iter(error.recipients.values()))
        raise MailRefused(f"the address was refused: {code} {_decoded(words)}", final=code >= 500) from None
    except smtplib.SMTPResponseException as error:
        raise MailRefused(f"the server refused it: {error.smtp_code} {_decoded(error.smtp_error)}") from None
    except smtplib.SMTPNotSupportedError as error:
        raise MailRefused(f"the server cannot take it: {_words(error)}", final=True) from None
    except (OSError, smtplib.SMTPException) as error:
        raise Unsure(_words(error)) from None


def _close(server: Any) -> None:
    """What fails at parting changes nothing."""
    try:
        server.close()
    except (OSError, smtplib.SMTPException) as error:
        log.info("the mail server left without a word: %s", _words(error))


def _words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return one_line(f"{error.smtp_code} {_decoded(error.smtp_error)}", 200)
    return one_line(str(error) or type(error).__name__, 200)


def _decoded(words: bytes | str) -> str:
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else words


# --- what became of it -----------------------------------------------------------------------------------------------


def gap(tries: int) -> timedelta:
    """How long to wait after so many failed tries: 1 minute, 2, 4, ... up to an hour."""
    return min(timedelta(minutes=2 ** min(tries - 1, 10)), LONGEST_GAP)


def _later(row: MailSent, now: datetime, why: MailRefused) -> None:
    """Try again after a gap, unless that is pointless or the day is over."""
    row.tries += 1
    row.next_try = now + gap(row.tries)
    row.error = str(why)
    if why.final or row.next_try > row.created_at + GIVE_UP:
        _over(row, now, "failed", row.error)
        return
    row.state = "due"
    _keep(row, state="due", tries=row.tries, next_try=row.next_try, error=row.error)


def _over(row: MailSent, now: datetime, state: str, error: str) -> None:
    row.state, row.error, row.done_at = state, one_line(error, 400), now
    _keep(row, state=state, tries=row.tries, error=row.error, done_at=now)
    if state in ("failed", "in_doubt"):
        log.warning("mail %s (%s %s) is %s: %s", row.pk, row.kind, row.ref, state, row.error)


def _keep(row: MailSent, **values: Any) -> None:
    """Without complaint when the person, and the mail with it, was deleted meanwhile."""
    MailSent.objects.filter(pk=row.pk).update(**values)
