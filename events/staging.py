"""Samples of telemetry on their way: kept for two days, so that folds and late news of jobs find them.

One transaction per body: what is answered with 2xx is committed, and so are the refusals and the counts of the source.
The body itself is not kept, as its samples are. A sample is the same by series and time: sent again, in whatever
order, it changes nothing. Cost of a body: a probe for each of its series, a row and an index entry for each sample.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings
from django.db import connection, transaction

from events import tally
from events.adapters import Refusal
from events.adapters.samples import Samples, Series, Unreadable
from events.intake import Voice, record
from events.validate import refusal
from events.wire import SIGNATURE, TRAILER

__all__ = ["AHEAD_MS", "KEEP_MS", "MOST_OPEN", "Staged", "refuse", "stage"]

KEEP_MS: Final = 2 * 24 * 60 * 60 * 1000
"""How long samples are kept; older ones come too late to be folded."""
AHEAD_MS: Final = 5 * 60 * 1000
"""How far ahead of receipt a sample may be, as for events."""
MOST_OPEN: Final = 1_000
"""Open rejections of one source; further refusals of it are counted only, as samples come by the thousand a second."""
_SEEN_EVERY: Final = timedelta(hours=1)
_ROW: Final = ">hihi16siqi"  # five columns: shard, series, t_ms, and the length of the value
_VALUE: Final = struct.Struct(_ROW + "di").pack
_STALE: Final = struct.Struct(_ROW + "i").pack
_VALUE_SINCE: Final = struct.Struct(_ROW + "diq").pack
_STALE_SINCE: Final = struct.Struct(_ROW + "iq").pack

_NEW: Final = """
SELECT n.id FROM unnest(%s::uuid[]) AS n (id)
WHERE coalesce((SELECT s.last_seen FROM events_sampleseries s WHERE s.shard = %s AND s.id = n.id), '-infinity') < %s"""
_SERIES: Final = """
INSERT INTO events_sampleseries AS s (shard, id, metric, labels, source, first_seen, last_seen)
SELECT %s, n.id, n.metric, n.labels::jsonb, %s, %s, %s
FROM unnest(%s::uuid[], %s::text[], %s::text[]) AS n (id, metric, labels) ORDER BY n.id
ON CONFLICT (shard, id) DO UPDATE SET last_seen = greatest(s.last_seen, excluded.last_seen)"""
# A writer that was stopped in the middle must not hold up all others: they are answered 503 then.
_INCOMING: Final = """
SET LOCAL lock_timeout = '5s';
CREATE TEMPORARY TABLE IF NOT EXISTS incoming_sample (shard smallint, series uuid, t_ms bigint,
    value double precision, start_ms bigint) ON COMMIT DELETE ROWS;
DELETE FROM incoming_sample"""
# In the order of the key, so that two bodies with the same samples wait for each other and never deadlock.
_TAKE: Final = """
INSERT INTO events_sample (shard, series, t_ms, value, start_ms)
SELECT shard, series, t_ms, value, start_ms FROM incoming_sample ORDER BY shard, series, t_ms
ON CONFLICT DO NOTHING"""
_OTHER: Final = """
SELECT DISTINCT i.series, i.t_ms FROM incoming_sample i
WHERE (SELECT s.value IS DISTINCT FROM i.value FROM events_sample s
       WHERE s.shard = i.shard AND s.series = i.series AND s.t_ms = i.t_ms)"""


class Staged(NamedTuple):
    """What became of a body's samples. `rejected`: all that are lost, also those the reader had refused."""

    stored: int
    duplicate: int
    rejected: int


@dataclass(slots=True)
class _Lost:
    """Samples of one scraped target that are refused for one reason."""

    index: int
    t_ms: int
    count: int = 0


def stage(found: Samples, voice: Voice, kind: str, received_us: int) -> Staged:
    """Keep the samples of one body; committed on return unless the caller has a transaction open.

    What is refused here (a clock ahead, too late, another value at the same time) is taken out of `found` and noted in
    its refusals, so that the adapter's answer tells it. kind: of the door, for the page of sources. Raises
    django.db.OperationalError when the database cannot take it; then nothing is kept.
    """
    received = datetime.fromtimestamp(received_us / 1e6, UTC)
    with transaction.atomic(), connection.cursor() as cursor:
        _believe(found, received)
        stored = _copied(cursor, found, voice.source, received) if len(found) else 0
        if stored < len(found):
            _contradictions(cursor, found, received)
        staged = Staged(stored, len(found) - stored, found.refused_count)
        _told(cursor, voice, found.refused)
        why = f"{found.refused[0].code}: {found.refused[0].text}"[:1000] if found.refused else ""
        tally.note([tally.Settled(voice.source, kind, received, *staged, error=why)])
    return staged


def refuse(error: Unreadable, voice: Voice, kind: str, received_us: int) -> None:
    """Note a body that was refused as a whole, which its sender drops unseen: one row a day and reason."""
    received = datetime.fromtimestamp(received_us / 1e6, UTC)
    said = refusal(0, error.place, error.code, str(error), _payload(received))
    with transaction.atomic(), connection.cursor() as cursor:
        _told(cursor, voice, [said])
        why = f"{error.code}: {error}"[:1000]
        tally.note([tally.Settled(voice.source, kind, received, rejected=1, error=why)])


def _believe(found: Samples, received: datetime) -> None:
    """Take out what is too far ahead of receipt, and what is older than samples are kept."""
    now_ms = int(received.timestamp() * 1000)
    first, last = now_ms - KEEP_MS, now_ms + AHEAD_MS
    if not found.t_ms or (min(found.t_ms) >= first and max(found.t_ms) <= last):
        return

    def ahead(t_ms: int) -> str:
        far = f"{(t_ms - now_ms) // 1000:,} s ahead of our clock; at most {AHEAD_MS // 1000} s is expected"
        return f"{far}: check the clock there"

    def late(t_ms: int) -> str:
        far = f"{(now_ms - t_ms) // 3_600_000:,} h old, and are kept for {KEEP_MS // 3_600_000} h"
        return f"{far}: they come too late, or the clock there is wrong"

    _drop(found, lambda _, t_ms: t_ms > last, "clock_ahead", ahead, received)
    _drop(found, lambda _, t_ms: t_ms < first, "too_late", late, received)


def _drop(
    found: Samples, wrong: Callable[[Series, int], bool], code: str, says: Callable[[int], str], received: datetime
) -> None:
    """Take out the wrong ones; one refusal for each target that was scraped."""
    lost: dict[str, _Lost] = {}
    keep = []
    for index, (series, t_ms) in enumerate(zip(found.series, found.t_ms, strict=True)):
        if wrong(series, t_ms):
            target = series.named().get("instance", "")
            lost.setdefault(target, _Lost(index, t_ms)).count += 1
        else:
            keep.append(index)
    for name in ("series", "t_ms", "value", "start_ms"):
        column = getattr(found, name)
        setattr(found, name, [column[index] for index in keep])
    for target, one in lost.items():
        text = f"{one.count} samples of {target or 'a target without a name'} are {says(one.t_ms)}"
        _note(found, one, refusal(one.index, "", code, text, _payload(received, target)))


def _note(found: Samples, lost: _Lost, said: Refusal) -> None:
    if found.telling:
        found.refused.append(said)
    found.refused_count += lost.count


def _payload(received: datetime, target: str = "") -> bytes:
    """What tells one rejection from another: a fault that lasts is one row a day and target, not one a sample."""
    return msgspec.json.encode({"day": f"{received:%Y-%m-%d}", "instance": target})


def _copied(cursor: Any, found: Samples, source: str, received: datetime) -> int:
    """Rows that are new, of the samples and of the series they are of."""
    cursor.execute(_INCOMING)
    _series(cursor, found.distinct(), source, received)
    with cursor.db.wrap_database_errors, cursor.copy("COPY incoming_sample FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(b"".join((SIGNATURE, *_rows(found), TRAILER)))
    cursor.execute(_TAKE)
    return int(cursor.rowcount)


def _rows(found: Samples) -> Iterator[bytes]:
    """The samples as rows of a binary COPY."""
    shard = int(settings.SHARD)
    for series, t_ms, value, start in found.rows():
        if start is None:
            if value is None:
                yield _STALE(5, 2, shard, 16, series, 8, t_ms, -1, -1)
            else:
                yield _VALUE(5, 2, shard, 16, series, 8, t_ms, 8, value, -1)
        elif value is None:
            yield _STALE_SINCE(5, 2, shard, 16, series, 8, t_ms, -1, 8, start)
        else:
            yield _VALUE_SINCE(5, 2, shard, 16, series, 8, t_ms, 8, value, 8, start)


def _series(cursor: Any, known: dict[bytes, Series], source: str, received: datetime) -> None:
    """Rows of series that have none yet, or were last seen an hour ago: most bodies only cost the look."""
    ids = "{" + ",".join([id_.hex() for id_ in known]) + "}"
    cursor.execute(_NEW, [ids, settings.SHARD, received - _SEEN_EVERY])
    new = [known[id_.bytes] for (id_,) in cursor.fetchall()]
    if new:
        columns: list[Sequence[str]] = [
            [one.id.hex() for one in new],
            [one.metric for one in new],
            [msgspec.json.encode(one.named()).decode() for one in new],
        ]
        cursor.execute(_SERIES, [settings.SHARD, source, received, received, *columns])


def _contradictions(cursor: Any, found: Samples, received: datetime) -> None:
    """Of the samples that were there already: those with another value. The first one stays."""
    cursor.execute(_OTHER)
    other = {(series.bytes, t_ms) for series, t_ms in cursor.fetchall()}
    if other:

        def says(_: int) -> str:
            return "of a time for which another value is kept, which stays: is there a second sender of these series?"

        _drop(found, lambda series, t_ms: (series.id, t_ms) in other, "other_value", says, received)


def _told(cursor: Any, voice: Voice, refused: Sequence[Refusal]) -> None:
    """Rejections that people see, until MOST_OPEN of the source are open."""
    if not refused:
        return
    cursor.execute(
        """SELECT count(*) FROM (SELECT FROM events_rejection
           WHERE shard = %s AND state = 'open' AND source = %s LIMIT %s) AS held""",
        [settings.SHARD, voice.source, MOST_OPEN],
    )
    room = MOST_OPEN - int(cursor.fetchone()[0])
    record([(voice, item) for item in refused[: max(room, 0)]])
