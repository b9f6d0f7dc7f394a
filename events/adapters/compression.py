"""Unpacks bodies within a bound: what is announced larger is refused before a byte of it is unpacked."""

from __future__ import annotations

import zlib
from typing import Final

import cramjam

from events.adapters.samples import Unreadable

__all__ = ["MOST_BYTES", "MOST_MEMBERS", "unsnapped", "unzipped"]

MOST_BYTES: Final = 32 * 1024 * 1024
MOST_MEMBERS: Final = 100
"""Each member of a gzip body costs a copy of what follows it."""
_LONGEST_LENGTH: Final = 5
"""Bytes of the length that a snappy block begins with: 32 bits, seven in a byte."""


def unsnapped(body: bytes, most: int = MOST_BYTES) -> bytes:
    """A block in the snappy format (not framed). Raises Unreadable 400 or, beyond `most` bytes, 413."""
    announced = _announced(body)
    if announced > most:
        text = f"unpacked the body has {announced:,} bytes, at most {most:,} are taken; send less at a time"
        raise Unreadable(413, "too_large", text)
    try:
        raw = bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise Unreadable(400, "malformed", f"the body is no block of snappy: {error}") from None
    if len(raw) != announced:
        raise Unreadable(400, "malformed", f"the body announces {announced} bytes and holds {len(raw)}")
    return raw


def _announced(body: bytes) -> int:
    """The unpacked length, which stands first. Raises Unreadable where it does not."""
    size = 0
    for place, byte in enumerate(body[:_LONGEST_LENGTH]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            return size
    text = "the body is empty" if not body else "the body does not begin with the length of a snappy block"
    raise Unreadable(400, "malformed", text)


def unzipped(body: bytes, most: int = MOST_BYTES) -> bytes:
    """One or more members of gzip. Raises Unreadable 400 or, beyond `most` bytes, 413."""
    out = bytearray()
    for _ in range(MOST_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        try:
            out += member.decompress(body, most + 1 - len(out))
        except zlib.error as error:
            raise Unreadable(400, "malformed", f"the body is not gzip: {error}") from None
        if len(out) > most:
            raise Unreadable(413, "too_large", f"unzipped the body has more than {most:,} bytes; send less at a time")
        if not member.eof:
            raise Unreadable(400, "malformed", "the gzip body is cut short")
        body = member.unused_data
        if not body:
            return bytes(out)
    raise Unreadable(400, "malformed", f"the gzip body has over {MOST_MEMBERS} members; send it as one")
