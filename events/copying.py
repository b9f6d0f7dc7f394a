"""Rows on their way into a read model by binary COPY."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["copying"]


@contextmanager
def copying(
    cursor: Any, table: str, columns: tuple[str, ...], types: tuple[str, ...]
) -> Iterator[Callable[[tuple[Any, ...]], None]]:
    """Gives a function that sends one row to a table by binary COPY."""
    names = ", ".join(f'"{name}"' for name in columns)
    with (
        cursor.db.wrap_database_errors,
        cursor.copy(f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.set_types(types)
        yield copy.write_row
