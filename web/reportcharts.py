"""The chart of any report: its main column, or its parts stacked, over time or by name; for pages and for paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from events.reports import Column, Report
from web import charts, figures
from web.charts import OTHER, SLOTS, Series, Stack
from web.reportasked import Question
from web.reportcells import drawn_unit, head, key_text, label_of, raw, scaled, time_text
from web.reportlinks import Links
from web.usagecharts import Key
from web.usagetables import KEYS
from web.waitparts import SLOTS as CAUSES

__all__ = ["Drawn", "drawn"]

MOST_BARS: Final = 800
"""Bars over time; more could not be told apart."""
MOST_NAMES: Final = 20
REST: Final = "\0"
"""Key of the bar that holds all smaller names."""
LONG_UNITS: Final = {"GPU-h": "GPU-hours", "CPU-h": "CPU-hours", "node-h": "Node-hours", "h": "Hours"}
PARTS: Final = {"used": "run"}
"""Parts that a scale of the theme calls by another name."""
Values = Mapping[str, Decimal]
"""Bar -> amount, in the report's own unit."""


@dataclass(frozen=True, slots=True)
class Pile:
    """One series: what it is called in the report and by people, its values, its colour as slot of the theme."""

    name: str
    text: str
    values: Values
    slot: str = ""

    @property
    def total(self) -> Decimal:
        """Over all bars."""
        return sum(self.values.values(), Decimal())


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with the legend that carries its totals. across: its bars lie, for they are names."""

    title: str
    stack: Stack
    legend: Sequence[Key]
    across: bool

    def spec(self, width: int | str = "container") -> charts.Spec:
        """As Vega-Lite."""
        return charts.across(self.stack, width=width) if self.across else charts.stacked(self.stack, width=width)


def drawn(
    question: Question, report: Report, links: Links, currency: str, *, most: int = MOST_NAMES
) -> Drawn | None:  # fmt: skip
    """The chart of an answer; None where the report has none or there is nothing to draw.

    Bars are the calendar where it is grouped by one, else its first grouping; stacked are its parts, else the next
    grouping. Branches overlap, so that they are not stacked. most: names with a bar of their own.
    """
    columns = {column.name: column for column in report.columns}
    parts = [columns[name] for name in question.report.parts if name in columns]
    measure = parts[0] if parts else columns.get(question.report.measure)
    axis = report.params.bucket or question.groups[0]
    group = next((name for name in question.groups if name != axis), "")
    if measure is None or ("branch" in question.groups and group):
        return None
    piles = _parts(report, parts, axis) if parts else _groups(report, measure, axis, group)
    bars = _calendar(links) if axis == report.params.bucket else _names(axis, piles, most)
    if not bars or len(bars) > MOST_BARS or not any(pile.total for pile in piles):
        return None
    words = PARTS if parts else CAUSES if group == "cause" else {}
    scale, coloured = _coloured(_folded(piles, bars), words)
    by = "parts" if parts else group
    return _chart(question, measure, (axis, by), bars, scale, coloured, currency, across=axis != report.params.bucket)


# --- series ------------------------------------------------------------------------------------------------------


def _parts(report: Report, parts: Sequence[Column], axis: str) -> list[Pile]:
    return [Pile(part.name, part.head, _sums((row[axis], row[part.name]) for row in report.rows)) for part in parts]


def _groups(report: Report, measure: Column, axis: str, group: str) -> list[Pile]:
    """A pile per name of the group, the largest first; one pile where nothing else is grouped by."""
    found: dict[str, list[tuple[object, object]]] = defaultdict(list)
    for row in report.rows:
        found[_text(row[group]) if group else ""].append((row[axis], row[measure.name]))
    column = Column(group, "", "label")
    piles = [Pile(name, label_of(column, name).text if group else "", _sums(rows)) for name, rows in found.items()]
    return sorted(piles, key=lambda pile: (-pile.total, pile.name))


def _sums(pairs: Iterable[tuple[object, object]]) -> Values:
    """Amounts by bar; what is not known adds nothing."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for bar, value in pairs:
        if value:
            sums[_text(bar)] += raw(value) or 0
    return sums


def _text(value: object) -> str:
    return "" if value is None else str(value)


# --- bars --------------------------------------------------------------------------------------------------------


def _calendar(links: Links) -> dict[str, str]:
    """All buckets of the window in order, also those without a row."""
    return {label: time_text(label) for label in links.edges}


def _names(axis: str, piles: Sequence[Pile], most: int = MOST_NAMES) -> dict[str, str]:
    """The largest names, each with its text; the others as one. Two that read alike are told apart by their keys."""
    whole: dict[str, Decimal] = defaultdict(Decimal)
    for pile in piles:
        for name, value in pile.values.items():
            whole[name] += value
    names = sorted((name for name, value in whole.items() if value), key=lambda name: (-whole[name], name))
    column = Column(axis, "", "label")
    shown = {name: label_of(column, name).text for name in names[: _kept(len(names), most)]}
    texts = list(shown.values())
    shown = {name: f"{text} ({name})" if texts.count(text) > 1 else text for name, text in shown.items()}
    rest = len(names) - len(shown)
    return shown | ({REST: f"{figures.thousands(rest)} others"} if rest else {})


def _kept(number: int, most: int) -> int:
    """How many of them are shown by name: one that would be left out alone is named too."""
    return number if number <= most + 1 else most


def _folded(piles: Sequence[Pile], bars: Mapping[str, str]) -> list[Pile]:
    """What has no bar of its own goes to the bar of the others, if there is one."""
    if REST not in bars:
        return list(piles)
    return [replace(pile, values=_sums((name if name in bars else REST, value) for name, value in pile.values.items()))
            for pile in piles]  # fmt: skip


# --- colours -----------------------------------------------------------------------------------------------------


def _coloured(piles: Sequence[Pile], words: Mapping[str, str]) -> tuple[str, list[Pile]]:
    """The scale and the piles in stacking order: by meaning where the theme knows all, else the largest five.

    words: what parts or causes are called in the theme where that is not their name; {} where colours mean nothing.
    """
    piles = [pile for pile in piles if pile.total]
    for scale, one in charts.theme()["scales"].items() if words else ():
        slots = [_meaning(pile.name, one["domain"], words) for pile in piles]
        if all(slots):
            known = [replace(pile, slot=slot) for pile, slot in zip(piles, slots, strict=True)]
            return scale, sorted(known, key=lambda pile: one["domain"].index(pile.slot))
    largest = sorted(piles, key=lambda pile: -pile.total)[: len(SLOTS)]
    shown = [replace(pile, slot=slot) for pile, slot in zip(largest, SLOTS, strict=False)]
    rest = [pile for pile in piles if all(pile.name != one.name for one in largest)]
    if rest:
        together = _sums(pair for pile in rest for pair in pile.values.items())
        text = rest[0].text if len(rest) == 1 else f"{figures.thousands(len(rest))} others"
        shown.append(Pile(REST, text, together, OTHER))
    return "", shown


def _meaning(name: str, domain: Sequence[str], words: Mapping[str, str]) -> str:
    """What the theme calls a part or a cause: without its unit, idle by its reason; '' where it has no word for it."""
    bare = name.removesuffix("_seconds").removesuffix("_gpu")
    found = [words[bare]] if bare in words else [bare, bare.removeprefix("idle_")]
    return next((one for one in found if one in domain), "")


# --- words -------------------------------------------------------------------------------------------------------


def _chart(
    question: Question, measure: Column, by: tuple[str, str], bars: Mapping[str, str], scale: str,
    piles: Sequence[Pile], currency: str, *, across: bool,
) -> Drawn:  # fmt: skip
    """The stack with its words. measure: the column whose unit the bars have; by: what bars and series are."""
    axis, series = (name.replace("_", " ") for name in by)
    unit = drawn_unit(measure, currency)
    unit = LONG_UNITS.get(unit, unit) or measure.head
    what = unit if question.report.parts or "hours" in head(measure, currency).lower() else measure.head
    stacked = f", {'in' if question.report.parts else 'by'} {series}" if series else ""
    title = f"{what} {'by' if across else 'per'} {axis}{stacked}"
    stack = Stack(
        f"{title}, {question.days.text}; figures in the table below", unit, axis.capitalize(),
        series.capitalize() or "What", list(bars.values()),
        [Series(pile.slot, pile.text or what, [scaled(measure, pile.values.get(bar, Decimal())) for bar in bars])
         for pile in piles],
        scale=scale,
    )  # fmt: skip
    css = (lambda slot: f"k-{slot}") if scale else KEYS.__getitem__
    legend = [Key(css(pile.slot), pile.text or what, key_text(measure, pile.total)) for pile in piles]
    return Drawn(title, stack, legend, across)
