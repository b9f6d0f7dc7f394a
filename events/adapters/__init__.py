"""Pure translators from what a source sends to drafts of events: no clock, no database, no settings.

The same body always gives the same drafts with the same keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from events.types import EventStruct

__all__ = ["Draft", "Refusal"]


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event as its source tells it, before validation, pseudonyms and append.

    native_key: the source's own unique key. With `by_content` the source republishes state, so the key that
    is stored becomes native_key + '#' + digest of the data: a changed record is a new sighting.
    occurred_us: when it was true, microseconds since 1970-01-01 UTC.
    index: the place in the delivery (line number from 1, or item number from 0), for error messages.
    source: who says it, where the record itself names that; empty: the delivery's source.
    decoded: `data` came out of its type's own decoder, so that it need not be validated again.
    """

    type: str
    data: EventStruct
    native_key: str
    occurred_us: int
    index: int
    by_content: bool = True
    source: str = ""
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot become an event: where it stands, what is wrong, what was expected.

    pointer: name of the column or JSON pointer of the field. code: stable machine word. text: one sentence for
    a person. payload: the record as sent, cut to 64 KiB. source: as in Draft.
    """

    index: int
    pointer: str
    code: str
    text: str
    payload: str
    source: str = ""
