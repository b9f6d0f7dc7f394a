"""Fair share for a caller: who stands where, how it went by day, and what more use would change.

A caller limited to projects sees the accounts of those projects with their users, root (whose use is what all are
measured by), and all other accounts as one row `others`: their use, and neither names nor shares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from django.db import connection

from events import queries as log
from events.access import Scope
from events.reports import Row
from events.types.shares import FairshareConfigured
from fleet.queries import site
from jobs.fairshare import ROOT
from jobs.shares import sacctmgr_commands
from jobs.standing import Line, Table, branch, shared, standing

__all__ = ["MEASURES", "OTHERS", "OfProject", "Seen", "clusters_of", "export", "line_rows", "may_see", "measures",
           "of_project", "of_table", "paths", "rule", "seen", "shown_lines"]  # fmt: skip

OTHERS: Final = "others"
MEASURES: Final = ("shares", "norm_shares", "usage", "norm_usage", "effective_usage", "level_fs", "factor", "rank",
                   "decayed_seconds", "undecayed_seconds")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster's standing as a caller sees it. rule: how it is computed, in words. total: of all of the cluster."""

    cluster: str
    at: datetime
    rule: str
    rows: Sequence[Row]
    total: Row
    gaps: Sequence[Row]
    config: FairshareConfigured


@dataclass(frozen=True, slots=True)
class OfProject:
    """Accounts of a project on a cluster, without their users. rows: as of `Seen`, but norm_usage, which is null."""

    cluster: str
    rule: str
    rows: Sequence[Row]
    config: FairshareConfigured


Paths = Mapping[str, Sequence[str]]
"""Account -> the project it belongs to with what is above it, from the root, itself last."""


def paths(cluster: str, day: date) -> dict[str, Sequence[str]]:
    """Where the accounts of a cluster belong on a day; accounts without project are not in it."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT a.account, coalesce(p.path, ARRAY[a.project]) FROM jobs_accountplace a
               LEFT JOIN jobs_projectplace p
                   ON p.project = a.project AND %(day)s >= p.from_day AND %(day)s < p.to_day
               WHERE a.cluster = %(cluster)s AND %(day)s >= a.from_day AND %(day)s < a.to_day""",
            {"cluster": cluster, "day": day},
        )
        return {str(account): list(path) for account, path in cursor.fetchall()}


def may_see(scope: Scope, path: Sequence[str], project: str = "") -> bool:
    """Whether an account of this path is in scope, and below the project that is asked for."""
    return (scope.projects is None or not scope.projects.isdisjoint(path)) and (not project or project in path)


def clusters_of(scope: Scope) -> list[str]:
    """Clusters with fair share on which the caller may see an account today; all of them without a limit."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT cluster FROM jobs_fairshare ORDER BY 1")
        names = [str(name) for (name,) in cursor.fetchall()]
    if scope.projects is None or not names:
        return names
    today = datetime.now(site().zone).date()
    return [name for name in names if any(may_see(scope, path) for path in paths(name, today).values())]


def seen(scope: Scope, cluster: str, at: datetime, project: str = "") -> Seen:
    """Standing on a cluster at an instant, as the caller sees it. Raises NoFairshare."""
    return of_table(scope, standing(cluster, at), project)


def of_table(scope: Scope, table: Table, project: str = "") -> Seen:
    """A table as the caller sees it. project: only the accounts below it."""
    belongs = paths(table.cluster, table.at.astimezone(site().zone).date())
    shown = shown_lines(scope, table.lines, belongs, project)
    rows = line_rows(shown, belongs)
    if scope.projects is not None and not project:
        rows.append(_others(table, shown))
    gaps = _gaps(table) if scope.projects is None else []
    return Seen(table.cluster, table.at, rule(table.config), rows, _total(table.lines[0]), gaps, table.config)


def of_project(scope: Scope, cluster: str, at: datetime, project: str) -> OfProject:
    """The accounts of a project and of what is below it: less work than `seen`, which ranks everybody.

    Raises NoFairshare.
    """
    belongs = paths(cluster, at.astimezone(site().zone).date())
    found = branch(cluster, at, {account for account, path in belongs.items() if may_see(scope, path, project)})
    return OfProject(cluster, rule(found.config), line_rows(found.lines, belongs), found.config)


def export(scope: Scope, cluster: str, at: datetime) -> list[str]:
    """`sacctmgr` commands that give Slurm the shares of what the caller may see. Raises NoFairshare."""
    found = shared(cluster, int(at.timestamp()))
    if scope.projects is not None:
        belongs = paths(cluster, at.astimezone(site().zone).date())
        found = [one for one in found if may_see(scope, belongs.get(one.account, ()))]
    return sacctmgr_commands(cluster, found)


def shown_lines(scope: Scope, lines: Sequence[Line], belongs: Paths, project: str = "") -> list[Line]:
    """Root and the lines of accounts that may be seen, in the order of the tree; of a project only its own."""
    ordered = _in_order(lines)
    if scope.projects is None and not project:
        return ordered
    return [
        line for line in ordered
        if (line.member.account == ROOT and not line.member.user and not project)
        or may_see(scope, belongs.get(line.member.account, ()), project)
    ]  # fmt: skip


def _in_order(lines: Sequence[Line]) -> list[Line]:
    """From the root down: an account, its users by name, the accounts below it."""
    names = log.people(line.member.user for line in lines)
    accounts: dict[str, list[Line]] = {}
    users: dict[str, list[Line]] = {}
    for line in lines[1:]:
        one = line.member
        (users if one.user else accounts).setdefault(one.account if one.user else one.parent or ROOT, []).append(line)
    found: list[Line] = []
    waiting = [lines[0]]
    while waiting:
        line = waiting.pop()
        found.append(line)
        below = users.get(line.member.account, [])
        found += sorted(below, key=lambda one: (names[one.member.user], one.member.partition))
        after = sorted(accounts.get(line.member.account, []), key=lambda one: one.member.account, reverse=True)
        waiting += after
    return found


def line_rows(lines: Sequence[Line], belongs: Paths) -> list[Row]:
    """Lines as rows: people by name, what is above an account only where it may be seen too."""
    names = log.people(line.member.user for line in lines)
    known = {line.member.account for line in lines if not line.member.user}
    return [_row(line, names, known, belongs) for line in lines]


def _row(line: Line, names: Mapping[str, str], known: Collection[str], belongs: Paths) -> Row:
    one, path = line.member, belongs.get(line.member.account)
    above = one.account if one.user else one.parent or ("" if one.account == ROOT else ROOT)
    project = path[-1] if path else None if one.account == ROOT else f"unmapped/{one.account}"
    return {
        "project": project, "account": one.account, "user": names.get(one.user, ""), "partition": one.partition,
        "parent": above if above in known else "", **measures(line),
    }  # fmt: skip


def measures(line: Line) -> Row:
    """The columns of a line. level_fs: null where its share is its parent's, and where it used nothing (no limit)."""
    one, root = line.standing, line.member.account == ROOT and not line.member.user
    level = one.level_fs
    return {
        "shares": None if root else one.raw_shares,
        "norm_shares": round(one.norm_shares, 6),
        "usage": one.usage,
        "norm_usage": None if one.norm_usage is None else round(one.norm_usage, 6),
        "effective_usage": round(one.effective_usage, 6),
        "level_fs": None if level is None or level == float("inf") else round(level, 6),
        "factor": None if one.fairshare is None else round(one.fairshare, 6),
        "rank": one.rank,
        "decayed_seconds": round(line.decayed / 1000, 3),
        "undecayed_seconds": line.undecayed // 1000,
    }


def _total(root: Line) -> Row:
    found = measures(root)
    return {name: found[name] for name in ("usage", "decayed_seconds", "undecayed_seconds")}


def _others(table: Table, shown: Sequence[Line]) -> Row:
    """What the rest used: all of root's but what the topmost accounts shown used."""
    accounts = {line.member.account for line in shown if not line.member.user and line.member.account != ROOT}
    top = [line for line in shown if not line.member.user and line.member.account in accounts
           and not _below(line, table.lines, accounts)]  # fmt: skip
    root = table.lines[0]
    decayed = max(0.0, root.decayed - sum(line.decayed for line in top))
    undecayed = root.undecayed - sum(line.undecayed for line in top)
    rest = dict.fromkeys(MEASURES)
    share = decayed / root.decayed if root.decayed else 0.0
    return {
        "project": None, "account": OTHERS, "user": "", "partition": "", "parent": ROOT, **rest,
        "usage": int(decayed // 1000), "norm_usage": round(share, 6), "decayed_seconds": round(decayed / 1000, 3),
        "undecayed_seconds": undecayed // 1000,
    }  # fmt: skip


def _below(line: Line, lines: Sequence[Line], accounts: Collection[str]) -> bool:
    """Whether an account hangs, however deep, below another one that is shown."""
    parents = {one.member.account: one.member.parent for one in lines if not one.member.user}
    at = parents.get(line.member.account, "")
    while at and at not in accounts:
        at = parents.get(at, "")
    return bool(at)


def _gaps(table: Table) -> list[Row]:
    gaps: list[Row] = [
        {"account": account, "why": "has no shares, so its use counts for nobody",
         "undecayed_seconds": use.plain // 1000} for account, use in sorted(table.loose.items()) if use.plain
    ]  # fmt: skip
    return gaps + [{"account": name, "why": "hangs below no known account"} for name in table.broken]


def rule(config: FairshareConfigured) -> str:
    """How it is computed, in words."""
    half_life = f"half-life {_length(config.half_life_seconds)}" if config.half_life_seconds else "no decay"
    name = "Fair Tree" if config.algorithm == "fair_tree" else "classic fair share"
    mode = f"Slurm's slices of {config.calc_period_seconds} s" if config.mode == "slurm" else "continuous decay"
    reset = f", reset {config.reset}" if config.reset != "none" else ""
    return f"{name}, {half_life}, {mode}{reset}"


def _length(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
