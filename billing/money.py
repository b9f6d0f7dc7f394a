"""Money: integer micro-units inside, cents at the edge, and columns that always add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MICRO: Final = 1_000_000
"""Micro-units in one unit of a currency."""
MICRO_PER_CENT: Final = 10_000
SECONDS_PER_HOUR: Final = 3600


def round_half_up(numerator: int, denominator: int) -> int:
    """numerator / denominator to the nearest whole number, halves away from zero. denominator > 0."""
    sign = -1 if numerator < 0 else 1
    return sign * ((2 * abs(numerator) + denominator) // (2 * denominator))


def largest_remainder(numerators: Sequence[int], denominator: int) -> list[int]:
    """Whole numbers close to numerators[i] / denominator whose sum is the rounded sum of them all.

    Each is the floor or the floor plus one; the largest remainders get the rest, ties by order. (Hamilton's
    method.) denominator > 0.
    """
    floors = [value // denominator for value in numerators]
    missing = round_half_up(sum(numerators), denominator) - sum(floors)
    order = sorted(range(len(numerators)), key=lambda index: (-(numerators[index] % denominator), index))
    for index in order[:missing]:
        floors[index] += 1
    return floors


def decimal_cents(cents: int) -> str:
    """Cents as a decimal text with two places: 1234 -> '12.34', -5 -> '-0.05'."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"
