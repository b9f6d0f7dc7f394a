"""The way into the log: drafts and refusals of an adapter become events, duplicates and visible rejections.

Everything of one call is in one transaction: what is answered as accepted is durable, what is refused is
visible.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from django.db import connection, transaction

from events.adapters import Draft, Refusal, cloudevents
from events.append import Claim, Fact, LogBusy, fact
from events.append import append as append_facts
from events.privacy import pseudonymise
from events.types import REGISTRY, EventStruct
from events.validate import believable, checked, refusal

__all__ = ["Counts", "Intake", "LogBusy", "Refused", "Result", "Said", "Voice", "admit", "now_us", "record",
           "sift"]  # fmt: skip


def now_us() -> int:
    """Time of receipt, microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


class Result(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What became of one item of a delivery. `rejection` names the visible row of a rejected item.

    `delivery` names the kept body of an item that will be appended later (events/deliveries.py).
    """

    index: int
    status: Literal["accepted", "duplicate", "rejected"]
    position: int | None = None
    code: str = ""
    pointer: str | None = None
    text: str = ""
    rejection: uuid.UUID | None = None
    delivery: uuid.UUID | None = None


@dataclass
class Counts:
    """How many records of a source were accepted, already known and rejected."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, results: Iterable[Result]) -> None:
        """Count more results."""
        for result in results:
            setattr(self, result.status, getattr(self, result.status) + 1)
            if result.status == "rejected":
                self.reasons[result.code] = self.reasons.get(result.code, 0) + 1


class Voice(NamedTuple):
    """Who says it: source, whose credential, where it came from (for people) and in which delivery."""

    source: str
    actor: str
    origin: str = ""
    delivery: uuid.UUID | None = None


Said = tuple[Voice, Draft, EventStruct]
"""A draft that passed validation, with its checked data and whose it is."""
Refused = tuple[Voice, Refusal]


@dataclass(frozen=True)
class Intake:
    """One source's way in. source: who says it; origin: file or address, for people; actor: whose token."""

    source: str
    actor: str
    origin: str = ""
    delivery: uuid.UUID | None = None
    clock: Callable[[], int] = now_us

    def take(
        self, items: Iterable[Draft | Refusal], *, atomic: bool = False, claims: Sequence[Claim] = ()
    ) -> list[Result]:
        """Validate, pseudonymise and append one batch; one result per item, in order.

        atomic: keep nothing when any item is refused or conflicts. claims: taken with the batch, which is atomic then.
        Raises events.append.LogBusy and, with claims, ClaimTaken.
        """
        kept, refused = sift(items, self.voice, self.clock())
        return [result for _, result in admit(kept, refused, atomic=atomic or bool(claims), claims=claims)]

    def reject(self, refusals: Sequence[Refusal]) -> list[Result]:
        """Keep refusals as Rejection rows, once for the same record of the same source."""
        return [result for _, result in record([(self.voice, item) for item in refusals])]

    @property
    def voice(self) -> Voice:
        """Who speaks where an item names no source of its own."""
        return Voice(self.source, self.actor, self.origin, self.delivery)


def sift(items: Iterable[Draft | Refusal], voice: Voice, received_us: int) -> tuple[list[Said], list[Refused]]:
    """Part what may enter the log from what is refused. Of decoded drafts only the clock is checked."""
    kept: list[Said] = []
    refused: list[Refused] = []
    voices = {"": voice}
    for item in items:
        own = voices.get(item.source) or voices.setdefault(item.source, voice._replace(source=item.source))
        if isinstance(item, Refusal):
            refused.append((own, item))
        elif item.decoded and believable(item.occurred_us, item.data, received_us):
            kept.append((own, item, item.data))
        elif isinstance(found := checked(item, received_us), Refusal):
            refused.append((own, _as_sent(item, found)))
        else:
            kept.append((own, item, found))
    return kept, refused


def _as_sent(item: Draft, found: Refusal) -> Refusal:
    """A decoded event is kept whole, so that it can be taken again once its clock is believed."""
    if not item.decoded:
        return found
    whole = refusal(found.index, found.pointer, found.code, found.text, cloudevents.envelope_of(item))
    return replace(whole, source=item.source)


def admit(
    kept: Sequence[Said], refused: Sequence[Refused], *, atomic: bool = False, claims: Sequence[Claim] = ()
) -> list[tuple[Voice, Result]]:
    """Append what was kept and record what was refused, in one transaction; results in order of index.

    Items may have different sources, actors and deliveries. atomic: append nothing when any item is refused
    or conflicts; the refusals are recorded all the same. claims: taken with an atomic batch, or not at all. Raises
    events.append.LogBusy and ClaimTaken.
    """
    if atomic:
        return _all_or_nothing(kept, refused, claims)
    with transaction.atomic():
        results, conflicts = _append(kept)
        if not (refused or conflicts):
            return results
        results += record([*refused, *conflicts])
    return sorted(results, key=lambda pair: pair[1].index)


def _all_or_nothing(
    kept: Sequence[Said], refused: Sequence[Refused], claims: Sequence[Claim]
) -> list[tuple[Voice, Result]]:
    wrong = list(refused)
    results: list[tuple[Voice, Result]] = []
    if not wrong:
        with transaction.atomic():
            results, wrong = _append(kept, claims)
            if wrong:
                transaction.set_rollback(True)
    return sorted(record(wrong), key=lambda pair: pair[1].index) if wrong else results


def _append(kept: Sequence[Said], claims: Sequence[Claim] = ()) -> tuple[list[tuple[Voice, Result]], list[Refused]]:
    results: list[tuple[Voice, Result]] = []
    conflicts: list[Refused] = []
    facts = _facts(kept)
    for (voice, draft, _), item, outcome in zip(kept, facts, append_facts(facts, claims=claims), strict=True):
        if outcome.status == "conflict":
            conflicts.append((voice, _conflict(draft.index, item, outcome.position)))
        else:
            results.append((voice, Result(draft.index, outcome.status, outcome.position)))
    return results, conflicts


def _facts(kept: Sequence[Said]) -> list[Fact]:
    structs = _without_names([(draft.type, data) for _, draft, data in kept])
    return [
        fact(
            data,
            type_=draft.type,
            source=voice.source,
            source_key=_source_key(draft, data),
            occurred_us=draft.occurred_us,
            actor=voice.actor,
            delivery=voice.delivery,
        )
        for (voice, draft, _), data in zip(kept, structs, strict=True)
    ]


def _conflict(index: int, item: Fact, position: int) -> Refusal:
    text = (
        f"{item.source} already said something else under the id {item.source_key} (position {position}); "
        "send a change under an id of its own, or a record.corrected"
    )
    return refusal(index, "/id", "conflict", text, item.data)


def record(refused: Sequence[Refused]) -> list[tuple[Voice, Result]]:
    """Keep refusals as Rejection rows, once for the same record of the same source."""
    if not refused:
        return []
    ids = [_rejection_id(voice.source, item) for voice, item in refused]
    rows = {id_: _row(id_, voice, item) for id_, (voice, item) in zip(ids, refused, strict=True)}
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO events_rejection (shard, recorded_at, id, source, origin, delivery, item, pointer,
                   code, text, payload, state, settled_by, settled_why)
               SELECT %s, now(), r.*, 'open', '', ''
               FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::uuid[], %s::bigint[], %s::text[],
                   %s::text[], %s::text[], %s::text[]) AS r
               ON CONFLICT DO NOTHING""",
            [settings.SHARD, *(list(column) for column in zip(*rows.values(), strict=True))],
        )
    return [
        (voice, Result(item.index, "rejected", None, item.code, item.pointer, item.text, id_))
        for id_, (voice, item) in zip(ids, refused, strict=True)
    ]


def _row(id_: uuid.UUID, voice: Voice, item: Refusal) -> tuple[Any, ...]:
    return (
        id_, voice.source, voice.origin, voice.delivery, item.index, item.pointer, item.code, item.text,
        item.payload,
    )  # fmt: skip


def _rejection_id(source: str, item: Refusal) -> uuid.UUID:
    """The same refused record of the same source is one row, however often it is sent."""
    said = "\0".join((source, item.code, item.pointer, item.payload)).encode("utf-8", "replace")
    return uuid.UUID(bytes=hashlib.sha256(said).digest()[:16])


def _without_names(items: list[tuple[str, EventStruct]]) -> list[EventStruct]:
    """Replace names and texts by ids; items that have none cost a look at their marked fields."""
    out = [data for _, data in items]
    marked = {kind: _marked(kind) for kind in {kind for kind, _ in items}}
    where = [index for index, (kind, data) in enumerate(items) if any(marked[kind](data))]
    for index, data in zip(where, pseudonymise([items[index] for index in where]), strict=True):
        out[index] = data
    return out


def _marked(kind: str) -> Callable[[EventStruct], tuple[Any, ...]]:
    """Gives the values of a type's marked fields."""
    fields = tuple(REGISTRY.get(kind).markers)
    if len(fields) > 1:
        return attrgetter(*fields)
    return lambda data: tuple(getattr(data, name) for name in fields)


def _source_key(draft: Draft, data: EventStruct) -> str:
    """The native key, and for republished state also which state it was."""
    if not draft.by_content:
        return draft.native_key
    body = msgspec.json.encode(data, order="sorted")
    return f"{draft.native_key}#{hashlib.sha256(body).hexdigest()[:24]}"
