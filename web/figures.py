"""How figures, dates and durations are written for people: the same everywhere, exact until the last step."""

from __future__ import annotations

from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["MINUS", "NO_DATA", "NO_PRICE", "THIN", "clock", "day", "days", "duration", "hours", "key_hours", "moment",
           "money", "percent", "thousands", "whole_money"]  # fmt: skip

THIN: Final = "\u202f"
"""Between thousands: narrow, and no line breaks there."""
MINUS: Final = "\u2212"
NO_DATA: Final = "no data"
NO_PRICE: Final = "no price"


def thousands(value: int) -> str:
    """A whole number with its thousands parted: 4182907 -> '4 182 907'."""
    return f"{value:,}".replace(",", THIN).replace("-", MINUS)


def hours(seconds: int) -> str:
    """Seconds as hours with one decimal, halves up; a little that would read 0.0 reads '<0.1'. seconds >= 0."""
    tenths = (seconds * 10 + 1800) // 3600
    if seconds and not tenths:
        return "<0.1"
    return f"{thousands(tenths // 10)}.{tenths % 10}"


def key_hours(seconds: int) -> str:
    """Seconds as hours for a key figure: whole hours, halves up, from a thousand on; one decimal below."""
    return thousands((seconds + 1800) // 3600) if seconds >= 3_600_000 else hours(seconds)


def percent(part: int, whole: int) -> str:
    """A share of a whole in per cent with two decimals; a dash where there is no whole to share."""
    if not whole:
        return "—"
    hundredths = (part * 20_000 + whole) // (2 * whole)
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def duration(seconds: int) -> str:
    """A duration as people say it: '42 s', '4 min', '1 h 06 min', '36 h 33 min'."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    return f"{thousands(seconds // 3600)} h {seconds % 3600 // 60:02d} min"


def money(amount: str) -> str:
    """A decimal text with its thousands parted, cents kept: '146902.65' -> '146 902.65'."""
    whole, _, cents = amount.partition(".")
    return f"{_whole(whole)}.{cents or '00'}"


def whole_money(amount: str) -> str:
    """Whole units of an amount, halves away from zero: for a key figure with the exact amount beside it."""
    rounded = int(Decimal(amount).quantize(Decimal(1), ROUND_HALF_UP))
    return thousands(rounded)


def _whole(digits: str) -> str:
    sign = MINUS if digits.startswith("-") else ""
    return sign + thousands(int(digits.lstrip("-") or "0"))


def day(value: date, *, year: bool = False) -> str:
    """A calendar day: '1 Oct', or '1 Oct 2026' with its year."""
    return f"{value.day} {value:%b}" + (f" {value.year}" if year else "")


def days(first: date, last: date) -> str:
    """A range of days, both included: '1 to 31 Oct 2026', '28 Sep to 3 Oct 2026'."""
    if first == last:
        return day(first, year=True)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} to {day(last, year=True)}"
    return f"{day(first, year=first.year != last.year)} to {day(last, year=True)}"


def clock(value: datetime) -> str:
    """Hour and minute of a local time: '09:05'."""
    return f"{value:%H:%M}"


def moment(value: datetime, zone: ZoneInfo) -> str:
    """An instant in the site's zone: '2 Nov 2026 09:14:06 CET'."""
    local = value.astimezone(zone)
    return f"{day(local.date(), year=True)} {local:%H:%M:%S} {local:%Z}"
