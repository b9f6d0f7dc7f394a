"""What a waiting job waits for, worked out from what runs and waits beside it (pure rules)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

from events.adapters.hostlist import expand
from events.adapters.sacct_values import Bad

__all__ = ["Dependency", "Free", "Held", "Holder", "Limit", "Running", "Unit", "amount", "dependencies", "enough_at",
           "frees", "held_by", "holders", "limit_of", "shares_partition", "uses_limit"]  # fmt: skip

Unit = Literal["gpus", "cpus"]
Limit = Literal["array", "user", "user_qos", "account", "qos", "request"]
"""Whose running jobs use a limit up: its array's, its user's in its account or in its QOS, its account's, its QOS's.
`request`: what the job itself asks for is more than it may have."""
Held = Literal["user", "operator", "time", "scheduler"]

_CUT: Final = 400
"""The adapter keeps so many characters of a dependency: the last job of a longer one is not whole."""
_DEPENDENCY: Final = re.compile(r"([a-z]+)(?::([0-9_*+:]+))?(?:\((\w+)\))?")
_ON: Final = re.compile(r"([0-9]+)(?:_([0-9]+|\*))?(?:\+[0-9]+)?")
_HELD: Final[dict[str, Held]] = {
    "JobHeldUser": "user", "JobHeldAdmin": "operator", "JobHoldMaxRequeue": "scheduler",
    "JobLaunchFailure": "scheduler", "ReservationDeleted": "scheduler", "BeginTime": "time", "Cron": "time",
}  # fmt: skip


class Running(NamedTuple):
    """What runs now. project: None where the caller may not see it; ends: by its limit, None where it has none.

    placed: its source tells on which nodes.
    """

    job: UUID
    job_id: str
    cluster: str
    partition: str
    project: str | None
    account: str
    user: str
    qos: str
    array: str | None
    gpus: int
    cpus: int
    ends: datetime | None
    placed: bool = True


@dataclass(frozen=True, slots=True)
class Holder:
    """What a project holds; project None: all that the caller may not see. next_end: the first limit that ends."""

    project: str | None
    amount: int
    attempts: int
    next_end: datetime | None


@dataclass(frozen=True, slots=True)
class Free:
    """At `at` a limit ends and `amount` is given back, `total` with all that is given back before it."""

    at: datetime
    project: str | None
    amount: int
    total: int


class Dependency(NamedTuple):
    """One condition: kind (`afterok`), the job that it names ('' for `singleton`), its task, and how it stands."""

    kind: str
    job_id: str
    task: str
    state: str


def dependencies(text: str) -> list[Dependency]:
    """The conditions in Slurm's text: `afterok:201(unfulfilled),afterany:7_3`; what cannot be read is left out."""
    parts = re.split(r"[,?]", text)
    if len(text) >= _CUT:
        parts.pop()
    found: list[Dependency] = []
    for part in parts:
        match = _DEPENDENCY.fullmatch(part.strip())
        if match is None:
            continue
        kind, named, state = match[1], match[2], match[3] or ""
        if named is None:
            found.append(Dependency(kind, "", "", state))
            continue
        jobs = (_ON.fullmatch(one) for one in named.split(":"))
        found += [Dependency(kind, one[1], one[2] or "", state) for one in jobs if one]
    return found


def held_by(reason: str) -> Held | None:
    """Who or what holds a job back by this reason; None where it is a dependency."""
    return _HELD.get(reason.strip("()"))


def limit_of(reason: str) -> Limit:
    """Whose running jobs count against the limit that a reason names."""
    word = reason.strip("()")
    if word == "JobArrayTaskLimit":
        return "array"
    if word.startswith("QOS") and "PerUser" in word:
        return "user_qos"
    if "PerUser" in word or word.startswith(("AssocMax", "AssociationJobLimit")):
        return "user"
    if "PerAccount" in word or word.startswith(("AssocGrp", "AssociationResourceLimit", "MaxCpuPerAccount")):
        return "account"
    return "qos" if word.startswith(("QOSGrp", "QOSJobLimit", "QOSResourceLimit")) else "request"


def uses_limit(one: Running, limit: Limit, job: tuple[str, str, str, str, str | None]) -> bool:
    """Whether what runs counts against a limit of a job, of which cluster, account, user, qos and array are given."""
    cluster, account, user, qos, array = job
    if one.cluster != cluster or limit == "request":
        return False
    if limit == "array":
        return array is not None and one.array == array
    if limit == "qos":
        return one.qos == qos
    if limit == "user_qos":
        return one.qos == qos and one.user == user
    return one.account == account and (limit == "account" or one.user == user)


def shares_partition(some: str, other: str) -> bool:
    """Whether two lists of partitions, as a job names them (`train,debug`), have one in common."""
    return some == other or not set(some.split(",")).isdisjoint(other.split(","))


def amount(one: Running, unit: Unit) -> int:
    """GPUs or CPUs that it holds."""
    return one.gpus if unit == "gpus" else one.cpus


def holders(running: Iterable[Running], unit: Unit) -> list[Holder]:
    """What each project holds, the most first; what the caller may not see is one of them, the last."""
    grouped: defaultdict[str | None, list[Running]] = defaultdict(list)
    for one in running:
        if amount(one, unit):
            grouped[one.project].append(one)
    found = [
        Holder(project, sum(amount(one, unit) for one in held), len(held), _first(held))
        for project, held in grouped.items()
    ]
    return sorted(found, key=lambda holder: (holder.project is None, -holder.amount, holder.project or ""))


def _first(held: Sequence[Running]) -> datetime | None:
    return min((one.ends for one in held if one.ends is not None), default=None)


def frees(running: Iterable[Running], unit: Unit, cut: datetime) -> list[Free]:
    """When what is held is given back at the latest, soonest first; what is over its limit goes now (`cut`)."""
    at: defaultdict[tuple[datetime, bool, str], int] = defaultdict(int)
    for one in running:
        if one.ends is not None and amount(one, unit):
            at[max(one.ends, cut), one.project is None, one.project or ""] += amount(one, unit)
    found, total = [], 0
    for (when, hidden, project), given in sorted(at.items()):
        total += given
        found.append(Free(when, None if hidden else project, given, total))
    return found


def enough_at(found: Sequence[Free], asked: int | None, free: int, cut: datetime) -> datetime | None:
    """By when as much as is asked for is free, if nobody else takes it: what is `free` at `cut` and what is given back.

    None where limits do not tell.
    """
    if asked is None or asked <= free:
        return None if asked is None else cut
    return next((one.at for one in found if free + one.total >= asked), None)


def unavailable(reason: str) -> list[str]:
    """The nodes that a scheduler names as unavailable: `ReqNodeNotAvail, UnavailableNodes:gpu[003,005-006]`."""
    _, found, names = reason.partition("UnavailableNodes:")
    try:
        return sorted(expand(names.strip())) if found and names.strip() else []
    except Bad:
        return []
