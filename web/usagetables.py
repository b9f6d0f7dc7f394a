"""The tables of the page of use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from events.reports import Row
from web import figures, ranges
from web.asked import GROUPS
from web.book import ADDITIVE, Book
from web.ranges import Piece
from web.tables import Bar, Cell, Head, Link, Table, absent, count, in_hours, label, number

__all__ = ["KEYS", "LONG", "UNITS", "by_bucket", "by_group", "group_name", "tools"]

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


def tools(book: Book, *groups: str) -> list[Link]:
    """The same figures as files and for programs. The API has no filter by project: there it is a column."""
    days = book.asked.days
    if book.asked.project and "project" not in groups:
        groups = ("project", *groups)
    query = {
        "from": days.first.isoformat(),
        "to": (days.last + timedelta(days=1)).isoformat(),
        "timezone": book.shelf.site.timezone,
        "group_by": ",".join(groups),
    }
    address = f"{reverse('api-report', args=['usage'])}?{urlencode(query)}"
    return [Link("CSV", f"{address}&format=csv"), Link("XLSX", f"{address}&format=xlsx"), Link("API", address)]


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
        [label(_number_of(len(pieces), bucket)), *_measures(book.total)],
        tools(book, bucket),
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
        return [[label(text, tag=_number_of(len(run), bucket)), *_lack(state)]]
    if state == "use":
        return [[_piece_label(book, piece), *_measures(found[piece.name])] for piece in run]
    return [[label(piece.text), *_lack(state)] for piece in run]


def _lack(state: str) -> list[Cell]:
    if state == "zero":
        return _measures(dict.fromkeys(ADDITIVE, 0))
    return [absent("—") if state == "ahead" else absent() for _ in ADDITIVE]


def _piece_label(book: Book, piece: Piece) -> Cell:
    """A bucket leads to itself: a day to its hours by user."""
    if book.asked.days.number == 1:
        return label(piece.text)
    group = "user" if piece.days.number == 1 else book.asked.group
    return label(piece.text, href=book.asked.link(days=piece.days, group=group, sort="", every=False))


def _odd(book: Book) -> str:
    found = ranges.odd_days(book.asked.days, book.shelf.zone)
    return "".join(f"{figures.day(at)} has {length} hours. " for at, length in found)


def _number_of(number: int, noun: str) -> str:
    return f"{figures.thousands(number)} {noun}{'' if number == 1 else 's'}"


def by_group(book: Book) -> Table:
    """Use by project, user or account, with waits and, for who may see money, cost."""
    asked = book.asked
    rows = _sorted(book)
    shown = rows if asked.every or len(rows) <= MOST_ROWS + 1 else rows[:MOST_ROWS]
    slots = book.slots
    cells = [_group_row(book, row, slots) for row in shown]
    if rows[len(shown) :]:
        cells.append(_folded(book, rows[len(shown) :]))
    return Table(
        "by-group",
        f"By {asked.group}",
        f"Use by {asked.group}, {asked.days.text}. {ROUNDING} Waits are medians and do not add up.",
        _heads(book),
        cells,
        _foot(book, len(rows)),
        tools(book, asked.group),
        more=_more(book, len(rows), len(shown)),
        wide=True,
    )


def _more(book: Book, rows: int, shown: int) -> Link | None:
    if rows == shown:
        return None
    text = f"Show all {_number_of(rows, book.asked.group)}"
    return Link(text, book.asked.link(every=True) + "#by-group")


def _extended(book: Book) -> list[Row]:
    """Rows of use with the median wait and the cost of the same group."""
    group = book.asked.group
    waits = {row[group]: row["wait_seconds_p50"] for row in book.waits.rows}
    costs = {row[group]: row["amount"]["amount"] for row in book.costs.rows} if book.costs else {}
    # A group without any priced or priceable use has no row of costs: it cost nothing.
    return [{**row, "wait": waits.get(row[group]), "cost": costs.get(row[group], "0.00")} for row in book.groups.rows]


def _sorted(book: Book) -> list[Row]:
    """Rows in the order asked for; unknown values last, ties by name."""
    group, sort = book.asked.group, book.asked.sort or f"-{book.main}"
    name, down = sort.removeprefix("-"), sort.startswith("-")
    rows = sorted(_extended(book), key=lambda row: group_name(row[group]).casefold(), reverse=down and name == "name")
    if name == "name":
        return rows
    known = [row for row in rows if row[name] is not None]
    known.sort(key=lambda row: float(row[name]) * (-1 if down else 1))
    return known + [row for row in rows if row[name] is None]


def _heads(book: Book) -> list[Head]:
    main = book.main
    heads = [_head(book, GROUPS[book.asked.group], "name", ""), Head("", "viz")]
    for name in ADDITIVE:
        heads.append(_head(book, HEADS[name], name))
        if name == main:
            heads.append(Head("Share %", "n"))
    heads.append(_head(book, "Wait, median", "wait"))
    return heads + ([_head(book, f"Cost {book.shelf.site.currency}", "cost")] if book.costs else [])


def _head(book: Book, text: str, name: str, css: str = "n") -> Head:
    """A head that sorts: numbers first downwards, names first upwards, again the other way."""
    sort = book.asked.sort or f"-{book.main}"
    first = name if name == "name" else f"-{name}"
    turned = first.removeprefix("-") if first.startswith("-") else f"-{first}"
    order = {name: "ascending", f"-{name}": "descending"}.get(sort, "")
    target = turned if sort == first else first
    return Head(text, css, book.asked.link(sort="" if target == f"-{book.main}" else target) + "#by-group", order)


def _group_row(book: Book, row: Row, slots: dict[str, str]) -> list[Cell]:
    name, main = row[book.asked.group], book.main
    key = KEYS[slots[name]] if name in slots else ""
    most = max((other[main] for other in book.groups.rows), default=0)
    cells = [
        label(group_name(name), href=_drill(book, name), key=key, tag=_tag(name)),
        Cell(css="viz", bar=Bar(f"{100 * row[main] / most:.2f}", key or "k-so") if row[main] else None),
    ]
    cells += _with_share(book, _measures(row), row[main])
    cells.append(absent() if row["wait"] is None else number(figures.duration(row["wait"]), zero=not row["wait"]))
    return [*cells, *([_cost(row["cost"])] if book.costs else [])]


def _tag(name: str | None) -> str:
    return "no project" if (name or "").startswith("unmapped/") else ""


def _drill(book: Book, name: str) -> str:
    """A project leads to itself, by user; other groups have no narrower page yet."""
    known = {choice.code for choice in book.shelf.choices}
    if book.asked.group != "project" or name not in known or name == book.asked.project:
        return ""
    return book.asked.link(project=name, group="user", sort="", every=False)


def _with_share(book: Book, cells: Sequence[Cell], part: int) -> list[Cell]:
    at = ADDITIVE.index(book.main) + 1
    share = number(figures.percent(part, book.total[book.main]), zero=part == 0)
    return [*cells[:at], share, *cells[at:]]


def _cost(amount: Any) -> Cell:
    return absent(figures.NO_PRICE) if amount is None else number(figures.money(amount), zero=Decimal(amount) == 0)


def _folded(book: Book, rest: Sequence[Row]) -> list[Cell]:
    sums = {name: sum(row[name] for row in rest) for name in ADDITIVE}
    key = "k-so" if book.main in UNITS else ""
    cells = [label(f"{figures.thousands(len(rest))} others", key=key), Cell(css="viz")]
    cells += [*_with_share(book, _measures(sums), sums[book.main]), absent("—")]
    return [*cells, *([_sum_of_costs(rest)] if book.costs else [])]


def _sum_of_costs(rest: Sequence[Row]) -> Cell:
    cents = [int(str(row["cost"]).replace(".", "")) for row in rest if row["cost"] is not None]
    return _cost(f"{sum(cents) // 100}.{sum(cents) % 100:02d}" if cents else None)


def _foot(book: Book, rows: int) -> list[Cell]:
    cells = [label(_number_of(rows, book.asked.group)), Cell(css="viz")]
    cells += [*_with_share(book, _measures(book.total), book.total[book.main]), Cell(css="n")]
    return [*cells, *([_cost(book.costs.total["amount"]["amount"])] if book.costs else [])]
