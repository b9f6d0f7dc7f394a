"""Reads values out of a JSON object of a source: each failure names its field, nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from events.adapters.sacct_values import Bad, shown
from events.validate import UNREADABLE

__all__ = ["Fields", "read_object"]

_MOST: Final = 2**53
T = TypeVar("T")


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body. Bytes that are no UTF-8 are shown as U+FFFD. Raises Bad `malformed`."""
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE as error:
        found = _read_again(body, error)
    if not isinstance(found, dict):
        raise Bad("malformed", f"the body is no JSON object but {_kind(found)}")
    return found


def _read_again(body: bytes, error: Exception) -> Any:
    """Names of jobs may hold any bytes, and some senders pass them on as they are."""
    try:
        return msgspec.json.decode(body.decode("utf-8", "replace"))
    except UNREADABLE:
        raise Bad("malformed", f"the body is not JSON: {error}") from None


def _kind(found: object) -> str:
    kinds = {list: "a list", str: "a text", bool: "a truth value", int: "a number", float: "a number"}
    return kinds.get(type(found), "null")


class Fields:
    """The fields of one object. A field that is not there, null or empty reads as None (as text: empty)."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = said

    def text(self, name: str) -> str:
        """A text, or a number as text. Raises Bad `bad_value`."""
        found = self._said.get(name)
        if found is None:
            return ""
        if isinstance(found, str):
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        raise Bad(
            "bad_value", f"{name} is {_kind(found) if not isinstance(found, dict) else 'an object'}, not a text", name
        )

    def parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        """What `parse` makes of the text; None when there is none. Raises Bad with the field's name."""
        told = self.text(name)
        if not told:
            return None
        try:
            return parse(told)
        except Bad as bad:
            raise Bad(bad.code, f"{name}: {bad.text}", name) from None

    def whole(self, name: str) -> int | None:
        """A whole number of 0 to 2^53, as number or text. Raises Bad `bad_number`."""
        told = self.text(name)
        if not told:
            return None
        if told.isascii() and told.isdecimal() and len(told) <= 16 and int(told) <= _MOST:
            return int(told)
        raise Bad("bad_number", f"{name} is {shown(told)}; expected a whole number of 0 to 2^53", name)

    def number_text(self, name: str) -> str | None:
        """A whole number as text, as identities are kept."""
        found = self.whole(name)
        return None if found is None else str(found)
