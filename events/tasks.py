"""Background work. A task only says that there may be something to do: what is left to do is in the database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery import shared_task
from django.conf import settings
from django.db import OperationalError, connection, transaction

from events import deliveries, projector, sampledays
from events.append import LogBusy
from events.rebuild import rebuild

log = logging.getLogger("hallbook.tasks")
NUDGE_SECONDS: Final = 0.2
"""How long a web process gathers accepted deliveries before it wakes the worker."""
KEEP_DAYS: Final = 35
"""How long done deliveries keep their bodies."""
TURN_SECONDS: Final = 2.0
"""How long one task takes in a stream of deliveries that does not end, before other tasks have their turn."""
DRAIN_LOCK: Final = 7_240_001
STALLED_SECONDS: Final = 30
"""An append takes well under a second; whoever holds the log's head for this long has been stopped in it."""


@shared_task(name="events.tasks.catch_up")
def catch_up() -> None:
    """Take in pending deliveries and apply them, until nothing is left. One worker at a time does it.

    While they come without a break it makes room for other tasks every TURN_SECONDS, and wakes itself again.

    A group whose rules changed with the code is rebuilt first; its old tables serve meanwhile.

    Another worker that finds it being done returns at once: the one at work looks again before it ends.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [DRAIN_LOCK])
        if not cursor.fetchone()[0]:
            return
        try:
            if old := projector.stale():
                rebuild(old)
            if _stream(time.monotonic() + TURN_SECONDS):
                projector.catch_up()
            else:
                nudge()
        except LogBusy:
            free_head(STALLED_SECONDS)
        except OperationalError as error:  # the next beat tick tries again
            log.warning("catching up was cut short: %s", error)
        finally:
            _unlock(cursor)


def _stream(until: float) -> bool:
    """Drain and project in turns; False when the time was up before nothing was left."""
    while deliveries.drain():
        for group in projector.groups():  # one batch each: what is left waits for the end of the stream
            projector.advance(group)
        if time.monotonic() > until:
            return False
    return True


def free_head(seconds: float) -> int:
    """End sessions of our role that hold the head of the log for longer: a writer that was stopped in its append.

    Nothing of it was acknowledged, so nothing is lost. Returns how many were ended.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity a
               WHERE usename = current_user AND pid <> pg_backend_pid()
                 AND xact_start < clock_timestamp() - %s * interval '1 second'
                 AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.granted AND l.mode = 'RowShareLock'
                                AND l.relation = 'events_head'::regclass)""",
            [seconds],
        )
        ended = [pid for pid, _ in cursor.fetchall()]
    if ended:
        log.error("ended sessions %s: they held the head of the log for over %s s", ended, seconds)
    return len(ended)


def _unlock(cursor: Any) -> None:
    try:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [DRAIN_LOCK])
    except OperationalError:
        connection.close()  # the lock goes with the session


@shared_task(name="events.tasks.upkeep")
def upkeep() -> None:
    """Partitions of deliveries and samples for the days ahead; old ones go; bodies of open rejections are kept."""
    today = datetime.now(UTC).date()
    for ahead in range(4):
        ensure_partition(today + timedelta(days=ahead))
    forget_deliveries(datetime.now(UTC) - timedelta(days=KEEP_DAYS))
    sampledays.keep_up(datetime.now(UTC))


def ensure_partition(day: Any) -> None:
    """The partition of one day of deliveries (UTC), made when missing; as the owner of the tables."""
    from django.db import connections

    name = f"events_delivery_{day:%Y%m%d}"
    following = day + timedelta(days=1)
    with connections["owner"].cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [f"public.{name}"])
        if cursor.fetchone()[0]:
            return
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM events_delivery_rest WHERE received_at >= %s AND received_at < %s)",
            [day, following],
        )
        if cursor.fetchone()[0]:  # its rows are in the rest already: the next days get partitions in time
            return
        cursor.execute(f"CREATE TABLE {name} PARTITION OF events_delivery FOR VALUES FROM ('{day}') TO ('{following}')")
        from events.grants import grant_schema

        grant_schema("public", "owner")


def forget_deliveries(before: datetime) -> int:
    """Delete deliveries that are done and older; the body of one with an open rejection is kept first."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO events_keptbody (shard, delivery, received_at, source, kind, content_type, headers, body)
               SELECT d.shard, d.id, d.received_at, d.source, d.kind, d.content_type, d.headers, d.body
               FROM events_delivery d
               WHERE d.shard = %s AND d.received_at < %s AND d.state <> 'pending'
                 AND EXISTS (SELECT 1 FROM events_rejection r
                             WHERE r.shard = d.shard AND r.delivery = d.id AND r.state = 'open')
               ON CONFLICT DO NOTHING""",
            [settings.SHARD, before],
        )
        cursor.execute(
            "DELETE FROM events_delivery WHERE shard = %s AND received_at < %s AND state <> 'pending'",
            [settings.SHARD, before],
        )
        return int(cursor.rowcount)


class Nudger:
    """Wakes the worker soon after something happened, at most once in NUDGE_SECONDS per process."""

    def __init__(self, publish: Callable[[], object]) -> None:
        self._publish = publish
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __call__(self) -> None:
        """Say that it happened; returns at once."""
        self._wanted.set()
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="nudge", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                self._publish()
            except Exception as error:  # noqa: BLE001 - beat's tick does the same work
                log.warning("the worker could not be woken: %s", error)
            threading.Event().wait(NUDGE_SECONDS)


nudge = Nudger(lambda: catch_up.apply_async(expires=30, ignore_result=True))
"""Call after a commit that left something to do; cheap, and nothing depends on it for correctness."""
