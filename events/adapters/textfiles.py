"""Streams the lines of a text file, a gzip file or standard input in bounded memory.

A file that cannot be read as a whole is refused before its first line is given out, so that nothing of it
is kept: `Unreadable` says in one line what is wrong.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, BinaryIO, Final, Self, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["LINE_LIMIT", "TextFile", "TooLong", "Unreadable", "open_text"]

LINE_LIMIT: Final = 1 << 20
"""Longest line that is held in memory, characters."""
_HEAD: Final = 1 << 16
_SHOWN: Final = 200
_GZIP: Final = b"\x1f\x8b"
_OTHER_MAGIC: Final = {
    b"\xfd7zXZ\x00": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"BZh": "a bzip2 file",
    b"PK\x03\x04": "a zip file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


class Unreadable(Exception):
    """A file that cannot be read as a whole; its text is one line for a person."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line over LINE_LIMIT: its first 200 characters and its length in characters.

    start: what was read of it before it got too long, to find the field in which that was.
    """

    head: str
    size: int
    start: str = field(default="", compare=False, repr=False)


class TextFile:
    """An opened text source; made by `open_text`, closed by `with`.

    name: how messages call it. size: bytes of the file as stored (compressed when it is gzip), None for a
    pipe. bytes_read: bytes taken from it so far, for a progress bar against `size`.
    """

    def __init__(self, name: str, source: _Counted, *, zipped: bool, size: int | None) -> None:
        self.name = name
        self.size = size
        self._source = source
        binary = gzip.GzipFile(fileobj=source) if zipped else io.BufferedReader(source)
        # Universal newlines of the text layer split at \n, \r\n and \r only; str.splitlines would also split
        # at 0x1c to 0x1e, the neighbours of the delimiter 0x1f. A byte order mark is dropped.
        self._text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace", newline=None)

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the file so far, as stored."""
        return self._source.count

    def lines(self) -> Iterator[tuple[int, str | TooLong]]:
        """Line number from 1 and line without its end, once through the file; a marker for one too long."""
        readline = self._text.readline
        number = 0
        while line := readline(LINE_LIMIT + 1):
            number += 1
            if line[-1] == "\n":
                yield number, line[:-1]
            elif len(line) > LINE_LIMIT:
                yield number, self._skip_rest(line)
            else:
                yield number, line

    def blocks(self) -> Iterator[str]:
        """The text in pieces of at most LINE_LIMIT characters, once through the file, for what has no lines."""
        while piece := self._text.read(LINE_LIMIT):
            yield piece

    def _skip_rest(self, start: str) -> TooLong:
        size, piece = len(start), start
        while piece and piece[-1] != "\n":
            piece = self._text.readline(LINE_LIMIT)
            size += len(piece) - piece.endswith("\n")
        return TooLong(start[:_SHOWN], size, start)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._text.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_text(path: str | os.PathLike[str], *, stdin: BinaryIO | None = None) -> TextFile:
    """Open a path, or standard input when the path is `-`; gzip is known by its content, not its name.

    Raises Unreadable: missing, a folder, no permission, empty, binary (a NUL in the first 64 KiB), and gzip
    that is truncated or corrupt (one pass over the whole file; a zipped pipe goes to a temporary file first).
    """
    if os.fspath(path) == "-":
        return _open_pipe("standard input", stdin or sys.stdin.buffer, owned=False)
    name = os.fspath(path)
    try:
        if Path(path).is_dir():
            raise Unreadable(f"{name}: is a folder, not a file")
        raw = Path(path).open("rb", buffering=0)  # noqa: SIM115 - TextFile closes it
    except FileNotFoundError:
        raise Unreadable(f"{name}: no such file") from None
    except PermissionError:
        raise Unreadable(f"{name}: no permission to read it") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{name}: cannot be opened ({error})") from None
    return _closing(raw, name)


def _closing(raw: BinaryIO, name: str) -> TextFile:
    try:
        return _open_file(name, raw) if raw.seekable() else _open_pipe(name, raw, owned=True)
    except BaseException:
        raw.close()
        raise


def _open_file(name: str, raw: BinaryIO) -> TextFile:
    head = _read_head(name, raw)
    zipped = head.startswith(_GZIP)
    if zipped:
        raw.seek(0)
        head = _check_gzip(name, raw)
    _check_head(name, head)
    size = raw.seek(0, io.SEEK_END)
    raw.seek(0)
    return TextFile(name, _Counted(raw), zipped=zipped, size=size)


def _open_pipe(name: str, raw: BinaryIO, *, owned: bool) -> TextFile:
    head = _read_head(name, raw)
    if head.startswith(_GZIP):
        return _closing(_spool(name, _Counted(raw, head, owned=owned)), name)
    _check_head(name, head)
    return TextFile(name, _Counted(raw, head, owned=owned), zipped=False, size=None)


def _spool(name: str, source: _Counted) -> BinaryIO:
    # The whole of a zipped pipe must be known to be sound before its first line is given out.
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - TextFile closes it
    try:
        while block := source.read(LINE_LIMIT):
            spool.write(block)
    except OSError as error:
        spool.close()
        raise Unreadable(f"{name}: cannot be read ({error})") from None
    source.close()
    spool.seek(0)
    return cast("BinaryIO", spool)


def _read_head(name: str, raw: BinaryIO) -> bytes:
    head = b""
    try:
        while len(head) < _HEAD and (block := raw.read(_HEAD - len(head))):
            head += block
    except OSError as error:
        raise Unreadable(f"{name}: cannot be read ({error})") from None
    return head


def _check_gzip(name: str, raw: BinaryIO) -> bytes:
    """Decompress everything once and give the first 64 KiB. Raises Unreadable."""
    head = b""
    try:
        with gzip.GzipFile(fileobj=raw) as unzipped:
            while block := unzipped.read(LINE_LIMIT):
                head = head or block[:_HEAD]
    except EOFError:
        raise Unreadable(f"{name}: the gzip file is cut short (its end is missing)") from None
    except (OSError, zlib.error) as error:
        raise Unreadable(f"{name}: the gzip file is corrupt ({error})") from None
    return head


def _check_head(name: str, head: bytes) -> None:
    if not head:
        raise Unreadable(f"{name}: is empty")
    for magic, what in _OTHER_MAGIC.items():
        if head.startswith(magic):
            raise Unreadable(f"{name}: is {what}; plain UTF-8 text or gzip is expected")
    at = head.find(b"\0")
    if at >= 0:
        raise Unreadable(f"{name}: is binary (NUL byte at offset {at}); plain UTF-8 text or gzip is expected")


class _Counted(io.RawIOBase):
    """A raw byte source that counts what is taken from it, after a head that was read already."""

    def __init__(self, raw: IO[bytes], head: bytes = b"", *, owned: bool = True) -> None:
        self._raw, self._head, self._owned = raw, head, owned
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        if self._head:
            block, self._head = self._head[: len(view)], self._head[len(view) :]
        else:
            block = self._raw.read(len(view)) or b""
        view[: len(block)] = block
        self.count += len(block)
        return len(block)

    def close(self) -> None:
        if self._owned and not self.closed:
            self._raw.close()
        super().close()
