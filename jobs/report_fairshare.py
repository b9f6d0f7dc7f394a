"""The report `fairshare`: standing at the end of its window, or of each of its calendar buckets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from events import queries as log
from events.access import Scope
from events.rebuild import read_at
from events.reports import BUCKETS, AsOf, BadParameter, Column, Params, Report, Row, bucket_edges, midnight
from fleet.queries import site
from jobs.queries import may_choose
from jobs.queries_fairshare import MEASURES, OTHERS, Seen, clusters_of, of_table
from jobs.share_history import history
from jobs.standing import NoFairshare, Table, standing

__all__ = ["GROUPS", "fairshare"]

GROUPS: Final = ("cluster", "project", "account", "user")
MOST_INSTANTS: Final = 800
_OWN: Final = "root and all other accounts together have no shares; an account may take those above it"
_LEVEL: Final = "root, the classic algorithm and who takes the share above have no level; without use it has no limit"
_USERS: Final = "only users have it: accounts are ranked by their users"
COLUMNS: Final = (
    Column("shares", "Shares", "number", "", _OWN),
    Column("norm_shares", "Norm shares", "number", "", _OWN),
    Column("usage", "Usage", "integer", "billing-s"),
    Column("norm_usage", "Norm usage", "number", "", _OWN),
    Column("effective_usage", "Effective usage", "number", "", _OWN),
    Column("level_fs", "Level", "number", "", _LEVEL),
    Column("factor", "Factor", "number", "", _USERS),
    Column("rank", "Rank", "integer", "", _USERS),
    Column("decayed_seconds", "Decayed", "number", "billing-s"),
    Column("undecayed_seconds", "Undecayed", "integer", "billing-s"),
)
ADDED: Final = ("usage", "decayed_seconds", "undecayed_seconds")


def fairshare(scope: Scope, params: Params) -> Report:
    """Who stands where. Balances do not add up over time: each bucket's rows are the standing at its end.

    Accounts hold what is below them, so rows of accounts overlap; the total is all that the caller is measured by.
    Grouped by project, its accounts are added up, and what does not add is null where it has several.
    """
    with read_at(params.as_known_at):
        position = log.as_of().position if params.as_known_at is None else params.as_known_at
        instants = _instants(params)
        rows: list[Row] = []
        gaps: list[Row] = []
        total: Row = {}
        clusters = clusters_of(scope)
        for cluster in clusters:
            found, missing = _of_cluster(scope, params, cluster, instants)
            gaps += missing
            for label, one in found:
                rows += [_keyed(params, cluster, label, row) for row in _grouped(params, one)]
            if found:
                total = _plus(total, _whole(params, found[-1][1]))
                gaps += found[-1][1].gaps
        if params.project and not rows and not may_choose(scope, params.project):
            raise BadParameter("project", f"there is no project {params.project[:80]!r} that you may see")
    if not clusters:
        gaps.append({"why": "no cluster has a configured fair share; `manage.py fairshare set CLUSTER` does it"})
    return Report(
        "fairshare", params, (*_heads(params), *COLUMNS), rows, _plus(dict.fromkeys(ADDED, 0), total),
        AsOf(position, instants[-1][1]), gaps,
    )  # fmt: skip


def _instants(params: Params) -> list[tuple[str, datetime]]:
    """Label and end of each bucket that has begun by the cut; of the window where there are none."""
    cut = params.cut_at.replace(microsecond=0)
    found = [(label, min(end, cut)) for label, start, end in bucket_edges(params) if start < cut]
    if len(found) > MOST_INSTANTS:
        raise BadParameter("to", f"fair share at {len(found)} instants is too much at once; at most {MOST_INSTANTS}")
    return found or [("", min(params.end, cut))]


def _of_cluster(
    scope: Scope, params: Params, cluster: str, instants: Sequence[tuple[str, datetime]]
) -> tuple[list[tuple[str, Seen]], list[Row]]:
    """Standing per label; what stands in the way is a gap."""
    zone = site().zone
    days = {label: at.astimezone(zone).date() for label, at in instants if _is_midnight(at)}
    found: list[tuple[str, Seen]] = []
    try:
        kept = _tables(cluster, sorted(set(days.values()))) if len(days) > 1 else {}
        for label, at in instants:
            table = kept.get(days[label]) if label in days and kept else standing(cluster, at)
            if table is not None:
                found.append((label, of_table(scope, table, params.project)))
    except NoFairshare as missing:
        return found, [{"cluster": cluster, "why": str(missing)}]
    return found, []


def _is_midnight(at: datetime) -> bool:
    zone = site().zone
    return midnight(at.astimezone(zone).date(), zone) == at.astimezone(UTC)


def _tables(cluster: str, days: list[date]) -> dict[date, Table]:
    """Standing as days begin, read at once; days before use counts have none."""
    zone = site().zone
    found = history(cluster, days)
    return {table.at.astimezone(zone).date(): table for table in found}


def _grouped(params: Params, found: Seen) -> list[Row]:
    """Rows of users, of accounts, or of projects."""
    groups = params.group_by
    if "user" in groups:
        return [row for row in found.rows if row["user"]]
    rows = [row for row in found.rows if not row["user"]]
    return rows if "account" in groups or "project" not in groups else _projects(found)


def _projects(found: Seen) -> list[Row]:
    """Accounts that belong to a project directly, as one row; use of users and of the accounts below counts once."""
    groups: dict[str, list[Row]] = {}
    for row in found.rows:
        if not row["user"] and row["project"] is not None:
            groups.setdefault(row["project"], []).append(row)
    made = [_project(rows) for _, rows in sorted(groups.items())]
    return made + [{**row, "project": OTHERS} for row in found.rows if row["account"] == OTHERS]


def _project(rows: list[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    accounts = {row["account"] for row in rows}
    top = [row for row in rows if row["parent"] not in accounts]
    added = {name: sum(row[name] for row in top) for name in ADDED}
    return {"project": rows[0]["project"], "account": "", "user": "", **dict.fromkeys(MEASURES), **added}


def _whole(params: Params, found: Seen) -> Row:
    """What the total says: all of the cluster, or of a project its topmost accounts."""
    if not params.project:
        return found.total
    accounts = {row["account"] for row in found.rows if not row["user"]}
    top = [row for row in found.rows if not row["user"] and row["parent"] not in accounts]
    return {name: sum(row[name] for row in top) for name in ADDED}


def _plus(one: Row, other: Row) -> Row:
    return {name: one.get(name, 0) + other.get(name, 0) for name in ADDED if name in one or name in other}


def _names(params: Params) -> list[str]:
    """Keys of rows: those asked for, and what tells rows apart besides."""
    asked = list(params.group_by)
    needed = ["cluster", *(["account"] if "user" in asked or "project" not in asked else [])]
    return [name for name in needed if name not in asked] + asked if "cluster" not in asked else (
        asked + [name for name in needed if name not in asked]
    )  # fmt: skip


def _keyed(params: Params, cluster: str, label: str, row: Row) -> Row:
    values: dict[str, Any] = {**row, "cluster": cluster}
    keys = {name: label if name in BUCKETS else values[name] for name in _names(params)}
    return {**keys, **{name: row[name] for name in MEASURES}}


def _heads(params: Params) -> tuple[Column, ...]:
    return tuple(Column(name, name.capitalize(), "time" if name in BUCKETS else "label") for name in _names(params))
