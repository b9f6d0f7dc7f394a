"""What a person says against a source."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from events.types.jobs import Epoch, Name
from events.types.registry import EventStruct, event


@event("record.corrected", stream=lambda e: f"job/{e.cluster}/{e.job_id}", rank=90)
class RecordCorrected(EventStruct, frozen=True):
    """A person corrects one field of one attempt, with a reason; it beats every source.

    `start` names the attempt by the start its sources give. Values are text; `new` empty takes the value away
    (an end: it runs again). The actor of the event is who corrected.
    """

    cluster: Name
    job_id: Name
    start: Epoch
    field: Literal["account", "partition", "start", "end", "cpus", "gpus", "nodes", "suspended_seconds"]
    old: Annotated[str, Meta(max_length=400)]
    new: Annotated[str, Meta(max_length=400)]
    reason: Annotated[str, Meta(min_length=3, max_length=1000)]

    def happened(self) -> tuple[str, int] | None:
        """A corrected start or end."""
        return ("new", int(self.new)) if self.field in ("start", "end") and self.new.isdecimal() else None
