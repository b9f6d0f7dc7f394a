"""A database that a test gets is as fresh as a new one, whatever the test before it did."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from django.contrib.auth.models import Group, User
from django.db import connections

from bench.base import address, owner_sql
from events.queries import head_position
from tests import clones
from tests.hand import place, tell

pytestmark = pytest.mark.usefixtures("hall")


def name() -> str:
    return str(connections["default"].settings_dict["NAME"])


def rows() -> dict[str, int]:
    """Rows of every table that has any."""
    tables = [table for (table,) in owner_sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    counts = {table: owner_sql(f"SELECT count(*) FROM {table}")[0][0] for table in tables}
    return {table: count for table, count in counts.items() if count}


def test_rows_and_numbers_are_gone_and_the_database_is_used_again() -> None:
    with clones.own_database():
        first, fresh = name(), rows()
        assert tell(place()) == 1
        assert User.objects.create_user("ada").pk == 1
        assert rows() != fresh
    with clones.own_database():
        assert (name(), rows(), head_position()) == (first, fresh, 0)
        assert tell(place("Asia/Tokyo")) == 1
        assert User.objects.create_user("bea").pk == 1
        with pytest.raises(Exception, match="append"), connections["owner"].cursor() as cursor:
            cursor.execute("DELETE FROM events_event")


def test_what_was_rolled_back_also_gives_its_number_back() -> None:
    with clones.own_database(), connections["owner"].cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO auth_group (name) VALUES ('a')")
        cursor.execute("ROLLBACK")
    with clones.own_database():
        assert Group.objects.create(name="b").pk == 1


LEFT: dict[str, Callable[[], object]] = {
    "a table": lambda: owner_sql("CREATE TABLE more ()"),
    "a column": lambda: owner_sql("ALTER TABLE jobs_job ADD COLUMN more text"),
    "a constraint": lambda: owner_sql("ALTER TABLE jobs_job ADD CONSTRAINT c CHECK (true)"),
    "an index": lambda: owner_sql("CREATE INDEX ON jobs_job (cluster, job_id)"),
    "a table made anew": lambda: owner_sql("DROP TABLE jobs_run", "CREATE TABLE jobs_run ()"),
    "a trigger switched off": lambda: owner_sql("ALTER TABLE events_event DISABLE TRIGGER append_only_rows"),
    "a right": lambda: owner_sql("REVOKE INSERT ON jobs_job FROM public", "GRANT SELECT ON jobs_job TO public"),
    "a schema": lambda: owner_sql("CREATE SCHEMA next"),
    "a function": lambda: owner_sql("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"),
    "a permission": lambda: owner_sql("UPDATE auth_permission SET name = name || '.'"),
    "a migration": lambda: owner_sql("DELETE FROM django_migrations WHERE app = 'web'"),
    "much": lambda: owner_sql(
        "INSERT INTO auth_group (name) SELECT repeat('x', 140) || g FROM generate_series(1, 60000) g"
    ),
}  # fmt: skip


@pytest.mark.parametrize("left", LEFT)
def test_whatever_else_is_left_the_database_is_dropped(left: str) -> None:
    with clones.own_database():
        first = name()
        LEFT[left]()
    with clones.own_database():
        assert name() != first
    assert not owner_sql(f"SELECT 1 FROM pg_database WHERE datname = '{first}'")


def test_a_database_in_which_somebody_still_is_is_dropped() -> None:
    with clones.own_database():
        first, stranger = name(), psycopg.connect(address("owner"))
    with pytest.raises(psycopg.OperationalError):
        stranger.execute("SELECT 1")
    stranger.close()
    assert not owner_sql(f"SELECT 1 FROM pg_database WHERE datname = '{first}'")
