"""Finds out from the first line of a sacct text which columns it has and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from events.adapters.sacct_values import shown
from events.adapters.textfiles import Unreadable

__all__ = ["HEADERLESS", "Plan", "read_columns"]

HEADERLESS: Final = (
    "jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid", "submit",
    "eligible", "start", "end", "elapsed", "exitcode", "state", "nnodes", "ncpus", "reqcpus", "reqmem",
    "reqtres", "alloctres", "timelimit", "nodelist", "jobname",
)  # fmt: skip
"""The one form that is read without a header: `sacct --noheader -P` with these 26 fields in this order."""

_TELLING: Final = frozenset(("jobid", "jobidraw", "state"))
_EXPECTED: Final = "expected the text of sacct -P with a header line naming JobIDRaw (or JobID) and State"
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_JOB_ID: Final = re.compile(r"[0-9]+[0-9_+\[\],:%.a-z-]*")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}|[0-9]+|Unknown|None|")
_STATE: Final = re.compile(r"[A-Z][A-Z_]*(?: by [0-9]+)?\+?")
_DELIMITERS: Final = {"|": "'|'", "\x1f": "$'\\x1f'", ",": "','", ";": "';'", "\t": "a tab", "^": "'^'"}


@dataclass(frozen=True, slots=True)
class Plan:
    """Place of each column that is used; -1 for one that the file lacks (it reads as an empty value)."""

    jobid: int
    jobidraw: int
    dbindex: int
    cluster: int
    state: int
    submit: int
    eligible: int
    start: int
    end: int
    account: int
    user: int
    partition: int
    qos: int
    jobname: int
    comment: int
    reason: int
    exitcode: int
    nnodes: int
    allocnodes: int
    ncpus: int
    alloccpus: int
    alloctres: int
    nodelist: int
    suspended: int
    timelimitraw: int
    timelimit: int
    consumedenergyraw: int

    @classmethod
    def of(cls, columns: Sequence[str]) -> Plan:
        """The plan for column names in lower case; of a column that is there twice the first counts."""
        return cls(*(columns.index(part.name) if part.name in columns else -1 for part in fields(cls)))


def read_columns(first_line: str, delimiter: str) -> tuple[tuple[str, ...], bool]:
    """(column names as told, whether the line is a header) of a file's first line.

    Raises Unreadable when the line starts no sacct text: another format, another delimiter, or a header
    without the columns that every record needs.
    """
    line = first_line.removeprefix("\ufeff").rstrip("\r\n")
    if delimiter not in line:
        raise Unreadable(_without_delimiter(line, delimiter))
    found = tuple(line.split(delimiter))
    if _is_headerless(found):
        return (*HEADERLESS, "") if len(found) == 27 and not found[-1] else HEADERLESS, False
    names = {name.strip().lower() for name in found}
    if not _is_header(found, names):
        what = f"neither a header nor a record of the {len(HEADERLESS)}-column form without one"
        raise Unreadable(f"the first line has {len(found)} fields and is {what}; {_EXPECTED}")
    _check_required(names)
    return tuple(name.strip() for name in found), True


def _is_headerless(found: tuple[str, ...]) -> bool:
    if len(found) < len(HEADERLESS):
        return False
    return (
        all(_JOB_ID.fullmatch(text) for text in found[:2])
        and all(_TIME.fullmatch(text) for text in found[10:14])
        and _STATE.fullmatch(found[16]) is not None
    )


def _is_header(found: tuple[str, ...], names: set[str]) -> bool:
    # The line of -p ends with a delimiter, which makes a last name that is empty.
    inner = found[:-1] if not found[-1] else found
    return bool(names & _TELLING) and all(_FIELD.fullmatch(name.strip()) for name in inner)


def _check_required(names: set[str]) -> None:
    missing = [] if names & {"jobid", "jobidraw"} else ["JobIDRaw"]
    missing += [] if "state" in names else ["State"]
    if missing:
        raise Unreadable(f"the header lacks {' and '.join(missing)}; add it to the --format of sacct -P")


def _without_delimiter(line: str, delimiter: str) -> str:
    wanted = _DELIMITERS.get(delimiter, shown(delimiter))
    if "\0" in line or line.count("\ufffd") > len(line) // 10:
        return f"the first line is binary, not text; {_EXPECTED}"
    if line.lstrip().startswith(("{", "[")):
        return f"this looks like JSON, not text (import_sacct --json reads that); {_EXPECTED}"
    for other, name in _DELIMITERS.items():
        if other != delimiter and _TELLING & set(line.lower().split(other)):
            return f"the header is not delimited by {wanted} but by {name}; say so with --delimiter"
    words = line.lower().split()
    if words[:4] == ["account", "admincomment", "alloccpus", "allocnodes"]:
        return f"this is the list of fields of sacct --helpformat; {_EXPECTED}"
    if _TELLING & set(words):
        return f"this is fixed-width output of sacct, which cuts values; {_EXPECTED}"
    return f"the first line {shown(line)} has no delimiter {wanted}; {_EXPECTED}"
