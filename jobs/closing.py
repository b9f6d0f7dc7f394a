"""Runs that people closed: which run of a name a job belongs to.

Part of the group `jobs`. A job belongs to the first run of its account and name, and to a later one for each closing
before it was submitted. Closings are folded anew per name; a job that comes to another run by one is folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from events.derive.closings import standing_closings
from events.derive.outcome import Job
from events.projector import Batch
from events.types import REGISTRY
from jobs.rows import named_run_key

__all__ = ["CLOSING_TYPES", "Closings", "Name", "fold", "known", "moved", "numbered", "touch"]

CLOSING_TYPES: Final = ("run.closed", "run.reopened")
PORTION: Final = 5_000
"""Streams folded again at a time."""
Name = tuple[str, str]
"""Account and name of a run."""
Closings = Mapping[Name, Sequence[int]]
"""When runs of a name were closed, epoch seconds, ascending."""


def fold(batch: Batch) -> dict[Name, int]:
    """Fold the closings of every name of which the range says something. Returns how many each had or has at most."""
    cursor, found = batch.cursor, {}
    for name in _said(batch):
        cursor.execute("DELETE FROM jobs_closing WHERE account = %s AND name = %s", name)
        before, now = cursor.rowcount, _closings(batch, name)
        cursor.executemany(
            "INSERT INTO jobs_closing (account, name, generation, closed_at, actor) VALUES (%s, %s, %s, %s, %s)",
            [(*name, number, datetime.fromtimestamp(at, UTC), by) for number, (at, by) in enumerate(now, 1)],
        )
        found[name] = max(before, len(now))
    return found


def known(cursor: Any) -> Closings:
    """All closings, as folded."""
    cursor.execute(
        """SELECT account, name, array_agg(extract(epoch FROM closed_at)::bigint ORDER BY generation)
           FROM jobs_closing GROUP BY 1, 2"""
    )
    return {(account, name): times for account, name, times in cursor.fetchall()}


def numbered(jobs: Iterable[Job], closings: Closings) -> Iterator[Job]:
    """The jobs of a stream with the number of the run of their name that they belong to."""
    for job in jobs:
        closed = closings.get((job.account or "", job.run)) if job.run else None
        if closed:
            start = job.attempts[0].start if job.attempts else None
            yield replace(job, generation=_generation(closed, job.submit, job.eligible, start))
        else:
            yield job


def moved(batch: Batch, names: Mapping[Name, int], closings: Closings) -> Iterator[list[str]]:
    """Streams of jobs that closings bring to another run of their name, some thousands at a time.

    names: as `fold` gives them.
    """
    streams: list[str] = []
    for name, most in names.items():
        keys = [named_run_key(*name, number) for number in range(1, most + 2)]
        batch.cursor.execute(
            """SELECT stream, generation, extract(epoch FROM submit)::bigint, extract(epoch FROM eligible)::bigint,
                      extract(epoch FROM start)::bigint FROM jobs_job WHERE run = ANY(%s) AND run_name <> ''""",
            [keys],
        )
        closed = closings.get(name, ())
        streams += [stream for stream, now, *known in batch.cursor.fetchall() if _generation(closed, *known) != now]
    streams = list(dict.fromkeys(streams))
    for first in range(0, len(streams), PORTION):
        yield streams[first : first + PORTION]


def touch(cursor: Any, streams: Sequence[str]) -> None:
    """Make the temporary table `touched_streams` of streams that are to be folded again."""
    cursor.execute("DROP TABLE IF EXISTS pg_temp.touched_streams")
    cursor.execute(
        """CREATE TEMP TABLE touched_streams ON COMMIT DROP AS
           SELECT unnest(%s::text[]) COLLATE "C" AS stream, true AS known""",
        [list(streams)],
    )
    cursor.execute("CREATE UNIQUE INDEX ON touched_streams (stream)")
    cursor.execute("ANALYZE touched_streams")


def _generation(closed: Sequence[int], *known: int | None) -> int:
    """The first instant known of a job says when it came: one run more for each closing before."""
    since = next((instant for instant in known if instant is not None), 0)
    return 1 + sum(at < since for at in closed)


def _said(batch: Batch) -> list[Name]:
    """Names of which the range closes or reopens a run."""
    batch.cursor.execute(
        """SELECT DISTINCT stream FROM events_event
           WHERE shard = %s AND position > %s AND position <= %s AND type = ANY(%s)""",
        [batch.shard, batch.start, batch.end, list(CLOSING_TYPES)],
    )
    return [_name(stream) for (stream,) in batch.cursor.fetchall()]


def _name(stream: str) -> Name:
    _, account, name = stream.split("/", 2)
    return account, name


def _closings(batch: Batch, name: Name) -> list[tuple[int, str]]:
    """When runs of a name were closed, and by whom, as far as nobody took it back."""
    batch.cursor.execute(
        f"""SELECT e.type, e.version, e.data::text, e.actor FROM events_event e
            WHERE e.shard = %s AND e.stream = %s AND e.type = ANY(%s) AND e.position <= %s AND {batch.visible()}
            ORDER BY e.position""",
        [batch.shard, "run/{}/{}".format(*name), list(CLOSING_TYPES), batch.end],
    )
    said: list[tuple[str, int, str]] = []
    for kind, version, text, actor in batch.cursor.fetchall():
        data: Any = REGISTRY.load(kind, version, text)
        said.append((kind, data.closed_s, actor))
    return standing_closings(said)
