"""What people correct about attempts; they beat all sources (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from events.derive.outcome import Attempt, Segment, cap
from events.derive.sightings import NEAR
from events.types.corrections import RecordCorrected

__all__ = ["correct", "is_count", "move"]

_NEVER: Final = float("inf")
_SIZES: Final[tuple[str, ...]] = ("nodes", "cpus", "gpus")
_MOST: Final = 2**31 - 1
_LIMITS: Final[dict[str, int]] = {**dict.fromkeys(_SIZES, _MOST), **dict.fromkeys(("start", "end"), 253402300799)}
"""Largest values of corrected fields, as of reported ones; what lies above is no value."""


def correct(jobs: list[list[Attempt]], corrections: list[tuple[int, RecordCorrected]]) -> None:
    """Apply corrections (by position) to the attempts they name by the start that the sources give."""
    places = [(job, index) for job in jobs for index in range(len(job))]
    chosen: dict[int, list[tuple[int, RecordCorrected]]] = {}
    for position, correction in corrections:
        gaps = [abs(job[index].start - correction.start) for job, index in places]
        if gaps and min(gaps) <= NEAR:
            chosen.setdefault(gaps.index(min(gaps)), []).append((position, correction))
    for place, said in chosen.items():
        job, index = places[place]
        job[index] = _apply(job[index], said)


def _apply(attempt: Attempt, said: list[tuple[int, RecordCorrected]]) -> Attempt:
    """The attempt with the last good value of each corrected field; its state stays as the sources tell."""
    values = _keep_order(attempt, _read_values(one for _, one in said))
    if not values:
        return attempt
    lost = attempt.lost and "end" not in values
    start, end = values.pop("start", attempt.start), values.pop("end", attempt.end)
    sizes = {name: values.pop(name) for name in _SIZES if name in values}
    moved = move(attempt.segments, start, end)
    suspended = values.pop("suspended_seconds", attempt.suspended_seconds) or 0
    return replace(
        attempt,
        start=start,
        end=end,
        segments=tuple(_correct_size(one, sizes) for one in moved) if sizes else moved,
        suspended_seconds=cap(suspended, start, end),
        corrected=True,
        lost=lost,
        last_position=max(attempt.last_position, *(position for position, _ in said)),
        **values,
    )


def _read_values(corrections: Iterable[RecordCorrected]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for one in corrections:
        if one.field in ("account", "partition"):
            values[one.field] = one.new or None
        elif is_count(one.new):
            if int(one.new) <= _LIMITS.get(one.field, 2**53):
                values[one.field] = int(one.new)
        elif not one.new and one.field != "start":  # an attempt without a start is none
            values[one.field] = None
    return values


def _keep_order(attempt: Attempt, values: dict[str, Any]) -> dict[str, Any]:
    """The values without those that would let the attempt end before it starts."""
    for dropped in ((), ("start",), ("end",), ("start", "end")):
        kept = {name: value for name, value in values.items() if name not in dropped}
        end = kept.get("end", attempt.end)
        if end is None or kept.get("start", attempt.start) <= end:
            break
    return kept


def is_count(text: str) -> bool:
    """Whether it is a whole number of at most 16 decimal digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 16


def move(segments: tuple[Segment, ...], start: int, end: int | None) -> tuple[Segment, ...]:
    """The segments between the new times: what lies outside goes, the first and the last one stretch."""
    until = _NEVER if end is None else end
    inside = [one for one in segments if one.start < until and (one.end is None or one.end > start)]
    inside = inside or [segments[0] if until <= segments[0].start else segments[-1]]
    inside[0] = replace(inside[0], start=start)
    inside[-1] = replace(inside[-1], end=end)
    return tuple(inside)


def _correct_size(segment: Segment, sizes: dict[str, int | None]) -> Segment:
    """Another size; a single GPU type takes the new count, of several nobody knows which."""
    changes: dict[str, Any] = dict(sizes)
    if "gpus" in sizes:
        known = len(segment.gpu_types) == 1 and sizes["gpus"] is not None
        changes["gpu_types"] = ((segment.gpu_types[0][0], sizes["gpus"]),) if known else ()
    return replace(segment, **changes)
