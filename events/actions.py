"""What people and commands say of the house itself: each a command that appends events."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from django.conf import settings
from django.db import connection

from events.append import append as append_facts
from events.append import fact, key_of
from events.intake import now_us
from events.models import Event, EventKey
from events.types import REGISTRY, EventStruct
from events.types.clusters import ClusterDeclared, SiteDeclared

OURS: Final = "hallbook"
"""Source of what is said in this house."""


def say(
    data: EventStruct, *, type_: str, actor: str, source: str = OURS, key: str = "",
    expect: Mapping[str, int] | None = None,
) -> int:  # fmt: skip
    """Append one event of ours, now. `key` makes it idempotent; without one it is said anew. Its position.

    expect: stream -> last position of it that was read. Raises ValueError when the data breaks the type's rules, and
    events.append.StreamMoved.
    """
    REGISTRY.get(type_).check(data)
    item = fact(
        data, type_=type_, source=source, source_key=key or str(uuid.uuid4()), occurred_us=now_us(), actor=actor
    )
    return append_facts([item], expect=expect)[0].position


def said_under(key: str, *, source: str = OURS) -> Event | None:
    """What was said under a key before."""
    known = EventKey.objects.filter(shard=settings.SHARD, key=uuid.UUID(bytes=key_of(source, key))).first()
    return Event.objects.get(shard=settings.SHARD, position=known.position) if known else None


def declare_site(site: SiteDeclared, *, actor: str) -> bool:
    """Declare the site unless it is declared just so already. Returns whether anything was said."""
    return _unless_same(site, "site.declared", actor)


def declare_cluster(name: str, *, actor: str, scheduler: str = "slurm", gpus: int | None = None) -> bool:
    """Declare a cluster unless it is known. Returns whether anything was said."""
    data = ClusterDeclared(cluster=name, scheduler=scheduler, gpus=gpus)
    if gpus is None and _last(REGISTRY.get("cluster.declared").stream(data)) is not None:
        return False
    return _unless_same(data, "cluster.declared", actor)


def _unless_same(data: EventStruct, type_: str, actor: str) -> bool:
    kind = REGISTRY.get(type_)
    last = _last(kind.stream(data))
    if last is not None and REGISTRY.load(type_, last[0], last[1]) == data:
        return False
    say(data, type_=type_, actor=actor)
    return True


def _last(stream: str) -> tuple[int, str] | None:
    """Version and data of a stream's last event."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT version, data::text FROM events_event WHERE shard = %s AND stream = %s
               ORDER BY position DESC LIMIT 1""",
            [settings.SHARD, stream],
        )
        row = cursor.fetchone()
        return (int(row[0]), str(row[1])) if row else None
