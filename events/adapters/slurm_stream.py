"""The jobs of a big Slurm document one by one, in bounded memory: a year of `sacct --json` is gigabytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from events.adapters import Draft, Refusal
from events.adapters.slurm_json import Jobs, source_errors
from events.adapters.textfiles import Unreadable
from events.validate import refusal

__all__ = ["VALUE_LIMIT", "read_jobs"]

VALUE_LIMIT: Final = 1 << 25
"""Longest job that is held in memory, characters (some 20,000 steps)."""
_EXPECTED: Final = 'expected the JSON of sacct --json or slurmrestd: {"jobs": [...], ...}'
_decode: Final = json.JSONDecoder().raw_decode


class _Broken(Exception):
    """The text is no JSON, or ends too early; its text says why."""


class _Scanner:
    """Values of a JSON text that comes in pieces. Holds the value that is being read and what follows in its piece."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text, self._at = "", 0

    def _more(self) -> bool:
        """Take another piece, doubling what is held of a long value; False at the end of the text."""
        held = self._text[self._at :]
        if len(held) > VALUE_LIMIT:
            raise _Broken(f"a value of more than {VALUE_LIMIT >> 20} Mi characters begins here")
        taken = [held]
        size = 0
        while size <= len(held) and (piece := next(self._pieces, "")):
            taken.append(piece)
            size += len(piece)
        self._text, self._at = "".join(taken), 0
        return size > 0

    def peek(self) -> str:
        """The next character that is not blank; empty at the end of the text."""
        while True:
            while self._at < len(self._text):
                if (found := self._text[self._at]) not in " \t\r\n":
                    return found
                self._at += 1
            if not self._more():
                return ""

    def take(self, wanted: str) -> bool:
        """Whether the next character is this one, which is then passed over."""
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def value(self) -> tuple[Any, str]:
        """The next value and its text. Raises _Broken."""
        if not self.peek():
            raise _Broken("the text ends before its JSON does; it was cut short")
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except (json.JSONDecodeError, RecursionError) as error:
                if self._more():
                    continue
                raise _Broken(f"this is no JSON, or was cut short: {error}") from None
            except ValueError as error:  # a number of thousands of digits
                raise _Broken(f"a value that cannot be read begins here: {error}") from None
            # A number at the end of a piece may go on in the next one.
            if end == len(self._text) and self._more():
                continue
            text, self._at = self._text[self._at : end], end
            return value, text

    def head(self) -> str:
        """The beginning of what comes next, for a message."""
        return self._text[self._at : self._at + 1000]


def read_jobs(pieces: Iterator[str], jobs: Jobs) -> Iterator[Draft | Refusal]:
    """Drafts and refusals of the document's jobs; whatever breaks off later is the last refusal.

    Raises Unreadable at once, before anything is given out, when the text does not begin as such a document.
    """
    scanner = _Scanner(pieces)
    if not scanner.take("{"):
        head = scanner.head().partition("\n")[0][:60]
        raise Unreadable(f"begins with {head!r} and is no JSON document of jobs; {_EXPECTED}")
    return _Reading(scanner, jobs).items()


class _Reading:
    """One document being read."""

    def __init__(self, scanner: _Scanner, jobs: Jobs) -> None:
        self._scanner, self._jobs = scanner, jobs
        self._count = 0
        self._errors: Any = None
        self._found = False

    def items(self) -> Iterator[Draft | Refusal]:
        try:
            yield from self._members()
            if self._scanner.peek():
                raise _Broken("text follows behind the document; import one document at a time")
        except _Broken as error:
            place = f"/jobs/{self._count}" if self._found else ""
            yield refusal(self._count, place, "malformed", f"{error}; {_EXPECTED}", self._scanner.head())
            return
        if not self._found and not self._errors:
            yield refusal(0, "/jobs", "invalid", f"there is no list of jobs; {_EXPECTED}", self._scanner.head())
        yield from source_errors(self._errors, self._count)

    def _members(self) -> Iterator[Draft | Refusal]:
        scanner = self._scanner
        if scanner.take("}"):
            return
        while True:
            key, _ = scanner.value()
            if not isinstance(key, str) or not scanner.take(":"):
                raise _Broken("a name and a colon are expected here")
            if key == "jobs" and scanner.take("["):
                yield from self._elements()
            elif key == "errors":
                self._errors, _ = scanner.value()
            else:
                scanner.value()
            if scanner.take("}"):
                return
            self._comma()

    def _elements(self) -> Iterator[Draft | Refusal]:
        self._found = True
        if self._scanner.take("]"):
            return
        while True:
            _, text = self._scanner.value()
            yield from self._jobs.read(self._count, msgspec.Raw(text.encode(errors="replace")))
            self._count += 1
            if self._scanner.take("]"):
                return
            self._comma()

    def _comma(self) -> None:
        if not self._scanner.take(","):
            raise _Broken("a comma or the end is expected here; the text was cut short or is no JSON")
