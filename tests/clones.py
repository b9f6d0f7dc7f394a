"""Databases for tests that commit: clones of one migrated template, emptied and used again.

To clone and drop a database takes half a second of a disk, to delete what a test wrote 20 ms. A clone is used again
only if nothing but rows of the test was left in it: objects, rights, triggers and what `migrate` filled in are as in
the template, nobody else is connected, and there is not too much to delete.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.core.management import call_command
from django.db import OperationalError, ProgrammingError, connections, transaction

from bench.base import as_admin, owner_sql, use_database
from events.grants import APPEND_ONLY

TEMPLATE: Final = f"test_hallbook_{os.getpid()}"
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of rows, live and dead: more are dropped together with their database."""

# Everything but rows of tests, as one digest: objects with their oids, columns, rights, code, and the seeded rows.
_FORM: Final = """
    WITH spaces AS (SELECT oid FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'),
    classes AS (SELECT * FROM pg_class WHERE relnamespace IN (SELECT oid FROM spaces))
    SELECT md5(string_agg(line, chr(10) ORDER BY line)) FROM (
        SELECT (oid, relname, relkind, relacl, reloptions)::text AS line FROM classes
        UNION ALL SELECT (oid, nspname, nspacl)::text FROM pg_namespace WHERE oid IN (SELECT oid FROM spaces)
        UNION ALL SELECT (attrelid, attnum, attname, atttypid, atttypmod, attnotnull, attacl)::text
            FROM pg_attribute WHERE attrelid IN (SELECT oid FROM classes)
        UNION ALL SELECT (oid, pg_get_expr(adbin, adrelid))::text FROM pg_attrdef
        UNION ALL SELECT (oid, conname, convalidated)::text FROM pg_constraint
        UNION ALL SELECT (oid, tgname, tgenabled)::text FROM pg_trigger
        UNION ALL SELECT (oid, proname, prosrc, proacl)::text
            FROM pg_proc WHERE pronamespace IN (SELECT oid FROM spaces)
        {rows}) found"""
_USED: Final = """
    SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relnamespace = 'public'::regnamespace
        AND relkind = 'r' AND pg_relation_size(oid) > 0"""
_REWIND: Final = """
    SELECT setval(s.seqrelid, s.seqstart, false) FROM pg_sequence s JOIN pg_depend d
        ON d.classid = 'pg_class'::regclass AND d.objid = s.seqrelid AND d.refobjsubid > 0
        AND d.refobjid::regclass::text NOT IN ({seeded})"""
_OTHERS: Final = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'"""

_clean: list[str] = []
_seeded: list[str] = []
"""Tables that `migrate` fills."""
_forms: list[str] = []
"""The template's form."""


@contextmanager
def template() -> Iterator[None]:
    """The migrated template, and a clone for the tests that are rolled back, current until the block ends."""
    original, shared = connections["default"].settings_dict["NAME"], f"{TEMPLATE}_shared"
    as_admin(f"CREATE DATABASE {TEMPLATE}")
    use_database(TEMPLATE)
    call_command("migrate", verbosity=0, interactive=False)
    _seeded[:] = [table for table, _ in owner_sql(_USED) if owner_sql(f"SELECT 1 FROM {table} LIMIT 1")]
    _forms[:] = [_form()]
    use_database(shared)
    as_admin(f"CREATE DATABASE {shared} TEMPLATE {TEMPLATE}")
    try:
        yield
    finally:
        use_database(original)
        while _clean:
            _drop(_clean.pop())
        _drop(shared)
        _drop(TEMPLATE)


@contextmanager
def own_database() -> Iterator[None]:
    """A database like the template, current until the block ends: commits are real."""
    before = connections["default"].settings_dict["NAME"]
    name = _clean.pop() if _clean else _clone()
    use_database(name)
    try:
        yield
    finally:
        again = _emptied()
        use_database(before)
        if again:
            _clean.append(name)
        else:
            _drop(name)


def _clone() -> str:
    """A new clone. Its commits do not wait for the disk: only a crash of the whole server could tell."""
    name = f"{TEMPLATE}_{uuid.uuid4().hex[:8]}"
    as_admin(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    as_admin(f"ALTER DATABASE {name} SET synchronous_commit = off")
    return name


def _form() -> str:
    rows = " ".join(f"UNION ALL SELECT t::text FROM {table} t" for table in _seeded)
    [(form,)] = owner_sql(_FORM.format(rows=rows))
    return str(form)


def _emptied() -> bool:
    """Delete what a test wrote into the current database; False if it is not as the template then."""
    connections.close_all()  # also ends a transaction that a test left open
    used = {table: size for table, size in owner_sql(_USED) if table not in _seeded}
    if _form() not in _forms or owner_sql(_OTHERS) != [(0,)] or sum(used.values()) > MOST_BYTES:
        return False
    with transaction.atomic(using="owner"):
        owner_sql(
            *(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in APPEND_ONLY),
            *(f"DELETE FROM {table}" for table in used),
            *(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in APPEND_ONLY),
            _REWIND.format(seeded=", ".join(f"'{table}'" for table in _seeded)),
        )
    return True


def _drop(name: str) -> None:
    """Drop a database. Without FORCE the server ends its own autovacuum worker there; with it, it may not."""
    for _ in range(20):
        try:
            as_admin(f"DROP DATABASE {name}")
            return
        except OperationalError:  # a process of the test is still connected
            try:
                as_admin(f"DROP DATABASE {name} WITH (FORCE)")
                return
            except ProgrammingError:  # an autovacuum worker came in between
                time.sleep(0.2)
    as_admin(f"DROP DATABASE {name}")
