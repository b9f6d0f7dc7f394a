"""Reading the log and what surrounds it. Scope (what the caller may see) is a required argument."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from events.access import Scope
from events.answers import kept
from events.models import Block, Delivery, Event, Head, Parked, Person, Progress, Rejection, Text
from events.reports import AsOf


def events(scope: Scope) -> QuerySet[Event]:
    """Events of the log in order of position; nothing for a caller without fleet-wide scope."""
    rows = Event.objects.filter(shard=settings.SHARD)
    return rows.order_by("position") if scope.fleetwide else rows.none()


def deliveries(scope: Scope) -> QuerySet[Delivery]:
    """Deliveries, newest first, without their bodies."""
    rows = Delivery.objects.filter(shard=settings.SHARD).defer("body")
    return rows.order_by("-received_at") if scope.fleetwide else rows.none()


def rejections(scope: Scope) -> QuerySet[Rejection]:
    """Rejections, newest first."""
    rows = Rejection.objects.filter(shard=settings.SHARD)
    return rows.order_by("-recorded_at", "id") if scope.fleetwide else rows.none()


def head_position() -> int:
    """Last position of the log; 0 when it is empty."""
    return Head.objects.filter(shard=settings.SHARD).values_list("position", flat=True).first() or 0


def as_of(cut: datetime | None = None) -> AsOf:
    """What figures stand on now: the lowest position that every group has applied, and the time of the cut.

    One statement, so that both belong together.
    """
    return AsOf(_applied(), cut or datetime.now(UTC))


@kept
def _applied() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(min(position), 0) FROM events_progress WHERE shard = %s", [settings.SHARD])
        (position,) = cursor.fetchone()
    return int(position)


@kept
def recorded_after(position: int) -> datetime | None:
    """When the first event after a position was recorded; None when the log ends there."""
    rows = Block.objects.filter(shard=settings.SHARD, upto__gt=position).order_by("upto")
    return rows.values_list("recorded_at", flat=True).first()


def groups() -> list[Progress]:
    """Progress of every projection group."""
    return list(Progress.objects.filter(shard=settings.SHARD).order_by("group"))


def parked(scope: Scope) -> QuerySet[Parked]:
    """Events that a group could not apply."""
    rows = Parked.objects.filter(shard=settings.SHARD)
    return rows.order_by("position") if scope.fleetwide else rows.none()


def people(ids: Iterable[str]) -> dict[str, str]:
    """Names of persons by surrogate id; an erased or unknown person keeps the id as name."""
    wanted = frozenset(id_ for id_ in ids if id_)
    found = _names(wanted)
    return {id_: found.get(id_) or id_ for id_ in wanted}


@kept
def _names(wanted: frozenset[str]) -> dict[str, str | None]:
    rows = Person.objects.filter(shard=settings.SHARD, id__in=wanted, name__isnull=False)
    return dict(rows.values_list("id", "name"))


def texts(ids: Iterable[str]) -> dict[str, str]:
    """Free texts by id; an erased one is empty."""
    wanted = {id_ for id_ in ids if id_}
    found = dict(Text.objects.filter(shard=settings.SHARD, id__in=wanted).values_list("id", "body"))
    return {id_: found.get(id_) or "" for id_ in wanted}


def ids_of_person(name: str) -> list[str]:
    """Surrogate ids of the person of this name; none when nobody has it or it was erased."""
    return list(Person.objects.filter(shard=settings.SHARD, name=name).values_list("id", flat=True))
