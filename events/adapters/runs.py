"""Which training effort a job belongs to, as its user says in the comment: `sbatch --comment "run=atlas-70b"`."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["run_of"]

_TOKEN: Final = re.compile(r"(?:^|[\s,;|])run=(?:\"([^\"]+)\"|'([^']+)'|([^\s,;|\"']+))")
_REFUSED: Final = re.compile(r"[/\x00-\x1f]")
_LONGEST: Final = 160


def run_of(comment: str | None) -> str | None:
    """The name behind the first `run=` of a comment; None without one, or where it cannot be a name.

    The token stands alone or is parted from others by blanks, commas, semicolons or bars; a name in quotes may
    hold blanks. A name has 1 to 160 characters and no slash or control character.
    """
    found = _TOKEN.search(comment or "")
    if found is None:
        return None
    name = (found[1] or found[2] or found[3]).strip()
    return name if name and len(name) <= _LONGEST and not _REFUSED.search(name) else None
