"""The tables of the pages of use: by user or account, and over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from events.reports import Row
from web import figures, ranges
from web.asked import GROUPS
from web.book import ADDITIVE, Book, table_group
from web.ranges import Piece
from web.tables import Bar, Cell, Head, Link, Table, absent, count, in_hours, label, number

__all__ = ["KEYS", "LONG", "MOST_ROWS", "UNITS", "by_bucket", "by_group", "cost_cell", "group_name", "in_order",
           "number_of", "sortable", "tools", "wait_cell"]  # fmt: skip

MOST_ROWS: Final = 50
"""Rows of a table before the rest is folded into one, with a link to all of them."""
MOST_EMPTY: Final = 6
"""Neighbouring buckets without use that stand alone; more become one row."""
KEYS: Final = {"1": "k-s1", "2": "k-s2", "3": "k-s3", "4": "k-s4", "5": "k-s5", "other": "k-so"}
UNITS: Final = {"gpu_seconds": "GPU-h", "node_seconds": "Node-h", "cpu_seconds": "CPU-h"}
LONG: Final = {"gpu_seconds": "GPU-hours", "node_seconds": "Node-hours", "cpu_seconds": "CPU-hours"}
HEADS: Final = {**UNITS, "attempts_started": "Attempts started", "jobs_ended": "Jobs ended"}
ROUNDING: Final = "Columns add up in seconds and are shown to 0.1\u00a0h."


def group_name(name: str | None) -> str:
    """A group as people read it."""
    return (name or "").removeprefix("unmapped/") or "not named"


def tools(book: Book, report: str, *groups: str) -> list[Link]:
    """The same figures as files and for programs."""
    zone, asked = book.shelf.site.timezone, book.asked
    forms = (("CSV", "csv"), ("XLSX", "xlsx"), ("API", ""))
    return [Link(text, asked.report(report, zone, *groups, form=form)) for text, form in forms]


def _measures(row: Row | None) -> list[Cell]:
    values = [row[name] if row is not None else None for name in ADDITIVE]
    return [in_hours(v) if n in UNITS else count(v) for n, v in zip(ADDITIVE, values, strict=True)]


def by_bucket(book: Book) -> Table:
    """Use by day (or hour, week, month): additive measures with their proven total."""
    bucket = book.asked.days.bucket
    pieces, found = book.pieces, book.by_bucket
    rows: list[list[Cell]] = []
    for state, run in groupby(pieces, key=lambda piece: _state(book, piece, found)):
        rows += _run(book, state, list(run), found)
    return Table(
        "by-time",
        f"By {bucket}",
        f"Use by {bucket}, {book.asked.days.text}, {book.shelf.site.timezone}. {_odd(book)}{ROUNDING}",
        [Head(bucket.capitalize()), *(Head(HEADS[name], "n") for name in ADDITIVE)],
        rows,
        [label(number_of(len(pieces), bucket)), *_measures(book.total)],
        tools(book, "usage", bucket),
    )


def _state(book: Book, piece: Piece, found: Mapping[str, Row]) -> str:
    """`use`, else what the lack of it means: `ahead` of us, `unknown` to the books, or none (`zero`)."""
    if piece.name in found:
        return "use"
    if piece.start >= book.cut:
        return "ahead"
    return "zero" if book.known(piece) else "unknown"


def _run(book: Book, state: str, run: Sequence[Piece], found: Mapping[str, Row]) -> list[list[Cell]]:
    """Rows of neighbouring buckets in one state; a long run without use is one row."""
    if state != "use" and len(run) > MOST_EMPTY:
        bucket = book.asked.days.bucket
        text = f"{run[0].text} to {run[-1].text}"
        if bucket == "day":
            text = figures.days(run[0].days.first, run[-1].days.last)
        return [[label(text, tag=number_of(len(run), bucket)), *_lack(state)]]
    if state == "use":
        return [[_piece_label(book, piece), *_measures(found[piece.name])] for piece in run]
    return [[label(piece.text), *_lack(state)] for piece in run]


def _lack(state: str) -> list[Cell]:
    if state == "zero":
        return _measures(dict.fromkeys(ADDITIVE, 0))
    return [absent("—") if state == "ahead" else absent() for _ in ADDITIVE]


def _piece_label(book: Book, piece: Piece) -> Cell:
    """A bucket leads to itself: a day to its hours."""
    if book.asked.days.number == 1:
        return label(piece.text)
    return label(piece.text, href=book.asked.link(days=piece.days, sort="", every=False))


def _odd(book: Book) -> str:
    found = ranges.odd_days(book.asked.days, book.shelf.zone)
    return "".join(f"{figures.day(at)} has {length} hours. " for at, length in found)


def number_of(value: int, noun: str) -> str:
    """A count with its noun: '3 users'."""
    return f"{figures.thousands(value)} {noun}{'' if value == 1 else 's'}"


def by_group(book: Book) -> Table:
    """Use by user or account, with waits and, for who may see money, cost."""
    group = table_group(book.asked)
    rows = in_order(book, _extended(book, group), lambda row: group_name(row[group]))
    shown = rows if book.asked.every or len(rows) <= MOST_ROWS + 1 else rows[:MOST_ROWS]
    cells = [_group_row(book, row, group) for row in shown]
    if rows[len(shown) :]:
        cells.append(_folded(book, rows[len(shown) :]))
    return Table(
        "by-group",
        f"By {group}",
        f"Use by {group}, {book.asked.days.text}. {ROUNDING} Waits are medians and do not add up.",
        _heads(book, group),
        cells,
        _foot(book, number_of(len(rows), group)),
        tools(book, "usage", group),
        more=_more(book, group, len(rows), len(shown)),
        wide=True,
    )


def _more(book: Book, group: str, rows: int, shown: int) -> Link | None:
    if rows == shown:
        return None
    return Link(f"Show all {number_of(rows, group)}", book.asked.link(every=True) + "#by-group")


def _extended(book: Book, group: str) -> list[Row]:
    """Rows of use with the median wait and the cost of the same group."""
    waits = {row[group]: row["wait_seconds_p50"] for row in book.waits.rows}
    costs = {row[group]: row["amount"]["amount"] for row in book.costs.rows} if book.costs else {}
    # A group without any priced or priceable use has no row of costs: it cost nothing.
    return [{**row, "wait": waits.get(row[group]), "cost": costs.get(row[group], "0.00")} for row in book.groups.rows]


def in_order(book: Book, rows: Sequence[Row], name_of: Callable[[Row], str]) -> list[Row]:
    """Rows in the order asked for; unknown values last, ties by name."""
    sort = book.asked.sort or f"-{book.main}"
    column, down = sort.removeprefix("-"), sort.startswith("-")
    by_name = sorted(rows, key=lambda row: name_of(row).casefold(), reverse=down and column == "name")
    if column == "name" or not all(column in row for row in rows):
        return by_name
    known = [row for row in by_name if row[column] is not None]
    known.sort(key=lambda row: _weight(row[column]), reverse=down)
    return known + [row for row in by_name if row[column] is None]


def _weight(value: Any) -> Any:
    """What a value is compared by: amounts come as text."""
    return Decimal(value) if isinstance(value, str) else value


def _heads(book: Book, group: str) -> list[Head]:
    main = book.main
    heads = [sortable(book, GROUPS[group], "name", ""), Head("", "viz")]
    for name in ADDITIVE:
        heads.append(sortable(book, HEADS[name], name))
        if name == main:
            heads.append(Head("Share %", "n"))
    heads.append(sortable(book, "Wait, median", "wait"))
    return heads + ([sortable(book, f"Cost {book.shelf.site.currency}", "cost")] if book.costs else [])


def sortable(book: Book, text: str, name: str, css: str = "n") -> Head:
    """A head that sorts: numbers first downwards, names first upwards, again the other way."""
    sort = book.asked.sort or f"-{book.main}"
    first = name if name == "name" else f"-{name}"
    turned = first.removeprefix("-") if first.startswith("-") else f"-{first}"
    order = {name: "ascending", f"-{name}": "descending"}.get(sort, "")
    target = turned if sort == first else first
    return Head(text, css, book.asked.link(sort="" if target == f"-{book.main}" else target) + "#by-group", order)


def _group_row(book: Book, row: Row, group: str) -> list[Cell]:
    name, main = row[group], book.main
    key = KEYS[book.slots[name]] if name in book.slots and book.asked.group == group else ""
    most = max((other[main] for other in book.groups.rows), default=0)
    cells = [
        label(group_name(name), href=_listed(book, group, name), key=key),
        Cell(css="viz", bar=Bar(f"{100 * row[main] / most:.2f}", key or "k-run") if row[main] else None),
    ]
    cells += _with_share(book, _measures(row), row[main])
    return [*cells, wait_cell(row["wait"]), *([cost_cell(row["cost"])] if book.costs else [])]


def _listed(book: Book, group: str, name: str) -> str:
    """A user or account leads to its jobs of these days."""
    if not name:
        return ""
    project = {"project": book.asked.project} if book.asked.project else {}
    return book.asked.listed("jobs", **{**project, group: name})


def wait_cell(seconds: int | None) -> Cell:
    """A median wait, or *no data*."""
    return absent() if seconds is None else number(figures.duration(seconds), zero=not seconds)


def _with_share(book: Book, cells: Sequence[Cell], part: int) -> list[Cell]:
    at = ADDITIVE.index(book.main) + 1
    share = number(figures.percent(part, book.total[book.main]), zero=part == 0)
    return [*cells[:at], share, *cells[at:]]


def cost_cell(amount: Any) -> Cell:
    """An amount, or *no price*."""
    return absent(figures.NO_PRICE) if amount is None else number(figures.money(amount), zero=Decimal(amount) == 0)


def _folded(book: Book, rest: Sequence[Row]) -> list[Cell]:
    sums = {name: sum(row[name] for row in rest) for name in ADDITIVE}
    cells = [label(f"{figures.thousands(len(rest))} others", key="k-so"), Cell(css="viz")]
    cells += [*_with_share(book, _measures(sums), sums[book.main]), absent("—")]
    return [*cells, *([_sum_of_costs(rest)] if book.costs else [])]


def _sum_of_costs(rest: Sequence[Row]) -> Cell:
    amounts = [Decimal(str(row["cost"])) for row in rest if row["cost"] is not None]
    return cost_cell(str(sum(amounts)) if amounts else None)


def _foot(book: Book, text: str) -> list[Cell]:
    cells = [label(text), Cell(css="viz")]
    cells += [*_with_share(book, _measures(book.total), book.total[book.main]), Cell(css="n")]
    return [*cells, *([cost_cell(book.costs.total["amount"]["amount"])] if book.costs else [])]
