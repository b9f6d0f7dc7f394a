"""Where accounts and users of a cluster stand at an instant: shares against use, by the rules of its configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db import connection

from events.sqlfiles import statements
from events.types.shares import FairshareConfigured
from fleet.queries import site
from jobs.balances import clocks
from jobs.fairshare import ROOT, Association, Standing, classic, fair_tree, levels
from jobs.shareclock import Clock, Piece, Use

__all__ = ["Branch", "Line", "Member", "NoFairshare", "Table", "Used", "below", "branch", "by_key", "carried",
           "carrier", "clock_of", "members", "memberships", "rooted", "shared", "sharing_above", "standing", "table_of",
           "used_at"]  # fmt: skip

Key = tuple[str, str, str]
"""Account, user and partition."""
NOTHING: Final = Use(0.0, 0)
Scaled = tuple[int, int]
"""Decayed use, in so many parts of a thousandth that it is a whole number, and undecayed use in thousandths."""
UNUSED: Final[Scaled] = (0, 0)


class NoFairshare(LookupError):
    """A cluster whose fair share nobody configured, or that has no shares: what is missing and what to do."""


class Member(NamedTuple):
    """An account, a user in it, or that user in one partition, and its shares (None: its parent's)."""

    account: str
    user: str
    partition: str
    parent: str
    shares: int | None


class Line(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Branch:
    """Some accounts of a cluster at an instant: their lines from the root down, without their users."""

    config: FairshareConfigured
    lines: Sequence[Line]


@dataclass(slots=True)
class Used:
    """Use by account, user and partition at an instant."""

    at: int
    by: dict[Key, Use] = field(default_factory=dict)

    def add(self, key: Key, use: Use) -> None:
        """Count more use."""
        known = self.by.get(key)
        self.by[key] = use if known is None else Use(known.decayed + use.decayed, known.plain + use.plain)


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


def used_at(cluster: str, clock: Clock, at: int, accounts: Collection[str] | None = None) -> Used:
    """What everybody used, decayed to `at`: balances up to the last edge, stretches after it, and what runs.

    accounts: of these alone.
    """
    used, day = Used(at), clock.day_of(at)
    whole = clock.edge(day + timedelta(1)) == at
    upto = day if whole else day - timedelta(1)
    last, _, ended, running = statements("jobs", "fairshare")[6:10]
    arguments: dict[str, Any] = {"cluster": cluster, "accounts": None if accounts is None else list(accounts),
                                 "day": upto, "start": clock.edge(day), "end": at}  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(last, arguments)
        left = carrier(clock, at)
        for account, user, partition, of, balance, total in cursor.fetchall():
            used.by[account, user, partition] = carried(left(of), balance, total)
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
    clock, seconds = _clock_at(cluster, at)
    used = used_at(cluster, clock, seconds)
    for key, use in (extra or {}).items():
        used.add(key, use)
    return table_of(cluster, clock.stretch(clock.day_of(seconds)).config, shared(cluster, seconds), used)


def branch(cluster: str, at: datetime, accounts: Collection[str]) -> Branch:
    """The standing of some accounts, without their users and ranks: what `standing` says of them, and less work.

    In Fair Tree an account is measured by what competes with it alone. Raises NoFairshare.
    """
    clock, seconds = _clock_at(cluster, at)
    config, (kept, _) = clock.stretch(clock.day_of(seconds)).config, rooted(shared(cluster, seconds))
    tree = {one.account: one for one in kept if not one.user}
    if config.algorithm == "classic" or ROOT in accounts:
        whole = standing(cluster, at).lines
        lines = [one for one in whole if not one.member.user and one.member.account in accounts]
    else:
        wanted = [tree[name] for name in accounts if name in tree]
        used = used_at(cluster, clock, seconds, below(tree.values(), {sharing_above(one, tree) for one in wanted}))
        lines = _levels(kept, used, tree, {one.account for one in wanted})
    return Branch(config, sorted(lines, key=lambda line: _way(line.member.account, tree)))


def _levels(kept: Sequence[Member], used: Used, tree: Mapping[str, Member], wanted: Collection[str]) -> list[Line]:
    own, _, scale = _shared_out(kept, used)
    sums, rows = _sums(kept, own), levels(_associations(kept, own), wanted, parts=1000 * scale)
    return [Line(tree[row.account], row, *_unscaled(sums[tree[row.account]], scale)) for row in rows]


def _way(account: str, tree: Mapping[str, Member]) -> list[str]:
    """Accounts from below root down to this one: in this order they stand as in the tree."""
    way: list[str] = []
    while account != ROOT:
        way.insert(0, account)
        account = tree[account].parent or ROOT
    return way


def _clock_at(cluster: str, at: datetime) -> tuple[Clock, int]:
    """The clock, and the epoch seconds of an instant at which it goes. Raises NoFairshare."""
    clock, seconds = clock_of(cluster), int(at.timestamp())
    if seconds <= clock.begin:
        raise NoFairshare(
            f"the fair share of {cluster} is kept from {clock.stretches[0].from_day} on; ask a later time"
        )
    return clock, seconds


def sharing_above(one: Member, accounts: Mapping[str, Member]) -> str:
    """The nearest account above that has shares of its own: those with `parent` shares are looked through."""
    above = one.account if one.user else one.parent or ROOT
    while above != ROOT and accounts[above].shares is None:
        above = accounts[above].parent or ROOT
    return above


def below(accounts: Iterable[Member], tops: Collection[str]) -> frozenset[str]:
    """These accounts and all that hang below them, however deep."""
    children: dict[str, list[str]] = defaultdict(list)
    for one in accounts:
        if one.account != ROOT:
            children[one.parent or ROOT].append(one.account)
    found, waiting = set(tops), list(tops)
    while waiting:
        new = [name for name in children[waiting.pop()] if name not in found]
        found.update(new)
        waiting += new
    return frozenset(found)


def table_of(cluster: str, config: FairshareConfigured, found: Sequence[Member], used: Used) -> Table:
    """Everybody's standing by their shares and use."""
    kept, broken = rooted(found)
    own, loose, scale = _shared_out(kept, used)
    tree, parts = _associations(kept, own), 1000 * scale
    rows = (
        fair_tree(tree, config.ties, parts=parts) if config.algorithm == "fair_tree"
        else classic(tree, config.dampening, parts=parts)
    )  # fmt: skip
    sums = _sums(kept, own)
    lines = [Line(one, row, *_unscaled(sums[one], scale)) for one, row in zip(_with_root(kept), rows, strict=True)]
    return Table(cluster, datetime.fromtimestamp(used.at, UTC), config, lines, loose, broken)


def _associations(kept: Sequence[Member], own: Mapping[Member, Scaled]) -> list[Association]:
    return [
        Association(one.account, _called(one) or None, one.parent or None, one.shares, own.get(one, UNUSED)[0])
        for one in kept
    ]


def _unscaled(use: Scaled, scale: int) -> Use:
    return Use(use[0] / scale, use[1])


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


def _shared_out(kept: Sequence[Member], used: Used) -> tuple[dict[Member, Scaled], dict[str, Use], int]:
    """Use by association: of the user in the partition, else of the user, else of the account (as Slurm leaves the
    use of deleted users there); what belongs to no account of the tree; and the scale of the former.
    """
    known = {(one.account, one.user, one.partition): one for one in kept}
    known.setdefault((ROOT, "", ""), _ROOT)
    ratios = {key: use.decayed.as_integer_ratio() for key, use in used.by.items()}
    scale = max((parts for _, parts in ratios.values()), default=1)
    own: dict[Member, Scaled] = {}
    loose: dict[str, Scaled] = {}
    for key, (count, parts) in ratios.items():
        account, user, _ = key
        use = count * (scale // parts), used.by[key].plain
        if member := known.get(key) or known.get((account, user, "")) or known.get((account, "", "")):
            own[member] = _plus(own.get(member, UNUSED), use)
        else:
            loose[account] = _plus(loose.get(account, UNUSED), use)
    return own, {account: _unscaled(use, scale) for account, use in loose.items()}, scale


def _plus(one: Scaled, other: Scaled) -> Scaled:
    return one[0] + other[0], one[1] + other[1]


def _sums(kept: Sequence[Member], own: Mapping[Member, Scaled]) -> dict[Member, Scaled]:
    """Use of every member with all that is below it."""
    accounts = {one.account: one for one in kept if not one.user} | {ROOT: _with_root(kept)[0]}
    found: dict[Member, Scaled] = dict.fromkeys((*kept, accounts[ROOT]), UNUSED)
    held: dict[str, Scaled] = {}
    for member, use in own.items():
        held[member.account] = _plus(held.get(member.account, UNUSED), use)
        if member.user:
            found[member] = use
    for account, use in held.items():
        one: Member | None = accounts[account]
        while one is not None:
            found[one] = _plus(found[one], use)
            one = None if one.account == ROOT else accounts[one.parent or ROOT]
    return found
