"""Every event type Hallbook knows: (name, version) -> struct, with upcasters for older versions.

A type is a frozen msgspec struct whose fields are integers, strings, booleans or lists of them. Floats are
refused at registration: the digest of an event must never depend on how a float is printed.
"""

from __future__ import annotations

import re
import types as pytypes
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

__all__ = ["PERSON", "REGISTRY", "TEXT", "EventStruct", "EventType", "Marker", "Registry", "UnknownType", "event"]


@dataclass(frozen=True, slots=True)
class Marker:
    """A mark on a field whose value must not enter the log as it is (privacy)."""

    kind: str


PERSON: Final = Marker("person")
"""The field names a person; intake replaces the name by the person's surrogate id."""
TEXT: Final = Marker("text")
"""The field is free text of a user; intake keeps it in an erasable table and logs its id."""

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
_NAME = re.compile(r"[a-z][a-z_]*\.[a-z][a-z_]*")


class EventStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Base of every event's data: immutable, closed, and silent about what is not known."""

    def happened(self) -> tuple[str, int] | None:
        """The latest instant at which this says that something happened: (field, epoch seconds).

        None when the event's own time says it all. Plans (an expected end) do not count.
        """
        return None


class UnknownType(LookupError):
    """No struct is registered under this name and version."""


@dataclass(frozen=True)
class EventType:
    """One registered version of one event type."""

    name: str
    version: int
    struct: type[EventStruct]
    stream: Callable[[Any], str]
    rank: int
    summary: str
    upcast: Upcaster | None = None
    markers: dict[str, Marker] = field(default_factory=dict)

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[EventStruct]:
        """Strict JSON decoder of this version's data."""
        return msgspec.json.Decoder(self.struct)

    def check(self, data: EventStruct) -> None:
        """Raise ValueError (with the field) when a struct that was made in code breaks the type's rules."""
        try:
            self.decoder.decode(msgspec.json.encode(data))
        except msgspec.MsgspecError as error:
            raise ValueError(f"{self.name}: {error}") from None


T = TypeVar("T", bound=type[EventStruct])


class Registry:
    """The vocabulary of the log. Types register themselves when `events.types` is imported."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, int], EventType] = {}
        self._latest: dict[str, int] = {}

    def add(self, kind: EventType) -> None:
        """Register one version. Raises ValueError on a bad name, a repeated version or a float field."""
        if not _NAME.fullmatch(kind.name):
            raise ValueError(f"event type {kind.name!r} is not of the form noun.past_verb")
        if (kind.name, kind.version) in self._types:
            raise ValueError(f"event type {kind.name} v{kind.version} is registered twice")
        _check_fields(kind)
        self._types[kind.name, kind.version] = kind
        self._latest[kind.name] = max(kind.version, self._latest.get(kind.name, 0))

    def get(self, name: str, version: int | None = None) -> EventType:
        """The named type, by default in its latest version. Raises UnknownType."""
        try:
            return self._types[name, version or self._latest[name]]
        except KeyError:
            raise UnknownType(f"unknown event type {name}" + (f" version {version}" if version else "")) from None

    def latest(self, name: str) -> int:
        """Highest registered version of a type; 0 when there is none."""
        return self._latest.get(name, 0)

    def load(self, name: str, version: int, data: bytes | str) -> EventStruct:
        """Decode stored data of any version into the latest struct, through the upcasters."""
        kind = self.get(name, version)
        if version == self._latest[name]:
            return kind.decoder.decode(data)
        body: dict[str, Any] = msgspec.json.decode(data)
        for step in range(version, self._latest[name]):
            upcast = self.get(name, step).upcast
            if upcast is None:
                raise UnknownType(f"{name} v{step} has no upcaster to v{step + 1}")
            body = upcast(body)
        return msgspec.convert(body, self.get(name).struct)

    def __iter__(self) -> Iterator[EventType]:
        return iter(sorted(self._types.values(), key=lambda kind: (kind.name, kind.version)))


REGISTRY: Final = Registry()


def event(
    name: str,
    *,
    stream: Callable[[Any], str],
    version: int = 1,
    rank: int = 50,
    upcast: Upcaster | None = None,
) -> Callable[[T], T]:
    """Class decorator: register a struct as an event type.

    `stream` gives the stream of an instance; `rank` orders events of the same second inside a stream (lower
    first); `upcast` turns this version's data into the next version's and is set once that version exists.
    """

    def register(struct: T) -> T:
        markers = dict(_markers(struct))
        doc = (struct.__doc__ or "").strip().splitlines()
        REGISTRY.add(EventType(name, version, struct, stream, rank, doc[0] if doc else "", upcast, markers))
        return struct

    return register


def _markers(struct: type[EventStruct]) -> Iterator[tuple[str, Marker]]:
    for name, hint in typing.get_type_hints(struct, include_extras=True).items():
        for mark in _marks(hint):
            yield name, mark


def _marks(hint: Any) -> Iterator[Marker]:
    for meta in getattr(hint, "__metadata__", ()):
        mark = (meta.extra or {}).get("mark") if isinstance(meta, msgspec.Meta) else None
        if isinstance(mark, Marker):
            yield mark
    for part in typing.get_args(hint):
        yield from _marks(part)


def _check_fields(kind: EventType) -> None:
    for name, hint in typing.get_type_hints(kind.struct).items():
        for part in _parts(hint):
            if part not in (int, str, bool, type(None)):
                raise ValueError(f"{kind.name}.{name}: {part} is not an integer, string, boolean or list of them")


def _parts(hint: Any) -> Iterator[Any]:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, pytypes.UnionType, list, tuple, typing.Literal):
        args = typing.get_args(hint)
        for arg in args:
            if origin is typing.Literal:
                yield type(arg)
            elif arg is not Ellipsis:
                yield from _parts(arg)
    elif isinstance(hint, pytypes.GenericAlias):
        yield hint
    else:
        yield hint
