"""Standing by day, and the course of one account's share and use: the balances of a window, read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection

from events.sqlfiles import statements
from jobs.fairshare import ROOT
from jobs.shareclock import Clock
from jobs.standing import (
    Member,
    Table,
    Used,
    by_key,
    carried,
    carrier,
    clock_of,
    members,
    memberships,
    rooted,
    table_of,
)

__all__ = ["Course", "course", "history"]


@dataclass(frozen=True, slots=True)
class Course:
    """An account at an instant: its part of the shares of its level, and of that level's decayed use (0 to 1)."""

    day: date
    at: datetime
    share: float
    usage: float


def history(cluster: str, days: Sequence[date]) -> list[Table]:
    """Standing as each of these days began (days in order); days before the configuration are left out.

    In slurm mode at the end of the first slice after midnight. Raises NoFairshare.
    """
    clock, ever = clock_of(cluster), memberships(cluster)
    return [
        table_of(cluster, clock.stretch(day - timedelta(1)).config, members(cluster, used.at, ever), used)
        for day, used in _by_day(cluster, clock, days)
    ]


def course(cluster: str, account: str, days: Sequence[date]) -> list[Course]:
    """How an account's use went against its share, as each of these days (without gaps) began. Raises NoFairshare.

    Those with `parent` shares above it are looked through, as in Fair Tree; an account that has them itself has the
    share and use of the account above it. Decay is the same for all, so that use is summed up by account first.
    """
    clock, ever = clock_of(cluster), memberships(cluster)
    found = []
    for day, used in _by_account(cluster, clock, [day for day in days if clock.begin < clock.edge(day)]):
        if point := _point(account, day, used, members(cluster, clock.edge(day), ever), clock.edge(day)):
            found.append(point)
    return found


def _point(account: str, day: date, used: Mapping[str, float], held: Sequence[Member], at: int) -> Course | None:
    kept, _ = rooted(held)
    accounts = {one.account: one for one in kept if not one.user}
    one = accounts.get(account)
    while one is not None and one.shares is None and one.account != ROOT:
        one = accounts.get(one.parent or ROOT)
    if one is None or one.account == ROOT:
        return None
    above = _sharing(one, accounts)
    level = [other for other in kept if other.account != ROOT or other.user]
    shares = sum(other.shares or 0 for other in level if _sharing(other, accounts) == above)
    below = _below(used, accounts)
    whole, of = below.get(above, 0.0), below.get(one.account, 0.0)
    share = (one.shares or 0) / shares if shares else 0.0
    return Course(day, datetime.fromtimestamp(at, UTC), share, of / whole if whole else 0.0)


def _below(used: Mapping[str, float], accounts: Mapping[str, Member]) -> dict[str, float]:
    """Use of every account with all that is below it; of those that have no place in the tree nothing counts."""
    found: dict[str, float] = defaultdict(float)
    for account, decayed in used.items():
        at = account
        while at != ROOT and at in accounts:
            found[at] += decayed
            at = accounts[at].parent or ROOT
        if account == ROOT or account in accounts:
            found[ROOT] += decayed
    return found


def _sharing(one: Member, accounts: dict[str, Member]) -> str:
    """The nearest account above that has shares of its own."""
    above = one.account if one.user else one.parent or ROOT
    while above != ROOT and accounts[above].shares is None:
        above = accounts[above].parent or ROOT
    return above


def _by_day(cluster: str, clock: Clock, days: Sequence[date]) -> Iterator[tuple[date, Used]]:
    """Everybody's use as each day begins."""
    wanted = [day for day in days if clock.begin < clock.edge(day)]
    if not wanted:
        return
    last, window, _, running = statements("jobs", "fairshare")[6:10]
    before, until = wanted[0] - timedelta(1), wanted[-1] - timedelta(1)
    later: dict[date, list[tuple[Any, ...]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(last, {"cluster": cluster, "day": before})
        state = {row[:3]: row[3:] for row in cursor.fetchall()}
        cursor.execute(window, {"cluster": cluster, "day": before, "until": until})
        for row in cursor.fetchall():
            later[row[3]].append(row)
        cursor.execute(running, {"cluster": cluster, "end": clock.edge(wanted[-1])})
        now = cursor.fetchall()
    for day in wanted:
        for of in [of for of in sorted(later) if of < day]:
            state.update({row[:3]: row[3:] for row in later.pop(of)})
        used = Used(clock.edge(day))
        left = carrier(clock, used.at)
        for key, (of, balance, total) in state.items():
            used.add(key, carried(left(of), balance, total))
        for key, pieces in by_key([row for row in now if row[3] < used.at]).items():
            used.add(key, clock.whole(pieces, key[2], used.at))
        yield day, used


def _by_account(cluster: str, clock: Clock, days: Sequence[date]) -> Iterator[tuple[date, dict[str, float]]]:
    """Decayed use by account as each of some days in a row begins."""
    if not days:
        return
    last, running, sums = (statements("jobs", "fairshare")[number] for number in (6, 9, 10))
    used: dict[str, float] = defaultdict(float)
    spent: dict[date, list[tuple[str, float]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(last, {"cluster": cluster, "day": days[0] - timedelta(1)})
        left = carrier(clock, clock.edge(days[0]))
        for account, _, _, of, balance, total in cursor.fetchall():
            used[account] += carried(left(of), balance, total).decayed
        cursor.execute(sums, {"cluster": cluster, "day": days[0], "until": days[-1]})
        for account, day, decayed in cursor.fetchall():
            spent[day].append((account, decayed))
        cursor.execute(running, {"cluster": cluster, "end": clock.edge(days[-1])})
        now = cursor.fetchall()
    for day in days:
        if day != days[0]:
            before = day - timedelta(1)
            kept = clock.carry(before, day)
            used = defaultdict(float, {account: decayed * kept for account, decayed in used.items()})
            for account, decayed in spent[before]:
                used[account] += decayed
        yield day, _with_running(used, clock, now, clock.edge(day))


def _with_running(used: Mapping[str, float], clock: Clock, now: Sequence[tuple[Any, ...]], at: int) -> dict[str, float]:
    found = dict(used)
    for (account, _, partition), pieces in by_key([row for row in now if row[3] < at]).items():
        found[account] = found.get(account, 0.0) + clock.whole(pieces, partition, at).decayed
    return found
