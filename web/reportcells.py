"""The columns of any report as people read them: heads with units, rounded texts with the exact value beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Literal

from events.reports import Column
from web import figures
from web.causes import cause_text
from web.tables import Cell, absent
from web.usagetables import group_name

__all__ = ["drawn_unit", "form_of", "head", "is_key", "key_text", "label_of", "measured", "raw", "scaled", "sort_key",
           "time_text"]  # fmt: skip

Form = Literal["label", "time", "money", "hours", "duration", "kwh", "share", "integer", "number"]
JOULES_PER_KWH: Final = 3_600_000
UNMAPPED: Final = "unmapped/"
SCALES: Final = {"hours": 3600, "kwh": JOULES_PER_KWH}
WHOLES: Final = {"ppm": 1_000_000, "ratio": 1}
"""What a whole is in the units in which reports tell shares; people read all of them in per cent."""
HYPHEN: Final = "\u2011"
"""No line breaks behind it, so that a unit stays whole in a narrow head; the face of documents has it."""
DASH: Final = "—"
NAMELESS: Final = {"user": "not named", "run": "not named"}
"""What stands for an empty name; a dash elsewhere, where nothing has to have one."""


def form_of(column: Column) -> Form:
    """How a column is written. Sums of seconds are hours; a statistic of seconds (a median, say) is a duration."""
    if column.kind in ("label", "time", "money"):
        return column.kind
    if column.unit.endswith("-s"):
        return "hours"
    if column.unit == "s" or (column.kind == "seconds" and not column.unit):
        return "hours" if column.name.endswith("_seconds") else "duration"
    if column.unit == "J":
        return "kwh"
    if column.unit in WHOLES:
        return "share"
    return "integer" if column.kind == "integer" else "number"


def drawn_unit(column: Column, currency: str) -> str:
    """The unit in which a column is shown: `GPU-h`, `h`, `kWh`, `%`, `EUR`; '' without one."""
    form = form_of(column)
    if form == "money":
        return currency
    if form == "hours":
        return f"{column.unit[:-1]}h" if column.unit.endswith("-s") else "h"
    return {"kwh": "kWh", "duration": "", "share": "%"}.get(form, column.unit)


def head(column: Column, currency: str) -> str:
    """The head of a column with its unit: `GPU-hours`, `Productive, GPU-h`, `Cost, EUR`."""
    unit, text = drawn_unit(column, currency), column.head
    if form_of(column) == "hours":
        text = text.replace("seconds", "hours").replace("Seconds", "Hours")
    return text if not unit or "hours" in text.lower() else f"{text}, {unit.replace('-', HYPHEN)}"


def is_key(column: Column, names: Mapping[str, Any]) -> bool:
    """Whether a column holds only the key of the one beside it, such as `run_id` of `run`: links carry it."""
    return column.kind == "label" and column.name.endswith("_id") and column.name.removesuffix("_id") in names


def measured(column: Column, value: Any) -> Cell:
    """The cell of a measure: rounded for people, the exact value as its title; None is *no data*."""
    if isinstance(value, Mapping):
        if value["amount"] is None:
            return absent(figures.NO_PRICE)
        return _cell(figures.money(value["amount"]), f"{value['amount']} {value['currency']}", value["amount"])
    if value is None:
        return Cell("—", "n nodata", title=column.none) if column.none else absent()
    if form_of(column) == "share" or form_of(column) in WRITTEN:
        return _rounded(column, value)
    if isinstance(value, float):
        return _cell(f"{value:,.3f}".replace(",", figures.THIN).replace("-", figures.MINUS), repr(value), value)
    return _cell(figures.thousands(value), "", value) if isinstance(value, int) else Cell(str(value), "n")


def _rounded(column: Column, value: float) -> Cell:
    """A number that people read in a larger unit than that of files: it stands behind it, exact."""
    form = form_of(column)
    if form == "share":
        return _cell(_percent(column, Decimal(str(value))), _told_as(column, value), value)
    unit = {"duration": "s", "kwh": "J"}.get(form, column.unit or "s")
    exact = figures.thousands(value) if isinstance(value, int) else str(value)
    return _cell(_signed(WRITTEN[form], value), f"{exact} {unit}", value)


def _cell(text: str, title: str, value: Any) -> Cell:
    return Cell(text, "n zero" if not Decimal(str(value)) else "n", title=title)


def _percent(column: Column, value: Decimal) -> str:
    """A share as per cent with two decimals, halves up."""
    return figures.percent(int(value * 1_000_000 / WHOLES[column.unit]), 1_000_000)


def _told_as(column: Column, value: float) -> str:
    """A share as files and programs get it: '968 750 ppm', '0.96875'."""
    return f"{figures.thousands(int(value))} ppm" if column.unit == "ppm" else repr(value)


def _signed(write: Callable[[int], str], value: float) -> str:
    """Written by its size, in whole units, halves up; a minus before what is negative."""
    return f"{figures.MINUS if value < 0 else ''}{write(int(abs(value) + 0.5))}"


def _kwh(joules: int) -> str:
    """Joules as whole kWh, halves up; a little that would read 0 reads '<1'."""
    whole = (2 * joules + JOULES_PER_KWH) // (2 * JOULES_PER_KWH)
    return "<1" if joules and not whole else figures.thousands(whole)


WRITTEN: Final[dict[str, Callable[[int], str]]] = {"hours": figures.hours, "duration": figures.duration, "kwh": _kwh}


def raw(value: Any) -> Decimal | None:
    """A value as a number, exact, in the report's own unit; None where it is not known."""
    if isinstance(value, Mapping):
        value = value["amount"]
    return None if value is None else Decimal(value if isinstance(value, int) else str(value))


def scaled(column: Column, value: Decimal) -> float:
    """A number of `raw` in the unit of `drawn_unit`, as charts draw it."""
    form = form_of(column)
    if form == "share":
        return round(float(100 * value / WHOLES[column.unit]), 4)
    return round(float(value / SCALES.get(form, 1)), 4)


def key_text(column: Column, value: Decimal) -> str:
    """A sum of `raw` as key figures are written: thousands of hours without their tenths."""
    form = form_of(column)
    if form == "share":
        return _percent(column, value)
    if form == "hours":
        return figures.key_hours(int(value))
    if form == "money":
        return figures.money(f"{value:.2f}")
    return _kwh(int(value)) if form == "kwh" else figures.thousands(round(value))


def label_of(column: Column, value: Any) -> Cell:
    """The cell of a name or of a bucket of time, without its link."""
    if column.kind == "time":
        text = str(value or "")
        return Cell(time_text(text), "w", iso="" if "Q" in text else text) if text else Cell(DASH)
    text = str(value) if value not in (None, "") else NAMELESS.get(column.name, DASH)
    if column.name == "cause":
        text = cause_text(text)
    return Cell(group_name(text), tag="no project" if text.startswith(UNMAPPED) else "")


def time_text(text: str) -> str:
    """A bucket's label for people: '1 Oct 2026', '1 Oct 2026 08:00 +02:00', 'October 2026', 'Q4 2026', '2026-W49'."""
    if len(text) > len("2026-10-01"):
        at = datetime.fromisoformat(text)
        return f"{figures.day(at.date(), year=True)} {at:%H:%M} {text[-6:]}"
    if "Q" in text:
        year, _, quarter = text.partition("-")
        return f"{quarter} {year}"
    if len(text) == len("2026-10") and "W" not in text:
        return f"{date.fromisoformat(f'{text}-01'):%B %Y}"
    return figures.day(date.fromisoformat(text), year=True) if text.count("-") == 2 else text


def sort_key(column: Column, value: Any) -> tuple[bool, Any]:
    """By what a column is sorted: what is unknown apart from what is known, then the value itself."""
    if isinstance(value, Mapping):
        value = None if value["amount"] is None else Decimal(value["amount"])
    if value is None:
        return True, 0
    return (False, str(value).casefold()) if column.kind in ("label", "time") else (False, value)
