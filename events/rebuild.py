"""Read models made again from the log, beside the live ones: to swap in, to compare, or to look at a past.

The same rules build into any schema: unqualified names in projections find the tables there first.
Cost: linear in the log; about that of the first projection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from events import projector
from events.answers import new_state
from events.grants import grant_schema
from events.projector import BATCH, Batch, Group

__all__ = ["OWNER", "Difference", "compare", "known_at", "read_at", "rebuild"]

OWNER: Final = "owner"


class Difference(Exception):
    """A rebuilt table is not what the live one is; the text names the table and the first row."""


def rebuild(groups: Sequence[Group], *, batch: int = BATCH, using: str = OWNER) -> dict[str, int]:
    """Build the groups' tables beside the live ones and swap them in. Returns group -> position.

    Live tables serve until the swap, which happens in one transaction. A crash leaves only the schema `next`,
    which the next rebuild removes.
    """
    done: dict[str, int] = {}
    for group in groups:
        with _scratch("next", group, using):
            reached = _build("next", group, 0, projector.position(group, using=using), batch, using)
            done[group.name] = _swap(group, reached, batch, using)
    return done


def compare(groups: Sequence[Group], *, batch: int = BATCH, using: str = OWNER) -> None:
    """Build the groups' tables again and compare with the live ones. Raises Difference at the first one."""
    for group in groups:
        with _scratch("proof", group, using):
            reached = _build("proof", group, 0, projector.position(group, using=using), batch, using)
            with transaction.atomic(using=using), connections[using].cursor() as cursor:
                live = _pause(cursor, group)
                _catch_up(cursor, "proof", group, reached, live, batch)
                for table in group.tables:
                    _same(cursor, "proof", table._meta.db_table)


@contextmanager
def known_at(position: int, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Inside, every query sees the read models as they were known at a position of the log.

    They are built in temporary tables of this connection and gone afterwards.
    """
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        for group in projector.groups():
            _create(cursor, "pg_temp", group)
        for group in projector.groups():
            group.apply(Batch(cursor, group.name, 0, position))
        try:
            with new_state():
                yield
        finally:
            for group in projector.groups():
                _drop(cursor, "pg_temp", group)


@contextmanager
def read_at(position: int | None, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Inside, all queries see one state of the read models: the present one, or that of a position."""
    if position is not None:
        with known_at(position, using=using):
            yield
        return
    if connections[using].in_atomic_block:  # whoever began the transaction chose its state
        yield
        return
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with new_state():
            yield


@contextmanager
def _scratch(schema: str, group: Group, using: str) -> Iterator[None]:
    """A schema with empty copies of the group's tables, gone at the end."""
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"hallbook.{schema}"])
        cursor.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        cursor.execute(f"CREATE SCHEMA {schema}")
        _create(cursor, schema, group)
    try:
        yield
    finally:
        with transaction.atomic(using=using), connections[using].cursor() as cursor:
            cursor.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def _create(cursor: Any, schema: str, group: Group) -> None:
    for table in group.tables:
        name = table._meta.db_table
        cursor.execute(f"CREATE TABLE {schema}.{name} (LIKE public.{name} INCLUDING ALL)")


def _drop(cursor: Any, schema: str, group: Group) -> None:
    for table in group.tables:
        cursor.execute(f"DROP TABLE {schema}.{table._meta.db_table}")


def _build(schema: str, group: Group, start: int, end: int, batch: int, using: str) -> int:
    while start < end:
        with transaction.atomic(using=using), connections[using].cursor() as cursor:
            start = _catch_up(cursor, schema, group, start, min(end, start + batch), batch)
    return end


def _catch_up(cursor: Any, schema: str, group: Group, start: int, end: int, batch: int) -> int:
    cursor.execute(f"SET LOCAL search_path = {schema}, public")
    while start < end:
        until = min(end, start + batch)
        group.apply(Batch(cursor, group.name, start, until))
        start = until
    cursor.execute("SET LOCAL search_path = public")
    return end


def _pause(cursor: Any, group: Group) -> int:
    """Hold the live group where it is until the transaction ends; its position."""
    cursor.execute(
        "SELECT position FROM events_progress WHERE shard = %s AND group_name = %s FOR UPDATE",
        [settings.SHARD, group.name],
    )
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _swap(group: Group, reached: int, batch: int, using: str) -> int:
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        live = _pause(cursor, group)
        _catch_up(cursor, "next", group, reached, live, batch)
        for table in group.tables:
            name = table._meta.db_table
            cursor.execute(f"DROP TABLE public.{name}")
            cursor.execute(f"ALTER TABLE next.{name} SET SCHEMA public")
        cursor.execute(
            """UPDATE events_progress SET version = %s, state = 'live', error = '', updated_at = now()
               WHERE shard = %s AND group_name = %s""",
            [group.version, settings.SHARD, group.name],
        )
        grant_schema("public", using)
    with connections[using].cursor() as cursor:
        for table in group.tables:
            cursor.execute(f"ANALYZE {table._meta.db_table}")
    return live


def _same(cursor: Any, schema: str, table: str) -> None:
    """Raise Difference unless both tables hold the same rows the same number of times."""
    for one, other, words in ((schema, "public", "rebuilt, but not live"), ("public", schema, "live, but not rebuilt")):
        cursor.execute(f"SELECT to_jsonb(d) FROM (TABLE {one}.{table} EXCEPT ALL TABLE {other}.{table}) d LIMIT 1")
        row = cursor.fetchone()
        if row:
            raise Difference(f"{table}: {words}: {row[0]}")
