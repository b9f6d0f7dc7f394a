"""`manage.py describe_types`: writes events/types/README.md from the registry."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from events import types
from events.types import REGISTRY, EventType

TARGET = Path(types.__file__).parent / "README.md"


class Command(BaseCommand):
    """Write the vocabulary of the log as a page."""

    help = "Write events/types/README.md from the registry of event types."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Write the page."""
        TARGET.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page: one table of types, then the fields of each."""
    lines = ["# Event types", "", "Written by `manage.py describe_types` from the registry; do not edit.", ""]
    lines += ["| type | version | says |", "|---|---|---|"]
    lines += [f"| `{kind.name}` | {kind.version} | {kind.summary} |" for kind in REGISTRY]
    for kind in REGISTRY:
        lines += ["", f"## {kind.name} v{kind.version}", "", *_doc(kind), "", "| field | type | |", "|---|---|---|"]
        lines += [_field(kind, name, hint) for name, hint in typing.get_type_hints(kind.struct).items()]
    return "\n".join(lines) + "\n"


def _doc(kind: EventType) -> list[str]:
    return [line.strip() for line in (kind.struct.__doc__ or "").strip().splitlines()]


def _field(kind: EventType, name: str, hint: Any) -> str:
    needed = name in kind.struct.__struct_fields__[: _required(kind)]
    mark = kind.markers.get(name)
    notes = [word for word in ("required" if needed else "", f"kept apart ({mark.kind})" if mark else "") if word]
    return f"| `{name}` | {_words(hint)} | {', '.join(notes)} |"


def _required(kind: EventType) -> int:
    return len(kind.struct.__struct_fields__) - len(kind.struct.__struct_defaults__)


def _words(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(f"`{value}`" for value in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"list of {_words(typing.get_args(hint)[0])}"
    parts = [_words(part) for part in typing.get_args(hint) if part is not type(None)]
    return " or ".join(parts) if parts else {int: "integer", str: "text", bool: "yes or no"}.get(hint, str(hint))
