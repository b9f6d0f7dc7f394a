"""One pull of a slurmrestd: the lists of present jobs and of nodes, and the accounting since the watermark.

The lists are taken whole, compared with those before (jobs/polled.py), and their changes are kept as deliveries; that
of jobs also says which attempts still run (jobs/seen.py). The accounting is fetched in slices of time. In one
transaction with the deliveries of a slice the watermark moves to its end: after a crash at any moment the slice is
either kept or fetched again. So a stop of an hour or of weeks is made up slice by slice.

Records come late: slurmctld hands them to slurmdbd behind time, by hours after an outage. Each pull therefore looks
OVERLAP back behind the watermark, and every DEEP_EVERY one looks back to `trail`, which follows the watermark by one
to two hours of successful pulls: what slurmctld had held back while slurmdbd was away is found for that long after
its return, however long that was. The first of these of a day (UTC) looks two days back at least.

Cost per pull: one pass of the adapter over what the scheduler sent. Growth: changes only. A job costs 3.3 kB in the
list and 6.1 kB in the accounting (v0.0.38, as captured) each time that it says something else, which is about three
times in each: 28 kB a job for as long as deliveries are kept, and on disk, compressed, 9 kB.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from events.append import LogBusy
from events.deliveries import ADAPTERS, accept_delivery, overloaded
from fleet.actions import BadSource, read_token
from fleet.models import Source
from fleet.scheduler import Document, Missing, Scheduler, TooLarge, TooSlow, Trouble, cluster_of, read_document
from jobs import polled
from jobs.runaways import say_found
from jobs.seen import note_poll, running_of

__all__ = ["DEEP_EVERY", "OVERLAP", "Busy", "Pulled", "pull"]

log = logging.getLogger("hallbook.tasks")
OVERLAP: Final = timedelta(seconds=120)
DEEP_EVERY: Final = timedelta(minutes=10)
TRAIL: Final = timedelta(hours=1)
DAILY: Final = timedelta(days=2)
SHORTEST: Final = 60
LONGEST: Final = 86_400
"""Seconds of a slice of accounting: halved when an answer is too large or too slow, doubled when it is small."""
BUDGET_SECONDS: Final = 60
"""After this long a pull ends and the next goes on, so that the list of jobs is not left waiting for history."""
_LOCK: Final = 7_240_002

Clock = Callable[[], datetime]


class Busy(Exception):
    """Another process is pulling this source."""


@dataclass
class Pulled:
    """What one pull brought, and what went wrong."""

    shown: int = 0
    running: int = 0
    changed: int = 0
    nodes: int = 0
    accounted: int = 0
    new: int = 0
    slices: int = 0
    behind: bool = False
    versions: str = ""
    troubles: list[str] = field(default_factory=list)


def _now() -> datetime:
    return datetime.now(UTC)


def pull(name: str, *, clock: Clock = _now) -> Pulled:
    """Ask a source once. Troubles are told in the answer and kept with the source; raises Busy.

    Whole seconds are asked for, as Slurm counts them.
    """
    with _alone(name):
        source = Source.objects.get(name=name)
        return _Pull(source, clock).run()


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One puller of a source at a time, over all processes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", [_LOCK, name])
        if not cursor.fetchone()[0]:
            raise Busy(name)
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", [_LOCK, name])


class _Pull:
    def __init__(self, source: Source, clock: Clock) -> None:
        self.source, self.clock = source, clock
        self.done = Pulled()

    def run(self) -> Pulled:
        begun = self.clock()
        try:
            if overloaded():
                raise Trouble("too many deliveries wait to be taken in; it is asked again when they are")
            self.client = self._client()
            self._find_versions()
            self._try(self._poll)
            if not self.done.troubles:
                self._try(self._poll_nodes)
            if self.source.accounting:
                self._try(self._account)
        except Trouble as trouble:
            self.done.troubles.append(str(trouble))
        except (DatabaseError, LogBusy):
            raise
        except Exception as error:
            # Whatever a scheduler sends, the source says that it failed and is asked less often.
            log.exception("the pull of %s failed", self.source.name)
            self.done.troubles.append(f"its answer could not be worked on ({type(error).__name__})")
        self._settle(begun)
        return self.done

    def _client(self) -> Scheduler:
        try:
            token = read_token(self.source.token_file)
        except BadSource as bad:
            raise Trouble(bad.text) from None
        return Scheduler(self.source.url, token, self.source.user, most=settings.PULL_MAX_BYTES)

    def _find_versions(self) -> None:
        if not self.source.api_version or (self.source.accounting and not self.source.db_version):
            found = self.client.versions()
            if not found.slurm:
                raise Trouble("it offers no version of the API that is read here (v0.0.37 to v0.0.45)")
            self.source.api_version, self.source.db_version = found.slurm, found.slurmdb
        self.done.versions = f"/slurm {self.source.api_version}, /slurmdb {self.source.db_version or 'none'}"

    def _try(self, part: Callable[[], None]) -> None:
        """One part may fail without the other: slurmdbd is away more often than slurmctld."""
        try:
            part()
        except Missing as trouble:
            self.source.api_version = self.source.db_version = ""  # an upgrade: look again next time
            self.done.troubles.append(str(trouble))
        except Trouble as trouble:
            self.done.troubles.append(str(trouble))

    def _poll(self) -> None:
        asked = self.clock()
        document = read_document(self.client.jobs(self.source.api_version))
        self._check_cluster(document)
        found, items = self._translated("slurmctld-jobs", document)
        shown = running_of(found)
        with transaction.atomic():
            self.done.changed = self._keep("slurmctld", "slurmctld-jobs", document, items, looked=asked)
            polled.forget_others(self.source.name, "slurmctld", items)
            note_poll(self.source.cluster, shown, before=self.source.polled_at, now=asked)
            self.source.polled_at = asked
            self._save("polled_at")
        say_found(self.source.cluster, shown, asked)
        self.done.shown, self.done.running = len(document.records), len(shown)

    def _poll_nodes(self) -> None:
        """What the scheduler says of its nodes now; what changed is kept, as of this moment."""
        asked = self.clock()
        document = read_document(self.client.nodes(self.source.api_version), "nodes")
        _, items = self._translated("slurm-nodes", document, "nodes")
        with transaction.atomic():
            self.done.nodes = self._keep("slurmctld", "slurm-nodes", document, items, looked=asked)
            self._save("records")

    def _check_cluster(self, document: Document) -> None:
        """Jobs under a wrong name could never be taken back out of the log."""
        own = cluster_of(document)
        if own not in ("", self.source.cluster):
            raise Trouble(
                f"it calls its cluster {own!r}, and this source was added for {self.source.cluster!r}: nothing was "
                f"taken; remove the source and add it with --cluster {own}"
            )

    def _translated(
        self, kind: str, document: Document, what: str = "jobs"
    ) -> tuple[list[Any], dict[str, polled.Item]]:
        every = range(len(document.records))
        whole = b"".join(polled.chunks(document.records, document.meta, every, most=1 << 60, what=what))
        found = ADAPTERS[kind]("application/json", self._headers(), whole) if whole else []
        return found, polled.items_of(found)

    def _keep(
        self, view: str, kind: str, document: Document, items: dict[str, polled.Item], looked: datetime | None = None
    ) -> int:
        """Keep what says something new as deliveries; how many records that were.

        looked: at this moment the list showed it, so that each change counts, also one back to what was said before.
        """
        headers = self._headers() | ({"x-hallbook-changes": str(int(looked.timestamp()))} if looked else {})
        what = "nodes" if kind == "slurm-nodes" else "jobs"
        news = polled.changed(self.source.name, f"{view}/{what}" if what == "nodes" else view, items)
        places = [index for item in news.values() for index in item.indexes]
        for body in polled.chunks(document.records, document.meta, places, what=what):
            accept_delivery(
                source=f"{view}:{self.source.cluster}",
                kind=kind,
                content_type="application/json",
                headers=headers,
                body=body,
                actor=f"source:{self.source.name}",
            )
        polled.remember(self.source.name, f"{view}/{what}" if what == "nodes" else view, news)
        self.source.records += len(places)
        return len(places)

    def _headers(self) -> dict[str, str]:
        return {"x-hallbook-cluster": self.source.cluster}

    def _account(self) -> None:
        if not self.source.db_version:
            raise Trouble("it offers no /slurmdb: add the source with --no-accounting if there is no slurmdbd")
        self._until = time.monotonic() + BUDGET_SECONDS
        now = self.clock().replace(microsecond=0)
        reached = self._slices((self.source.watermark or now) - OVERLAP, now, self._move_watermark)
        self.done.behind = not reached
        if reached:
            self._roll_trail(now)
            self._look_back(now)

    def _look_back(self, now: datetime) -> None:
        """The wider look back, every DEEP_EVERY; one that the budget cut short goes on."""
        source = self.source
        if source.deep_from is None and source.deep_at is not None and now - source.deep_at < DEEP_EVERY:
            return
        since = source.deep_from or self._deep_start(now)
        if self._slices(since, now, self._move_deep):
            source.deep_from, source.deep_at = None, now
            self._save("deep_from", "deep_at")
            polled.forget_ended(source.name, "slurmdbd", now - DAILY - 2 * OVERLAP)

    def _deep_start(self, now: datetime) -> datetime:
        start = self.source.trail or now
        if self.source.deep_at is not None and self.source.deep_at.date() != now.date():
            start = min(start, now - DAILY)
        return start - OVERLAP

    def _slices(self, start: datetime, now: datetime, move: Callable[[datetime], None]) -> bool:
        """Fetch [start, now) slice by slice; False when the budget is used up before its end."""
        while True:
            end = min(start + timedelta(seconds=self.source.slice_seconds), now)
            if self._slice(start, end, now, move):
                start = end
            if start >= now:
                return True
            if time.monotonic() > self._until:
                return False

    def _slice(self, start: datetime, end: datetime, now: datetime, move: Callable[[datetime], None]) -> bool:
        """One slice, the last one without an end; False when it has to be asked again in smaller ones."""
        source = self.source
        upto = None if end >= now else int(end.timestamp())
        try:
            body = self.client.accounting(source.db_version, source.cluster, int(start.timestamp()), upto)
        except (TooLarge, TooSlow):
            if (end - start).total_seconds() <= SHORTEST:
                raise
            source.slice_seconds = max(SHORTEST, int((end - start).total_seconds()) // 2)
            self._save("slice_seconds")
            return False
        document = read_document(body)
        self._check_cluster(document)
        _, items = self._translated("slurmdb-jobs", document)
        with transaction.atomic():
            self.done.new += self._keep("slurmdbd", "slurmdb-jobs", document, items)
            move(end)
            if len(body) * 8 < self.client.most:
                source.slice_seconds = min(LONGEST, source.slice_seconds * 2)
            self._save("watermark", "deep_from", "slice_seconds")
        self.done.accounted += len(document.records)
        self.done.slices += 1
        return True

    def _move_watermark(self, end: datetime) -> None:
        self.source.watermark = max(end, self.source.watermark or end)

    def _move_deep(self, end: datetime) -> None:
        self.source.deep_from = end

    def _roll_trail(self, now: datetime) -> None:
        """Let the trail follow: it becomes what the watermark was TRAIL ago."""
        source = self.source
        if source.trail_at is not None and now - source.trail_at < TRAIL:
            return
        source.trail, source.trail_next, source.trail_at = source.trail_next or now, source.watermark, now
        self._save("trail", "trail_next", "trail_at")

    def _save(self, *fields: str) -> None:
        self.source.save(update_fields=list(fields))

    def _settle(self, begun: datetime) -> None:
        source, ended = self.source, self.clock()
        source.last_try, source.pulls = begun, source.pulls + 1
        if self.done.troubles:
            said = "; ".join(self.done.troubles).replace("\0", "\ufffd")
            source.last_error, source.last_error_at = said[:2000], ended
            source.failures = min(source.failures + 1, 30)
        else:
            source.last_success, source.failures = ended, 0
        self._save(
            "last_try", "pulls", "last_error", "last_error_at", "failures", "last_success", "api_version",
            "db_version", "records",
        )  # fmt: skip
