"""The tables of fair share: accounts, users, and what more use would change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from events.reports import Row
from jobs.queries_fairshare import OTHERS, OfProject, Seen
from jobs.queries_whatif import WhatIf
from jobs.share_history import Course
from web import figures
from web.asked import project_address
from web.tables import Cell, Head, Link, Table, absent, count, label, number

__all__ = ["accounts", "billing_hours", "course_table", "standing_of", "users", "what_if_table"]

LEVEL: Final = "Level is share over use: below 1, its jobs start after those of the others on its level."


def part(value: float | None) -> Cell:
    """A part of a whole with three decimals; a dash where there is none."""
    return absent("—") if value is None else number(f"{value:.3f}", zero=value == 0)


def rank(value: int | None) -> Cell:
    """A rank; a dash where there is none: only users have one."""
    return absent("—") if value is None else count(value)


def level(row: Row, *, classic: bool) -> Cell:
    """Level fair share; where nothing was used it has no limit. The classic algorithm has no levels."""
    if classic:
        return absent("—")
    if row["level_fs"] is not None:
        return number(f"{row['level_fs']:.3f}", zero=row["level_fs"] == 0)
    return number("∞") if row["shares"] is not None and row["effective_usage"] == 0 else absent("—")


def accounts(found: Seen | OfProject, own: frozenset[str], tools: Sequence[Link]) -> Table:
    """Accounts from root down, with the one that the page is about marked. own: whose rows carry the eye."""
    rows = [row for row in found.rows if not row["user"]]
    depths = _depths(rows)
    heads = [Head("Account"), Head("Project"), *(Head(text, "n") for text in (
        "Shares", "Share", "Use", "Level", "Decayed billing-h", "Undecayed billing-h"))]  # fmt: skip
    classic = found.config.algorithm == "classic"
    cells = [_account(row, depths[row["account"]], classic=classic, marked=row["account"] in own) for row in rows]
    said = "The classic algorithm has no levels: —." if classic else LEVEL
    caption = f"{found.rule}. {said} Accounts hold what is below them, so their use overlaps."
    return Table("accounts", "Accounts", caption, heads, cells, (), tools)


def standing_of(found: OfProject, tools: Sequence[Link]) -> Table:
    """The accounts of a project, for its page: the same figures, called by what they are about."""
    whole = accounts(found, frozenset(), tools)
    caption = f"Standing now on {found.cluster}. {whole.caption}"
    return Table("fairshare", "Fair share", caption, whole.heads, whole.rows, (), whole.tools)


def _account(row: Row, depth: int, *, classic: bool, marked: bool) -> list[Cell]:
    project = row["project"] or ""
    name = "all other accounts" if row["account"] == OTHERS else row["account"]
    shares = absent("—") if row["norm_shares"] is None or row["account"] == "root" else (
        Cell("parent", "n") if row["shares"] is None else count(row["shares"]))  # fmt: skip
    root = row["account"] == "root"
    used = row["norm_usage"] if row["account"] == OTHERS else row["effective_usage"]
    return [
        Cell(name, css=f"in{min(depth, 4)}" if depth else "", tag="yours" if marked else ""),
        Cell(project, href=project_address(project)) if project else Cell(""),
        shares, absent("—") if root else part(row["norm_shares"]),
        absent("—") if root else part(used),
        level(row, classic=classic or row["account"] in ("root", OTHERS)),
        billing_hours(row["decayed_seconds"]), billing_hours(row["undecayed_seconds"]),
    ]  # fmt: skip


def billing_hours(seconds: float) -> Cell:
    """Billing-seconds as hours with one decimal."""
    return number(figures.hours(int(seconds)), zero=seconds == 0)


def _depths(rows: Sequence[Row]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row["account"]] = found[row["parent"]] + 1 if row["parent"] in found and row["parent"] != "root" else 0
    return found


def users(found: Seen, tools: Sequence[Link]) -> Table:
    """Users in the order in which their jobs are served."""
    classic = found.config.algorithm == "classic"
    rows = sorted((row for row in found.rows if row["user"]),
                  key=lambda row: (row["rank"] or 0, row["account"], row["user"]))  # fmt: skip
    heads = [Head("User"), Head("Account"), *(Head(text, "n") for text in (
        "Share", "Use", "Level", "Factor", "Rank", "Decayed billing-h", "Undecayed billing-h"))]  # fmt: skip
    cells = [[
        Cell(row["user"], tag=row["partition"]), Cell(row["account"]), part(row["norm_shares"]),
        part(row["effective_usage"]), level(row, classic=classic), part(row["factor"]), rank(row["rank"]),
        billing_hours(row["decayed_seconds"]), billing_hours(row["undecayed_seconds"]),
    ] for row in rows]  # fmt: skip
    caption = ("Share and use are of the user's account. Rank 1 is served first; equal ranks are tied. Decayed use "
               "counts for priority, undecayed use for budgets.")  # fmt: skip
    caption += " The classic algorithm has no levels: —." if classic else ""
    return Table("users", "Users", caption, heads, cells, (), tools)


def course_table(account: str, points: Sequence[Course]) -> Table:
    """What the chart shows, latest day first."""
    heads = (Head("As the day begins"), Head("Part of the use", "n"), Head("Share", "n"))
    rows = [[label(figures.day(one.day, year=True)), part(one.usage), part(one.share)] for one in reversed(points)]
    caption = f"Use of {account} as a part of its level's decayed use, and its share there."
    return Table("course", "Use against share by day", caption, heads, rows, ())


def what_if_table(answer: WhatIf, account: str) -> Table:
    """Figures now, and at the end without and with the use that was asked about; of one account and its users."""
    rows = [row for row in answer.rows if row["account"] == account]
    when = ("now", "then", "with_it")
    heads = [Head("Account or user"), *(Head(f"{name}, {text}", "n") for name in ("Level", "Factor", "Rank")
                                        for text in ("now", "without it", "with it"))]  # fmt: skip
    cells = [[
        Cell(row["user"] or row["account"]),
        *(part(row[f"level_fs_{each}"]) for each in when),
        *(part(row[f"factor_{each}"]) for each in when),
        *(rank(row[f"rank_{each}"]) for each in when),
    ] for row in rows]  # fmt: skip
    caption = f"{answer.told}. Without it: what runs goes on, and nobody starts anything."
    caption += " Only users have a factor and a rank: — for an account."
    return Table("what-if", "What if", caption, heads, cells, ())
