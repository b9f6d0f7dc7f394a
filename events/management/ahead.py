"""Projecting while an import goes on, in a process of its own, so that a second core has work too."""

from __future__ import annotations

import logging
import multiprocessing
from multiprocessing.process import BaseProcess
from typing import Final

from django.db import connection, connections

from events import projector

WORTH: Final = 20_000
"""Records after which another look at the log pays."""


class Ahead:
    """Starts a process that catches up after every WORTH records, one at a time; `finish` does what is left."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._since = 0
        self._process: BaseProcess | None = None

    def after(self, records: int) -> None:
        """Records were committed. Inside a transaction nobody else could see them, so nothing is started."""
        self._since += records
        busy = self._process is not None and self._process.is_alive()
        if not self._wanted or busy or self._since < WORTH or connection.in_atomic_block:
            return
        self._since = 0
        self._process = multiprocessing.get_context("fork").Process(target=_catch_up, daemon=True)
        self._process.start()

    def finish(self) -> None:
        """Wait for the process and apply the rest here; an error of it shows here again."""
        if self._process is not None:
            self._process.join()
        if self._wanted:
            projector.catch_up()


def _catch_up() -> None:
    for alias in connections:
        # The parent's connection must be neither used nor closed here: its socket is shared.
        connections[alias].connection = None
    try:
        projector.catch_up()
    except Exception as error:  # noqa: BLE001 - the parent does the same work at the end and tells of it
        logging.getLogger(__name__).info("projecting ahead ended early: %s", error)
