"""What an owner writes of nodes: a CSV of where they stand, and Slurm's topology.conf for their leaf switches (pure).

Columns and lines that are not there say nothing: what was said of a node before stays. `known` holds that.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from events.adapters import Draft, Refusal
from events.adapters import sacct_values as values
from events.adapters.hostlist import expand
from events.adapters.sacct_values import Bad, shown
from events.adapters.textfiles import TooLong
from events.types.nodes import NodeDeclared
from events.validate import refusal

__all__ = ["COLUMNS", "Known", "described", "leaves"]

COLUMNS: Final = ("node", "cluster", "gpus", "gpu_model", "site", "hall", "pod", "rack", "unit", "leaf", "serial",
                  "guaranteed", "from_day")  # fmt: skip
_SWITCH: Final = re.compile(r"(?i)SwitchName=(\S+).*?\sNodes=(\S+)")
_YES: Final = {"yes": True, "true": True, "1": True, "": True, "no": False, "false": False, "0": False}


class Known(NamedTuple):
    """What is known of a node: its owner's last word, and its position in the log (0: none)."""

    declared: NodeDeclared | None
    position: int


Lines = Iterable[tuple[int, str | TooLong]]


def described(
    head: str, lines: Lines, cluster: str, known: Mapping[tuple[str, str], Known], now_us: int
) -> Iterator[Draft | Refusal]:
    """Rows of a CSV with a head; a row that says nothing new gives nothing. Raises ValueError for a head that is none.

    head: the first line. known: by (cluster, node). now_us: when it is said, microseconds since 1970.
    """
    names = [name.strip().lower() for name in _cells(head)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"the head names {', '.join(twice)} twice")
    if "node" not in names or (unknown := sorted(set(names) - set(COLUMNS))):
        extra = f"; it has {', '.join(unknown)}" if "node" in names else ""
        raise ValueError(f"a head with `node` and any of {', '.join(COLUMNS[1:])} is expected{extra}")
    for number, line in lines:
        if isinstance(line, TooLong):
            yield refusal(number, "", "too_long", f"line of {line.size} characters", line.head)
        elif line.strip():
            try:
                row = _row(names, line)
            except ValueError as error:
                yield refusal(number, "", "field_count", str(error), line)
                continue
            yield from _said(number, row, row.get("cluster") or cluster, known, now_us, line)


def _cells(line: str) -> list[str]:
    """The cells of a line of CSV. Raises ValueError for one that is none."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _row(names: list[str], line: str) -> dict[str, str]:
    cells = _cells(line)
    if len(cells) != len(names):
        raise ValueError(f"expected {len(names)} cells and found {len(cells)}")
    return dict(zip(names, cells, strict=True))


def leaves(
    lines: Lines, cluster: str, known: Mapping[tuple[str, str], Known], now_us: int
) -> Iterator[Draft | Refusal]:
    """The leaf switch of each node, from lines `SwitchName=leaf1 Nodes=gpu[001-004]` of topology.conf."""
    for number, line in lines:
        found = None if isinstance(line, TooLong) else _SWITCH.search(line.partition("#")[0])
        if found is None:
            continue
        try:
            names = expand(found[2])
        except (Bad, ValueError) as error:
            text = error.text if isinstance(error, Bad) else str(error)
            yield refusal(number, "Nodes", "bad_node_list", text, found[0])
            continue
        for name in names:
            yield from _said(number, {"node": name, "leaf": found[1]}, cluster, known, now_us, found[0])


def _said(
    number: int, row: Mapping[str, str], cluster: str, known: Mapping[tuple[str, str], Known], now_us: int, told: str
) -> Iterator[Draft | Refusal]:
    try:
        node = values.label(row["node"].strip())
        if node is None:
            raise Bad("node_missing", "the row names no node", "node")
        before = known.get((cluster, node), Known(None, 0))
        base = before.declared or NodeDeclared(cluster=cluster, node=node)
        data = _checked(msgspec.structs.replace(base, **_fields(row)))
    except Bad as bad:
        yield refusal(number, bad.pointer, bad.code, bad.text, told)
        return
    except ValueError as error:  # a day that the calendar has not
        yield refusal(number, "from_day", "invalid", str(error), told)
        return
    if data != before.declared:
        key = f"{cluster}/{node}/after:{before.position}"
        yield Draft("node.declared", data, key, now_us, number)


def _fields(row: Mapping[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, text in row.items():
        value = text.strip()
        if name in ("gpus", "unit"):
            fields[name] = _count(name, value)
        elif name == "guaranteed":
            fields[name] = _yes(value)
        elif name in ("gpu_model", "from_day"):
            fields[name] = value or None
        elif name not in ("node", "cluster"):
            fields[name] = value
    return fields


def _count(name: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise Bad("bad_number", f"{shown(text)} is not a whole number", name)
    return int(text)


def _yes(text: str) -> bool:
    found = _YES.get(text.lower())
    if found is None:
        raise Bad("bad_value", f"{shown(text)} is neither yes nor no", "guaranteed")
    return found


def _checked(data: NodeDeclared) -> NodeDeclared:
    """The same, where every field is within its bounds. Raises Bad."""
    try:
        return msgspec.convert(msgspec.to_builtins(data), NodeDeclared)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$.")
        raise Bad("invalid", text, where.rstrip("`")) from None
