"""The tables of projects: the tree of organisations, teams and projects; a project's runs; its waits by size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Final

from django.urls import reverse

from events.reports import Row
from web import figures
from web.book import Book, Branch
from web.tables import Bar, Cell, Head, Link, Table, absent, count, in_hours, label, number
from web.usagetables import (
    KEYS,
    ROUNDING,
    UNITS,
    cost_cell,
    in_order,
    number_of,
    sortable,
    tools,
    wait_cell,  # fmt: skip
)

__all__ = ["runs", "tree", "waits"]

SUMS: Final = ("gpu_seconds", "node_seconds", "cpu_seconds", "jobs_started")
DEEPEST: Final = 4
"""Levels that are set in; what hangs deeper stands below its parent at the same depth."""
KINDS: Final = {"organisation": "organisation", "team": "team"}
SIZES: Final = {"1-8": "8 or fewer", "9-32": "9 to 32", "33-128": "33 to 128", "129+": "more than 128",
                "0": "no GPU", "unknown": "not told"}  # fmt: skip
"""Classes of GPUs asked for, in the order they are shown."""


# --- the tree --------------------------------------------------------------------------------------------------------


def tree(book: Book) -> Table:
    """Use of every organisation, team and project with what hangs below it, in the shape of the tree."""
    rows = _branch_rows(book)
    below: dict[str | None, list[Row]] = defaultdict(list)
    for row in rows:
        below[_parent(book, row, rows)].append(row)
    cells = [_branch_cells(book, row, depth) for row, depth in _walk(book, below, None, 0)]
    leaves = sum(1 for row in rows if row["branch"].kind not in KINDS)
    return Table(
        "by-group",
        "Projects",
        f"Use by project, {book.asked.days.text}. Organisations and teams hold what hangs below them, so their rows "
        f"are not added again. {ROUNDING}",
        _tree_heads(book),
        cells,
        _tree_foot(book, number_of(leaves, "project")),
        tools(book, "usage", "branch"),
        wide=True,
    )


def _branch_rows(book: Book) -> list[Row]:
    """A row for every branch the caller may see, also of those without use, and for accounts without project."""
    sums: dict[str, Row] = defaultdict(lambda: dict.fromkeys((*SUMS, "users"), 0))
    for row in book.branches:
        into = sums[row["branch"]]
        into["users"] += bool(row["attempts"])
        for name in SUMS:
            into[name] += row[name]
    waits = {row["branch"]: row["wait_seconds_p50"] for row in book.waits.rows}
    costs = {row["branch"]: row["amount"]["amount"] for row in book.costs.rows} if book.costs else {}
    return [
        {"branch": branch, **sums[branch.code], "wait": waits.get(branch.code),
         "cost": costs.get(branch.code, "0.00"), "last": book.lasts.get(branch.code)}
        for branch in _branches(book, list(sums))
    ]  # fmt: skip


def _branches(book: Book, used: Sequence[str]) -> Iterable[Branch]:
    """Those of the tree at or below the page's project, and used accounts without one."""
    found = [branch for branch in book.shelf.tree.values() if _inside(book, branch)]
    unmapped = [code for code in used if code.startswith("unmapped/") and code not in book.shelf.tree]
    return [*found, *(Branch(code, "", "", None) for code in unmapped)]


def _inside(book: Book, branch: Branch) -> bool:
    if book.shelf.project is None:
        return True
    seen: set[str] = set()
    at: Branch | None = branch
    while at is not None and at.code not in seen:
        if at.code == book.shelf.project.code:
            return True
        seen.add(at.code)
        at = book.shelf.tree.get(at.parent or "")
    return False


def _parent(book: Book, row: Row, rows: Sequence[Row]) -> str | None:
    """The branch under which a row stands; None at the top of what is shown."""
    branch: Branch = row["branch"]
    shown = {other["branch"].code for other in rows}
    top = book.shelf.project is not None and branch.code == book.shelf.project.code
    return branch.parent if branch.parent in shown and not top and branch.parent != branch.code else None


def _walk(
    book: Book, below: dict[str | None, list[Row]], at: str | None, depth: int, seen: frozenset[str] = frozenset()
) -> Iterator[tuple[Row, int]]:
    for row in in_order(book, below.get(at, []), lambda row: row["branch"].name):
        code = row["branch"].code
        if code not in seen:
            yield row, depth
            yield from _walk(book, below, code, min(depth + 1, DEEPEST), seen | {code})


def _tree_heads(book: Book) -> list[Head]:
    main = book.main
    heads = [
        sortable(book, "Project", "name", ""), Head("Title", "title"), Head("", "viz"),
        sortable(book, UNITS[main], main), Head("Share %", "n"), sortable(book, "Node-h", "node_seconds"),
        sortable(book, "Users", "users"), sortable(book, "Jobs started", "jobs_started"),
        sortable(book, "Wait, median", "wait"),
    ]  # fmt: skip
    heads += [sortable(book, f"Cost {book.shelf.site.currency}", "cost")] if book.costs else []
    return [*heads, sortable(book, "Last use", "last")]


def _branch_cells(book: Book, row: Row, depth: int) -> list[Cell]:
    branch: Branch = row["branch"]
    main, whole = book.main, book.total[book.main]
    key = KEYS[book.slots[branch.code]] if branch.code in book.slots and book.asked.group == "project" else ""
    bar = Bar(f"{100 * row[main] / whole:.2f}", key or "k-pool") if row[main] and whole else None
    cells = [
        Cell(branch.name, f"in{depth}", _branch_href(book, branch), key, tag=_tag(branch)),
        Cell(branch.title if branch.title != branch.name else "", "w note title"), Cell(css="viz", bar=bar),
        in_hours(row[main]), number(figures.percent(row[main], whole), zero=row[main] == 0),
        in_hours(row["node_seconds"]), count(row["users"]), count(row["jobs_started"]),
        absent("—") if row["wait"] is None else wait_cell(row["wait"]),
    ]  # fmt: skip
    cells += [cost_cell(row["cost"])] if book.costs else []
    return [*cells, _last(book, row["last"])]


def _last(book: Book, day: date | None) -> Cell:
    """A day, with its year where that is not the present one."""
    if day is None:
        return absent("—")
    return Cell(figures.day(day, year=day.year != book.cut.astimezone(book.shelf.zone).year), "n")


def _branch_href(book: Book, branch: Branch) -> str:
    """Its page; none for the project whose page this is."""
    return "" if branch.code == book.asked.project else book.asked.project_link(branch.code)


def _tag(branch: Branch) -> str:
    return "no project" if branch.code.startswith("unmapped/") else KINDS.get(branch.kind, "")


def _tree_foot(book: Book, text: str) -> list[Cell]:
    total, main = book.total, book.main
    users = len({row["user"] for row in book.branches if row["attempts"]})
    cells = [label(text), Cell(css="title"), Cell(css="viz"), in_hours(total[main]),
             number(figures.percent(total[main], total[main])), in_hours(total["node_seconds"]), count(users),
             count(total["jobs_started"]), Cell(css="n")]  # fmt: skip
    cells += [cost_cell(book.costs.total["amount"]["amount"])] if book.costs else []
    return [*cells, Cell(css="n")]


# --- runs ------------------------------------------------------------------------------------------------------------


def runs(book: Book) -> Table:
    """Runs that used the most in these days; the column adds up to the GPU-hours used."""
    found = book.runs
    rows = [_run_cells(book, n) for n in range(len(found.rows))]
    rest = found.number - len(found.rows)
    if rest:
        rows.append(_rest_of_runs(book, rest))
    foot = [label(number_of(found.number, "run")), Cell(), Cell(), Cell(css="n"), count(found.attempts),
            in_hours(found.gpu_seconds), number(figures.percent(found.gpu_seconds, found.gpu_seconds)),
            in_hours(found.node_seconds)]  # fmt: skip
    return Table(
        "runs",
        "Runs",
        f"What ran in {book.asked.days.text}; GPUs are the most that one attempt held. {ROUNDING}",
        [Head("Run"), Head("User"), Head("State"), Head("GPUs", "n"), Head("Attempts", "n"),
         Head("GPU-h", "n", order="descending"), Head("Share %", "n"), Head("Node-h", "n")],
        rows, foot, tools(book, "usage", "run"),
        more=Link("All runs that started in these days", book.asked.listed("runs")) if rest else None,
        wide=True,
    )  # fmt: skip


def _run_cells(book: Book, at: int) -> list[Cell]:
    run = book.runs.rows[at]
    key = KEYS[book.bands[at].slot] if book.asked.group == "run" and at < 5 and run.gpu_seconds else ""
    return [
        Cell(run.name, "", reverse("run", args=[run.id]), key), Cell(run.user, "mono note"),
        Cell(run.state.replace("_", " ").lower()), count(run.gpus), count(run.attempts), in_hours(run.gpu_seconds),
        number(figures.percent(run.gpu_seconds, book.runs.gpu_seconds), zero=not run.gpu_seconds),
        in_hours(run.node_seconds),
    ]  # fmt: skip


def _rest_of_runs(book: Book, number_left: int) -> list[Cell]:
    found, shown = book.runs, book.runs.rows
    gpu = found.gpu_seconds - sum(run.gpu_seconds for run in shown)
    return [
        label(f"{figures.thousands(number_left)} others"), Cell(), Cell(), Cell(css="n"),
        count(found.attempts - sum(run.attempts for run in shown)), in_hours(gpu),
        number(figures.percent(gpu, found.gpu_seconds), zero=not gpu),
        in_hours(found.node_seconds - sum(run.node_seconds for run in shown)),
    ]  # fmt: skip


# --- waits -----------------------------------------------------------------------------------------------------------


def waits(book: Book) -> Table:
    """How long starts had waited, by how many GPUs they asked for."""
    by_size = {row["size"]: row for row in book.sizes}
    rows = [_wait_cells(text, by_size[size]) for size, text in SIZES.items() if size in by_size]
    total = book.waits.total
    return Table(
        "waits",
        "Waits",
        f"From eligible to start, attempts started in {book.asked.days.text}. Only the starts add up.",
        [Head("GPUs asked"), Head("Starts", "n"), Head("Median", "n"), Head("p90", "n"), Head("Longest", "n")],
        rows,
        [label("all"), count(total["attempts_started"]), Cell(css="n"), Cell(css="n"), Cell(css="n")],
        tools(book, "waits", "size"),
    )


def _wait_cells(text: str, row: Row) -> list[Cell]:
    measures = [wait_cell(row[f"wait_seconds_{name}"]) for name in ("p50", "p90", "max")]
    return [label(text), count(row["attempts_started"]), *measures]
