"""Energy of a GPU or a node between instants, from its samples (pure: no clock, no database).

All in whole micro-joules: mJ of the counter times 1000, and milliwatts times milliseconds. The samples make *pieces*,
each with its energy and how it runs inside the piece; the energy up to an instant is a whole number that only depends
on the set of samples. So slices, however cut, add up to the whole, to the last micro-joule.

Between two neighbouring samples, in this order:

| what is there | energy | quality |
|---|---|---|
| counter at both, it rose as a GPU can | the rise | measured; over `gap_ms` estimated: when is unknown |
| counter fell by a trifle (`jitter_uj`) | none | the same |
| counter fell, and a counter of 32 bits would have rolled over | the rise past the roll-over | the same |
| counter fell to what can be new since a reset | what it shows | estimated: what was used before the reset is lost |
| power at both | trapezoid | measured; over `gap_ms` estimated |
| power at both, over `unknown_ms` apart | the nearest power for `extend_ms` at each end | estimated, the rest missing |

Before the first and after the last value of power it holds on for `extend_ms`, estimated; beyond it is missing.
Missing time has no energy: it is told, not made up. Stale markers are no samples and no zeros.

Why not the trapezoid alone: power is a running average on newer GPUs and bridges an outage
(NVIDIA/DCGM issue 157; ml-energy/zeus issues 45 and 181).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["Limits", "Piece", "Reading", "Stretch", "counter_uj", "metered", "pieces_of", "power_mw", "sliced"]

_BLANK_MJ: Final = 2**62
"""DCGM's blank values (9223372036854775794) lie beyond."""
_ROLLOVER_UJ: Final = 2**32 * 1000
_EVER: Final = (-(2**63), 2**63)


class Reading(NamedTuple):
    """What a GPU or a node said at an instant: counter in micro-joules, power in milliwatts."""

    t_ms: int
    energy_uj: int | None = None
    power_mw: int | None = None


class Limits(NamedTuple):
    """gap_ms: neighbours farther apart are estimated. unknown_ms: power is not bridged beyond. extend_ms: how long the
    nearest power holds where samples end. longest_ms: a stretch is at most so long, cut at its multiples since 1970.
    most_mw: more than this no GPU (or node) can draw. lag_ms: an exporter may hold a value back so long.
    jitter_uj: a counter that falls by less was not reset.
    """

    gap_ms: int = 45_000
    unknown_ms: int = 300_000
    extend_ms: int = 30_000
    longest_ms: int = 300_000
    most_mw: int = 2_000_000
    lag_ms: int = 60_000
    jitter_uj: int = 2_000_000

    def can(self, uj: int, ms: int) -> bool:
        """Whether so much energy can be used in that time."""
        return 0 <= uj <= self.most_mw * (ms + self.lag_ms)


class Piece(NamedTuple):
    """The energy `uj` of [from_ms, to_ms), used as a power that goes from `first_mw` to `last_mw` (both 0: even).

    It speaks for [start_ms, end_ms), which lies inside.
    """

    start_ms: int
    end_ms: int
    from_ms: int
    to_ms: int
    uj: int
    first_mw: int
    last_mw: int
    measured: bool
    reset: bool = False

    def until(self, t_ms: int) -> int:
        """Micro-joules from `from_ms` to an instant inside, rounded down."""
        done, whole = t_ms - self.from_ms, self.to_ms - self.from_ms
        total = self.first_mw + self.last_mw
        if not total:
            return self.uj * done // whole
        weight = 2 * self.first_mw * done * whole + (self.last_mw - self.first_mw) * done * done
        return self.uj * weight // (total * whole * whole)


class Stretch(NamedTuple):
    """A slice of time with its energy. estimated_uj is part of `uj`; the three times add up to the slice's length."""

    start_ms: int
    end_ms: int
    uj: int
    estimated_uj: int
    measured_ms: int
    estimated_ms: int
    missing_ms: int
    resets: int


def counter_uj(mj: float | None) -> int | None:
    """The energy counter as told in millijoules; None for a stale marker, a blank or no number."""
    return round(mj) * 1000 if mj is not None and math.isfinite(mj) and 0 <= mj < _BLANK_MJ else None


def power_mw(watts: float | None, most_mw: int = Limits().most_mw) -> int | None:
    """Power as told in watts; None for a stale marker, a blank, no number or more than can be."""
    return round(watts * 1000) if watts is not None and 0 <= watts * 1000 <= most_mw else None


def metered(
    readings: Iterable[Reading], start_ms: int, end_ms: int, cuts: Iterable[int] = (), limits: Limits | None = None
) -> list[Stretch]:
    """The energy of [start_ms, end_ms) in stretches, cut at `cuts` and at multiples of `longest_ms`.

    Readings come in any order and any number of times. Those outside the range count, too: give at least the last of
    each kind before it and the first of each after it, and the result is the same as with all of them.
    """
    limits = limits or Limits()
    return sliced(pieces_of(readings, limits), start_ms, end_ms, cuts, limits.longest_ms)


def pieces_of(readings: Iterable[Reading], limits: Limits) -> list[Piece]:
    """The pieces that the readings make, in order and without overlap: the counter's, and power's between them."""
    points = _merged(readings)
    counted = [one for one in points if one.energy_uj is not None]
    by_power = _line([one for one in points if one.power_mw is not None], limits)
    ends = [one.end_ms for one in by_power]
    found: list[Piece] = []
    at = _EVER[0]
    for before, after in pairwise(counted):
        piece = _risen(before, after, limits)
        if piece is not None:
            found += _clipped(by_power, ends, at, piece.start_ms)
            found.append(piece)
            at = piece.end_ms
    return [*found, *_clipped(by_power, ends, at, _EVER[1])]


def _merged(readings: Iterable[Reading]) -> list[Reading]:
    """One reading for each instant, in order; of several values of one instant the greatest counts."""
    by_time: dict[int, Reading] = {}
    for one in readings:
        known = by_time.get(one.t_ms)
        if known is None:
            by_time[one.t_ms] = one
        elif known != one:
            by_time[one.t_ms] = Reading(
                one.t_ms, _greater(known.energy_uj, one.energy_uj), _greater(known.power_mw, one.power_mw)
            )
    useful = (one for one in by_time.values() if one.energy_uj is not None or one.power_mw is not None)
    return sorted(useful)


def _greater(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _risen(before: Reading, after: Reading, limits: Limits) -> Piece | None:
    """What the counter says about the time between two of its values; None where it cannot be believed."""
    first, last, ms = before.energy_uj or 0, after.energy_uj or 0, after.t_ms - before.t_ms
    measured, reset = ms <= limits.gap_ms, False
    uj = last - first
    if -limits.jitter_uj < uj < 0:
        uj = 0
    elif uj < 0:
        if first < _ROLLOVER_UJ and limits.can(uj + _ROLLOVER_UJ, ms):
            uj += _ROLLOVER_UJ
        else:
            uj, measured, reset = last, False, True
    if not limits.can(uj, ms):
        return None
    shaped = before.power_mw is not None and after.power_mw is not None and not reset
    first_mw, last_mw = (before.power_mw or 0, after.power_mw or 0) if shaped else (0, 0)
    return Piece(before.t_ms, after.t_ms, before.t_ms, after.t_ms, uj, first_mw, last_mw, measured, reset)


def _line(powered: Sequence[Reading], limits: Limits) -> list[Piece]:
    """What power alone says, from before its first value to after its last."""
    if not powered:
        return []
    first, last, reach = powered[0], powered[-1], limits.extend_ms
    found = [_held(first.t_ms - reach, first.t_ms, first.power_mw or 0)]
    for before, after in pairwise(powered):
        found += _bridged(before, after, limits)
    found.append(_held(last.t_ms, last.t_ms + reach, last.power_mw or 0))
    return [one for one in found if one.start_ms < one.end_ms]


def _bridged(before: Reading, after: Reading, limits: Limits) -> tuple[Piece, ...]:
    first, last = before.power_mw or 0, after.power_mw or 0
    begin, end = before.t_ms, after.t_ms
    if end - begin <= limits.unknown_ms:
        uj = (first + last) * (end - begin) // 2
        return (Piece(begin, end, begin, end, uj, first, last, end - begin <= limits.gap_ms),)
    reach = min(limits.extend_ms, (end - begin) // 2)
    return (_held(begin, begin + reach, first), _held(end - reach, end, last))


def _held(start_ms: int, end_ms: int, mw: int) -> Piece:
    return Piece(start_ms, end_ms, start_ms, end_ms, mw * (end_ms - start_ms), mw, mw, measured=False)


def _clipped(line: Sequence[Piece], ends: Sequence[int], start_ms: int, end_ms: int) -> Iterator[Piece]:
    """Those parts of a line of pieces that lie in [start_ms, end_ms). `ends`: where they end."""
    for place in range(bisect_right(ends, start_ms), len(line) if start_ms < end_ms else 0):
        piece = line[place]
        if piece.start_ms >= end_ms:
            return
        yield piece._replace(start_ms=max(piece.start_ms, start_ms), end_ms=min(piece.end_ms, end_ms))


def sliced(pieces: Sequence[Piece], start_ms: int, end_ms: int, cuts: Iterable[int], longest_ms: int) -> list[Stretch]:
    """Stretches of [start_ms, end_ms) out of pieces in order, cut at `cuts` and at multiples of `longest_ms`."""
    grid = range(-(-start_ms // longest_ms) * longest_ms, end_ms, longest_ms)
    bounds = sorted({start_ms, end_ms, *grid, *(one for one in cuts if start_ms < one < end_ms)})
    found, at = [], 0
    for begin, end in pairwise(bounds):
        while at < len(pieces) and pieces[at].end_ms <= begin:
            at += 1
        found.append(_stretch(pieces, at, begin, end))
    return found


def _stretch(pieces: Sequence[Piece], at: int, begin: int, end: int) -> Stretch:
    """The stretch [begin, end), in which the first piece that matters is pieces[at]."""
    uj = estimated_uj = measured_ms = estimated_ms = resets = 0
    while at < len(pieces) and pieces[at].start_ms < end:
        piece = pieces[at]
        first, last = max(begin, piece.start_ms), min(end, piece.end_ms)
        share = piece.until(last) - piece.until(first)
        uj += share
        if piece.measured:
            measured_ms += last - first
        else:
            estimated_ms += last - first
            estimated_uj += share
        resets += piece.reset and begin < piece.end_ms <= end
        at += 1
    missing_ms = end - begin - measured_ms - estimated_ms
    return Stretch(begin, end, uj, estimated_uj, measured_ms, estimated_ms, missing_ms, resets)
