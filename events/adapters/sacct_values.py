"""Reads single values of sacct text: times, durations, counts, states, exit codes and TRES lists."""

from __future__ import annotations

import re
import typing
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from events.types import jobs

__all__ = ["Bad", "Clock", "Tres", "count", "duration", "energy", "exit_code", "free", "label", "limit",
           "number", "record", "short", "shown", "state", "tres"]  # fmt: skip

_STATES: Final = frozenset(typing.get_args(jobs.State))
_UNKNOWN_TIME: Final = frozenset(("", "0", "Unknown", "None"))
_NO_LIMIT: Final = frozenset(("", "UNLIMITED", "Partition_Limit", "4294967295", "4294967294"))
_NO_ENERGY: Final = frozenset(("", "18446744073709551614", "18446744073709551615"))
_MAX_COUNT: Final = 2**53
_MAX_EPOCH: Final = 253402300799
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_DURATION: Final = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9}):([0-5][0-9]):([0-5][0-9])")
_EXIT: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")
_SCALED: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,4})?)([KMG])")
_SCALES: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_NAME: Final = re.compile(r"[^/\x00-\x1f]{1,200}")


class Bad(Exception):
    """A value that cannot be read. code: stable machine word. text: what was found and what was expected.

    The name of the column is known to the caller and joins as `pointer`.
    """

    def __init__(self, code: str, text: str, pointer: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.pointer = code, text, pointer


def shown(value: str) -> str:
    """A found value for a message: quoted, control characters escaped, at most 60 characters of it."""
    return repr(value if len(value) <= 60 else value[:60] + "…")


class Clock:
    """Reads time stamps of one file into whole seconds since 1970-01-01 UTC; text is local time of `zone`."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self.epoch = lru_cache(maxsize=1 << 16)(self._epoch)

    def _epoch(self, text: str, fold: int = 0) -> int | None:
        """Epoch seconds, or None when the source does not know the time.

        In the hour that is repeated when summer time ends, fold 0 is its first pass and fold 1 its second.
        Raises Bad: `bad_time`, and `time_missing_in_zone` in the hour that is left out when it begins.
        """
        if text in _UNKNOWN_TIME:
            return None
        if text.isdecimal() and text.isascii() and len(text) <= 12:
            return _in_range(int(text), text)
        if not _TIME.fullmatch(text):
            raise Bad("bad_time", f"{shown(text)} is no time; expected YYYY-MM-DDTHH:MM:SS or epoch seconds")
        try:
            naive = datetime.fromisoformat(text)
        except ValueError:
            raise Bad("bad_time", f"{shown(text)} is no date and time of the calendar") from None
        return self._zoned(naive, text, fold)

    def _zoned(self, naive: datetime, text: str, fold: int) -> int:
        if naive.year < 1970:
            raise Bad("bad_time", f"{shown(text)} lies before 1970")
        epoch = _in_range(int(naive.replace(tzinfo=self._zone, fold=fold).timestamp()), text)
        # A wall time that does not exist comes back from UTC as another one.
        if datetime.fromtimestamp(epoch, UTC).astimezone(self._zone).replace(tzinfo=None, fold=0) != naive:
            gap = f"{shown(text)} does not exist in time zone {self._zone}, where clocks went forward over it"
            raise Bad("time_missing_in_zone", gap + "; give the cluster's zone or export with SLURM_TIME_FORMAT=%s")
        return epoch


def _in_range(epoch: int, text: str) -> int:
    if not 0 <= epoch <= _MAX_EPOCH:
        raise Bad("bad_time", f"{shown(text)} lies outside the years 1970 to 9999")
    return epoch


@lru_cache(maxsize=4096)
def count(text: str) -> int | None:
    """A count, None when empty; sacct may print a multiple of 1024 as `2K`. Raises Bad `bad_number`."""
    if not text:
        return None
    scaled = _SCALED.fullmatch(text)
    if scaled is None:
        return number(text)
    value = float(scaled[1]) * _SCALES[scaled[2]]
    if not value.is_integer() or value > _MAX_COUNT:
        raise Bad("bad_number", f"{shown(text)} is no whole number; export without --units")
    return int(value)


def number(text: str) -> int:
    """A plain whole number of 0 to 2^53. Raises Bad `bad_number`."""
    if text.isdecimal() and text.isascii() and len(text) <= 16 and (value := int(text)) <= _MAX_COUNT:
        return value
    raise Bad("bad_number", f"{shown(text)} is no whole number of 0 to 2^53")


def energy(text: str) -> int | None:
    """Joules of ConsumedEnergyRaw; empty and the sentinel 2^64-2 mean that nothing was read."""
    return None if text in _NO_ENERGY else number(text)


@lru_cache(maxsize=1024)
def duration(text: str) -> int | None:
    """Seconds of `HH:MM:SS` or `D-HH:MM:SS`, None when empty. Raises Bad `bad_duration`."""
    if not text:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Bad("bad_duration", f"{shown(text)} is no duration; expected HH:MM:SS or D-HH:MM:SS")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@lru_cache(maxsize=1024)
def limit(text: str) -> int | None:
    """Seconds of a time limit in minutes (TimelimitRaw) or as a duration (Timelimit); None when unlimited."""
    if text in _NO_LIMIT:
        return None
    seconds = duration(text) if ":" in text else number(text) * 60
    if seconds is not None and seconds > _MAX_COUNT:
        raise Bad("bad_number", f"{shown(text)} minutes are no time limit")
    return seconds


@lru_cache(maxsize=1024)
def state(text: str) -> jobs.State:
    """Base state word: `CANCELLED by 1001` is CANCELLED. Raises Bad `bad_state`, as on a cut `OUT_OF_ME+`."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    if word in _STATES:
        return typing.cast("jobs.State", word)
    hint = "expected a job state of Slurm such as COMPLETED"
    if word.endswith("+"):
        hint = "it was cut to the width of its column; export with -P (--parsable2)"
    raise Bad("bad_state", f"{shown(text)} is no state: {hint}")


@lru_cache(maxsize=1024)
def exit_code(text: str) -> tuple[int | None, int | None]:
    """(exit code, signal) of `code:signal`; two None when empty. Raises Bad `bad_exit_code`."""
    if not text:
        return None, None
    match = _EXIT.fullmatch(text)
    if match is None:
        raise Bad("bad_exit_code", f"{shown(text)} is no exit code; expected CODE:SIGNAL")
    return int(match[1]), int(match[2])


@lru_cache(maxsize=8192)
def label(text: str) -> str | None:
    """A name of an account, user or the like (1 to 200 characters, no slash), None when empty. Raises Bad."""
    if not text:
        return None
    if not _NAME.fullmatch(text):
        raise Bad("bad_name", f"{shown(text)} is no name; expected up to 200 characters without /")
    return text


def short(text: str) -> str | None:
    """A list of partitions or the like of at most 400 characters, None when empty. Raises Bad `too_long`."""
    if len(text) > 400:
        raise Bad("too_long", f"{shown(text)} has {len(text)} characters; at most 400 are expected")
    return text or None


def free(text: str) -> str | None:
    """Free text of a user of at most 20,000 characters, None when empty. Raises Bad `too_long`."""
    if len(text) > 20_000:
        raise Bad("too_long", f"{shown(text)} has {len(text)} characters; at most 20,000 are expected")
    return text or None


def record(text: str) -> int | None:
    """DBIndex of an accounting record; empty and 0 mean that none is told. Raises Bad `bad_number`."""
    return (number(text) or None) if text else None


class Tres(NamedTuple):
    """What was allocated, over all nodes; as AllocTRES tells it gpus is None only when the list is empty.

    gpus is the total `gres/gpu`; the typed entries count the same GPUs again and are summed only without it.
    """

    cpus: int | None
    nodes: int | None
    gpus: int | None
    gpu_types: tuple[str, ...]


_NOTHING_KNOWN: Final = Tres(None, None, None, ())


@lru_cache(maxsize=16384)
def tres(text: str) -> Tres:
    """Read `billing=704,cpu=512,gres/gpu:h100=32,gres/gpu=64,node=8`. Raises Bad `bad_tres`, `bad_number`."""
    if not text:
        return _NOTHING_KNOWN
    known: dict[str, int | None] = {}
    types: dict[str, int] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not (equals and value):
            raise Bad("bad_tres", f"{shown(part)} is no KEY=VALUE entry of a TRES list")
        if key.startswith("gres/gpu:"):
            types[key[9:]] = types.get(key[9:], 0) + number(value)
        elif key in ("cpu", "node", "gres/gpu"):
            known[key] = count(value)
    return Tres(known.get("cpu"), known.get("node"), _gpus(known.get("gres/gpu"), types), _typed(types))


def _gpus(total: int | None, types: dict[str, int]) -> int:
    gpus = sum(types.values()) if total is None else total
    if gpus > _MAX_COUNT:
        raise Bad("bad_number", f"{gpus} GPUs are more than 2^53")
    return gpus


def _typed(types: dict[str, int]) -> tuple[str, ...]:
    typed = tuple(sorted(f"{name}={gpus}" for name, gpus in types.items()))
    if any(len(entry) > 400 for entry in typed):
        raise Bad("bad_tres", "the name of a GPU type is longer than 380 characters")
    return typed
