"""Rows as CSV and XLSX. A text that a spreadsheet would take for a formula gets a ' before it."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import IO, Any, Final

import msgspec

__all__ = ["XLSX_MOST", "cell", "csv_chunks", "file_chunks", "flat", "xlsx_file"]

XLSX_MOST: Final = 1_048_575
"""Rows that a sheet holds below its head."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with, also in full width; programs that trim blanks take one behind them too."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CHUNK: Final = 1000
Value = str | int | float | Decimal | bool | None


def cell(value: Any) -> Value:
    """One value as a cell: numbers stay numbers, times become RFC 3339, lists and objects become text."""
    if value is None or isinstance(value, int | float | Decimal):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        value = " ".join(value)
    elif isinstance(value, Mapping | list | tuple):
        value = msgspec.json.encode(value).decode()
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A money value {"amount", "currency"} becomes the number and a column `..._currency`."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping) and set(value) == {"amount", "currency"}:
            out[name] = None if value["amount"] is None else Decimal(value["amount"])
            out[f"{name}_currency"] = value["currency"]
        else:
            out[name] = value
    return out


def csv_chunks(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """CSV (RFC 4180, UTF-8, CRLF) in pieces of 1,000 rows."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    for number, row in enumerate(rows, 1):
        writer.writerow([cell(value) for value in row])
        if number % _CHUNK == 0:
            yield _taken(buffer)
    yield _taken(buffer)


def _taken(buffer: io.StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode()


def xlsx_file(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], about: Sequence[tuple[str, Any]] = ()
) -> IO[bytes]:
    """An XLSX workbook in a temporary file, at its start; rows are not held in memory.

    One sheet of rows; `about`, names and values of what they stand on, makes a second one.
    """
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet(title[:31])
    sheet.append(list(columns))
    for row in rows:
        sheet.append([_sheet_value(value) for value in row])
    if about:
        note = book.create_sheet("As of")
        for name, value in about:
            note.append([name, _sheet_value(value)])
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever sends it closes it
    book.save(file)
    file.seek(0)
    return file


def file_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """A file in pieces of 64 KiB; closed at its end."""
    with file:
        while piece := file.read(1 << 16):
            yield piece


def _sheet_value(value: Any) -> Value:
    shown = cell(value)
    return _CONTROL.sub(" ", shown) if isinstance(shown, str) else shown
