"""Standing by day, and the course of one account's share and use: the balances of a window, read once."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    below,
    by_key,
    carried,
    carrier,
    clock_of,
    members,
    memberships,
    rooted,
    sharing_above,
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
    clock = clock_of(cluster)
    wanted = [day for day in days if clock.begin < clock.edge(day)]
    places = _places(account, [clock.edge(day) for day in wanted], memberships(cluster))
    level = frozenset().union(*(place.level for place in places if place))
    return [
        Course(day, datetime.fromtimestamp(clock.edge(day), UTC), place.share, place.part(used))
        for (day, used), place in zip(_by_account(cluster, clock, wanted, level), places, strict=True) if place
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where an account stands in the tree. own: it and the accounts below it; level: all that its level is made of."""

    share: float
    own: frozenset[str]
    level: frozenset[str]

    def part(self, used: Mapping[str, float]) -> float:
        """Its part of the use of its level."""
        whole = math.fsum(used.get(account, 0.0) for account in self.level)
        return math.fsum(used.get(account, 0.0) for account in self.own) / whole if whole else 0.0


def _places(account: str, instants: Sequence[int], ever: Sequence[tuple[int, int, Member]]) -> list[Place | None]:
    """Its place at each of some instants, worked out once between two changes."""
    changes = sorted({at for start, end, _ in ever for at in (start, end)})
    known: dict[int, Place | None] = {}
    found = []
    for at in instants:
        since = bisect_right(changes, at)
        if since not in known:
            known[since] = _place(account, [member for start, end, member in ever if start <= at < end])
        found.append(known[since])
    return found


def _place(account: str, held: Sequence[Member]) -> Place | None:
    kept, _ = rooted(held)
    accounts = {one.account: one for one in kept if not one.user}
    one = accounts.get(account)
    while one is not None and one.shares is None and one.account != ROOT:
        one = accounts.get(one.parent or ROOT)
    if one is None or one.account == ROOT:
        return None
    above = sharing_above(one, accounts)
    level = [other for other in kept if other.account != ROOT or other.user]
    shares = sum(other.shares or 0 for other in level if sharing_above(other, accounts) == above)
    share = (one.shares or 0) / shares if shares else 0.0
    return Place(share, below(accounts.values(), [one.account]), below(accounts.values(), [above]))


def _by_day(cluster: str, clock: Clock, days: Sequence[date]) -> Iterator[tuple[date, Used]]:
    """Everybody's use as each day begins."""
    wanted = [day for day in days if clock.begin < clock.edge(day)]
    if not wanted:
        return
    last, window, _, running = statements("jobs", "fairshare")[6:10]
    before, until = wanted[0] - timedelta(1), wanted[-1] - timedelta(1)
    later: dict[date, list[tuple[Any, ...]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(last, {"cluster": cluster, "accounts": None, "day": before})
        state = {row[:3]: row[3:] for row in cursor.fetchall()}
        cursor.execute(window, {"cluster": cluster, "day": before, "until": until})
        for row in cursor.fetchall():
            later[row[3]].append(row)
        cursor.execute(running, {"cluster": cluster, "accounts": None, "end": clock.edge(wanted[-1])})
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


def _by_account(
    cluster: str, clock: Clock, days: Sequence[date], accounts: Collection[str]
) -> Iterator[tuple[date, dict[str, float]]]:
    """Decayed use of some accounts as each of some days in a row begins."""
    if not days:
        return
    of_these: dict[str, Any] = {"cluster": cluster, "accounts": list(accounts)}
    last, running, sums = (statements("jobs", "fairshare")[number] for number in (6, 9, 10))
    used: dict[str, float] = defaultdict(float)
    spent: dict[date, list[tuple[str, float]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(last, {**of_these, "day": days[0] - timedelta(1)})
        left = carrier(clock, clock.edge(days[0]))
        for account, _, _, of, balance, total in cursor.fetchall():
            used[account] += carried(left(of), balance, total).decayed
        cursor.execute(sums, {**of_these, "day": days[0], "until": days[-1]})
        for account, day, decayed in cursor.fetchall():
            spent[day].append((account, decayed))
        cursor.execute(running, {**of_these, "end": clock.edge(days[-1])})
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
