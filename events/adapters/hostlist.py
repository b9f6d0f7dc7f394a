"""Slurm's compressed lists: `gpu[001-004,007],login1` to names, and numbers to `0-3,6`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import Final

__all__ = ["expand", "numbers", "ranges"]

_MOST: Final = 200_000
"""Names in one list; more is a mistake, and would fill the memory."""
_PART: Final = re.compile(r"(?:[^,\[\]]|\[[0-9,-]+\])+")
_PIECE: Final = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@lru_cache(maxsize=4096)
def expand(text: str) -> tuple[str, ...]:
    """The names of a list in the order in which it holds them. Raises ValueError when it is none.

    Several brackets in a name count like digits of a clock, the last one fastest.
    """
    names: list[str] = []
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(f"{text[:60]!r} is no list of names")
        names += _names(part[0], _MOST - len(names))
        at = part.end() + 1
        if at <= len(text) and text[at - 1] != ",":
            raise ValueError(f"{text[:60]!r} is no list of names")
    return tuple(names)


def _names(part: str, most: int) -> list[str]:
    pieces: list[list[str]] = []
    count = 1
    for piece in _PIECE.finditer(part):
        pieces.append(list(_padded(piece[1], most)) if piece[1] else [piece[2]])
        count *= len(pieces[-1])
        if count > most:
            raise ValueError(f"{part[:60]!r} is a list of more than {_MOST} names")
    return ["".join(name) for name in product(*pieces)]


def _padded(text: str, most: int) -> Iterator[str]:
    """`001-003,7` -> 001 002 003 7: as many digits as the first of its range."""
    for first, last, width in _spans(text):
        if last - first >= most:
            raise ValueError(f"[{text[:60]}] has more than {_MOST} numbers")
        for number in range(first, last + 1):
            yield f"{number:0{width}d}"


def _spans(text: str) -> Iterator[tuple[int, int, int]]:
    for span in text.split(","):
        found = _RANGE.fullmatch(span)
        if found is None:
            raise ValueError(f"{span[:60]!r} is no number or range")
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if last < first:
            raise ValueError(f"{span[:60]!r} counts down")
        yield first, last, len(found[1])


def numbers(text: str) -> set[int]:
    """`0-3,6` -> {0, 1, 2, 3, 6}. Raises ValueError when it is no such list, or reaches beyond 4,095."""
    found: set[int] = set()
    for first, last, _ in _spans(text):
        if last > 4095:
            raise ValueError(f"{text[:60]!r} numbers beyond 4,095")
        found.update(range(first, last + 1))
    return found


def ranges(found: Iterable[int]) -> str:
    """{0, 1, 2, 3, 6} -> `0-3,6`."""
    spans: list[list[int]] = []
    for number in sorted(found):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
