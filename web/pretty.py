"""Text as it came, cut into lines for a page: JSON is laid out, and the place that a pointer names is marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Line", "as_sent", "pretty"]

MOST_LINES: Final = 2_000
"""Lines shown of one text; the file has all of them."""
_INDENT: Final = "  "


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text. marked: it is (part of) what the pointer names."""

    text: str
    marked: bool = False


def pretty(value: Any, pointer: str) -> list[Line]:
    """A JSON value as indented lines; what the JSON pointer (RFC 6901) names is marked.

    Where it names something missing, the deepest part of its way that exists is marked, but never all of it.
    """
    way = _way(value, [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]])
    return _cut(list(_lines(value, "", "", way, hit=False)))


def as_sent(text: str, pointer: str) -> list[Line]:
    """A text as lines: JSON laid out as by `pretty`, anything else as it is, with nothing marked."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _cut([Line(line) for line in text.split("\n")])
    return pretty(value, pointer) if isinstance(value, dict | list) else [Line(text)]


def _cut(lines: list[Line]) -> list[Line]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], Line(f"… {more} more lines")] if more > 0 else lines


def _way(value: Any, parts: list[str]) -> list[str] | None:
    """The parts of a pointer that lead somewhere; None when not even the first one does."""
    way: list[str] = []
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            break
        way.append(part)
    return way or None


def _lines(value: Any, indent: str, head: str, way: list[str] | None, *, hit: bool, tail: str = "") -> Iterator[Line]:
    """Lines of one value. way: what is left of the pointer below it, [] where it is named itself."""
    hit = hit or way == []
    pairs: list[tuple[str, str, Any]] = []
    if isinstance(value, dict):
        pairs = [(key, f"{json.dumps(key, ensure_ascii=False)}: ", one) for key, one in value.items()]
    elif isinstance(value, list):
        pairs = [(str(number), "", one) for number, one in enumerate(value)]
    if not pairs:
        yield Line(f"{indent}{head}{json.dumps(value, ensure_ascii=False)}{tail}", hit)
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    yield Line(f"{indent}{head}{opening}", hit)
    for number, (key, name, one) in enumerate(pairs, 1):
        below = way[1:] if way and way[0] == key else None
        yield from _lines(one, indent + _INDENT, name, below, hit=hit, tail="" if number == len(pairs) else ",")
    yield Line(f"{indent}{closing}{tail}", hit)
