"""What people do with rejections: let one go, or take its record again. And what became of a delivery."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import transaction

from events import deliveries
from events.access import Scope
from events.adapters import Refusal, cloudevents
from events.intake import Voice, admit, now_us, sift
from events.models import Delivery, Rejection
from events.queries_log import brought_by

__all__ = ["Fault", "fate", "replay", "waive"]

_FATE_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a rejection could not be settled. code: missing, settled, not_replayable, or the new refusal's."""

    code: str
    text: str
    pointer: str = ""


def waive(id_: uuid.UUID, actor: str, why: str) -> Fault | None:
    """Let an open rejection go; None when done."""
    with transaction.atomic():
        found = _open(id_)
        if isinstance(found, Fault):
            return found
        _settle(id_, "waived", actor, why)
    return None


def replay(id_: uuid.UUID, actor: str) -> Fault | None:
    """Take an open rejection's record again; None when it is in the log now. Raises events.intake.LogBusy.

    Works where the record was kept whole and is a CloudEvent, and where its delivery is kept: that is translated
    anew as a whole (what it said before is a duplicate), and rejections of it that are good now are settled too.
    The events' actor is who replays it.
    """
    with transaction.atomic():
        found = _open(id_)
        fault = found if isinstance(found, Fault) else _taken_again(found, actor)
        if fault is None:
            _settle(id_, "replayed", actor, "")
        else:
            transaction.set_rollback(True)
    return fault


def _taken_again(row: Rejection, actor: str) -> Fault | None:
    whole = deliveries.kept_delivery(row.delivery) if row.delivery else None
    if whole is not None and whole.kind != "cloudevents":
        return _delivery_again(row, whole, actor)
    item = cloudevents.sole(row.payload.encode(), row.index)
    if isinstance(item, Refusal):
        if item.code == "malformed" or item.pointer == "/specversion":
            return Fault("not_replayable", "its record is no whole CloudEvent: its source must send it again")
        return Fault(item.code, item.text, item.pointer)
    voice = Voice(row.source, actor, row.origin, row.delivery)
    kept, refused = sift([item], voice, now_us())
    if refused:
        return Fault(refused[0][1].code, refused[0][1].text, refused[0][1].pointer)
    ((_, result),) = admit(kept, [])
    if result.status == "rejected":
        return Fault(result.code, result.text, result.pointer or "")
    return None


def _delivery_again(row: Rejection, kept: deliveries.Kept, actor: str) -> Fault | None:
    (items,) = deliveries.translated([kept])
    voice = Voice(kept.source, actor, row.origin, row.delivery)
    results = [result for _, result in admit(*sift(items, voice, now_us()))]
    refused = {result.index: result for result in results if result.status == "rejected"}
    if (still := refused.get(row.index)) is not None:
        return Fault(still.code, still.text, still.pointer or "")
    siblings = Rejection.objects.filter(shard=settings.SHARD, delivery=row.delivery, state="open")
    siblings.exclude(index__in=refused).update(state="replayed", settled_by=actor)
    return None


def _open(id_: uuid.UUID) -> Rejection | Fault:
    found = Rejection.objects.select_for_update().filter(shard=settings.SHARD, id=id_).first()
    if found is None:
        return Fault("missing", f"there is no rejection {id_}")
    if found.state != "open":
        return Fault("settled", f"it was {found.state} already by {found.settled_by or 'somebody'}")
    return found


def _settle(id_: uuid.UUID, state: str, actor: str, why: str) -> None:
    Rejection.objects.filter(shard=settings.SHARD, id=id_).update(state=state, settled_by=actor, settled_why=why)


def fate(scope: Scope, delivery: Delivery) -> tuple[list[int], list[uuid.UUID]]:
    """Positions of a delivery's events and ids of its rejections, at most 1,000 each.

    The log has no index by delivery: its events are looked for from its receipt on (events.queries_log.brought_by).
    """
    if delivery.state == "pending":
        return [], []
    events = brought_by(scope, delivery.id, delivery.received_at, most=_FATE_MOST).events
    rejections = Rejection.objects.filter(shard=settings.SHARD, delivery=delivery.id).order_by("index")
    return [event.position for event in events], list(rejections.values_list("id", flat=True)[:_FATE_MOST])
