"""Mails, woken by beat. Sending runs in a thread of its own: a mail server that hangs must not keep the worker from
taking in deliveries. Whatever a tick leaves undone, the next one does: it is all in the outbox.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import Final

from celery import shared_task
from django.db import DatabaseError, connection

from web import mailjob, mailout, mailplan

__all__ = ["mail", "turn"]

log = logging.getLogger("hallbook.tasks")
TIDY: Final = timedelta(hours=1)
_running: Final[list[threading.Thread]] = []
_tidied: Final[list[datetime]] = []


@shared_task(name="web.tasks.mail")
def mail() -> None:
    """Start a turn unless one is under way in this process; returns at once."""
    if _running and _running[-1].is_alive():
        return
    _running[:] = [threading.Thread(target=_turn, name="mail", daemon=True)]
    _running[-1].start()


def _turn() -> None:
    try:
        turn(datetime.now(UTC))
    except DatabaseError as error:  # the next tick tries again
        log.warning("sending mail was cut short: %s", type(error).__name__)
    except Exception:
        log.exception("sending mail failed")
    finally:
        connection.close()


def turn(now: datetime) -> None:
    """Note what is due by the clock, then send what is due. Any number of processes may do it at once."""
    mailplan.note_weekly(now)
    mailjob.find(now)
    mailout.deliver(now)
    if not _tidied or now - _tidied[-1] > TIDY:
        mailout.tidy(now)
        _tidied[:] = [now]
