"""The wire format of Protocol Buffers, read field by field: only what a reader of telemetry needs.

Why not the library: docs/decisions/0013. Field numbers and types are those of the published schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["BYTES", "FIXED64", "VARINT", "Broken", "fields", "signed", "varint"]

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
_FIXED32: Final = 5
_LONGEST: Final = 10
"""Bytes of a varint of 64 bits."""


class Broken(Exception):
    """Bytes that are no message: `at` is the offset in it, the text says what is wrong."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(f"byte {at}: {text}")
        self.at = at


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at `at` and the offset after it. Raises Broken."""
    found = 0
    for place, byte in enumerate(raw[at : at + _LONGEST]):
        found |= (byte & 127) << 7 * place
        if byte < 128:
            return found & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
    raise Broken(at, "a number has no end")


def signed(number: int) -> int:
    """A number of 64 bits as int64."""
    return number - (1 << 64) if number >= 1 << 63 else number


def fields(raw: bytes, at: int = 0) -> Iterator[tuple[int, int, int | bytes, int]]:
    """Field number, wire type, value and the offset after it, of each field of a message. Raises Broken."""
    end = len(raw)
    while at < end:
        begin = at
        tag, at = varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise Broken(begin, f"{number} is no number of a field")
        if kind == VARINT:
            value, at = varint(raw, at)
            yield number, kind, value, at
            continue
        if kind == BYTES:
            size, at = varint(raw, at)
        elif kind in (FIXED64, _FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise Broken(begin, f"{kind} is no wire type that is taken")
        if size > end - at:
            raise Broken(begin, f"field {number} ends {size - (end - at)} bytes after its message")
        yield number, kind, raw[at : at + size], at + size
        at += size
