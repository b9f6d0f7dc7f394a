"""One state of the books for several questions: the present one, or as the log knew it at a position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from events.queries import head_position
from events.rebuild import read_at
from events.reports import BadParameter

__all__ = ["MOST", "reading"]

MOST: Final = 200_000
"""Events that are read anew for a person who waits for a page: seconds, not minutes."""


@contextmanager
def reading(position: int | None) -> Iterator[None]:
    """Inside, all reports are of one state; they are asked without `as_known_at`. Building an old one is work.

    Raises BadParameter where it would take too long for somebody who waits.
    """
    if position is not None and min(position, head_position()) > MOST:
        raise BadParameter(
            "as_known_at",
            f"up to there the log holds more than {MOST:,} events, too many to read anew for a page; "
            "ask with manage.py report ... --as-known-at",
        )
    with read_at(position):
        yield
