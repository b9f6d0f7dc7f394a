"""What more use would do to a standing: the same instant later, with it and without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from events import queries as log
from events.access import Scope
from events.reports import BadParameter, Row
from fleet.queries import site
from jobs.queries_fairshare import may_see, measures, paths, shown_lines
from jobs.shareclock import Piece
from jobs.standing import Table, clock_of, standing

__all__ = ["What", "WhatIf", "read_what", "what_if"]

NUMBERS: Final = {"nodes": 100_000, "hours": 24 * 366, "gpus": 1_000, "cpus": 100_000}
"""What can be given as a number, and the most of it."""
SHOWN: Final = ("effective_usage", "level_fs", "factor", "rank")
WORDS: Final = ("account", "user", "partition")
_SIZES: Final = """
    SELECT coalesce(max(ceil(gpus::float / nodes)), 0)::int, coalesce(max(ceil(cpus::float / nodes)), 0)::int
    FROM (SELECT gpus, cpus, nodes FROM jobs_segment WHERE cluster = %(cluster)s AND nodes > 0
          ORDER BY end_at DESC LIMIT 2000) s"""
_USUAL: Final = """
    SELECT partition FROM jobs_balance WHERE cluster = %(cluster)s AND account = %(account)s
    GROUP BY partition ORDER BY sum(spent) DESC, partition LIMIT 1"""


@dataclass(frozen=True, slots=True)
class What:
    """So many nodes for so many hours by an account, or a user of it. gpus, cpus: of one node; None where not said."""

    nodes: int
    hours: int
    account: str = ""
    user: str = ""
    gpus: int | None = None
    cpus: int | None = None
    partition: str = ""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer in words, and per account and user its standing now, and then without and with it."""

    told: str
    at: datetime
    then: datetime
    rows: list[Row]


def read_what(text: str) -> What:
    """From `nodes:10,hours:24,account:vision` (a bare word is the account). Raises BadParameter."""
    found: dict[str, Any] = {}
    for part in (part.strip() for part in text.split(",")):
        name, colon, value = part.partition(":")
        name, value = (name, value) if colon else ("account", part)
        if name not in NUMBERS and name not in WORDS:
            raise BadParameter("what_if", f"{part[:40]!r}: there are {', '.join((*NUMBERS, *WORDS))}")
        if name in found or not value:
            raise BadParameter("what_if", f"give {name} once, as {name}:VALUE")
        found[name] = _number(name, value) if name in NUMBERS else value
    if not found.get("nodes") or not found.get("hours"):
        raise BadParameter("what_if", "write nodes and hours of 1 or more, such as nodes:10,hours:24,account:vision")
    return What(**found)


def _number(name: str, value: str) -> int:
    if not value.isdecimal() or len(value) > 9 or int(value) > NUMBERS[name]:
        raise BadParameter("what_if", f"{name}:{value[:20]} is no whole number up to {NUMBERS[name]}")
    return int(value)


def what_if(scope: Scope, cluster: str, at: datetime, text: str) -> WhatIf:
    """What that use would change, from `at` on. Raises BadParameter and NoFairshare.

    What runs is taken to run on; nobody else is taken to start anything.
    """
    what, at = read_what(text), at.replace(microsecond=0)
    then = at + timedelta(hours=what.hours)
    now = standing(cluster, at)
    belongs = paths(cluster, at.astimezone(site().zone).date())
    account, user = _who(scope, now, what, belongs)
    partition = what.partition or _one(_USUAL, cluster, account) or ""
    gpus, cpus = _node(cluster, what)
    start, end = int(at.timestamp()), int(then.timestamp())
    piece = Piece(start, end, cpus * what.nodes, gpus * what.nodes, what.nodes)
    use = clock_of(cluster).whole([piece], partition, end)
    without, with_it = standing(cluster, then), standing(cluster, then, extra={(account, user, partition): use})
    rows = _rows(scope, (now, without, with_it), belongs)
    of = f" of {what.user}" if what.user else ""
    told = (
        f"{what.nodes} nodes ({gpus} GPUs and {cpus} CPUs each) for {what.hours} h by {account}{of}, "
        f"in partition {partition or '(any)'}: {use.plain // 1000} billing-seconds, "
        f"{use.decayed / 1000:.0f} of them left at the end"
    )
    return WhatIf(told, at, then, rows)


def _who(scope: Scope, now: Table, what: What, belongs: Mapping[str, Any]) -> tuple[str, str]:
    """Account and surrogate id of the user, as far as given and seen. Raises BadParameter."""
    seen = [one.member.account for one in now.lines
            if not one.member.user and one.member.account != "root"
            and may_see(scope, belongs.get(one.member.account, ()))]  # fmt: skip
    if scope.projects is None:
        seen = [one.member.account for one in now.lines if not one.member.user]
    account = what.account or (seen[0] if len(seen) == 1 else "")
    if not account:
        raise BadParameter("what_if", "say for which account, such as nodes:10,hours:24,account:NAME")
    if account not in seen:
        raise BadParameter("what_if", f"there is no account {account[:80]!r} with shares that you may see")
    if not what.user:
        return account, ""
    ids = set(log.ids_of_person(what.user)) | {what.user}
    for line in now.lines:
        if line.member.account == account and line.member.user in ids:
            return account, line.member.user
    raise BadParameter("what_if", f"the account {account} has no user {what.user[:80]!r}")


def _node(cluster: str, what: What) -> tuple[int, int]:
    """GPUs and CPUs of a node: as given, else the most that lately ran on one."""
    with connection.cursor() as cursor:
        cursor.execute(_SIZES, {"cluster": cluster})
        gpus, cpus = cursor.fetchone()
    return (what.gpus if what.gpus is not None else gpus), (what.cpus if what.cpus is not None else cpus)


def _one(query: str, cluster: str, account: str) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(query, {"cluster": cluster, "account": account})
        row = cursor.fetchone()
        return str(row[0]) if row else None


def _rows(scope: Scope, tables: tuple[Table, Table, Table], belongs: Mapping[str, Any]) -> list[Row]:
    found = []
    after = [{line.member[:3]: measures(line) for line in table.lines} for table in tables[1:]]
    names = log.people(line.member.user for line in tables[0].lines)
    for line in shown_lines(scope, tables[0].lines, belongs):
        key, now = line.member[:3], measures(line)
        row: Row = {"account": key[0], "user": names.get(key[1], ""), "partition": key[2]}
        for name in SHOWN:
            row[f"{name}_now"] = now[name]
            for when, later in zip(("then", "with_it"), after, strict=True):
                row[f"{name}_{when}"] = later.get(key, {}).get(name)
        found.append(row)
    return found
