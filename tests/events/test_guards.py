"""History is append-only by the word of the database: for the application by grant, for the owner by trigger."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connections, transaction

from events.append import append, fact
from events.grants import APPEND_ONLY
from events.types.clusters import ClusterDeclared

pytestmark = pytest.mark.django_db(databases=["default", "owner"])

FIRST_COLUMN = {"events_event": "actor", "events_eventkey": "digest", "events_block": "count", "events_seal": "note"}
DENIED, REFUSED = "42501", "23001"
STATEMENTS = ("UPDATE {table} SET {column} = {column}", "DELETE FROM {table}", "TRUNCATE {table}")
BY_DEFINITION = (
    "ALTER TABLE {table} DISABLE TRIGGER append_only_rows",
    "ALTER TABLE {table} DISABLE TRIGGER ALL",
    "DROP TRIGGER append_only_table ON {table}",
    "ALTER TABLE {table} ADD COLUMN more text",
    "DROP TABLE {table}",
)
ELSEWHERE = (
    "CREATE OR REPLACE FUNCTION events_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
    "DROP FUNCTION events_refuse() CASCADE",
    "SET session_replication_role = replica",
    "GRANT UPDATE ON events_event TO PUBLIC",
)
one_role = settings.DATABASES["default"]["USER"] == settings.DATABASES["owner"]["USER"]
needs_two_roles = pytest.mark.skipif(one_role, reason="one role serves as both: only the triggers stand guard")


def refusal(alias: str, statement: str) -> str:
    """SQLSTATE with which a statement fails; '' when it passes."""
    try:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(statement)
    except DatabaseError as error:
        return str(getattr(error.__cause__, "sqlstate", error))
    return ""


@pytest.fixture
def filled() -> None:
    """An event, its key and block, and a seal, written by the owner (a row trigger needs a row)."""
    item = fact(
        ClusterDeclared(cluster="a"), type_="cluster.declared", source="s", source_key="k", occurred_us=1, actor="t"
    )
    assert append([item], using="owner")[0].position == 1
    with connections["owner"].cursor() as cursor:
        cursor.execute("INSERT INTO events_seal (shard, position, hash, sealed_at, note) VALUES (0, 1, '', now(), '')")


@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_owner_is_refused_by_trigger(filled: None, statement: str, table: str) -> None:
    assert refusal("owner", statement.format(table=table, column=FIRST_COLUMN[table])) == REFUSED


@needs_two_roles
@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("statement", STATEMENTS + BY_DEFINITION)
def test_the_application_is_refused_by_grant(statement: str, table: str) -> None:
    assert refusal("default", statement.format(table=table, column=FIRST_COLUMN[table])) == DENIED


@needs_two_roles
@pytest.mark.parametrize("statement", ELSEWHERE)
def test_the_application_cannot_get_around_the_triggers(statement: str) -> None:
    # A GRANT of what one has not is a warning and changes nothing; psycopg shows no warnings.
    found = refusal("default", statement)
    if statement.startswith("GRANT"):
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT has_table_privilege('public', 'events_event', 'UPDATE')")
            assert cursor.fetchone() == (False,)
    else:
        assert found == DENIED


@needs_two_roles
def test_the_application_may_read_and_append() -> None:
    item = fact(
        ClusterDeclared(cluster="a"), type_="cluster.declared", source="s", source_key="k", occurred_us=1, actor="t"
    )
    assert append([item])[0].status == "accepted"
    assert refusal("default", "SELECT * FROM events_event") == ""


def test_nobody_else_has_rights_on_the_log() -> None:
    rows = asked(
        """SELECT table_name, grantee, privilege_type FROM information_schema.role_table_grants
           WHERE table_name = ANY(%s) AND grantee <> %s ORDER BY 1, 2, 3""",
        list(APPEND_ONLY),
        settings.DATABASES["owner"]["USER"],
    )
    expected = [
        (table, settings.DATABASES["default"]["USER"], right)
        for table in sorted(APPEND_ONLY)
        for right in ("INSERT", "SELECT")
    ]
    assert rows == ([] if one_role else expected)


def asked(query: str, *values: Any) -> list[Any]:
    with connections["owner"].cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


LOG_TABLES = "SELECT oid FROM pg_class WHERE relkind IN ('r', 'p') AND relname LIKE 'events\\_%%'"


def test_every_key_of_the_log_leads_with_shard() -> None:
    rows = asked(
        f"""SELECT c.relname, i.relname, a.attname FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid
            JOIN pg_class i ON i.oid = x.indexrelid
            JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
            WHERE x.indisunique AND x.indrelid IN ({LOG_TABLES})"""
    )
    assert {"events_event", "events_eventkey", "events_block", "events_head", "events_delivery"} <= {
        row[0] for row in rows
    }
    assert [row for row in rows if row[2] != "shard"] == []


def test_every_table_of_the_log_has_a_primary_key() -> None:
    keyed = "SELECT indrelid FROM pg_index WHERE indisprimary"
    assert asked(f"SELECT oid::regclass::text FROM ({LOG_TABLES}) t WHERE oid NOT IN ({keyed})") == []


def test_no_column_of_the_log_numbers_itself() -> None:
    rows = asked(
        f"""SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid IN ({LOG_TABLES}) AND a.attnum > 0
              AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE '%%nextval%%')"""
    )
    assert rows == []
