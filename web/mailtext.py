"""Text that came from outside, as it may stand in a mail: in one line, without what could pass for structure."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["MOST", "one_line"]

MOST: Final = 100
"""Characters of a name in a mail."""
_BREAKS: Final = frozenset({"Cc", "Zl", "Zp", "Zs"})
_HIDDEN: Final = frozenset({"Cf", "Cs", "Co", "Cn"})
_KEPT: Final = "\u202f"


def one_line(text: str, most: int = MOST) -> str:
    """The text in one line: breaks and control characters are blanks, what changes direction or is unseen is gone.

    So a job's name can neither add a header or a line to a mail nor turn its text around. What would begin an encoded
    word (RFC 2047) is parted: readers of mail decode one in a subject, line breaks in it too.
    """
    found = "".join(_shown(character) for character in text)
    line = " ".join(part for part in found.split(" ") if part).replace("=?", "= ?")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _shown(character: str) -> str:
    if character == _KEPT:
        return character
    kind = unicodedata.category(character)
    return " " if kind in _BREAKS else "" if kind in _HIDDEN else character
