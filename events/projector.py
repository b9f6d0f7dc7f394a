"""From the log to read models: groups apply ranges of positions, rows and progress in one transaction.

Inside an application one ordered group; groups run in layers (fleet, then jobs and spares, then billing), each
only as far as every lower layer has come. Nothing here depends on the clock or on messages: whatever is left to
do is what the log holds after a group's progress.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, models, transaction

__all__ = ["BATCH", "Batch", "Group", "advance", "catch_up", "groups", "position", "register", "retry_parked",
           "stale"]  # fmt: skip

log = logging.getLogger("hallbook.projector")
BATCH: Final = 500_000
"""Events a group applies at most in one transaction: a backlog is summed in few steps, in whatever order it came."""


@dataclass
class Batch:
    """The range (start, end] of positions that a group applies, and the cursor to do it with.

    also: streams to fold again although they have no event in the range (a retry of a parked event).
    """

    cursor: Any
    group: str
    start: int
    end: int
    also: tuple[str, ...] = ()

    @property
    def shard(self) -> int:
        """The shard of this instance."""
        return int(settings.SHARD)

    def parts(self, size: int) -> Iterator[Batch]:
        """The range in smaller ones, for what must be held in memory; together they are applied or not."""
        starts = range(self.start, self.end, size) or [self.start]
        for start in starts:
            end = min(start + size, self.end)
            yield replace(self, start=start, end=end, also=self.also if end == self.end else ())

    def has(self, types: Iterable[str]) -> bool:
        """Whether any event of these types is in the range (or a stream is to be folded again)."""
        self.cursor.execute(
            """SELECT EXISTS (SELECT 1 FROM events_event
                WHERE shard = %s AND position > %s AND position <= %s AND type = ANY(%s))""",
            [self.shard, self.start, self.end, list(types)],
        )
        return bool(self.cursor.fetchone()[0]) or bool(self.also)

    def touch_streams(self, table: str, types: Iterable[str]) -> int:
        """Make the temporary table `table`(stream, known): streams with events of these types in the range.

        known: the stream has earlier events too, so rows of it may exist. Returns how many streams.
        """
        earlier = "false" if self.start == 0 else (
            "EXISTS (SELECT 1 FROM events_event x WHERE x.shard = %(shard)s AND x.stream = t.stream"
            " AND x.position <= %(start)s)"
        )  # fmt: skip
        self.cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{table}")
        self.cursor.execute(
            f"""CREATE TEMP TABLE {table} ON COMMIT DROP AS
                SELECT t.stream, {earlier} OR t.stream = ANY(%(also)s) AS known
                FROM (SELECT DISTINCT stream FROM events_event
                      WHERE shard = %(shard)s AND position > %(start)s AND position <= %(end)s
                        AND type = ANY(%(types)s)
                      UNION SELECT unnest(%(also)s::text[])) t""",
            {
                "shard": self.shard, "start": self.start, "end": self.end, "types": list(types),
                "also": list(self.also),
            },
        )  # fmt: skip
        count = self.cursor.rowcount
        # The log's statistics lag behind in a fresh log: an index keeps every plan for the join a quick one.
        self.cursor.execute(f"CREATE UNIQUE INDEX ON {table} (stream)")
        self.cursor.execute(f"ANALYZE {table}")
        return int(count)

    def visible(self, alias: str = "e") -> str:
        """SQL condition: the event is not parked, nor waiting behind a parked event of its stream."""
        self.cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM events_parked WHERE shard = %s AND group_name = %s)",
            [self.shard, self.group],
        )
        if not self.cursor.fetchone()[0]:
            return "true"
        return (
            f"NOT EXISTS (SELECT 1 FROM events_parked k WHERE k.shard = {self.shard}"
            f" AND k.group_name = '{self.group}' AND k.stream = {alias}.stream AND k.position <= {alias}.position)"
        )


@dataclass(frozen=True)
class Group:
    """What one application projects: its tables, and how a batch is applied to them.

    layer: 0 fleet, 1 jobs and spares, 2 billing. version: raised when the rules change, which queues a rebuild.
    money: stop and alert on an event that cannot be applied, instead of parking it. check: a statement about
    the group's tables that must hold; returns what is wrong (empty: nothing).
    """

    name: str
    layer: int
    version: int
    tables: tuple[type[models.Model], ...]
    apply: Callable[[Batch], None]
    check: Callable[[Any], Sequence[str]] = lambda _cursor: ()
    money: bool = False


_GROUPS: dict[str, Group] = {}


def register(group: Group) -> None:
    """Declare a group; done once by the application that owns it."""
    _GROUPS[group.name] = group


def groups() -> list[Group]:
    """Every group, in the order in which they run."""
    return sorted(_GROUPS.values(), key=lambda group: (group.layer, group.name))


def catch_up(*, batch: int = BATCH, using: str = DEFAULT_DB_ALIAS) -> int:
    """Apply everything the log holds, group by group. Returns how many batches were applied.

    A group that another process is working on is left to it.
    """
    applied = 0
    for group in groups():
        while advance(group, batch=batch, using=using):
            applied += 1
    return applied


def position(group: Group, *, using: str = DEFAULT_DB_ALIAS) -> int:
    """Last position the group has applied."""
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT position FROM events_progress WHERE shard = %s AND group_name = %s",
            [settings.SHARD, group.name],
        )
        row = cursor.fetchone()
        return int(row[0]) if row else 0


def stale(*, using: str = DEFAULT_DB_ALIAS) -> list[Group]:
    """Groups whose rules changed since their tables were made: they serve as they are until they are rebuilt."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT group_name, version FROM events_progress WHERE shard = %s", [settings.SHARD])
        versions = dict(cursor.fetchall())
    return [group for group in groups() if versions.get(group.name, group.version) != group.version]


def advance(group: Group, *, batch: int = BATCH, using: str = DEFAULT_DB_ALIAS) -> bool:
    """Apply one batch; False when there is nothing to do or another process holds the group."""
    try:
        return _step(group, batch, using)
    except OperationalError:
        raise  # the database is away or busy: not the event's fault
    except Exception as error:  # noqa: BLE001 - any other failure is of an event and must name it
        return _isolate(group, batch, using, error)


def _step(group: Group, batch: int, using: str) -> bool:
    with _uncollected(), transaction.atomic(using=using), connections[using].cursor() as cursor:
        start = _locked(cursor, group)
        if start is None:
            return False
        end = min(start + batch, _ceiling(cursor, group))
        if end <= start:
            return False
        group.apply(Batch(cursor, group.name, start, end))
        cursor.execute(
            """UPDATE events_progress SET position = %s, state = 'live', error = '', updated_at = now()
               WHERE shard = %s AND group_name = %s""",
            [end, settings.SHARD, group.name],
        )
    return True


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection while a batch is applied: it would walk hundreds of thousands of rows for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _locked(cursor: Any, group: Group) -> int | None:
    """The group's position with its row locked; None when another process has it or a rebuild is due."""
    cursor.execute(
        """INSERT INTO events_progress (shard, group_name, position, version, state, error, updated_at)
           VALUES (%s, %s, 0, %s, 'live', '', now()) ON CONFLICT DO NOTHING""",
        [settings.SHARD, group.name, group.version],
    )
    cursor.execute(
        """SELECT position, version FROM events_progress WHERE shard = %s AND group_name = %s
           FOR UPDATE SKIP LOCKED""",
        [settings.SHARD, group.name],
    )
    row = cursor.fetchone()
    if row is None or row[1] != group.version:  # old rules: the tables serve on until they are rebuilt
        return None
    return int(row[0])


def _ceiling(cursor: Any, group: Group) -> int:
    """How far the group may go: the head of the log, and no further than any lower layer."""
    lower = [other.name for other in groups() if other.layer < group.layer]
    cursor.execute(
        """SELECT least((SELECT position FROM events_head WHERE shard = %(shard)s),
                        (SELECT CASE WHEN count(*) < %(count)s THEN 0 ELSE min(position) END
                         FROM events_progress WHERE shard = %(shard)s AND group_name = ANY(%(lower)s)
                         HAVING %(count)s > 0))""",
        {"shard": settings.SHARD, "lower": lower, "count": len(lower)},
    )
    return int(cursor.fetchone()[0] or 0)


def _isolate(group: Group, batch: int, using: str, error: Exception) -> bool:
    """Halve the range down to the one event that fails; then stop (money) or park it and go on."""
    if batch > 1:
        return advance(group, batch=_smaller(group, batch, using), using=using)
    at = position(group, using=using) + 1
    reason = f"{type(error).__name__}: {error}"[:2000]
    log.error("group %s cannot apply the event at position %s: %s", group.name, at, reason)
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        if group.money:
            cursor.execute(
                "UPDATE events_progress SET state = 'stopped', error = %s WHERE shard = %s AND group_name = %s",
                [f"position {at}: {reason}", settings.SHARD, group.name],
            )
            return False
        cursor.execute(
            """INSERT INTO events_parked (shard, group_name, position, stream, error, parked_at)
               SELECT shard, %s, position, stream, %s, now() FROM events_event WHERE shard = %s AND position = %s
               ON CONFLICT DO NOTHING""",
            [group.name, reason, settings.SHARD, at],
        )
        if cursor.rowcount == 0:
            raise error  # it fails although it is parked already: not this event, but the rules
    return True


def _smaller(group: Group, batch: int, using: str) -> int:
    with connections[using].cursor() as cursor:
        left = _ceiling(cursor, group) - position(group, using=using)
    return max(1, min(batch, left) // 2)


def retry_parked(group: Group, *, using: str = DEFAULT_DB_ALIAS) -> tuple[int, int]:
    """Apply parked streams again, each in a transaction of its own. Returns (streams applied, still parked)."""
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT stream FROM events_parked WHERE shard = %s AND group_name = %s",
            [settings.SHARD, group.name],
        )
        streams = [row[0] for row in cursor.fetchall()]
    applied = sum(_retry(group, stream, using) for stream in streams)
    return applied, len(streams) - applied


def _retry(group: Group, stream: str, using: str) -> bool:
    try:
        with transaction.atomic(using=using), connections[using].cursor() as cursor:
            at = _locked(cursor, group)
            if at is None:
                return False
            cursor.execute(
                "DELETE FROM events_parked WHERE shard = %s AND group_name = %s AND stream = %s",
                [settings.SHARD, group.name, stream],
            )
            group.apply(Batch(cursor, group.name, at, at, also=(stream,)))
    except OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - stays parked, whatever it is
        log.warning("stream %s stays parked in %s: %s", stream, group.name, error)
        return False
    return True
