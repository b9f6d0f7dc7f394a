"""What all readers of Slurm's records share: when a record happened, whether it ever ran, and its key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from events.adapters.sacct_values import Bad, Tres, shown
from events.validate import UNREADABLE

__all__ = ["NO_SIZE", "UNPLACED", "Span", "at", "cluster_of", "key_of", "looked_at", "occurred_us", "settle",
           "suspended_within"]  # fmt: skip

UNPLACED: Final = frozenset(("None assigned", "", None))
"""Node lists of a job that has no node."""
NO_SIZE: Final = Tres(None, None, None, ())
"""The size of what never started: what stands there was asked for and never allocated."""


class _Slurm(msgspec.Struct, gc=False):
    cluster: str | None = None


class _Meta(msgspec.Struct, gc=False):
    slurm: _Slurm | None = None


_META: Final = msgspec.json.Decoder(_Meta)
V = TypeVar("V")
T = TypeVar("T")


def at(place: str, parse: Callable[[V], T], value: V) -> T:
    """The parsed value; a failure is told with the place (column or JSON pointer) it was found in."""
    try:
        return parse(value)
    except Bad as bad:
        raise Bad(bad.code, bad.text, place) from None


class Span(NamedTuple):
    """Times of one record in epoch seconds; without a start it never ran."""

    submit: int | None
    start: int | None
    end: int | None


def settle(submit: int | None, start: int | None, end: int | None, *, unplaced: bool, waiting: bool) -> Span:
    """The times of a record, without a Start that never was.

    unplaced: it names no node. waiting: it is still pending. Slurm repeats the end, or its estimate, as Start
    of a job that never got a node.
    """
    if start is not None and unplaced and (end == start or waiting):
        return Span(submit, None, end)
    return Span(submit, start, end)


def key_of(cluster: str, job_id: str, record: int | None, span: Span) -> str:
    """Key of the accounting record: its own number, else its submission, as long as it lasts.

    Without either, Start is as lasting as anything told. Raises Bad `time_missing`.
    """
    if record is not None:
        return f"{cluster}/{job_id}/{record}"
    for name, value in zip(Span._fields, span, strict=True):
        if value is not None:
            return f"{cluster}/{job_id}/{name}:{value}"
    raise _timeless()


def occurred_us(span: Span) -> int:
    """Microseconds of the last thing known to have happened; Eligible may lie ahead and does not count.

    Raises Bad `time_missing`.
    """
    known = [value for value in span if value is not None]
    if not known:
        raise _timeless()
    return max(known) * 1_000_000


def _timeless() -> Bad:
    return Bad("time_missing", "no time of the record is known; its submission, start or end is needed")


def suspended_within(seconds: int | None, span: Span, told: str, place: str) -> int | None:
    """Suspended seconds as they are; raises Bad `bad_duration` when they are longer than the run.

    told: the seconds as found. place: column or JSON pointer.
    """
    if seconds and span.start is not None and span.end is not None and seconds > span.end - span.start:
        found = f"{shown(told)} is longer than the {span.end - span.start} s from Start to End"
        raise Bad("bad_duration", found, place)
    return seconds


def looked_at(text: str | None) -> int | None:
    """The header x-hallbook-changes: only what has changed is sent, looked at then (epoch seconds, 0: as each says)."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 11:
        raise Bad("bad_header", f"x-hallbook-changes: {shown(text)} is not a time in epoch seconds", "")
    return int(text)


def cluster_of(meta: msgspec.Raw) -> str | None:
    """Cluster that the document as a whole names (since 23.11)."""
    try:
        slurm = _META.decode(meta).slurm
    except UNREADABLE:
        return None
    return slurm.cluster if slurm else None
