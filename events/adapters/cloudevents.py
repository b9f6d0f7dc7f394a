"""CloudEvents 1.0 (structured, binary, batch) and lines of them: bodies become drafts, each with its source.

`type` is a registered event type, its version the suffix `.vN` or the end of `dataschema` (`.../vN`), else
the latest. `time` is required: when a fact was true only its sender knows. Extension attributes are not kept.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from events.adapters import Draft, Refusal
from events.types import REGISTRY, EventStruct
from events.validate import UNREADABLE, decoded, pointer, refusal

__all__ = ["Envelope", "Malformed", "batch", "binary", "envelope_of", "lines", "sole", "translate"]

Items = list[Draft | Refusal]
_Key = Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[^\x00]+$")]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST_US: Final = -62_135_596_800_000_000
_LAST_US: Final = 253_402_300_799_999_999
"""The calendar's first and last microsecond: an offset can tell a time beyond them."""
_VERSION: Final = re.compile(r"[./]v?([1-9]\d{0,3})\Z")
_NUL: Final = b"\\u0000"


class Envelope(msgspec.Struct, gc=False):
    """The attributes that are used, and the data undecoded."""

    specversion: Literal["1.0"]
    id: _Key
    source: _Key
    type: Annotated[str, Meta(min_length=1, max_length=200)]
    time: Annotated[datetime, Meta(tz=True)]
    data: msgspec.Raw
    datacontenttype: str | None = None
    dataschema: str | None = None


class Malformed(ValueError):
    """A body that cannot be read as a whole: what was expected, and the byte at which it failed if known."""


_LINES: Final = msgspec.json.Decoder(Envelope)
_BATCH: Final = msgspec.json.Decoder(list[Envelope])
_RAW_BATCH: Final = msgspec.json.Decoder(list[msgspec.Raw])


def translate(_content_type: str, headers: Mapping[str, str], body: bytes) -> Items:
    """The one event of a kept delivery: in binary mode when it has a `ce-id`, else structured."""
    return binary(headers, body) if "ce-id" in headers else [sole(body)]


def sole(body: bytes, index: int = 0) -> Draft | Refusal:
    """One structured event."""
    try:
        envelope = _LINES.decode(body)
    except UNREADABLE as error:
        return _unreadable(error, body, index)
    return _careful(envelope, index, body)


def lines(body: bytes) -> Items:
    """One event per line, numbered from 0 without blank lines; a bad line is refused, the others are read."""
    try:
        envelopes = _LINES.decode_lines(body)
    except UNREADABLE:
        return [sole(line, index) for index, line in enumerate(_split(body))]
    return _drafts(envelopes, body, _split)


def batch(body: bytes) -> Items:
    """A JSON array of events. Raises Malformed when it is none."""
    try:
        envelopes = _BATCH.decode(body)
    except UNREADABLE:
        return [sole(bytes(item), index) for index, item in enumerate(_array(body))]
    return _drafts(envelopes, body, _array)


def binary(headers: Mapping[str, str], body: bytes) -> Items:
    """One event: its attributes are `ce-...` headers (lower case, percent-encoded), the body is its data."""
    names = ("specversion", "id", "source", "type", "time", "dataschema")
    said: dict[str, Any] = {n: urllib.parse.unquote(headers[f"ce-{n}"]) for n in names if f"ce-{n}" in headers}
    try:
        msgspec.json.decode(body)
    except UNREADABLE as error:
        return [refusal(0, "/data", "malformed", f"the body is not JSON: {error}", body)]
    return [sole(msgspec.json.encode({**said, "data": msgspec.Raw(body)}))]


def envelope_of(draft: Draft) -> bytes:
    """A decoded draft as the structured event it came as (without extensions), so that it can be taken again."""
    said = {
        "specversion": "1.0",
        "id": draft.native_key,
        "source": draft.source,
        "type": draft.type,
        "time": _EPOCH + min(max(draft.occurred_us, _FIRST_US), _LAST_US) * _MICROSECOND,
        "data": draft.data,
    }
    return msgspec.json.encode(said)


def _split(body: bytes) -> Sequence[bytes]:
    return [line for line in body.split(b"\n") if line.strip()]


def _array(body: bytes) -> Sequence[msgspec.Raw]:
    try:
        return _RAW_BATCH.decode(body)
    except UNREADABLE as error:
        raise Malformed(f"the body is not a JSON array of CloudEvents: {error}") from None


def _drafts(envelopes: Iterable[Envelope], body: bytes, cut: Callable[[bytes], Sequence[bytes | msgspec.Raw]]) -> Items:
    """The hot path: no copy of an item is made unless it is refused."""
    checked = _NUL not in body
    sent: Sequence[bytes | msgspec.Raw] = ()
    items: Items = []
    for index, envelope in enumerate(envelopes):
        draft = _plain(envelope, index) if checked else None
        if draft is not None:
            items.append(draft)
            continue
        sent = sent or cut(body)
        items.append(_careful(envelope, index, bytes(sent[index])))
    return items


def _plain(envelope: Envelope, index: int) -> Draft | None:
    """The draft of an item that names no version and no content type and has nothing wrong; else None."""
    decode = _decoder(envelope.type)
    if decode is None or envelope.dataschema or envelope.datacontenttype:
        return None
    try:
        data = decode(envelope.data)
    except UNREADABLE:
        return None
    occurred_us = (envelope.time - _EPOCH) // _MICROSECOND
    return Draft(envelope.type, data, envelope.id, occurred_us, index, False, envelope.source, True)


@lru_cache(maxsize=1024)
def _decoder(name: str) -> Callable[[msgspec.Raw], EventStruct] | None:
    """Decoder of a type named without a version."""
    return REGISTRY.get(name).decoder.decode if REGISTRY.latest(name) else None


def _careful(envelope: Envelope, index: int, raw: bytes) -> Draft | Refusal:
    """The way of items with a version or a content type of their own, and of those that are refused."""
    name, version = _named(envelope)
    kind = (envelope.datacontenttype or "application/json").split(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        found: EventStruct | Refusal = refusal(
            index, "/datacontenttype", "invalid", f"{kind} is not JSON; expected application/json", ""
        )
    else:
        found = decoded(name, bytes(envelope.data), index, version, "/data")
    if isinstance(found, Refusal):
        at = "/type" if found.code == "unknown_type" else _place(found.pointer, found.text)
        return _of(envelope.source, refusal(index, at, found.code, found.text, raw))
    occurred_us = (envelope.time - _EPOCH) // _MICROSECOND
    return Draft(name, found, envelope.id, occurred_us, index, False, envelope.source, True)


def _named(envelope: Envelope) -> tuple[str, int | None]:
    """Registered name and version of `job.reported`, `job.reported.v2`, or by the end of dataschema."""
    name, _, suffix = envelope.type.rpartition(".v")
    if name and suffix.isdecimal() and suffix.isascii():
        return name, int(suffix[:4])
    found = _VERSION.search(envelope.dataschema or "")
    return envelope.type, int(found[1]) if found else None


def _unreadable(error: Exception, body: bytes, index: int) -> Refusal:
    """Why one item is no envelope; its source where that much can be read."""
    try:
        said = msgspec.json.decode(body)
    except UNREADABLE:
        return refusal(index, "", "malformed", f"not JSON: {error}", body)
    source = said.get("source") if isinstance(said, dict) else None
    text, _, where = str(error).partition(" - at `$")
    known = source if isinstance(source, str) and "\0" not in source else ""
    at = _place(pointer(where.rstrip("`")), text)
    return _of(known[:400], refusal(index, at, "invalid", text, body))


def _place(at: str, text: str) -> str:
    """The pointer of a missing or an unknown field is that field, not the object around it."""
    found = re.search(r"(?:missing required|unknown) field `(\w+)`", text)
    return f"{at}/{found[1]}" if found else at


def _of(source: str, item: Refusal) -> Refusal:
    return Refusal(item.index, item.pointer, item.code, item.text, item.payload, source)
