"""The table of any report: its columns with units, sorted, a page of its rows at a time, its total below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from events.reports import Column, Report, Row
from web import figures
from web.asked import Wrong
from web.causes import cause_text
from web.history import counted
from web.reportasked import Question
from web.reportcells import head, is_key, label_of, measured, sort_key
from web.reportlinks import Links
from web.tables import Cell, Head, Link, Table

__all__ = ["ROWS", "Pager", "columns_of", "gap_texts", "in_order", "pager", "table", "total"]

ROWS: Final = 100
"""Rows of a page."""
NOT_KNOWN: Final = "not known"
"""The cause of a gap that has none: its reason says more."""
SAID: Final = ("why", "reason", "cluster", "account", "resource_class", "measure", "cause", "attempts", "from", "to")
"""What of a gap has words of its own."""
WIDE: Final = 9
"""More columns than this scroll sideways inside their frame."""


@dataclass(frozen=True, slots=True)
class Pager:
    """Which rows are shown, and the ways to those before and after them."""

    text: str
    before: str
    after: str


def columns_of(report: Report) -> list[Column]:
    """The columns that are shown: keys of things are in the links of their names."""
    names = {column.name: True for column in report.columns}
    return [column for column in report.columns if not is_key(column, names)]


def in_order(question: Question, report: Report) -> list[Row]:
    """The rows as asked for: by a column, else by the main one downwards; calendars and trees keep their own order.

    What is not known comes last, whichever way. Raises Wrong for a column that there is not.
    """
    sort = question.sort or _usual(question, report)
    name = sort.removeprefix("-")
    column = next((one for one in columns_of(report) if one.name == name), None)
    if not name:
        return list(report.rows)
    if column is None:
        raise Wrong("sort", "The table has no such column.")
    keyed = [(sort_key(column, row.get(name)), row) for row in report.rows]
    known = [(key[1], row) for key, row in keyed if not key[0]]
    known.sort(key=lambda one: one[0], reverse=sort.startswith("-"))
    return [*(row for _, row in known), *(row for key, row in keyed if key[0])]


def _usual(question: Question, report: Report) -> str:
    """What a table is sorted by when nothing is said; '' is the report's own order."""
    measure = question.report.measure
    return f"-{measure}" if measure and report.params.bucket is None else ""


def table(
    question: Question, report: Report, rows: Sequence[Row], links: Links, currency: str, *, most: int = ROWS
) -> Table:
    """The page of rows that is asked for, with the total of all of them. Raises Wrong for a page that there is not."""
    columns, first = columns_of(report), (question.page - 1) * most
    if question.page > 1 and first >= len(rows):
        raise Wrong("page", f"The last page is {-(-len(rows) // most) or 1}.")
    heads = [_head(question, report, column, currency) for column in columns]
    shown = rows[first : first + most]
    cells = [[_cell(question, column, row, links) for column in columns] for row in shown]
    title = f"By {', '.join(group.replace('_', ' ') for group in question.groups)}"
    return Table("rows", title, _caption(question, report), heads, cells, total(report, links),
                 _tools(question, links), wide=len(columns) > WIDE)  # fmt: skip


def pager(question: Question, number: int) -> Pager | None:
    """The ways between the pages of `number` rows; None where there is one page."""
    if number <= ROWS:
        return None
    first, last = (question.page - 1) * ROWS + 1, min(question.page * ROWS, number)
    text = f"Rows {figures.thousands(first)} to {figures.thousands(last)} of {figures.thousands(number)}"
    before = question.link(page=question.page - 1) + "#rows" if question.page > 1 else ""
    after = question.link(page=question.page + 1) + "#rows" if last < number else ""
    return Pager(text, before, after)


def _caption(question: Question, report: Report) -> str:
    days, zone = question.days.text, report.params.zone.key
    said = [f"{question.report.title}, {days}, {zone}."]
    if "branch" in question.groups:
        said.append("A branch holds what is below it: its rows overlap and do not add up to the total.")
    if question.report.note:
        said.append(question.report.note)
    if any(column.kind == "seconds" for column in report.columns):
        said.append("Rounded for reading; exact seconds stand in the files and behind each figure.")
    return " ".join(said)


def _head(question: Question, report: Report, column: Column, currency: str) -> Head:
    """A head that sorts: numbers first downwards, names first upwards, again the other way."""
    usual = _usual(question, report)
    sort, name = question.sort or usual, column.name
    numeric = column.kind not in ("label", "time")
    first, second = (f"-{name}", name) if numeric else (name, f"-{name}")
    target = second if sort == first else first
    order = {name: "ascending", f"-{name}": "descending"}.get(sort, "")
    href = question.link(sort="" if target == usual else target) + "#rows"
    return Head(head(column, currency), "n" if numeric else "", href, order)


def _cell(question: Question, column: Column, row: Row, links: Links) -> Cell:
    value = row.get(column.name)
    if column.kind in ("label", "time"):
        return replace(label_of(column, value), href=links.label(column.name, row))
    cell = measured(column, value)
    if column.name == question.report.measure and value and "nodata" not in cell.css:
        return replace(cell, href=links.figure(row))
    return cell


def total(report: Report, links: Links) -> list[Cell]:
    """The total over all rows, also those of other pages; what does not add up stays empty."""
    cells = []
    for at, column in enumerate(columns_of(report)):
        known = column.name in report.total
        if column.kind in ("label", "time"):
            cells.append(Cell("Total", href=links.figure({})) if not at else Cell())
        else:
            cells.append(measured(column, report.total[column.name]) if known else Cell("", "n"))
    return cells


def _tools(question: Question, links: Links) -> list[Link]:
    zone = links.site_zone.key
    forms = (("CSV", "csv"), ("XLSX", "xlsx"), ("API", ""))
    return [Link(text, question.rest(zone, form)) for text, form in forms]


def gap_texts(report: Report) -> list[str]:
    """What the report could not price or measure, one sentence each; things that lack for one reason share it."""
    words = {column.name: column.head for column in report.columns}
    named: dict[str, list[str]] = {}
    for gap in report.gaps:
        why = str(gap.get("why") or gap.get("reason") or "")
        subject = ", ".join(_subject(gap, words))
        named.setdefault(why, []).extend([subject] if subject not in named.get(why, []) else [])
    return [_sentence([one for one in subjects if one], why) for why, subjects in named.items()]


def _sentence(subjects: Sequence[str], why: str) -> str:
    told = "; ".join(subjects) if any(", " in one for one in subjects) else " and ".join(subjects)
    return f"{told}: {why}" if told and why else told or why


def _subject(gap: Row, words: Mapping[str, str]) -> list[str]:
    """What it is about and how much: known words first, whatever else it holds behind them. words: of columns."""
    about = [str(gap[name]) for name in ("cluster", "account", "resource_class") if gap.get(name)]
    about += [words.get(str(gap["measure"]), str(gap["measure"]))] if gap.get("measure") else []
    about += [cause_text(str(gap["cause"]))] if gap.get("cause") not in (None, "", NOT_KNOWN) else []
    if gap.get("from") and gap.get("to"):
        about.append(f"{gap['from']} to {gap['to']}")
    about += [counted(gap["attempts"], "attempt")] if gap.get("attempts") else []
    about += [_amount(name, value) for name, value in gap.items() if name.endswith("_seconds") and value]
    rest = [f"{name.replace('_', ' ')} {value}" for name, value in gap.items()
            if name not in SAID and not name.endswith("_seconds") and value not in (None, "")]  # fmt: skip
    return [*about, *rest]


def _amount(name: str, seconds: Any) -> str:
    """Seconds of a gap as hours: `gpu_seconds` in GPU-h, `cpu_seconds` in CPU-h."""
    unit = {"gpu": "GPU-h", "cpu": "CPU-h", "node": "node-h", "undecayed": "billing-h"}.get(
        name.removesuffix("_seconds"), "h"
    )
    return f"{figures.hours(abs(int(seconds)))} {unit}"
