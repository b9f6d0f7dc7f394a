"""Staged samples by day: tables for the days ahead, and whole days that go when their time is over.

A day that goes costs the same however much it holds: its table is dropped. Both are done as the owner of the tables.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connections

from events.grants import grant_schema
from events.staging import KEEP_MS

__all__ = ["ensure_day", "forget_samples", "keep_up"]

DAY_MS: Final = 24 * 60 * 60 * 1000
SERIES_LINGER_MS: Final = KEEP_MS + DAY_MS
"""A series is noted as seen once an hour, and its last sample may have come late: its row outlives both."""
_NAME: Final = "events_sample_"


def keep_up(now: datetime) -> None:
    """Days ahead get their tables; samples that are older than KEEP_MS go by whole days, and series without any."""
    for ahead in range(4):
        ensure_day(now.date() + timedelta(days=ahead))
    forget_samples(now)


def ensure_day(day: date) -> None:
    """The table of one day of samples (UTC), made when missing, unless samples of it are among the rest already."""
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
    name = f"{_NAME}{day:%Y%m%d}"
    with connections["owner"].cursor() as cursor:
        cursor.execute(
            """SELECT to_regclass(%s) IS NOT NULL OR EXISTS (
                   SELECT FROM events_sample_rest WHERE t_ms >= %s AND t_ms < %s)""",
            [f"public.{name}", begin, begin + DAY_MS],
        )
        if cursor.fetchone()[0]:
            return
        cursor.execute(
            f"CREATE TABLE {name} PARTITION OF events_sample FOR VALUES FROM ({begin}) TO ({begin + DAY_MS})"
        )
    grant_schema("public", "owner")


def forget_samples(now: datetime) -> list[str]:
    """Drop days that ended KEEP_MS ago, delete older samples of the rest, and series not seen since; days dropped."""
    now_ms = int(now.timestamp() * 1000)
    before = now_ms - KEEP_MS
    last = datetime.fromtimestamp((before - DAY_MS) / 1000, UTC)  # a day that began then has ended by `before`
    with connections["owner"].cursor() as cursor:
        cursor.execute(
            """SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid
               WHERE inhparent = 'public.events_sample'::regclass AND relname ~ %s ORDER BY 1""",
            [f"^{_NAME}[0-9]{{8}}$"],
        )
        days = [str(name) for (name,) in cursor.fetchall()]
        gone = [name for name in days if _begins(name) <= last]
        for name in gone:
            cursor.execute(f"DROP TABLE {name}")
        cursor.execute("DELETE FROM events_sample_rest WHERE shard = %s AND t_ms < %s", [settings.SHARD, before])
        cursor.execute(
            "DELETE FROM events_sampleseries WHERE shard = %s AND last_seen < %s",
            [settings.SHARD, datetime.fromtimestamp((now_ms - SERIES_LINGER_MS) / 1000, UTC)],
        )
    return gone


def _begins(name: str) -> datetime:
    return datetime.strptime(name.removeprefix(_NAME), "%Y%m%d").replace(tzinfo=UTC)
