"""What the application's database role may do: everything on read models, SELECT and INSERT on the log."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import connections, transaction

APPEND_ONLY = ("events_event", "events_eventkey", "events_block", "events_seal")
"""Tables whose rows never change; the database itself refuses it, by trigger and by grant."""


def grant(sender: Any, using: str, **_: Any) -> None:
    """Give the application's role its rights on every table of the schema (post_migrate, as the owner).

    Nothing to do when one role serves as both: then only the triggers stand guard.
    """
    if getattr(sender, "name", "") != "events":
        return
    grant_schema("public", using)


def grant_schema(schema: str, using: str) -> None:
    """The same for one schema, also used after a rebuild has swapped tables in."""
    owner, role = connections[using].settings_dict["USER"], settings.DATABASES["default"]["USER"]
    if not role or owner == role:
        return
    with transaction.atomic(using=using), connections[using].cursor() as cursor:  # never more rights in between
        quoted = connections[using].ops.quote_name(role)
        cursor.execute(f"GRANT USAGE ON SCHEMA {schema} TO {quoted}")
        cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {quoted}")
        cursor.execute(f"GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {quoted}")
        if schema == "public":
            for table in APPEND_ONLY:
                cursor.execute(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {quoted}")
