"""Tables as data: what templates/parts/table.html draws. Numbers arrive as text, already written for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from web.figures import NO_DATA, hours, thousands

__all__ = ["Bar", "Cell", "Head", "Link", "Mark", "Table", "absent", "count", "in_hours", "label", "number"]


@dataclass(frozen=True, slots=True)
class Link:
    """A word that leads somewhere. `current`: it names what is shown now."""

    text: str
    href: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """Head of a column. css: `n` for numbers, `viz` for bars. order: '', 'ascending' or 'descending'."""

    text: str
    css: str = ""
    href: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of `width` per cent in the colour of a key class, from `at` per cent on."""

    width: str
    key: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A short word in a frame, and the sentence that says what it means."""

    word: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. css: `n`, `w`, `zero`, `nodata`; key: class that carries the colour of a series.

    state: class of the shape and colour before the word; iso: the instant that the text says; note: muted words
    after it, where they help to read it; marks: short words in frames, each with what it means; anchor: its name
    in the page's address; title: the exact value, where the text is rounded.
    """

    text: str = ""
    css: str = ""
    href: str = ""
    key: str = ""
    tag: str = ""
    bar: Bar | None = None
    state: str = ""
    iso: str = ""
    note: str = ""
    marks: Sequence[Mark] = ()
    anchor: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with head, rows and proven total. The first cell of a row is its head.

    caption: what the table holds, of which time, what does not add up; shown above it.
    """

    id: str
    title: str
    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    foot: Sequence[Cell]
    tools: Sequence[Link] = field(default_factory=tuple)
    more: Link | None = None
    wide: bool = False


def label(text: str, *, href: str = "", key: str = "", tag: str = "") -> Cell:
    """A cell of words, such as the head of a row."""
    return Cell(text, href=href, key=key, tag=tag)


def number(text: str, *, zero: bool = False) -> Cell:
    """A cell with a number already written; a measured zero is grey."""
    return Cell(text, "n zero" if zero else "n")


def count(value: int | None) -> Cell:
    """A whole number, or *no data*."""
    return absent() if value is None else number(thousands(value), zero=value == 0)


def in_hours(seconds: int | None) -> Cell:
    """Seconds as hours with one decimal, or *no data*."""
    return absent() if seconds is None else number(hours(seconds), zero=seconds == 0)


def absent(text: str = NO_DATA) -> Cell:
    """A cell of something unknown: never shown as zero."""
    return Cell(text, "n nodata")
