"""What people say of a cluster's speed: a measurement that somebody signed. A command that appends an event."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import connection

from events import actions
from events.adapters import Draft
from events.intake import Intake
from events.types.scaling import ScalingRecorded
from jobs.actions import NotDone, Saying

__all__ = ["Recorded", "record_scaling"]

TYPE: Final = "scaling.recorded"
ORIGIN: Final = "POST /api/v1/scaling-records"


@dataclass(frozen=True, slots=True)
class Recorded:
    """Position of the record. again: it was said before under the same key."""

    position: int
    again: bool


def record_scaling(saying: Saying, data: ScalingRecorded, measured: datetime) -> Recorded:
    """Record a measurement. Raises NotDone (missing, replaced, key_used, invalid) and events.append.LogBusy.

    A key makes it idempotent for ever; without one it is said anew.
    """
    key = f"{saying.actor}/{saying.key}" if saying.key else str(uuid.uuid4())
    if data.replaces is not None and actions.said_under(key) is None:
        _may_replace(data.replaces)
    occurred = round(measured.timestamp() * 1_000_000)
    draft = Draft(TYPE, data, key, occurred, 0, by_content=False)
    (result,) = Intake(source=actions.OURS, actor=saying.actor, origin=ORIGIN).take([draft])
    if result.code == "conflict":
        raise NotDone("key_used", "this Idempotency-Key was used for something else: choose a new one")
    if result.position is None:
        field = (result.pointer or "").strip("/").replace("time", "measured")
        raise NotDone("invalid", f"{field or 'the record'}: {result.text}")
    return Recorded(result.position, result.status == "duplicate")


def _may_replace(position: int) -> None:
    """Only a record that counts can be corrected. Raises NotDone."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT position, (data->>'replaces')::bigint FROM events_event
               WHERE shard = %s AND type = %s AND stream COLLATE "C" >= 'scaling/' AND stream COLLATE "C" < 'scaling0'
                 AND (position = %s OR data->>'replaces' = %s::text) ORDER BY position""",
            [settings.SHARD, TYPE, position, str(position)],
        )
        found = {int(at): replaces for at, replaces in cursor.fetchall()}
    if position not in found:
        raise NotDone("missing", f"there is no scaling record at position {position} that could be replaced")
    later = next((at for at, replaces in found.items() if replaces == position), None)
    if later is not None:
        raise NotDone("replaced", f"it was replaced already, by the record at position {later}: replace that one")
