"""Usage that loses half its weight in a half-life: as Slurm adds it up in slices, and as a closed form. Pure rules.

Usage is a rate (billing units, or GPUs) held over whole seconds [start, end); a half-life is in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["BadHalfLife", "Held", "Slices", "continuous_usage", "undecayed_usage"]

_SLURM_LN2: Final = 0.693
"""What Slurm writes for ln 2 (`priority_multifactor.c`): after one half-life 0.500073 of a week's usage is left."""


class BadHalfLife(ValueError):
    """A half-life or period with which nothing can be computed, and what to give instead."""


class Held(NamedTuple):
    """So many units at once over [start, end), epoch seconds; end None while it goes on."""

    start: int
    end: int | None
    rate: float


@dataclass(frozen=True, slots=True)
class Slices:
    """Slurm's decay thread: every `period` seconds it decays all usage and then charges what ran since.

    half_life: PriorityDecayHalfLife in seconds; 0 means that usage never decays. period: PriorityCalcPeriod.
    phase: epoch seconds at which any of the slices ended. A job that ended is charged at its end, so its last part
    is decayed by the whole slice in which it ended; a running one is charged at the ends of slices only. Each
    part of `run` seconds is charged run x d^run, d = 1 - 0.693 / half_life. Raises BadHalfLife.
    """

    half_life: int
    period: int = 300
    phase: int = 0

    def __post_init__(self) -> None:
        if self.half_life < 0:
            raise BadHalfLife(f"the half-life is {self.half_life} s; give 0 (no decay) or more")
        if self.period < 1:
            raise BadHalfLife(f"the period of calculation is {self.period} s; give 1 or more")

    def usage(self, held: Iterable[Held], at: int) -> float:
        """What Slurm shows at `at`, in rate-seconds. Independent of the order of `held`."""
        return math.fsum(part for one in held for part in self._parts(one, at))

    def _parts(self, one: Held, at: int) -> list[float]:
        last = self._boundary(at)
        end = at if one.end is None or one.end > at else one.end
        if one.start >= end:
            return []
        first = self._boundary(one.start) + self.period
        ended = one.end is not None and one.end <= at
        if end < first:  # inside one slice
            return [self._charge(end - one.start, one.rate, last - (first - self.period))] if ended else []
        whole = self._boundary(end)
        parts = [self._charge(first - one.start, one.rate, last - first)]
        parts.append(self._whole_slices((whole - first) // self.period, one.rate, last - whole))
        if ended and end > whole:
            parts.append(self._charge(end - whole, one.rate, last - whole))
        return parts

    def _boundary(self, at: int) -> int:
        """The end of the slice at or before an instant."""
        return at - (at - self.phase) % self.period

    def _charge(self, run: int, rate: float, age: int) -> float:
        return run * rate * self._left(run + age)

    def _whole_slices(self, number: int, rate: float, age: int) -> float:
        """Slices that were run through, the last of them `age` seconds ago: a geometric sum."""
        if not number:
            return 0.0
        ratio = self._left(self.period)
        total = number if ratio == 1 else (1 - ratio**number) / (1 - ratio)
        return self.period * rate * ratio * self._left(age) * total

    def _left(self, seconds: int) -> float:
        """What is left of a unit of usage after so many seconds."""
        if not self.half_life:
            return 1.0
        return math.exp(seconds * math.log1p(-_SLURM_LN2 / self.half_life))


def continuous_usage(held: Iterable[Held], half_life: float, at: int) -> float:
    """Decayed usage at `at` in rate-seconds: the integral of rate x 2^-((at - t) / half_life) over what was held.

    An interval [a, b) at rate r gives r H / ln 2 (2^-((at - b) / H) - 2^-((at - a) / H)). The parts are summed
    exactly, so that neither their order nor when they became known matters. Raises BadHalfLife.
    """
    if not half_life or half_life < 0 or not math.isfinite(half_life):
        raise BadHalfLife(
            f"the half-life is {half_life}; continuous fair share needs more than 0 seconds (for use that never "
            "decays read the undecayed balance)"
        )
    return math.fsum(part for one in held for part in _integral(one, half_life, at))


def _integral(one: Held, half_life: float, at: int) -> tuple[float, ...]:
    end = at if one.end is None or one.end > at else one.end
    if one.start >= end:
        return ()
    # -expm1(-x) keeps the digits of a short interval, where the two powers are nearly equal.
    shape = -math.expm1(-(end - one.start) * math.log(2) / half_life)
    return (one.rate * half_life / math.log(2) * 2 ** (-(at - end) / half_life) * shape,)


def undecayed_usage(held: Iterable[Held], at: int) -> float:
    """The same without decay: what budgets count, in rate-seconds."""
    return math.fsum(
        one.rate * max(0, (at if one.end is None or one.end > at else one.end) - one.start) for one in held
    )
