"""The chart of the pages of use: bars over time, stacked by group, with a legend that carries totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from web import asked, charts, figures, usagetables
from web.book import Book
from web.charts import Series, Stack

__all__ = ["Key", "chart", "legend", "stack"]


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a chart's legend, with its total."""

    css: str
    name: str
    total: str


def chart(found: Book) -> dict[str, Any]:
    """What templates/parts/chart.html draws."""
    drawn = stack(found)
    bucket, group = found.asked.days.bucket, found.asked.group
    return {
        "stack": drawn,
        "spec": charts.stacked(drawn),
        "legend": legend(found),
        "chart_tools": usagetables.tools(found, "usage", bucket, group),
        "chart_title": f"{drawn.unit} per {bucket}, by {group}",
    }


def legend(found: Book) -> list[Key]:
    """Series in stacking order with their totals; small ones together as others."""
    return [
        Key(usagetables.KEYS[band.slot], usagetables.group_name(band.name), figures.key_hours(band.total))
        for band in found.bands
    ]


def stack(found: Book) -> Stack:
    """The bars; buckets of which nothing is known are told apart from those without use."""
    bucket, unit = found.asked.days.bucket, usagetables.LONG[found.main]
    pieces = found.pieces
    missing = [p.text for p in pieces if p.name not in found.by_bucket and not found.known(p) and p.start < found.cut]
    text = f"{unit} per {bucket} by {found.asked.group}, {found.asked.days.text}; figures in the table By {bucket}"
    heads = bucket.capitalize(), asked.GROUPS[found.asked.group]
    series = [
        Series(
            band.slot,
            usagetables.group_name(band.name),
            [round(band.values.get(p.name, 0) / 3600, 2) for p in pieces],
        )
        for band in found.bands
    ]
    return Stack(text, unit, *heads, [p.text for p in pieces], series, missing)
