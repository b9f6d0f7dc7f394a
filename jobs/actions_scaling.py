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
from events.append import Claim, ClaimTaken
from events.intake import Intake, Result
from events.types.scaling import ScalingRecorded
from fleet.queries import clusters
from jobs.actions import NotDone, Saying
from jobs.commissioned import replacements

__all__ = ["Recorded", "record_scaling"]

TYPE: Final = "scaling.recorded"
ORIGIN: Final = "POST /api/v1/scaling-records"
SENT_AS: Final = {"time": "measured", "milli_tokens_per_second": "tokens_per_second", "step_us": "step_seconds",
                  "communication_ppm": "communication"}  # fmt: skip
"""Fields of the event by the names that the command has for them."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Position of the record. again: it was said before under the same key."""

    position: int
    again: bool


def record_scaling(saying: Saying, data: ScalingRecorded, measured: datetime) -> Recorded:
    """Record a measurement. Raises NotDone (cluster, missing, replaced, key_used, invalid) and events.append.LogBusy.

    A key makes it idempotent for ever; without one it is said anew.
    """
    key = f"{saying.actor}/{saying.key}" if saying.key else str(uuid.uuid4())
    try:
        _may_be_said(saying, data)
        return _say(saying, data, measured, key)
    except NotDone:
        # What was said under the key before, or is being said at this moment, is what stands in the way of itself.
        if data.replaces is None or actions.said_under(key) is None:
            raise
    return _say(saying, data, measured, key)


def _say(saying: Saying, data: ScalingRecorded, measured: datetime, key: str) -> Recorded:
    draft = Draft(TYPE, data, key, round(measured.timestamp() * 1_000_000), 0, by_content=False)
    # Of two that replace one record at the same moment only the holder of the claim is heard.
    claims = [] if data.replaces is None else [Claim(TYPE, str(data.replaces), key)]
    intake = Intake(source=actions.OURS, actor=saying.actor, origin=ORIGIN)
    try:
        (result,) = intake.take([draft], atomic=True, claims=claims)
    except ClaimTaken:
        raise NotDone("replaced", "it was replaced at the same moment: look again", fields=("replaces",)) from None
    if result.code == "conflict":
        raise NotDone("key_used", "this Idempotency-Key was used for something else: choose a new one")
    if result.position is None:
        raise _invalid(result)
    return Recorded(result.position, result.status == "duplicate")


def _invalid(result: Result) -> NotDone:
    """Why it was refused, by the names under which it was sent."""
    said = (result.pointer or "").strip("/")
    field = SENT_AS.get(said, said)
    return NotDone("invalid", f"{field or 'the record'}: {result.text}", fields=(field,) if field else ())


def _may_be_said(saying: Saying, data: ScalingRecorded) -> None:
    """Only of a cluster that is declared, and only a record of it that counts can be corrected. Raises NotDone."""
    declared = [cluster.name for cluster in clusters(saying.scope)]
    if data.cluster not in declared:
        text = f"cluster {data.cluster!r} is not declared here; there are: {', '.join(declared) or 'none'}"
        raise NotDone("cluster", text, fields=("cluster",))
    if (position := data.replaces) is None:
        return
    told = _told()
    known = {at: cluster for at, cluster, _ in told}
    if position not in known:
        text = f"there is no scaling record at position {position} that could be replaced"
        raise NotDone("missing", text, fields=("replaces",))
    if known[position] != data.cluster:
        text = f"the record at position {position} is of cluster {known[position]}: replace one of {data.cluster}"
        raise NotDone("other_cluster", text, fields=("replaces", "cluster"))
    if (later := replacements(told).get(position)) is not None:
        text = f"it was replaced already, by the record at position {later}: replace that one"
        raise NotDone("replaced", text, fields=("replaces",))


def _told() -> list[tuple[int, str, int | None]]:
    """Position, cluster and what it replaces, of every record of the log."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT position, data->>'cluster', (data->>'replaces')::bigint FROM events_event
               WHERE shard = %s AND type = %s AND stream COLLATE "C" >= 'scaling/' AND stream COLLATE "C" < 'scaling0'
               ORDER BY position""",
            [settings.SHARD, TYPE],
        )
        return [(int(position), str(cluster), replaces) for position, cluster, replaces in cursor.fetchall()]
