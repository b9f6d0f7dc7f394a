"""Settling many rejections at once: each in its own transaction, so that one that fails again holds up no other."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from events.intake import LogBusy
from events.rejections import Fault, replay, waive

__all__ = ["Many", "replay_many", "waive_many"]

BUDGET_SECONDS: Final = 8.0
"""After this long the rest is left for the next time: whoever asked must get an answer."""


@dataclass(slots=True)
class Many:
    """What became of them. failed: code -> how many are refused still; left: not tried for lack of time.

    settled: also those of a delivery that another one of the same delivery settled on the way.
    """

    settled: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    left: int = 0


def replay_many(ids: Iterable[uuid.UUID], actor: str, *, budget: float = BUDGET_SECONDS) -> Many:
    """Take each of them again, oldest as given first; a log that is busy ends it and leaves the rest."""
    return _each(ids, lambda id_: replay(id_, actor), budget)


def waive_many(ids: Iterable[uuid.UUID], actor: str, why: str, *, budget: float = BUDGET_SECONDS) -> Many:
    """Let each of them go, for the same reason."""
    return _each(ids, lambda id_: waive(id_, actor, why), budget)


def _each(ids: Iterable[uuid.UUID], settle: Callable[[uuid.UUID], Fault | None], budget: float) -> Many:
    found, todo = Many(), list(ids)
    until = time.monotonic() + budget
    for number, id_ in enumerate(todo):
        try:
            fault = settle(id_)
        except LogBusy:
            found.left = len(todo) - number
            break
        if fault is None or fault.code == "settled":
            found.settled += 1
        else:
            found.failed[fault.code] += 1
        if time.monotonic() > until:
            found.left = len(todo) - number - 1
            break
    return found
