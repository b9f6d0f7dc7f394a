"""Kinds of faults as data: what is broken, how far it reaches, how bad it is, what is done, whether a part is replaced.

`catalogue.toml` holds them; a site may lay a file of its own over it. Pure, but for reading the file once.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from events.types.faults import FaultSighted

__all__ = ["Catalogue", "FaultClass", "Misread", "read", "shipped"]

_SHIPPED: Final = Path(__file__).with_name("catalogue.toml")
_UNKNOWN: Final = "unknown"
_OTHER_XID: Final = "xid-other"


class Misread(Exception):
    """A catalogue that cannot be used; the text says which entry and what is wrong."""


class FaultClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of fault. alerts, redfish: patterns of names by which it is known; xid: the code that it is."""

    id: str
    title: str
    component: str
    scope: Literal["gpu", "port", "node", "rack", "cdu", "group", "hall"]
    severity: Literal["fatal", "degraded", "warn", "app", "info", "meta"]
    action: str
    then: str
    replace: Literal["no", "on_repeat", "likely"]
    xid: int | None = None
    alerts: tuple[str, ...] = ()
    redfish: tuple[str, ...] = ()

    def is_wide(self, unit: str | None) -> bool:
        """Many see one and the same fault: of the hall, or of what many nodes hang on, unless that is named itself."""
        many = self.scope == "group" or self.action == "one_incident"
        return self.scope == "hall" or (many and unit is None)

    @property
    def is_fault(self) -> bool:
        """False of a code that only tells of another fault."""
        return self.severity != "meta"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    entries: tuple[FaultClass, ...] = msgspec.field(name="class")


class Catalogue:
    """Kinds of faults. version: that of the file, so that a figure can say by which rules it was made."""

    def __init__(self, version: int, classes: tuple[FaultClass, ...]) -> None:
        self.version = version
        self.by_id: Final = {one.id: one for one in classes}
        self._by_xid: Final = {one.xid: one for one in classes if one.xid is not None}
        self._patterns: Final = {
            "alert": _compiled(classes, "alerts"),
            "redfish": _compiled(classes, "redfish"),
        }

    def classify(self, sighting: FaultSighted) -> FaultClass:
        """Which kind of fault was seen: by the class that its source names, its XID, then its name."""
        if (hinted := self.by_id.get(sighting.hint or "")) is not None:
            return hinted
        if sighting.xid is not None:
            return self._by_xid.get(sighting.xid) or self.by_id[_OTHER_XID]
        name = sighting.name.rpartition(".")[2] if sighting.signal == "redfish" else sighting.name
        for pattern, one in self._patterns.get(sighting.signal, ()):
            if pattern.search(name):
                return one
        return self.by_id[_UNKNOWN]

    def laid_over(self, own: Catalogue | None) -> Catalogue:
        """This catalogue with a site's entries: the same id replaces, another is added and is tried first."""
        if own is None:
            return self
        return Catalogue(own.version, tuple((own.by_id | self.by_id | own.by_id).values()))


def _compiled(classes: tuple[FaultClass, ...], field: str) -> tuple[tuple[re.Pattern[str], FaultClass], ...]:
    found = []
    for one in classes:
        for text in getattr(one, field):
            try:
                found.append((re.compile(text, re.IGNORECASE), one))
            except re.error as error:
                raise Misread(f"class {one.id!r}: the pattern {text!r} of {field} cannot be read: {error}") from None
    return tuple(found)


def read(text: str, *, whole: bool = True) -> Catalogue:
    """A catalogue from the text of a file. whole: no site's few entries, to be laid over another. Raises Misread."""
    try:
        found = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Misread(f"the catalogue cannot be read: {error}") from None
    for field in ("id", "xid"):
        seen: set[object] = set()
        for one in found.entries:
            value = getattr(one, field)
            if value is not None and value in seen:
                raise Misread(f"two classes have the {field} {value!r}")
            seen.add(value)
    ids = {one.id for one in found.entries}
    if whole and not {_UNKNOWN, _OTHER_XID} <= ids:
        raise Misread(f"the class {min({_UNKNOWN, _OTHER_XID} - ids)!r} is missing; every catalogue needs it")
    return Catalogue(found.version, found.entries)


@lru_cache(maxsize=1)
def shipped() -> Catalogue:
    """The catalogue that comes with Hallbook."""
    return read(_SHIPPED.read_text(encoding="utf-8"))
