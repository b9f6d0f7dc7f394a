"""Balances of fair share by day: computed anew for the keys that a batch touched, from the stretches of those days.

A late attempt costs the stretches of its own days and the rows of the days after it; nothing is ever added to.
Clusters without a configuration cost nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from events.projector import Batch
from events.sqlfiles import statements
from events.types import REGISTRY
from events.types.accounts import AssociationReported, AssociationWithdrawn
from events.types.shares import FairshareConfigured
from jobs.dimensions import LAST_DAY
from jobs.shareclock import Clock, Piece, Stretch

__all__ = ["EVER", "NEVER", "Point", "begin", "clocks", "configured", "dated_associations", "dated_configurations",
           "fold", "forget", "recompute", "touch"]  # fmt: skip

ASSOCIATION_TYPES: Final = ("association.reported", "association.withdrawn")
FAIRSHARE_TYPES: Final = ("fairshare.configured",)
EVER: Final = -(2**62)
NEVER: Final = 2**62
"""Epoch seconds before and after everything."""
KEYS_AT_ONCE: Final = 200
TOUCHED_USE: Final = """
DROP TABLE IF EXISTS pg_temp.touched_use;
CREATE TEMP TABLE touched_use (cluster text, account text, user_id text, partition text, first_s bigint,
    last_s bigint) ON COMMIT DROP
"""
BALANCE: Final = ("cluster", "account", "user_id", "partition", "day", "used", "spent", "balance", "total")
BALANCE_TYPES: Final = ("text", "text", "text", "text", "date", "float8", "int8", "float8", "int8")


class Point(NamedTuple):
    """What was said of one association: when (epoch seconds), at which position, and its parent and shares."""

    at: int
    position: int
    data: AssociationReported | AssociationWithdrawn


AssociationRow = tuple[str, str, str, str, int, int, str, int | None]


def dated_associations(points: Sequence[Point]) -> list[AssociationRow]:
    """Rows of jobs_association. What a cluster was first told holds since ever; the rest from when it was said."""
    first: dict[str, int] = {}
    streams: dict[tuple[str, str, str, str], list[Point]] = defaultdict(list)
    for point in points:
        data = point.data
        first[data.cluster] = min(first.get(data.cluster, point.at), point.at)
        streams[data.cluster, data.account, data.user or "", data.partition or ""].append(point)
    return [row for key, said in sorted(streams.items()) for row in _dated(key, said, first[key[0]])]


def _dated(key: tuple[str, str, str, str], said: list[Point], first: int) -> Iterator[AssociationRow]:
    latest = {point.at: point for point in sorted(said, key=lambda point: point.position)}
    points = [latest[at] for at in sorted(latest)]
    for point, after in zip(points, [*points[1:], None], strict=True):
        if isinstance(point.data, AssociationReported):
            shares = None if point.data.shares_of_parent else point.data.shares
            shares = 1 if shares is None and not point.data.shares_of_parent else shares
            start, end = EVER if point.at == first else point.at, after.at if after else NEVER
            yield (*key, start, end, point.data.parent or "", shares)


def dated_configurations(said: Sequence[tuple[int, FairshareConfigured]]) -> list[tuple[str, date, date, str]]:
    """Rows of jobs_fairshare from (position, data): of two with one day the later position wins."""
    latest: dict[tuple[str, date], tuple[int, FairshareConfigured]] = {}
    for position, data in said:
        key = data.cluster, date.fromisoformat(data.from_day)
        if key not in latest or latest[key][0] < position:
            latest[key] = position, data
    keys = sorted(latest)
    ends = [
        after[1] if after[0] == key[0] else LAST_DAY
        for key, after in zip(keys, [*keys[1:], ("", LAST_DAY)], strict=True)
    ]
    return [
        (*key, end, msgspec.json.encode(latest[key][1]).decode()) for key, end in zip(keys, ends, strict=True)
    ]  # fmt: skip


def configured(cursor: Any) -> list[str]:
    """Clusters whose fair share is kept."""
    cursor.execute("SELECT DISTINCT cluster FROM jobs_fairshare ORDER BY 1")
    return [str(name) for (name,) in cursor.fetchall()]


def clocks(cursor: Any, zone: ZoneInfo, clusters: Collection[str] | None = None) -> dict[str, Clock]:
    """The clock of each cluster, or of some."""
    cursor.execute("SELECT cluster, from_day, to_day, config::text FROM jobs_fairshare ORDER BY 1, 2")
    found: dict[str, list[Stretch]] = defaultdict(list)
    for cluster, start, end, config in cursor.fetchall():
        if clusters is None or cluster in clusters:
            found[cluster].append(Stretch(start, end, msgspec.json.decode(config, type=FairshareConfigured)))
    return {cluster: Clock(stretches, zone) for cluster, stretches in found.items()}


# --- dimensions ------------------------------------------------------------------------------------------------


def fold(batch: Batch) -> list[str]:
    """Fold associations and configurations when the range says something of them; clusters configured otherwise."""
    cursor = batch.cursor
    if batch.has(ASSOCIATION_TYPES):
        points = [Point(at, position, data) for position, at, data in _facts(batch, ASSOCIATION_TYPES)]
        cursor.execute("DELETE FROM jobs_association")
        cursor.executemany(
            """INSERT INTO jobs_association (cluster, account, user_id, partition, from_s, to_s, parent, shares)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
            dated_associations(points),
        )
    if not batch.has(FAIRSHARE_TYPES):
        return []
    cursor.execute("DELETE FROM jobs_fairshare RETURNING cluster, from_day, to_day, config::text")
    known = {(row[0], row[1]): (row[2], msgspec.json.decode(row[3])) for row in cursor.fetchall()}
    rows = dated_configurations([(position, data) for position, _, data in _facts(batch, FAIRSHARE_TYPES)])
    cursor.executemany("INSERT INTO jobs_fairshare (cluster, from_day, to_day, config) VALUES (%s, %s, %s, %s)", rows)
    now = {(row[0], row[1]): (row[2], msgspec.json.decode(row[3])) for row in rows}
    return sorted({key[0] for key in known.keys() | now.keys() if known.get(key) != now.get(key)})


def _facts(batch: Batch, types: tuple[str, ...]) -> list[tuple[int, int, Any]]:
    """(position, epoch seconds, data) of every visible event of these types up to the end of the range."""
    noun = types[0].partition(".")[0]
    batch.cursor.execute(
        f"""SELECT e.position, extract(epoch FROM e.occurred_at)::bigint, e.type, e.version, e.data::text
            FROM events_event e
            WHERE e.shard = %s AND e.type = ANY(%s) AND e.position <= %s AND {batch.visible()}
              AND (e.stream COLLATE "C" >= %s AND e.stream COLLATE "C" < %s)
            ORDER BY e.position""",
        [batch.shard, list(types), batch.end, f"{noun}/", f"{noun}0"],
    )
    found = batch.cursor.fetchall()
    return [(at, when, REGISTRY.load(kind, version, data)) for at, when, kind, version, data in found]


# --- what a batch touched --------------------------------------------------------------------------------------


def begin(batch: Batch) -> None:
    """An empty list of what is touched."""
    batch.cursor.execute(TOUCHED_USE)


def forget(batch: Batch, clusters: Sequence[str]) -> None:
    """Drop all balances of clusters and note to compute all of them."""
    batch.cursor.execute("DELETE FROM jobs_balance WHERE cluster = ANY(%s)", [list(clusters)])
    touch(batch, clusters, whole=True)


def touch(batch: Batch, clusters: Sequence[str], *, whole: bool = False) -> None:
    """Note what the touched streams used of these clusters; whole: everything that was ever used of them."""
    if clusters:
        batch.cursor.execute(statements("jobs", "fairshare")[1 if whole else 0], {"clusters": list(clusters)})


@dataclass(slots=True)
class _Key:
    """One account, user and partition of a cluster, and the days of it that are computed anew."""

    name: tuple[str, str, str, str]
    clock: Clock
    first: date
    last: date
    pieces: dict[date, list[Piece]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[date, tuple[float, int]] = field(default_factory=dict)
    before: tuple[date, float, int] | None = None


def recompute(batch: Batch, zone: str) -> None:
    """Compute the balances of what was touched."""
    cursor = batch.cursor
    cursor.execute(statements("jobs", "fairshare")[2])
    found = cursor.fetchall()
    known = clocks(cursor, ZoneInfo(zone), {row[0] for row in found}) if found else {}
    keys = [key for row in found if (key := _key(row, known[row[0]]))]
    for at in range(0, len(keys), KEYS_AT_ONCE):
        _recompute(cursor, keys[at : at + KEYS_AT_ONCE])
    cursor.execute("DROP TABLE touched_use")


def _key(row: tuple[Any, ...], clock: Clock) -> _Key | None:
    """None when all of it ended before use counts."""
    *name, first, last = row
    if last <= clock.begin:
        return None
    return _Key((*name,), clock, clock.day_of(max(first, clock.begin) + 1), clock.day_of(last))


def _recompute(cursor: Any, keys: Sequence[_Key]) -> None:
    clusters, accounts, users, partitions = (list(column) for column in zip(*(key.name for key in keys), strict=True))
    arguments = {
        "clusters": clusters, "accounts": accounts, "users": users, "partitions": partitions,
        "days": [key.first for key in keys], "untils": [key.last for key in keys],
        "starts": [key.clock.edge(key.first) for key in keys],
        "ends": [key.clock.edge(key.last + timedelta(1)) for key in keys],
    }  # fmt: skip
    _, _, _, stretches, kept, away, *_ = statements("jobs", "fairshare")
    cursor.execute(stretches, arguments)
    while rows := cursor.fetchmany(5000):
        for number, *stretch in rows:
            _share_out(keys[number - 1], Piece(*stretch))
    for key in keys:
        _use(key)
    cursor.execute(kept, arguments)
    for number, day, used, spent, balance, total, before in cursor.fetchall():
        if before:
            keys[number - 1].before = day, balance, total
        else:
            keys[number - 1].rows[day] = used, spent
    cursor.execute(away, arguments)
    _write(cursor, keys)


def _share_out(key: _Key, piece: Piece) -> None:
    """Give a stretch to each of its days; a day of another configuration weighs it otherwise."""
    clock, end = key.clock, piece.end or 0
    if piece.start >= end:
        return
    day = max(key.first, clock.day_of(max(piece.start, clock.begin) + 1))
    while day <= key.last and clock.edge(day) < end:
        key.pieces[day].append(piece)
        day += timedelta(1)


def _use(key: _Key) -> None:
    for day, pieces in key.pieces.items():
        used = key.clock.use(pieces, key.name[3], day, key.clock.edge(day + timedelta(1)))
        if used.plain:
            key.rows[day] = used.decayed, used.plain


def _write(cursor: Any, keys: Sequence[_Key]) -> None:
    names = ", ".join(f'"{name}"' for name in BALANCE)
    with (
        cursor.db.wrap_database_errors,
        cursor.copy(f"COPY jobs_balance ({names}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.set_types(BALANCE_TYPES)
        for key in keys:
            for row in _balances(key):
                copy.write_row((*key.name, *row))


def _balances(key: _Key) -> Iterator[tuple[date, float, int, float, int]]:
    """Each day's own use, and with it the balance that came down to it from the day before."""
    last, balance, total = key.before or (key.first, 0.0, 0)
    for day in sorted(key.rows):
        used, spent = key.rows[day]
        since, after = last + timedelta(1), day + timedelta(1)
        forgotten = key.clock.forgotten(since, after)
        balance = used if forgotten else balance * key.clock.carry(since, after) + used
        total = spent if forgotten else total + spent
        yield day, used, spent, balance, total
        last = day
