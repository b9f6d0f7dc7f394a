"""Where accounts and users of a cluster stand at an instant: shares against use, by the rules of its configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any, Final, NamedTuple

from django.db import connection

from events.sqlfiles import statements
from events.types.shares import FairshareConfigured
from fleet.queries import site
from jobs.balances import clocks
from jobs.fairshare import ROOT, Association, Standing, classic, fair_tree
from jobs.shareclock import Clock, Piece, Use

__all__ = ["Line", "Member", "NoFairshare", "Table", "Used", "by_key", "carried", "carrier", "clock_of", "members",
           "memberships", "rooted", "shared", "standing", "table_of", "used_at"]  # fmt: skip

Key = tuple[str, str, str]
"""Account, user and partition."""
NOTHING: Final = Use(0.0, 0)


class NoFairshare(LookupError):
    """A cluster whose fair share nobody configured, or that has no shares: what is missing and what to do."""


class Member(NamedTuple):
    """An account, a user in it, or that user in one partition, and its shares (None: its parent's)."""

    account: str
    user: str
    partition: str
    parent: str
    shares: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """One row: what `sshare -l` shows, and both balances in thousandths of billing-seconds, with what is below."""

    member: Member
    standing: Standing
    decayed: float
    undecayed: int


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of a cluster at an instant, root first. loose: use of accounts that have no shares, by account."""

    cluster: str
    at: datetime
    config: FairshareConfigured
    lines: Sequence[Line]
    loose: Mapping[str, Use]
    broken: Sequence[str]
    """Accounts and users that hang below no account, which have no place in the tree."""


@dataclass(slots=True)
class Used:
    """Use by account, user and partition at an instant."""

    at: int
    by: dict[Key, Use] = field(default_factory=dict)

    def add(self, key: Key, use: Use) -> None:
        """Count more use."""
        known = self.by.get(key, NOTHING)
        self.by[key] = Use(known.decayed + use.decayed, known.plain + use.plain)


# --- reading ---------------------------------------------------------------------------------------------------


def clock_of(cluster: str) -> Clock:
    """The cluster's clock. Raises NoFairshare."""
    with connection.cursor() as cursor:
        found = clocks(cursor, site().zone, [cluster])
    if cluster not in found:
        raise NoFairshare(
            f"nobody said how the fair share of {cluster} is computed; `manage.py fairshare set {cluster}` does"
        )
    return found[cluster]


def used_at(cluster: str, clock: Clock, at: int) -> Used:
    """What everybody used, decayed to `at`: balances up to the last edge, stretches after it, and what runs."""
    used, day = Used(at), clock.day_of(at)
    whole = clock.edge(day + timedelta(1)) == at
    upto = day if whole else day - timedelta(1)
    last, _, ended, running = statements("jobs", "fairshare")[6:10]
    with connection.cursor() as cursor:
        cursor.execute(last, {"cluster": cluster, "day": upto})
        left = carrier(clock, at)
        for account, user, partition, of, balance, total in cursor.fetchall():
            used.add((account, user, partition), carried(left(of), balance, total))
        arguments: dict[str, Any] = {"cluster": cluster, "start": clock.edge(day), "end": at}
        if not whole:
            cursor.execute(ended, arguments)
            for key, pieces in by_key(cursor.fetchall()).items():
                used.add(key, clock.use(pieces, key[2], day, at))
        cursor.execute(running, arguments)
        for key, pieces in by_key(cursor.fetchall()).items():
            used.add(key, clock.whole(pieces, key[2], at))
    return used


def carrier(clock: Clock, at: int) -> Callable[[date], float | None]:
    """What is left at `at` of the balance of a day, by that day; None after a reset."""
    day = clock.day_of(at)
    after = day + timedelta(1)
    whole = clock.edge(after) == at
    known: dict[date, float | None] = {}

    def left(of: date) -> float | None:
        if of not in known:
            since = of + timedelta(1)
            kept = clock.carry(since, after) if whole else clock.carry(since, day) * clock.left_until(day, at)
            known[of] = None if clock.forgotten(since, after) else kept
        return known[of]

    return left


def carried(left: float | None, balance: float, total: int) -> Use:
    """A balance of which so much is left."""
    return NOTHING if left is None else Use(balance * left, total)


def by_key(rows: Sequence[tuple[Any, ...]]) -> dict[Key, list[Piece]]:
    """Stretches as the statements give them, by account, user and partition."""
    held: dict[Key, list[Piece]] = defaultdict(list)
    for account, user, partition, *piece in rows:
        held[account, user, partition].append(Piece(*piece))
    return held


def memberships(cluster: str) -> list[tuple[int, int, Member]]:
    """(from, to, member) of everything that ever had shares: accounts first, then users, by name."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT from_s, to_s, account, user_id, partition, parent, shares FROM jobs_association
               WHERE cluster = %s ORDER BY user_id <> '', account, user_id, partition""",
            [cluster],
        )
        return [(row[0], row[1], Member(*row[2:])) for row in cursor.fetchall()]


def members(cluster: str, at: int, known: Sequence[tuple[int, int, Member]] | None = None) -> list[Member]:
    """Accounts and users with shares at an instant. known: `memberships`, where they are read already."""
    ever = memberships(cluster) if known is None else known
    return [member for start, end, member in ever if start <= at < end]


def shared(cluster: str, at: int) -> list[Member]:
    """The same of a cluster that has any. Raises NoFairshare."""
    if found := members(cluster, at):
        return found
    raise NoFairshare(
        f"no shares of {cluster} are known then; `manage.py import_accounts FILE` reads them from sacctmgr"
    )


# --- standing --------------------------------------------------------------------------------------------------


def standing(cluster: str, at: datetime, *, extra: Mapping[Key, Use] | None = None) -> Table:
    """Everybody's standing at an instant. extra: use on top, for a what-if. Raises NoFairshare."""
    clock, seconds = clock_of(cluster), int(at.timestamp())
    if seconds <= clock.begin:
        raise NoFairshare(
            f"the fair share of {cluster} is kept from {clock.stretches[0].from_day} on; ask a later time"
        )
    used = used_at(cluster, clock, seconds)
    for key, use in (extra or {}).items():
        used.add(key, use)
    return table_of(cluster, clock.stretch(clock.day_of(seconds)).config, shared(cluster, seconds), used)


def table_of(cluster: str, config: FairshareConfigured, found: Sequence[Member], used: Used) -> Table:
    """Everybody's standing by their shares and use."""
    kept, broken = rooted(found)
    own, loose = _shared_out(kept, used)
    units = {one: Fraction(use.decayed) / 1000 for one, use in own.items()}
    tree = [
        Association(one.account, _called(one) or None, one.parent or None, one.shares, units.get(one, 0))
        for one in kept
    ]
    rows = fair_tree(tree, config.ties) if config.algorithm == "fair_tree" else classic(tree, config.dampening)
    below = _sums(kept, own)
    lines = [Line(one, row, *below[one]) for one, row in zip(_with_root(kept), rows, strict=True)]
    return Table(cluster, datetime.fromtimestamp(used.at, UTC), config, lines, loose, broken)


def _called(one: Member) -> str:
    """A user's name in the tree; of one partition it is another user there."""
    return f"{one.user}\t{one.partition}" if one.partition else one.user


_ROOT: Final = Member(ROOT, "", "", "", None)


def _with_root(kept: Sequence[Member]) -> list[Member]:
    """The order in which standings come: root first, whether it is among the associations or not."""
    root = next((one for one in kept if one.account == ROOT and not one.user), _ROOT)
    return [root, *(one for one in kept if one is not root)]


def rooted(found: Sequence[Member]) -> tuple[list[Member], list[str]]:
    """What hangs below root, and the names of what does not."""
    parents = {one.account: one.parent or ROOT for one in found if not one.user}
    reached = {ROOT}
    for one in found:
        way: list[str] = []
        account = one.account
        while account not in reached and account in parents and account not in way:
            way.append(account)
            account = parents[account]
        if account in reached:
            reached.update(way)
    kept = [one for one in found if one.account in reached]
    return kept, sorted({one.account for one in found if one.account not in reached})


def _shared_out(kept: Sequence[Member], used: Used) -> tuple[dict[Member, Use], dict[str, Use]]:
    """Use by association: of the user in the partition, else of the user, else of the account (as Slurm leaves the
    use of deleted users there); and what belongs to no account of the tree."""
    known = {(one.account, one.user, one.partition): one for one in kept}
    own: dict[Member, Use] = {}
    loose: dict[str, Use] = {}
    for (account, user, partition), use in sorted(used.by.items()):
        member = (
            known.get((account, user, partition)) or known.get((account, user, "")) or known.get((account, "", ""))
            or (_ROOT if account == ROOT else None)
        )  # fmt: skip
        if member is None:
            loose[account] = _plus(loose.get(account, NOTHING), use)
        else:
            own[member] = _plus(own.get(member, NOTHING), use)
    return own, loose


def _plus(one: Use, other: Use) -> Use:
    return Use(one.decayed + other.decayed, one.plain + other.plain)


def _sums(kept: Sequence[Member], own: Mapping[Member, Use]) -> dict[Member, tuple[float, int]]:
    """(decayed, undecayed) of every member with all that is below it."""
    accounts = {one.account: one for one in kept if not one.user} | {ROOT: _with_root(kept)[0]}
    found: dict[Member, Use] = dict.fromkeys((*kept, accounts[ROOT]), NOTHING)
    for member, use in own.items():
        one: Member | None = member
        while one is not None:
            found[one] = _plus(found[one], use)
            one = _above(one, accounts)
    return {one: (use.decayed, use.plain) for one, use in found.items()}


def _above(one: Member, accounts: Mapping[str, Member]) -> Member | None:
    if one.user:
        return accounts[one.account]
    return None if one.account == ROOT else accounts[one.parent or ROOT]
