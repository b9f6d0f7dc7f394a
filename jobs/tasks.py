"""Pulls and runaways, woken by beat. A pull runs in a thread of its own: a scheduler that hangs must not keep the
worker from taking in deliveries, and a thread costs no memory of a second worker.

Hooks tell at once that a job began or ended, but not its state and its end by the scheduler's clock: they bring the
next pull forward. However many hooks come, a pull then waits twice as long as the last one took.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from celery import shared_task
from django.db import DatabaseError, connection

from events.append import LogBusy
from events.tasks import Nudger, catch_up
from fleet.actions import PULLED
from fleet.models import Source
from jobs import pulls, runaways

__all__ = ["ask_soon", "due", "find_runaways", "pull", "pull_soon"]

log = logging.getLogger("hallbook.tasks")
SLOWEST_SECONDS: Final = 60
"""However often a pull has failed, it is tried again after this long."""
TICK: Final = timedelta(seconds=1)
"""How often beat looks (config/celery.py); a source is due half of it early, else it would wait for the next look."""
EAGER_SECONDS: Final = 0.3
EAGER_TIMES: Final = 2
"""A pull brought forward by hooks begins so long after the last one, and so many times its length."""
_running: Final[dict[str, threading.Thread]] = {}
_again: Final[set[str]] = set()
_last: Final[dict[str, tuple[float, float]]] = {}
"""When the last pull of a source ended (monotonic seconds), and how long it took."""


@shared_task(name="jobs.tasks.pull")
def pull() -> None:
    """Start a pull of every source that is due and not being pulled already; returns at once."""
    for name in due(datetime.now(UTC)):
        _start(name, soon=False)


@shared_task(name="jobs.tasks.pull_soon")
def pull_soon() -> None:
    """Start a pull of every source that answers, whether it is due or not; returns at once."""
    for row in Source.objects.filter(kind=PULLED, paused=False, failures=0).order_by("name"):
        _start(row.name, soon=True)


ask_soon = Nudger(lambda: pull_soon.apply_async(expires=10, ignore_result=True))
"""Call when a hook told of a job; only saves waiting for the next pull."""


def _start(name: str, *, soon: bool) -> None:
    before = _running.get(name)
    if before is not None and before.is_alive():
        if soon:
            _again.add(name)
        return
    _running[name] = threading.Thread(target=_pulls, args=(name, soon), name=f"pull {name}", daemon=True)
    _running[name].start()


def _pulls(name: str, soon: bool) -> None:
    """Pull, and once more when a hook came meanwhile."""
    while True:
        if soon:
            time.sleep(_gap(name))
        _again.discard(name)
        begun = time.monotonic()
        _pull(name)
        _last[name] = (time.monotonic(), time.monotonic() - begun)
        soon = name in _again
        if not soon:
            return


def _gap(name: str) -> float:
    """Seconds until a pull brought forward may begin."""
    ended, took = _last.get(name, (0.0, 0.0))
    return max(0.0, ended + max(EAGER_SECONDS, EAGER_TIMES * took) - time.monotonic())


def due(now: datetime) -> list[str]:
    """Sources whose time has come: after failures in a row they are asked less often, up to once a minute."""
    rows = Source.objects.filter(kind=PULLED, paused=False).order_by("name")
    return [row.name for row in rows if row.last_try is None or now - row.last_try >= _pause(row) - TICK / 2]


def _pause(row: Source) -> timedelta:
    slower = min(row.every_seconds * 2 ** min(row.failures, 6), SLOWEST_SECONDS)
    return timedelta(seconds=max(row.every_seconds, slower))


def _pull(name: str) -> None:
    try:
        done = pulls.pull(name)
        if done.changed or done.new:
            catch_up()  # here and now: a message to the worker would only come back to this process
    except pulls.Busy:
        pass
    except (DatabaseError, LogBusy, Source.DoesNotExist) as error:  # the next tick tries again
        log.warning("the pull of %s was cut short: %s", name, type(error).__name__)
    except Exception:
        log.exception("the pull of %s failed", name)
    finally:
        connection.close()


@shared_task(name="jobs.tasks.find_runaways")
def find_runaways() -> None:
    """Flag attempts that nobody ends."""
    try:
        runaways.find_runaways()
    except (DatabaseError, LogBusy) as error:  # the next tick tries again
        log.warning("looking for runaways was cut short: %s", type(error).__name__)
