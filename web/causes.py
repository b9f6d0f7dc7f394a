"""Causes in words: one word or two for each, the same in reports, charts, blocks of pages and mails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs.queries_waste import HEADS
from web.waitparts import CAUSE_WORDS

__all__ = ["CAUSE_TEXTS", "cause_text"]

CAUSE_TEXTS: Final[Mapping[str, str]] = {
    **{name: words.short for name, words in CAUSE_WORDS.items()},
    **{str(name): head.lower() for name, head in HEADS.items()},
}
"""Of waits (jobs.waiting) and of waste (jobs.waste); no name is in both."""


def cause_text(name: str) -> str:
    """A cause as people read it inside a sentence or a cell; one without words of its own reads as it is called."""
    return CAUSE_TEXTS.get(name, name.replace("_", " "))
