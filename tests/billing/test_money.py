"""Money: whole micro-units inside, cents that add up."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import decimal_cents, largest_remainder, round_half_up

amounts = st.lists(st.integers(-(10**24), 10**24), max_size=30)
denominators = st.integers(1, 10**12)


@pytest.mark.parametrize(
    ("numerator", "denominator", "rounded"),
    [(0, 7, 0), (1, 2, 1), (-1, 2, -1), (49, 100, 0), (50, 100, 1), (3, 2, 2), (-3, 2, -2), (-149, 100, -1),
     (10**30 + 1, 2, 5 * 10**29 + 1)],
)  # fmt: skip
def test_halves_are_rounded_away_from_zero(numerator: int, denominator: int, rounded: int) -> None:
    assert round_half_up(numerator, denominator) == rounded


@pytest.mark.parametrize(
    ("numerators", "denominator", "parts"),
    [
        ([], 3, []),
        ([1, 1, 1], 3, [1, 0, 0]),  # three thirds are one: the first of equals gets it
        ([2, 2, 2], 3, [1, 1, 0]),  # three times two thirds are two
        ([10, 20, 30], 10, [1, 2, 3]),
        ([149, 149], 100, [2, 1]),  # 2.98 rounds to 3, the floors are 1 and 1
        ([5, 14, 11], 10, [1, 1, 1]),  # 3.0; floors 0 1 1, the largest remainder is .5 of the first
        ([-1, -1, -1], 3, [0, 0, -1]),  # -1; floors are -1 each and two get one back
        ([-150, 50], 100, [-1, 0]),  # -1; floors -2 and 0, of equal remainders of .5 the first gets the one
    ],
)
def test_largest_remainders_by_hand(numerators: list[int], denominator: int, parts: list[int]) -> None:
    assert sum(parts) == round_half_up(sum(numerators), denominator)
    assert largest_remainder(numerators, denominator) == parts


@given(amounts, denominators)
def test_parts_sum_to_the_rounded_whole(numerators: list[int], denominator: int) -> None:
    exact = Fraction(sum(numerators), denominator)
    whole = sum(largest_remainder(numerators, denominator))
    assert abs(whole - exact) <= Fraction(1, 2)


@given(amounts, denominators)
def test_each_part_is_the_floor_or_one_more(numerators: list[int], denominator: int) -> None:
    for value, part in zip(numerators, largest_remainder(numerators, denominator), strict=True):
        assert part - floor(Fraction(value, denominator)) in (0, 1)


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=9), denominators)
def test_more_is_never_less(numerators: list[int], denominator: int) -> None:
    parts = largest_remainder(sorted(numerators, reverse=True), denominator)
    assert parts == sorted(parts, reverse=True)


@pytest.mark.parametrize(
    ("cents", "text"), [(0, "0.00"), (5, "0.05"), (1234, "12.34"), (-5, "-0.05"), (-1234, "-12.34"), (100, "1.00")]
)
def test_cents_as_text(cents: int, text: str) -> None:
    assert decimal_cents(cents) == text
