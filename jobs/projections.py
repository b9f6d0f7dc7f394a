"""From the log to jobs, attempts and what they used.

One ordered group: dated dimensions, then the fold of touched job streams, then the roll-ups of touched keys.
A stream is folded whole whenever it is touched, so late, reordered and corrected events need no special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final

from events.copying import copying
from events.derive.attempts import Sighting, fold
from events.projector import Batch, Group
from events.sqlfiles import statements
from events.types import REGISTRY
from jobs import balances, closing, commissioned, rows, training, waits
from jobs.checks import check
from jobs.dimensions import FIRST_DAY, Interval, intervals, paths
from jobs.models import (
    AccountPlace,
    Association,
    Attempt,
    Balance,
    Checkpoint,
    ClassDay,
    Closing,
    Fairshare,
    Goodput,
    Job,
    Look,
    Project,
    ProjectPlace,
    Run,
    ScalingRecord,
    Segment,
    Speed,
    TrainingStream,
    UsageDay,
    Wait,
)

JOB_TYPES: Final = ("job.reported", "job.lost", "job.found", "record.corrected", "run.declared")
PROJECT_TYPES: Final = ("project.declared", "project.moved")
ACCOUNT_TYPES: Final = ("account.mapped",)
FOLDED: Final = 50_000
"""Events folded at a time: about 2.5 kB of memory each. The roll-up is computed once per batch of many such."""
# Another group may have left a table of this name in the same transaction (events.rebuild.known_at).
TOUCHED = """
DROP TABLE IF EXISTS pg_temp.touched;
CREATE TEMP TABLE touched (day date, cluster text, account text, user_id text, partition text,
    PRIMARY KEY (day, cluster, account, user_id, partition)) ON COMMIT DROP;
DROP TABLE IF EXISTS pg_temp.touched_runs;
CREATE TEMP TABLE touched_runs (run uuid PRIMARY KEY) ON COMMIT DROP
"""
TOUCH_RUNS: Final = """
INSERT INTO touched_runs SELECT DISTINCT j.run FROM touched_streams t
CROSS JOIN LATERAL (SELECT x.run, x.run_name FROM jobs_job x WHERE x.stream = t.stream OFFSET 0) j
WHERE j.run_name <> '' ON CONFLICT DO NOTHING
"""
# By an array: joined, the planner was seen to pair all runs with all jobs while their statistics were young.
FORGET_RUNS: Final = """
DELETE FROM jobs_run WHERE id = ANY(ARRAY(
    SELECT j.id FROM touched_streams t
    CROSS JOIN LATERAL (SELECT x.id FROM jobs_job x WHERE x.stream = t.stream OFFSET 0) j WHERE t.known))
"""


def apply(batch: Batch) -> None:
    """Apply one range of positions: dimensions, streams, roll-ups."""
    zone = _zone(batch)
    by_streams, by_dimensions, by_zone = statements("jobs", "touch")
    batch.cursor.execute(TOUCHED)
    if _dimensions(batch):
        batch.cursor.execute(by_dimensions)
    balances.begin(batch)
    anew = balances.fold(batch)
    shared = balances.configured(batch.cursor)
    closed = closing.fold(batch)
    closings = closing.known(batch.cursor)
    training.begin(batch)
    waits.begin(batch)
    for part in batch.parts(FOLDED):
        if part.touch_streams("touched_streams", JOB_TYPES):
            _refold(part, by_streams, zone, shared, closings)
            training.meet(part)
    rest = replace(batch, start=batch.end)
    for streams in closing.moved(rest, closed, closings):
        closing.touch(batch.cursor, streams)
        _refold(rest, by_streams, zone, shared, closings)
        training.meet(rest)
    if batch.has(("site.declared",)):
        batch.cursor.execute(by_zone, {"zone": zone})
        anew = shared
    balances.forget(batch, anew)
    balances.recompute(batch, zone)
    for statement in statements("jobs", "runs"):
        batch.cursor.execute(statement)
    training.finish(batch)
    commissioned.fold(batch)
    waits.finish(batch)
    _roll_up(batch, zone)


def _zone(batch: Batch) -> str:
    """The site's zone at the end of the range (read from the log, which is ahead of no other table)."""
    batch.cursor.execute(
        """SELECT data->>'timezone' FROM events_event WHERE shard = %s AND stream = 'site' AND position <= %s
           ORDER BY position DESC LIMIT 1""",
        [batch.shard, batch.end],
    )
    row = batch.cursor.fetchone()
    return str(row[0]) if row else "UTC"


def _roll_up(batch: Batch, zone: str) -> None:
    batch.cursor.execute("SELECT EXISTS (SELECT 1 FROM touched)")
    if not batch.cursor.fetchone()[0]:
        batch.cursor.execute("DROP TABLE touched")
        return
    batch.cursor.execute("ANALYZE touched")
    for statement in statements("jobs", "usage"):
        batch.cursor.execute(statement, {"zone": zone})


# --- streams ---------------------------------------------------------------------------------------------------


def _refold(batch: Batch, touch: str, zone: str, shared: Sequence[str], closings: closing.Closings) -> None:
    """Replace the rows of every touched stream by a fold over all its events. shared: clusters with fair share."""
    cursor = batch.cursor
    cursor.execute("SELECT EXISTS (SELECT 1 FROM touched_streams WHERE known)")
    if cursor.fetchone()[0]:
        cursor.execute(touch, {"zone": zone})
        balances.touch(batch, shared)
        cursor.execute(TOUCH_RUNS)
        cursor.execute(FORGET_RUNS)
        for table in ("jobs_segment", "jobs_attempt", "jobs_job"):
            cursor.execute(f"DELETE FROM {table} r USING touched_streams t WHERE r.stream = t.stream AND t.known")
    found = _streams(batch)
    jobs: list[rows.Row] = []
    segments: list[rows.Row] = []
    runs: list[rows.Row] = []
    # The widest rows are sent while the fold goes on, so that the server works beside it.
    with copying(cursor, "jobs_attempt", rows.ATTEMPT, rows.ATTEMPT_TYPES) as write:
        for stream, sightings in found.items():
            _, cluster, raw = stream.split("/", 2)
            for job in closing.numbered(fold(sightings), closings):
                jobs.append(rows.job_row(stream, cluster, raw, job))
                if not job.run:
                    runs.append(rows.run_row(stream, cluster, job))
                for attempt in job.attempts:
                    row = rows.attempt_row(stream, cluster, raw, job, attempt)
                    write(row)
                    segments.extend(rows.segment_rows(row[0], stream, cluster, job, attempt))
    for table, columns, types, data in (
        ("jobs_job", rows.JOB, rows.JOB_TYPES, jobs),
        ("jobs_segment", rows.SEGMENT, rows.SEGMENT_TYPES, segments),
        ("jobs_run", rows.RUN, rows.RUN_TYPES, runs),
    ):
        with copying(cursor, table, columns, types) as write:
            for row in data:
                write(row)
    waits.fold(batch, found)
    cursor.execute(TOUCH_RUNS)
    cursor.execute(touch, {"zone": zone})
    balances.touch(batch, shared)


def _streams(batch: Batch) -> dict[str, list[Sighting]]:
    """Each touched stream with all its visible events up to the end of the range.

    Streams that are new in this range are read in one pass over the range; of the others all events are
    looked up.
    """
    visible, columns = batch.visible(), (
        "e.stream, e.position, e.source, e.source_key, e.type, e.version,"
        " (extract(epoch FROM e.occurred_at) * 1000000)::bigint, e.data::text"
    )  # fmt: skip
    query = f"""SELECT {columns} FROM events_event e
        WHERE e.shard = %(shard)s AND e.position > %(start)s AND e.position <= %(end)s AND e.type = ANY(%(types)s)
          AND EXISTS (SELECT 1 FROM touched_streams t WHERE t.stream = e.stream AND NOT t.known) AND {visible}
        UNION ALL
        SELECT {columns} FROM touched_streams t JOIN events_event e ON e.shard = %(shard)s AND e.stream = t.stream
        WHERE t.known AND e.position <= %(end)s AND e.type = ANY(%(types)s) AND {visible}"""
    batch.cursor.execute(
        query, {"shard": batch.shard, "start": batch.start, "end": batch.end, "types": list(JOB_TYPES)}
    )
    found: dict[str, list[Sighting]] = {}
    newest = {kind: REGISTRY.latest(kind) for kind in JOB_TYPES}
    decoders = {kind: REGISTRY.get(kind).decoder.decode for kind in JOB_TYPES}
    while chunk := batch.cursor.fetchmany(5000):
        for stream, position, source, key, kind, version, occurred, data in chunk:
            body: Any = decoders[kind](data) if version == newest[kind] else REGISTRY.load(kind, version, data)
            found.setdefault(stream, []).append(Sighting(position, source, key, kind, occurred, body))
    return found


# --- dimensions ------------------------------------------------------------------------------------------------


def _dimensions(batch: Batch) -> bool:
    """Fold projects and accounts again when the range says something of them. They are small: folded whole."""
    projects, accounts = batch.has(PROJECT_TYPES), batch.has(ACCOUNT_TYPES)
    if projects:
        _projects(batch)
    if accounts:
        _accounts(batch)
    return projects or accounts


def _facts(batch: Batch, types: tuple[str, ...]) -> list[tuple[int, Any]]:
    """(position, data) of every visible event of these types up to the end of the range."""
    batch.cursor.execute(
        f"""SELECT e.position, e.type, e.version, e.data::text FROM events_event e
            WHERE e.shard = %s AND e.type = ANY(%s) AND e.position <= %s AND {batch.visible()}
              AND (e.stream COLLATE "C" >= %s AND e.stream COLLATE "C" < %s)
            ORDER BY e.position""",
        [batch.shard, list(types), batch.end, *_span(types)],
    )
    return [(at, REGISTRY.load(kind, version, data)) for at, kind, version, data in batch.cursor.fetchall()]


def _span(types: tuple[str, ...]) -> tuple[str, str]:
    """First and past-the-end stream of a noun, so that the stream index is used and not the whole log."""
    noun = types[0].partition(".")[0]
    return f"{noun}/", f"{noun}0"


def _projects(batch: Batch) -> None:
    facts = _facts(batch, PROJECT_TYPES)
    declared = {data.project: data for _, data in facts if hasattr(data, "title")}
    points: dict[str, list[tuple[date, int, str | None]]] = {}
    for position, data in facts:
        day = FIRST_DAY if hasattr(data, "title") else date.fromisoformat(data.from_day)
        points.setdefault(data.project, []).append((day, position, data.parent))
    parents = {project: intervals(found) for project, found in points.items()}
    places = [
        (project, start, end, list(path)) for project, pieces in paths(parents).items() for start, end, path in pieces
    ]
    batch.cursor.execute("DELETE FROM jobs_project")
    batch.cursor.execute("DELETE FROM jobs_projectplace")
    batch.cursor.executemany(
        "INSERT INTO jobs_project (code, title, kind, parent) VALUES (%s, %s, %s, %s)",
        [(code, _title(declared.get(code), code), _kind(declared.get(code)), _now(parents[code])) for code in parents],
    )
    batch.cursor.executemany(
        "INSERT INTO jobs_projectplace (project, from_day, to_day, path) VALUES (%s, %s, %s, %s)", places
    )


def _title(data: Any, code: str) -> str:
    return (data.title if data else "") or code


def _kind(data: Any) -> str:
    return data.kind if data else "project"


def _now(parts: list[Interval]) -> str | None:
    """The parent of the last interval: where the project hangs once every known move has happened."""
    return parts[-1].value if parts else None


def _accounts(batch: Batch) -> None:
    points: dict[tuple[str, str], list[tuple[date, int, str | None]]] = {}
    for position, data in _facts(batch, ACCOUNT_TYPES):
        day = date.fromisoformat(data.from_day)
        points.setdefault((data.cluster, data.account), []).append((day, position, data.project))
    batch.cursor.execute("DELETE FROM jobs_accountplace")
    batch.cursor.executemany(
        """INSERT INTO jobs_accountplace (cluster, account, from_day, to_day, project) VALUES (%s, %s, %s, %s, %s)""",
        [
            (cluster, account, part.from_day, part.to_day, part.value)
            for (cluster, account), found in points.items()
            for part in intervals(found)
            if part.value is not None
        ],
    )


TABLES: Final = (Project, ProjectPlace, AccountPlace, Association, Fairshare, Job, Run, Attempt, Segment, UsageDay,
                 ClassDay, Balance, TrainingStream, Checkpoint, Goodput, Speed, ScalingRecord, Look, Wait,
                 Closing)  # fmt: skip
GROUP: Final = Group(
    name="jobs",
    layer=1,
    version=4,
    tables=TABLES,
    apply=apply,
    check=check,
    money=True,
)
