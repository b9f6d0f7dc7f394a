"""`sacct -P` text that was posted: the adapter of files (events/adapters/sacct.py) for a whole body.

The zone of its local times comes with the delivery (`x-hallbook-timezone`, a name of the tz database), as no
column has it. The cluster is the one of the column Cluster, or of `x-hallbook-cluster` where that is not there.
The delimiter is what stands between the names of the header: `|`, or the unit separator 0x1f.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from events.adapters import Draft, Refusal
from events.adapters.sacct import open_sacct
from events.adapters.sacct_columns import read_columns
from events.adapters.sacct_values import Bad, label, shown
from events.adapters.textfiles import Unreadable
from events.validate import refusal

__all__ = ["sacct_text"]

_UNIT: Final = "\x1f"


def sacct_text(_content_type: str, headers: Mapping[str, str], body: bytes) -> list[Draft | Refusal]:
    """Drafts and refusals of the lines, numbered from 1; one refusal when the body as a whole is no such text."""
    try:
        return list(_read(body, headers.get("x-hallbook-cluster", ""), headers.get("x-hallbook-timezone", "")))
    except Unreadable as error:
        return [refusal(0, "", "malformed", str(error), body)]
    except Bad as bad:
        return [refusal(0, bad.pointer, bad.code, bad.text, body)]


def _read(body: bytes, named: str, zone_name: str) -> Iterator[Draft | Refusal]:
    lines = list(io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", errors="replace", newline=None))
    first = next((place for place, line in enumerate(lines) if line.strip(" \t\n")), None)
    if first is None:
        raise Unreadable("there is no line in it; the text of sacct -P with its header is expected")
    delimiter = _UNIT if _UNIT in lines[first] else "|"
    cluster = _cluster(lines[first:], delimiter, named)
    reader = open_sacct(lines[first], cluster=cluster, zone=_zone(zone_name), delimiter=delimiter)
    for number, line in enumerate(lines[first:], first + 1):
        made = reader.read(number, line)
        if made is not None:
            yield _said(made, f"sacct:{cluster}")


def _said(made: Draft | Refusal, source: str) -> Draft | Refusal:
    if isinstance(made, Draft):
        return msgspec.structs.replace(made, source=source)
    return Refusal(made.index, made.pointer, made.code, made.text, made.payload, source)


def _cluster(lines: list[str], delimiter: str, named: str) -> str:
    """The cluster's name. Raises Bad when none is told, or two."""
    columns, has_header = read_columns(lines[0], delimiter)
    names = [name.lower() for name in columns]
    told = ""
    if "cluster" in names:
        place = names.index("cluster")
        rows = (line.rstrip("\n").split(delimiter) for line in lines[has_header:])
        told = next((row[place] for row in rows if len(row) == len(names) and row[place]), "")
    if told and named and told != named:
        raise Bad(
            "cluster_mismatch", f"{shown(told)} is not {shown(named)}, of which jobs are expected here", "Cluster"
        )
    found = label(told or named)
    if found is None:
        text = "no cluster is named; add the column Cluster or send the header x-hallbook-cluster"
        raise Bad("cluster_missing", text, "Cluster")
    return found


def _zone(name: str) -> ZoneInfo:
    if not name:
        text = "the zone of its times is not told; send the header x-hallbook-timezone (such as Europe/Berlin or UTC)"
        raise Bad("timezone_missing", text)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Bad("bad_timezone", f"{shown(name)} is not in the tz database (such as Europe/Berlin or UTC)") from None
