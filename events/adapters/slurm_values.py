"""Reads single values of Slurm's JSON, whichever generation wrote them (22.05 to 25.11), by their shape.

* Numbers: `20`, `null` and sentinels (22.05); `{"set": true, "infinite": false, "number": 20}` (data_parser,
  since 23.02); `"Infinity"` where the client asked for its `complex` form.
* States and exit statuses: a word, or since 23.11 a list of a base word and flags.
* Exit codes: an object, but the raw wait status in what slurmctld of 22.05 tells.
* Allocations: a list of `{"type", "name", "count"}`, which is read as the text `type/name=count`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from events.adapters import sacct_values as values
from events.adapters.hostlist import expand, numbers, ranges
from events.adapters.sacct_values import Bad, Tres, shown
from events.types.jobs import State

__all__ = ["Exit", "Num", "Number", "Signal", "TresCount", "Words", "accounting_state", "energy_of", "epoch",
           "exit_of", "gpu_indices", "number", "tres_of", "wait_status", "whole_state", "words"]  # fmt: skip

_MAX: Final = 2**53
_MAX_EPOCH: Final = 253402300799
_UNSET: Final = frozenset((-1, -2, 2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2))
"""INFINITE and NO_VAL of 32 and 64 bits, also as signed numbers: none is told."""


class Number(msgspec.Struct, gc=False):
    """A number that says itself whether it is one."""

    number: int | float | str | None = None
    set: bool = True
    infinite: bool = False


Num = int | float | str | Number | None
Words = str | list[str] | None


def number(value: Num) -> int | None:
    """A whole number of 0 to 2^53; None where none is told or it is infinite. Raises Bad `bad_number`."""
    if isinstance(value, Number):
        value = value.number if value.set and not value.infinite else None
    if isinstance(value, str):
        value = _spelt(value)
    if value is None or value in _UNSET:
        return None
    if not 0 <= value <= _MAX or value != int(value):
        raise Bad("bad_number", f"{shown(str(value))} is no whole number of 0 to 2^53")
    return int(value)


def _spelt(text: str) -> int | None:
    if text in ("", "Infinity", "NaN"):
        return None
    return values.number(text)


def epoch(value: Num) -> int | None:
    """Epoch seconds; 0, like null, is a time that is not known yet. Raises Bad `bad_number`, `bad_time`."""
    seconds = number(value)
    if seconds is not None and seconds > _MAX_EPOCH:
        raise Bad("bad_time", f"{seconds} lies outside the years 1970 to 9999")
    return seconds or None


def words(value: Words) -> tuple[str, ...]:
    """The words of a state or status; the text "CANCELLED by 1001" is one word here."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


_FLAGS: Final = (
    "COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
    "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING",
)  # fmt: skip
"""Flags that Slurm's own text shows in place of the base state, the first that is set."""
_SMALL: Final = frozenset(("LAUNCH_FAILED", "UPDATE_DB", "RECONFIG_FAIL", "POWER_UP_NODE", "EXPEDITING"))
"""Flags that say nothing about a state."""


@lru_cache(maxsize=1024)
def whole_state(told: tuple[str, ...]) -> tuple[State | None, frozenset[str]]:
    """(base state, flags) of the words. Raises Bad `bad_state`; the base is None where only flags are told."""
    base: State | None = None
    flags: set[str] = set()
    for word in told:
        if word in _FLAGS or word in _SMALL:
            flags.add(word)
        elif base is None:
            base = values.state(word)
    if base is None and not flags & set(_FLAGS):
        raise Bad("bad_state", f"{shown(' '.join(told))} is no state: expected a job state of Slurm such as COMPLETED")
    return base, frozenset(flags)


@lru_cache(maxsize=1024)
def accounting_state(told: tuple[str, ...]) -> State:
    """The state that sacct's text would show: a record that a requeue closed is PENDING and REQUEUED in the
    database, and REQUEUED in text. Raises Bad `bad_state`."""
    base, flags = whole_state(told)
    flag = next((flag for flag in _FLAGS if flag in flags), None)
    return values.state(flag) if flag else base or "UNKNOWN"


class Signal(msgspec.Struct, gc=False):
    """The signal that ended a process (`signal_id` in 22.05 and 23.02)."""

    id: Num = None
    signal_id: Num = None


class Exit(msgspec.Struct, gc=False):
    """How a process ended; `number` with `set` when it is a wait status."""

    status: Words = None
    return_code: Num = None
    signal: Signal | None = None
    number: int | float | str | None = None
    set: bool = True
    infinite: bool = False


_NOBODY: Final = (None, None)
_UNDECIDED: Final = frozenset(("PENDING", "INVALID"))


def exit_of(value: Exit | int | None) -> tuple[int | None, int | None]:
    """(exit code, signal), two None where it is not decided. Raises Bad `bad_number`, `bad_exit_code`."""
    if value is None:
        return _NOBODY
    if isinstance(value, int):
        return wait_status(value)
    if value.number is not None:
        status = number(Number(value.number, value.set, value.infinite))
        return _NOBODY if status is None else wait_status(status)
    code = number(value.return_code)
    signal = None if value.signal is None else _signal(value.signal)
    if _UNDECIDED & set(words(value.status)) or (code is None and signal is None):
        return _NOBODY
    return code or 0, signal or 0


def _signal(told: Signal) -> int | None:
    found = number(told.signal_id if told.id is None else told.id)
    # NO_VAL16: 23.02 writes it for "no signal".
    return None if found in (65534, 65535) else found


def wait_status(status: int) -> tuple[int | None, int | None]:
    """(exit code, signal) of a raw wait status: exit 1 is 256, kill -9 is 9. Raises Bad `bad_exit_code`."""
    if status in _UNSET:
        return _NOBODY
    if not 0 <= status <= 0xFFFF:
        raise Bad("bad_exit_code", f"{status} is no wait status; expected 0 to 65535")
    return status >> 8, status & 0x7F


class TresCount(msgspec.Struct, gc=False):
    """One trackable resource of a list."""

    type: str
    name: str | None = None
    count: Num = None


def tres_of(found: Sequence[TresCount]) -> Tres:
    """What was allocated; typed GPUs count the same GPUs again. Raises Bad `bad_tres`, `bad_number`."""
    parts = []
    for one in found:
        if one.type in ("cpu", "node") or one.type.startswith("gres"):
            key = f"{one.type}/{one.name}" if one.name else one.type
            parts.append(f"{key}={number(one.count) or 0}")
    return values.tres(",".join(parts))


def energy_of(found: Sequence[TresCount]) -> int | None:
    """Joules in a list of resources; None when nothing was read."""
    return next((number(one.count) for one in found if one.type == "energy"), None)


@lru_cache(maxsize=4096)
def gpu_indices(details: tuple[str, ...], nodes: str) -> tuple[str, ...]:
    """`("gpu:h100:4(IDX:0-3)",)` on `gpu003` -> `("gpu003=0-3",)`, a detail for each node in order.

    Types of one node are joined; nodes without a GPU, and whatever cannot be read (`IDX:N/A`), are left out:
    the count is in the allocation, and an index is not worth refusing a job.
    """
    try:
        names = expand(nodes)
    except ValueError:
        return ()
    if len(names) != len(details):
        return ()
    told = ((name, _indices(detail)) for name, detail in zip(names, details, strict=True))
    return tuple(entry for name, found in told if found and len(entry := f"{name}={ranges(found)}") <= 400)


_GPUS: Final = re.compile(r"(?:^|,)gpu(?::[^:,()]+)*\(IDX:([0-9,-]+)\)")


def _indices(detail: str) -> set[int]:
    """Numbers of the GPUs in `gpu:h100:2(IDX:0-1),gpu:h200:4(IDX:2-5),nic:1(IDX:0)`."""
    found: set[int] = set()
    for told in _GPUS.findall(detail):
        try:
            found |= numbers(told)
        except ValueError:
            return set()
    return found
