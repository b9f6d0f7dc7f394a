"""Accounts of a scheduler, as its accounting tells them: kept when they change, and a project tree made of theirs.

An association is state that is republished: it is appended when it differs from the last event of its stream. So a
share that goes back to what it was is a change again, and the same file twice changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db import connection, transaction

from events.adapters import Draft
from events.append import Fact, append, fact
from events.privacy import pseudonymise
from events.types import REGISTRY, EventStruct
from events.types.accounts import AssociationReported, AssociationWithdrawn
from events.types.projects import AccountMapped, ProjectDeclared

__all__ = ["EARLIEST", "Mapped", "Told", "declare_projects", "report"]

EARLIEST: Final = "1970-01-01"
"""From when on accounts are mapped unless somebody says otherwise: all that ever ran."""
ROOT: Final = "root"
_ACTOR: Final = "import_accounts"
_REPORTED: Final = "association.reported"


@dataclass
class Told:
    """How many associations were new, changed and known; how many known ones the file does not have."""

    new: int = 0
    changed: int = 0
    known: int = 0
    missing: int = 0
    withdrawn: int = 0


@dataclass
class Mapped:
    """What was declared and mapped, and what was left alone: (account, why)."""

    projects: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)


def report(drafts: Sequence[Draft], *, complete: bool) -> Told:
    """Append what changed, in one transaction. complete: withdraw what these clusters had and the drafts lack."""
    told = Told()
    kind = REGISTRY.get(_REPORTED)
    with transaction.atomic():
        data = pseudonymise([(draft.type, draft.data) for draft in drafts])
        streams = [kind.stream(one) for one in data]
        last = _last(sorted({getattr(one, "cluster", "") for one in data}))
        facts = []
        for draft, one, stream in zip(drafts, data, streams, strict=True):
            before = last.get(stream)
            if before is not None and before[1] == one:
                told.known += 1
                continue
            told.new, told.changed = told.new + (before is None), told.changed + (before is not None)
            facts.append(_fact(one, stream, before, draft.occurred_us))
        gone = {stream: before for stream, before in last.items()
                if stream not in set(streams) and isinstance(before[1], AssociationReported)}  # fmt: skip
        told.missing = len(gone)
        if complete and drafts:
            told.withdrawn = len(gone)
            facts += [_withdrawal(stream, before, drafts[0].occurred_us) for stream, before in sorted(gone.items())]
        append(facts)
    return told


_Before = tuple[int, EventStruct]
"""Position and data of the last event of a stream."""


def _last(clusters: Sequence[str]) -> dict[str, _Before]:
    """The last event of every association of these clusters."""
    if not clusters:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT DISTINCT ON (e.stream) e.stream, e.position, e.type, e.version, e.data::text
               FROM unnest(%s::text[]) AS c (name)
               JOIN events_event e ON e.shard = %s AND e.stream COLLATE "C" >= 'association/' || c.name || '/'
                   AND e.stream COLLATE "C" < 'association/' || c.name || '0'
               ORDER BY e.stream, e.position DESC""",
            [list(clusters), settings.SHARD],
        )
        return {
            str(stream): (int(position), REGISTRY.load(str(type_), int(version), str(data)))
            for stream, position, type_, version, data in cursor.fetchall()
        }


def _fact(data: EventStruct, stream: str, before: _Before | None, occurred_us: int) -> Fact:
    """Keyed by what it says and after what it was said: the same change at once from two sides is one fact."""
    digest = hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()[:24]
    key = f"{stream}#{digest}@{before[0] if before else 0}"
    type_ = _REPORTED if isinstance(data, AssociationReported) else "association.withdrawn"
    source = f"sacctmgr:{getattr(data, 'cluster', '')}"
    return fact(data, type_=type_, source=source, source_key=key, occurred_us=occurred_us, actor=_ACTOR)


def _withdrawal(stream: str, before: _Before, occurred_us: int) -> Fact:
    data: Any = before[1]
    gone = AssociationWithdrawn(cluster=data.cluster, account=data.account, user=data.user, partition=data.partition)
    return _fact(gone, stream, before, occurred_us)


def declare_projects(accounts: Iterable[AssociationReported], from_day: str) -> Mapped:
    """A project for each account that is mapped to none, under the project of its parent; all else is left alone.

    A project of the same code that exists already is used as it is. Accounts with accounts below them become teams.
    """
    known = {one.account: one for one in accounts}
    parents = {one.parent for one in known.values()}
    done, places, codes = Mapped(), _mapped(), _declared()
    used: dict[str, str] = {}
    for one in sorted(known.values(), key=lambda one: (_depth(one, known), one.account)):
        key = (one.cluster, one.account)
        if one.account == ROOT:
            continue
        if key in places:
            done.left.append((one.account, f"is mapped to {places[key] or 'no project'} already"))
            continue
        code = _code(one.account)
        if used.setdefault(code, one.account) != one.account:
            done.left.append((one.account, f"would be the project {code}, as {used[code]} is"))
            continue
        if code not in codes:
            parent = places.get((one.cluster, one.parent or ROOT))
            _declare(one, code, parent if parent != code else None, team=one.account in parents)
            done.projects.append(code)
            codes.add(code)
        mapping = AccountMapped(cluster=one.cluster, account=one.account, from_day=from_day, project=code)
        _say(mapping, "account.mapped", f"{one.cluster}/{one.account}/{from_day}/{code}")
        places[key] = code
        done.accounts.append(one.account)
    return done


def _declare(one: AssociationReported, code: str, parent: str | None, *, team: bool) -> None:
    title = one.description or one.account
    kind = "team" if team else "project"
    _say(ProjectDeclared(project=code, title=title, parent=parent, kind=kind), "project.declared", code)


def _say(data: EventStruct, type_: str, key: str) -> None:
    from events.actions import say

    say(data, type_=type_, actor=_ACTOR, key=f"{_ACTOR}/{type_}/{key}")


def _depth(one: AssociationReported, known: Mapping[str, AssociationReported]) -> int:
    """How far below the root; a circle, which Slurm cannot make, ends."""
    depth = 0
    while one.parent and one.parent in known and one.parent != ROOT and depth < 100:
        one, depth = known[one.parent], depth + 1
    return depth


def _code(account: str) -> str:
    """The account's name as a code of a project: lower case, other characters as `-`."""
    code = re.sub(r"[^a-z0-9._-]+", "-", account.lower()).strip("-._")[:80]
    return code or "account-" + hashlib.sha256(account.encode()).hexdigest()[:8]


def _mapped() -> dict[tuple[str, str], str | None]:
    """(cluster, account) -> the project of its last mapping, straight from the log."""
    rows = _stated("account.mapped")
    return {(str(data["cluster"]), str(data["account"])): data.get("project") for data in rows}


def _declared() -> set[str]:
    return {str(data["project"]) for data in _stated("project.declared")}


def _stated(type_: str) -> list[dict[str, Any]]:
    """Data of all events of a rare type, in order of position."""
    prefix = {"account.mapped": "account/", "project.declared": "project/"}[type_]
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT data::text FROM events_event WHERE shard = %s AND type = %s
               AND stream COLLATE "C" >= %s AND stream COLLATE "C" < %s ORDER BY position""",
            [settings.SHARD, type_, prefix, prefix[:-1] + "0"],
        )
        return [msgspec.json.decode(data) for (data,) in cursor.fetchall()]
