"""Fair share as Slurm computes it (Fair Tree and classic), and what decays with a half-life. Pure rules.

Sources: Slurm's `fair_tree.c`, `priority_multifactor.c` and `assoc_mgr.c` as described in its `fair_tree` and
`classic_fair_share` documents; golden rows of its own tests 24.1 and 24.4. Shares are whole numbers or "parent"
(None here); usage is a whole number, in billing-seconds or in parts of them, so that its sums are exact.

Slurm keeps shares as double and usage as 80-bit long double; whether two siblings tie depends on it. Quotients
are therefore rounded here to a mantissa of 64 bits, as those processors round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

__all__ = ["ROOT", "Association", "BadTree", "Standing", "Ties", "classic", "fair_tree", "levels"]

Ties = Literal["coded", "documented"]
"""How equal accounts rank: as Slurm's code does it (one after the other, the first child tied with the account's
previous sibling), or as its document says (their children are merged first)."""
ROOT: Final = "root"
_MANTISSA: Final = 64


class Quotient(NamedTuple):
    """mantissa x 2^exponent, the mantissa of 64 bits, so that they sort as the numbers do; or one of the two below."""

    exponent: int
    mantissa: int


_ZERO: Final = Quotient(-(10**9), 0)
_NO_LIMIT: Final = Quotient(10**9, 0)
"""More than any other."""


class BadTree(ValueError):
    """The associations make no tree: what is wrong and with which account."""


class Association(NamedTuple):
    """An account (user None) or a user in an account. shares: None is Slurm's `parent`. usage: of its own.

    parent: the account above an account; of a user it is not read, he belongs to `account`. The usage of an
    account is that of its users plus what it says of its own (deleted users leave theirs there).
    """

    account: str
    user: str | None = None
    parent: str | None = None
    shares: int | None = 1
    usage: int = 0


class Standing(NamedTuple):
    """One row of `sshare -l`. fairshare, rank: of users only, rank 1 is served first.

    norm_usage: None of root. level_fs: None where Slurm shows none (`parent` shares, root, or classic). usage: raw,
    whole billing-seconds.
    """

    account: str
    user: str | None
    parent: str | None
    raw_shares: int | None
    norm_shares: float
    usage: int
    norm_usage: float | None
    effective_usage: float
    fairshare: float | None
    level_fs: float | None
    rank: int | None = None


@dataclass(slots=True, eq=False)
class _Node:
    """An association in its tree. above: nearest ancestor whose shares are not `parent`; below: who competes there.

    level_shares: the shares of all of them together.
    """

    given: Association
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)
    above: _Node | None = None
    below: list[_Node] = field(default_factory=list)
    level_shares: int = 0
    usage: int = 0
    shares: float = 0.0
    effective: float = 0.0
    level: Quotient = _ZERO
    fairshare: float | None = None

    @property
    def name(self) -> tuple[str, str]:
        """Order among equals."""
        return (self.given.account, self.given.user or "")


# --- the tree --------------------------------------------------------------------------------------------------


def _tree(associations: Sequence[Association]) -> tuple[_Node, list[_Node]]:
    """Root and all other nodes in the order given, with usage summed up and shares by level. Raises BadTree."""
    accounts = {one.account: _Node(one) for one in associations if one.user is None}
    root = accounts.setdefault(ROOT, _Node(Association(ROOT, shares=0)))
    nodes: list[_Node] = []
    for one in associations:
        node = accounts[one.account] if one.user is None else _Node(one)
        if node is not root:
            _hang(node, one, accounts)
            nodes.append(node)
    _check_reached(root, accounts)
    _sum_usage(root)
    for node in nodes:
        node.above = above = _sharing_ancestor(node)
        above.below.append(node)
        above.level_shares += node.given.shares or 0
    for node in nodes:
        node.shares = _norm_shares(node)
    return root, nodes


def _hang(node: _Node, one: Association, accounts: dict[str, _Node]) -> None:
    name = one.account if one.user is not None else one.parent or ROOT
    if name not in accounts:
        raise BadTree(f"{one.user or one.account} hangs below the account {name}, which is not among them")
    if one.shares is not None and one.shares < 0:
        raise BadTree(f"{one.user or one.account} has {one.shares} shares; give 0 or more, or `parent`")
    node.parent = accounts[name]
    node.parent.children.append(node)


def _check_reached(root: _Node, accounts: dict[str, _Node]) -> None:
    reached, waiting = {root.given.account}, [root]
    while waiting:
        for child in waiting.pop().children:
            if child.given.user is None:
                reached.add(child.given.account)
                waiting.append(child)
    if lost := sorted(set(accounts) - reached):
        raise BadTree(f"the accounts {', '.join(lost)} hang below each other in a ring")


def _sum_usage(node: _Node) -> int:
    node.usage = node.given.usage + sum(map(_sum_usage, node.children))
    return node.usage


def _sharing_ancestor(node: _Node) -> _Node:
    above = node.parent
    while above is not None and above.given.shares is None and above.parent is not None:
        above = above.parent
    assert above is not None, "every node but the root has a parent"  # noqa: S101 - _hang saw to it
    return above


def _norm_shares(node: _Node) -> float:
    """Its part of the shares of all that compete with it; of `parent` shares what the account above it has."""
    above = node.above
    if above is None:
        return 0.0
    if node.given.shares is None:
        return _norm_shares(above)
    return node.given.shares / above.level_shares if above.level_shares else 0.0


def quotient(above: int, below: int) -> Quotient:
    """The nearest number of 64 bits to above / below, both above 0; ties to even, as a long double division does it."""
    exponent = above.bit_length() - below.bit_length() - _MANTISSA
    if exponent < 0:
        above <<= -exponent
    else:
        below <<= exponent
    if above >= below << _MANTISSA:
        exponent, below = exponent + 1, below << 1
    whole, rest = divmod(above, below)
    whole += 2 * rest > below or (2 * rest == below and whole & 1)
    return Quotient(exponent + 1, whole >> 1) if whole >> _MANTISSA else Quotient(exponent, whole)


def _as_float(value: Quotient) -> float:
    """The nearest float; what is larger than all of them has no limit, as the level of who used nothing has none."""
    try:
        return math.inf if value is _NO_LIMIT else math.ldexp(value.mantissa, value.exponent)
    except OverflowError:
        return math.inf


# --- Fair Tree -------------------------------------------------------------------------------------------------


def fair_tree(associations: Sequence[Association], ties: Ties = "coded", *, parts: int = 1) -> list[Standing]:
    """Standing of root and of every association, in the order given, by the Fair Tree algorithm.

    parts: of how many a billing-second of usage is made up. Raises BadTree. Cost: one sort per level.
    """
    root, nodes = _tree(associations)
    for node in nodes:
        _level(node)
    users = sum(1 for node in nodes if node.given.user is not None)
    _Walk(users, ties).through(_competitors([root]), tied=False)
    return _standings(root, nodes, parts, levels=True)


def levels(associations: Sequence[Association], accounts: Collection[str], *, parts: int = 1) -> list[Standing]:
    """What `fair_tree` says of some accounts, in the order given. Their usage, and that of all that compete with them,
    must be among the associations; norm_usage is None, for root's need not be. Raises BadTree.
    """
    _, nodes = _tree(associations)
    wanted = [node for node in nodes if node.given.user is None and node.given.account in accounts]
    for node in wanted:
        _level(node)
    return [_standing(node, parts, None, None, levels=True) for node in wanted]


def _level(node: _Node) -> None:
    """Level fair share: norm shares over effective usage, as doubles and long doubles."""
    whole = node.above.usage if node.above else 0
    part = quotient(node.usage, whole) if node.usage and whole else _ZERO
    node.effective = _as_float(part)
    if node.given.shares is None:
        node.level = _NO_LIMIT
    elif not node.shares:
        node.level = _ZERO
    else:
        node.level = _over(node.shares, part) if part.mantissa else _NO_LIMIT


def _over(shares: float, part: Quotient) -> Quotient:
    above, below = shares.as_integer_ratio()
    if part.exponent < 0:
        return quotient(above << -part.exponent, below * part.mantissa)
    return quotient(above, below * part.mantissa << part.exponent)


def _competitors(accounts: Iterable[_Node]) -> list[_Node]:
    """Who competes in these accounts, the least served first; users before accounts, then by name."""
    found = [node for account in accounts for node in account.below if not _hands_on(node)]
    found.sort(key=lambda node: (node.given.user is None, node.name))
    return sorted(found, key=lambda node: node.level, reverse=True)  # which keeps the order of equals


def _hands_on(node: _Node) -> bool:
    """An account with `parent` shares: its children compete one level up, itself does not."""
    return node.given.user is None and node.given.shares is None


@dataclass(slots=True)
class _Walk:
    """Ranks users from the best served last: `left` users are still to be ranked, `rank` is that of the last one."""

    users: int
    ties: Ties
    left: int = 0
    rank: int = 0

    def __post_init__(self) -> None:
        self.left = self.rank = self.users

    def through(self, siblings: Sequence[_Node], *, tied: bool) -> None:
        """Rank what is in `siblings`, sorted; tied: the first equals what came before it one level up."""
        before: Quotient | None = None
        at = 0
        while at < len(siblings):
            node = siblings[at]
            equal = tied if at == 0 and tied else node.level == before
            same = 1
            if node.given.user is not None:
                self._user(node, equal=equal)
            else:
                same = self._equal_accounts(siblings, at)
                self.through(_competitors(siblings[at : at + same]), tied=equal)
            before = node.level
            at += same

    def _user(self, node: _Node, *, equal: bool) -> None:
        if not equal:
            self.rank = self.left
        node.fairshare = self.rank / self.users
        self.left -= 1

    def _equal_accounts(self, siblings: Sequence[_Node], at: int) -> int:
        """How many accounts from `at` on are merged: those with the same level, or just the one."""
        if self.ties == "coded":
            return 1
        end = at
        while end < len(siblings) and siblings[end].level == siblings[at].level:
            end += 1
        return end - at


# --- classic ---------------------------------------------------------------------------------------------------


def classic(associations: Sequence[Association], dampening: int = 1, *, parts: int = 1) -> list[Standing]:
    """Standing by the older algorithm (PriorityFlags=NO_FAIR_TREE): 2^(-(U / S) / dampening).

    S: product of the parts of shares from the root down. U: usage of its own and of the account above, mixed by
    shares. dampening: FairShareDampeningFactor, 1 or more. parts: as above. Raises BadTree, ValueError.
    """
    if dampening < 1:
        raise ValueError(f"the dampening factor is {dampening}; give 1 or more")
    root, nodes = _tree(associations)
    known: dict[int, tuple[float, float]] = {id(root): (1.0, 1.0)}
    for node in nodes:
        _classic(node, root, known)
    for node in nodes:
        shares, usage = known[id(node)]
        node.shares, node.effective = shares, usage
        if node.given.user is not None:
            node.fairshare = 2 ** (-(usage / shares) / dampening) if shares > 0 else 0.0
    return _standings(root, nodes, parts, levels=False)


def _classic(node: _Node, root: _Node, known: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """(norm shares, effective usage) of a node, worked out from the root down."""
    if (found := known.get(id(node))) is not None:
        return found
    above = node.above or root
    shares_above, usage_above = _classic(above, root, known)
    own = node.usage / root.usage if root.usage else 0.0
    if node.given.shares is None:
        found = (shares_above, usage_above)
    else:
        part = node.shares
        usage = own if above is root else own + (usage_above - own) * part
        found = (shares_above * part, usage)
    known[id(node)] = found
    return found


def _standings(root: _Node, nodes: Sequence[_Node], parts: int, *, levels: bool) -> list[Standing]:
    counts = Counter(node.fairshare for node in nodes if node.fairshare is not None)
    ranks, next_rank = {}, 1
    for value in sorted(counts, reverse=True):
        ranks[value] = next_rank
        next_rank += counts[value]
    found = [Standing(ROOT, None, None, root.given.shares, root.shares, root.usage // parts, None, 1.0, None, None)]
    for node in nodes:
        norm_usage = node.usage / root.usage if root.usage else 0.0
        rank = None if node.fairshare is None else ranks[node.fairshare]
        found.append(_standing(node, parts, norm_usage, rank, levels=levels))
    return found


def _standing(node: _Node, parts: int, norm_usage: float | None, rank: int | None, *, levels: bool) -> Standing:
    """Of all but root. Slurm shows no level for `parent` shares."""
    given = node.given
    level = _as_float(node.level) if levels and given.shares is not None else None
    parent = node.parent.given.account if node.parent else None
    return Standing(given.account, given.user, parent, given.shares, node.shares, node.usage // parts, norm_usage,
                    node.effective, node.fairshare, level, rank)  # fmt: skip
