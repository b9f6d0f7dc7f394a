"""One state of the database for all figures of a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from events.answers import new_state

__all__ = ["one_state"]


@contextmanager
def one_state() -> Iterator[None]:
    """Inside, all queries see the same rows, so that the figures of several reports belong together."""
    if connection.in_atomic_block:
        with transaction.atomic():
            yield
        return
    with transaction.atomic(), new_state():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield
