"""Who may use which account of a scheduler, with which share: what fair share is computed from."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from events.types.jobs import Name, Short, Size, Word
from events.types.registry import PERSON, EventStruct, event

Member = Annotated[str, Meta(min_length=1, max_length=200, extra={"mark": PERSON})]


def stream_of(cluster: str, account: str, user: str | None, partition: str | None) -> str:
    """The stream of an association: of an account, of a user in it, or of that user in one partition."""
    parts = ["association", cluster, account, *([user or "*"] if user or partition else [])]
    return "/".join([*parts, partition] if partition else parts)


@event("association.reported", stream=lambda e: stream_of(e.cluster, e.account, e.user, e.partition))
class AssociationReported(EventStruct, frozen=True):
    """A scheduler's account, or a user's place in one, as its accounting holds it.

    shares: raw shares among those beside it; none where it takes those of its parent (`shares_of_parent`).
    default: whether it is the user's default account, where the source tells. qos: all that may be used here.
    limits: `Name=value` as Slurm names and writes them (`GrpTRESMins=cpu=6000`), sorted.
    """

    cluster: Name
    account: Name
    user: Member | None = None
    partition: Word | None = None
    parent: Name | None = None
    shares: Size | None = None
    shares_of_parent: bool = False
    default: bool | None = None
    qos: tuple[Word, ...] = ()
    default_qos: Word | None = None
    limits: tuple[Short, ...] = ()
    description: Short | None = None
    organisation: Short | None = None


@event("association.withdrawn", stream=lambda e: stream_of(e.cluster, e.account, e.user, e.partition), rank=60)
class AssociationWithdrawn(EventStruct, frozen=True):
    """The scheduler's accounting does not hold this association any more."""

    cluster: Name
    account: Name
    user: Member | None = None
    partition: Word | None = None
