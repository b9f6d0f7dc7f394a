"""From a draft of any source to a checked struct: schema, clock, and what the database can hold."""

from __future__ import annotations

from typing import Final

import msgspec

from events.adapters import Draft, Refusal
from events.types import REGISTRY, EventStruct, UnknownType

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""What a decoder raises on a bad document: the last two on one nested too deep, and on a time beyond the calendar."""
CLOCK_AHEAD_US: Final = 5 * 60 * 1_000_000
"""How far ahead of receipt an event may claim to have happened."""
EARLIEST_US: Final = -2_208_988_800_000_000  # 1900-01-01: earlier is a unit mistake


def checked(draft: Draft, now_us: int) -> EventStruct | Refusal:
    """The draft's data after validation against its type, or why it is refused. `now_us`: time of receipt."""
    payload = msgspec.json.encode(draft.data, order="sorted")
    found = decoded(draft.type, payload, draft.index)
    if isinstance(found, Refusal):
        return found
    return clock_refusal(draft.occurred_us, found, now_us, draft.index, payload) or found


def decoded(
    type_: str, payload: bytes, index: int, version: int | None = None, prefix: str = ""
) -> EventStruct | Refusal:
    """Decode JSON data of a named type; a Refusal says which field is wrong and what was expected."""
    try:
        kind = REGISTRY.get(type_, version)
        if b"\\u0000" in payload:
            return refusal(index, prefix, "nul", "a text holds the character U+0000, which no field may", payload)
        if kind.version != REGISTRY.latest(type_):
            return REGISTRY.load(type_, kind.version, payload)
        return kind.decoder.decode(payload)
    except UnknownType as error:
        known = ", ".join(sorted({kind.name for kind in REGISTRY}))
        return refusal(index, "/type", "unknown_type", f"{error}; known are {known}", payload)
    except UNREADABLE as error:
        text, _, where = str(error).partition(" - at `$")
        return refusal(index, prefix + pointer(where.rstrip("`")), "invalid", text, payload)


def pointer(path: str) -> str:
    """msgspec's path (`.nodes[0]`) as a JSON pointer (`/nodes/0`)."""
    return path.replace(".", "/").replace("[", "/").replace("]", "")


def believable(occurred_us: int, data: EventStruct, now_us: int) -> bool:
    """Whether nothing is said to have happened more than five minutes after now, or before 1900."""
    latest = data.happened()
    ahead = occurred_us if latest is None else max(occurred_us, latest[1] * 1_000_000)
    return ahead <= now_us + CLOCK_AHEAD_US and occurred_us >= EARLIEST_US


def clock_refusal(occurred_us: int, data: EventStruct, now_us: int, index: int, payload: bytes) -> Refusal | None:
    """Refuse what is not believable, naming the field: its time, or what the data says has happened."""
    if believable(occurred_us, data, now_us):
        return None
    if occurred_us < EARLIEST_US:
        return refusal(index, "/time", "clock_behind", "its time lies before 1900", payload)
    field, at = "/time", occurred_us
    if (latest := data.happened()) and latest[1] * 1_000_000 >= at:
        field, at = f"/{latest[0]}", latest[1] * 1_000_000
    ahead = (at - now_us) // 1_000_000
    text = f"{field[1:]} is {ahead} s ahead of our clock; at most 300 s is expected: check the sender's clock and zone"
    return refusal(index, field, "clock_ahead", text, payload)


def refusal(index: int, pointer_: str, code: str, text: str, payload: bytes | str) -> Refusal:
    """A Refusal with its payload cut to 64 KiB of text."""
    shown = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else payload
    return Refusal(index, pointer_, code, text, shown[:65536].replace("\0", "�"))
