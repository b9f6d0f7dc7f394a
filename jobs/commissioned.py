"""From the log to the records of how fast clusters were measured to be. Part of the group `jobs`.

They are few: all are folded anew whenever one is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from events.copying import copying
from events.projector import Batch
from events.types import REGISTRY
from jobs.rows import YEAR_2000, Row

__all__ = ["fold", "replacements"]

TYPE: Final = "scaling.recorded"
COLUMNS: Final = ("position", "cluster", "model", "kind", "measured", "gpus", "milli_tokens_per_second", "step_us",
                  "steps", "precision", "flop_per_token", "peak_gflops", "convention", "communication_ppm",
                  "signed_by", "note", "reference", "replaces", "replaced_by")  # fmt: skip
COLUMN_TYPES: Final = ("int8", "text", "text", "text", "int8", "int4", "int8", "int8", "int4", "text", "int8", "int8",
                       "text", "int4", "text", "text", "text", "int8", "int8")  # fmt: skip
Told = tuple[int, int, Any]
"""Position, time in microseconds, data."""


def fold(batch: Batch) -> None:
    """Write all records anew where the range tells of one."""
    if not batch.has((TYPE,)):
        return
    told = _told(batch)
    later = replacements((position, data.cluster, data.replaces) for position, _, data in told)
    batch.cursor.execute("DELETE FROM jobs_scalingrecord")
    with copying(batch.cursor, "jobs_scalingrecord", COLUMNS, COLUMN_TYPES) as write:
        for one in told:
            write(_row(one, later.get(one[0])))


def _told(batch: Batch) -> list[Told]:
    batch.cursor.execute(
        f"""SELECT e.position, (extract(epoch FROM e.occurred_at) * 1000000)::bigint, e.version, e.data::text
            FROM events_event e
            WHERE e.shard = %s AND e.type = %s AND e.position <= %s AND {batch.visible()}
              AND e.stream COLLATE "C" >= 'scaling/' AND e.stream COLLATE "C" < 'scaling0'
            ORDER BY e.position""",
        [batch.shard, TYPE, batch.end],
    )
    return [(at, time, REGISTRY.load(TYPE, version, data)) for at, time, version, data in batch.cursor.fetchall()]


def replacements(told: Iterable[tuple[int, str, int | None]]) -> dict[int, int]:
    """Which records do not count, and which one counts instead: by position.

    told: position, cluster and the position that it replaces, of every record in the order of the log. Of several
    that replace one position the first counts instead of it and of the others. A record replaces none of another
    cluster and none that came later: naming one, it counts beside it.
    """
    clusters: dict[int, str] = {}
    found: dict[tuple[str, int], int] = {}
    for position, cluster, replaces in told:
        clusters[position] = cluster
        if replaces is None or replaces >= position or clusters.get(replaces, cluster) != cluster:
            continue
        first = found.setdefault((cluster, replaces), position)
        if first != position:
            found[cluster, position] = first
    return {position: later for (cluster, position), later in found.items() if clusters.get(position) == cluster}


def _row(told: Told, replaced_by: int | None) -> Row:
    """One row of jobs_scalingrecord."""
    position, time, data = told
    return (
        position, data.cluster, data.model, data.kind, time - YEAR_2000 * 1_000_000, data.gpus,
        data.milli_tokens_per_second, data.step_us, data.steps, data.precision, data.flop_per_token, data.peak_gflops,
        data.convention or "", data.communication_ppm, data.signed_by, data.note or "", data.reference, data.replaces,
        replaced_by,
    )  # fmt: skip
