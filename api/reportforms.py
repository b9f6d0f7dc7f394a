"""A report as JSON, CSV, XLSX or a table of text: the same for REST and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from unicodedata import combining, east_asian_width

import msgspec

from api.tables import csv_chunks, flat, xlsx_file
from events.reports import Column, Report

__all__ = ["FORMS", "about", "columns_of", "envelope", "with_total"]

THIN: Final = "\u202f"
"""Thousands are parted by a narrow space that does not break."""


def envelope(report: Report) -> dict[str, Any]:
    """The answer as REST gives it: rows, total, what it stands on, columns and gaps."""
    return {
        "name": report.name,
        "rows": list(report.rows),
        "total": report.total,
        "as_of": {"position": report.as_of.position, "time": report.as_of.time},
        "columns": [
            {"name": column.name, "head": column.head, "kind": column.kind, "unit": column.unit}
            for column in report.columns
        ],
        "gaps": list(report.gaps),
    }


def columns_of(report: Report, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The declared columns, a money column followed by its currency."""
    present = {name for row in rows for name in row}
    out: list[str] = []
    for column in report.columns:
        out.append(column.name)
        if f"{column.name}_currency" in present or column.kind == "money":
            out.append(f"{column.name}_currency")
    return out


def with_total(report: Report, columns: Sequence[str], cells: list[list[Any]]) -> list[list[Any]]:
    """The cells and below them the total, whose first label reads `total`; what does not add up stays empty."""
    total = flat(report.total)
    row = [total.get(column) for column in columns]
    if report.columns and report.columns[0].name not in report.total:
        row[0] = "total"
    return [*cells, row]


def about(report: Report) -> list[tuple[str, Any]]:
    """What a report stands on, as names and values."""
    params = report.params
    known = "now" if params.as_known_at is None else f"position {params.as_known_at}"
    told = [
        ("report", report.name), ("from", params.start), ("to (exclusive)", params.end), ("time zone", params.zone.key),
        ("project", params.project or "all that the caller may see"), ("grouped by", ", ".join(params.group_by)),
        ("position", report.as_of.position), ("time", report.as_of.time), ("as known at", known),
    ]  # fmt: skip
    return told + [("missing", _gap(gap)) for gap in report.gaps]


def _cells(report: Report) -> tuple[list[str], list[list[Any]]]:
    rows = [flat(row) for row in report.rows]
    columns = columns_of(report, rows)
    return columns, [[row.get(column) for column in columns] for row in rows]


def _json(report: Report) -> bytes:
    body = json.loads(msgspec.json.encode(envelope(report)))
    return json.dumps(body, indent=2, ensure_ascii=False).encode() + b"\n"


def _csv(report: Report) -> bytes:
    columns, cells = _cells(report)
    return b"".join(csv_chunks(columns, cells))


def _xlsx(report: Report) -> bytes:
    columns, cells = _cells(report)
    with xlsx_file(report.name, columns, with_total(report, columns, cells), about(report)) as file:
        return file.read()


def _table(report: Report) -> bytes:
    """Aligned text: what was asked, heads, a double rule above the total, what is missing, what it stands on."""
    columns = report.columns
    body = [[_shown(column, row.get(column.name)) for column in columns] for row in report.rows]
    total = [_shown(column, report.total.get(column.name, "")) for column in columns]
    if columns:
        total[0] = "total" if columns[0].name not in report.total else total[0]
    figures = [max(_width(line[n]) for line in [total, *body]) for n in range(len(columns))]
    heads = _level([_folded(column.name, width) for column, width in zip(columns, figures, strict=True)])
    widths = [max(width, *map(len, lines)) for width, lines in zip(figures, heads, strict=True)]
    lines = [_asked(report), *(_line(line, widths, columns) for line in zip(*heads, strict=True))]
    lines += ["  ".join("-" * width for width in widths), *(_line(row, widths, columns) for row in body)]
    lines += ["  ".join("=" * width for width in widths), _line(total, widths, columns)]
    lines += [f"missing: {_gap(gap)}" for gap in report.gaps]
    lines.append(f"as of position {report.as_of.position}, {_time(report.as_of.time)}")
    return ("\n".join(lines) + "\n").encode()


def _asked(report: Report) -> str:
    """What the figures are about, in one line."""
    params = report.params
    start, end = (f"{at.astimezone(params.zone):%Y-%m-%d %H:%M}" for at in (params.start, params.end))
    whose = f", {params.project} and below" if params.project else ""
    return f"{report.name} by {', '.join(params.group_by)}: {start} to {end} {params.zone.key}{whose}"


def _folded(name: str, width: int) -> list[str]:
    """A column's name in lines that are no wider than its figures need, broken behind underscores."""
    parts = [f"{part}_" for part in name.split("_")]
    parts[-1] = parts[-1].removesuffix("_")
    room, lines = max(width, *(len(part) for part in parts)), [""]
    for part in parts:
        if len(lines[-1]) + len(part) > room:
            lines.append("")
        lines[-1] += part
    return lines


def _level(heads: Sequence[list[str]]) -> list[list[str]]:
    """All heads with as many lines as the tallest one, their last lines side by side."""
    most = max((len(lines) for lines in heads), default=0)
    return [[""] * (most - len(lines)) + lines for lines in heads]


def _width(text: str) -> int:
    """Columns of a terminal that a text takes: two for wide letters, none for those that only mark another one."""
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def _line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    parts = []
    for cell, width, column in zip(cells, widths, columns, strict=True):
        blanks = " " * (width - _width(cell))
        parts.append(cell + blanks if column.kind in ("label", "time") else blanks + cell)
    return "  ".join(parts).rstrip()


def _shown(column: Column, value: Any) -> str:
    if value is None:
        return "no data"
    if isinstance(value, dict):
        return "no price" if value["amount"] is None else f"{value['amount']} {value['currency']}"
    if isinstance(value, int) and column.kind not in ("label", "time"):
        return f"{value:,}".replace(",", THIN)
    return "".join(one if one.isprintable() else "?" for one in str(value))  # a name must not steer a terminal


def _gap(gap: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in gap.items())


def _time(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


FORMS: Final[dict[str, Callable[[Report], bytes]]] = {
    "table": _table,
    "json": _json,
    "csv": _csv,
    "xlsx": _xlsx,
}
"""Name of a form -> how a report is written in it."""
