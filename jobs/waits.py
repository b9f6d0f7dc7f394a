"""From looks of the scheduler to stretches of waiting with a cause each. Part of the group `jobs`.

The waits of a job that a range of the log touches are cut anew from all looks at it. Growth: one row per look that
says something new, and one per stretch; a job nobody looked at while it waited has no row (its wait is `unknown`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from events.copying import copying
from events.derive.attempts import Sighting
from events.derive.waiting import looks
from events.projector import Batch
from events.sqlfiles import statements
from jobs.rows import Row, instant
from jobs.waiting import FIRST_LOOK, cause_of

__all__ = ["begin", "finish", "fold"]

LOOK: Final = ("stream", "at", "reason", "cause", "expected")
LOOK_TYPES: Final = ("text", "int8", "text", "text", "int8")


def begin(batch: Batch) -> None:
    """Before the jobs of a range are folded."""
    batch.cursor.execute(statements("jobs", "waits")[0])


def fold(batch: Batch, found: Mapping[str, Sequence[Sighting]]) -> None:
    """Write the looks at some streams and note whose waits they change. After the streams' jobs are written."""
    cursor = batch.cursor
    cursor.execute("DELETE FROM jobs_look l USING touched_streams t WHERE l.stream = t.stream AND t.known")
    rows: list[Row] = [
        (stream, instant(look.at), look.reason, cause_of(look.reason), instant(look.expected))
        for stream, sightings in found.items()
        for look in looks(sightings)
    ]
    if rows:
        with copying(cursor, "jobs_look", LOOK, LOOK_TYPES) as write:
            for row in rows:
                write(row)
    cursor.execute("SELECT EXISTS (SELECT 1 FROM jobs_look) OR EXISTS (SELECT 1 FROM jobs_wait)")
    if cursor.fetchone()[0]:
        cursor.execute(statements("jobs", "waits")[1])


def finish(batch: Batch) -> None:
    """Cut the waits that are touched anew. After all jobs of the range are folded."""
    forget, cut, drop = statements("jobs", "waits")[2:]
    cursor: Any = batch.cursor
    cursor.execute("SELECT EXISTS (SELECT 1 FROM touched_waits)")
    if cursor.fetchone()[0]:
        cursor.execute("ANALYZE touched_waits")
        cursor.execute(forget)
        cursor.execute(cut.format(first_look=FIRST_LOOK))
    cursor.execute(drop)
