"""The chart of a run or a job on one scale of time: lanes of attempts and waits, or what was held where many ran.

Places on the scale are epoch seconds and ticks are written here, so that it shows the site's time and not the
browser's. Colours come from the theme, as for all charts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import zip_longest
from typing import Any, Final
from zoneinfo import ZoneInfo

from events.reports import midnight
from web import figures
from web.charts import SCHEMA, theme

__all__ = ["MOST_LANES", "Bar", "Timeline", "held", "lanes", "ticks"]

MOST_LANES: Final = 12
"""More at once are not drawn one by one: then the chart shows how many GPUs were held."""
LANE: Final = 36
"""Height of a lane in pixels; AXIS: of the axis below and the labels above."""
AXIS: Final = 44
LETTERS: Final = 120
"""Letters of a label side by side over the whole span, where the chart is at its narrowest."""
_STEPS: Final = (60, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600)
_DAYS: Final = (1, 2, 7)
_MONTHS: Final = (1, 2, 3, 6, 12, 60)
_MOST_TICKS: Final = 13
Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch in a lane. kind: `wait`, `why` (a wait of known cause), `ran`, `saved` or `lost`.

    label: over its begin; trouble: it ended in a way to look at; slot: its colour's name in the theme's scale `owner`.
    """

    lane: str
    kind: str
    start: datetime
    end: datetime
    text: str
    state: str = ""
    label: str = ""
    size: str = ""
    trouble: bool = False
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """A span with its bars. now: where running ones are cut, None when all have ended."""

    description: str
    zone: ZoneInfo
    start: datetime
    end: datetime
    bars: Sequence[Bar]
    now: datetime | None = None

    @property
    def lanes(self) -> list[str]:
        """The lanes in order."""
        return list(dict.fromkeys(bar.lane for bar in self.bars))


def ticks(start: datetime, end: datetime, zone: ZoneInfo) -> list[tuple[int, str]]:
    """Readable instants inside [start, end] and what is written below them, in the zone; at most 14."""
    seconds = max(1.0, (end - start).total_seconds())
    step = next((one for one in _STEPS if seconds / one <= _MOST_TICKS), 0)
    if step:
        return _clock_ticks(start, end, zone, timedelta(seconds=step))
    days = next((one for one in _DAYS if seconds / 86_400 / one <= _MOST_TICKS), 0)
    if days:
        return _day_ticks(start, end, zone, timedelta(days=days))
    months = next((one for one in _MONTHS if seconds / 86_400 / 30 / one <= _MOST_TICKS), _MONTHS[-1])
    return _month_ticks(start, end, zone, months)


def _clock_ticks(start: datetime, end: datetime, zone: ZoneInfo, step: timedelta) -> list[tuple[int, str]]:
    found, day = [], start.astimezone(zone).date()
    at = midnight(day, zone)
    while at <= end:
        local = at.astimezone(zone)
        if local.date() > day:  # every day anew: days of 23 and 25 hours
            day = local.date()
            at = midnight(day, zone)
            local = at.astimezone(zone)
        if at >= start:
            text = figures.day(day) if (local.hour, local.minute) == (0, 0) else f"{local:%H:%M}"
            found.append((int(at.timestamp()), text))
        at += step
    return found


def _day_ticks(start: datetime, end: datetime, zone: ZoneInfo, step: timedelta) -> list[tuple[int, str]]:
    found, day = [], start.astimezone(zone).date()
    several = start.astimezone(zone).year != end.astimezone(zone).year
    while (at := midnight(day, zone)) <= end:
        if at >= start:
            found.append((int(at.timestamp()), figures.day(day, year=several)))
        day += step
    return found


def _month_ticks(start: datetime, end: datetime, zone: ZoneInfo, step: int) -> list[tuple[int, str]]:
    """First days of months, counted from January, so that quarters and years fall on their own."""
    local, found = start.astimezone(zone), []
    month = (local.year * 12 + local.month - 1) // step * step
    while (at := midnight(date(month // 12, month % 12 + 1, 1), zone)) <= end:
        if at >= start:
            found.append((int(at.timestamp()), figures.day(date(month // 12, month % 12 + 1, 1), year=True)))
        month += step
    return found


def lanes(line: Timeline) -> Spec:
    """Attempts and waits as bars in lanes."""
    layers = [_waits(line), _whys(line), _runs(line), _saves(line), _lost(line), _labels(line), _troubles(line)]
    layers = [layer for layer in layers if layer["data"]["values"]]  # a reader of the page must meet no empty group
    if line.now is not None:
        layers.append(_now(line))
    height = AXIS + LANE * len(line.lanes)
    return _spec(line, height, {"y": _y(line)}, layers)


def held(line: Timeline, values: Sequence[tuple[datetime, datetime, float]]) -> Spec:
    """How many GPUs were held: the mean of each equal piece of the span, as bars without gaps."""
    data = [
        {"a": int(start.timestamp()), "b": int(end.timestamp()), "v": round(value, 2), "w": _window(start, end, line)}
        for start, end, value in values
    ]
    tips = [_tip("w", "Time"), {"field": "v", "type": "quantitative", "title": "GPUs, mean", "format": ",.1f"}]
    bars = {
        "data": {"values": data},
        "mark": {"type": "rect"},
        "encoding": {
            "x2": {"field": "b"},
            "y": {"field": "v", "type": "quantitative", "axis": {"title": "GPUs held"}, "scale": {"zero": True}},
            "y2": {"datum": 0},
            "tooltip": tips,
        },
    }
    return _spec(line, 200, {}, [bars, *([_now(line)] if line.now is not None else [])])


def _spec(line: Timeline, height: int, encoding: Spec, layers: Sequence[Spec]) -> Spec:
    return {
        "$schema": SCHEMA,
        "description": line.description,
        "width": "container",
        "height": height,
        "encoding": {"x": _x(line), **encoding},
        "layer": list(layers),
    }


def _x(line: Timeline) -> Spec:
    places = ticks(line.start, line.end, line.zone)
    words = json.dumps({str(at): text for at, text in places})
    axis = {
        "title": None, "values": [at for at, _ in places], "labelExpr": f"({words})[datum.value]", "grid": True,
        "domain": False, "labelOverlap": "greedy", "labelSeparation": 8, "labelFlush": False,
    }  # fmt: skip
    domain = [int(line.start.timestamp()), max(int(line.end.timestamp()), int(line.start.timestamp()) + 1)]
    return {"field": "a", "type": "quantitative", "scale": {"domain": domain, "nice": False, "zero": False},
            "axis": axis}  # fmt: skip


def _y(line: Timeline) -> Spec:
    scale = {"domain": line.lanes, "paddingInner": 0.5, "paddingOuter": 0.5}
    axis = {"title": None, "grid": False, "domain": False, "labelLimit": 120, "labelPadding": 10}
    return {"field": "lane", "type": "nominal", "sort": None, "scale": scale, "axis": axis}


def _values(line: Timeline, kind: str) -> list[Spec]:
    return [
        {
            "a": int(bar.start.timestamp()), "b": max(int(bar.end.timestamp()), int(bar.start.timestamp())),
            "lane": bar.lane, "t": bar.text, "s": bar.state, "g": bar.size, "w": _window(bar.start, bar.end, line),
            "d": figures.duration(int((bar.end - bar.start).total_seconds())), "l": bar.label,
            "e": bar.trouble, "c": bar.slot,
        }
        for bar in line.bars
        if bar.kind == kind
    ]  # fmt: skip


def _window(start: datetime, end: datetime, line: Timeline) -> str:
    first, last = start.astimezone(line.zone), end.astimezone(line.zone)
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{figures.day(last.date())} {last:%H:%M:%S}"
    return f"{figures.day(first.date())} {first:%H:%M:%S} to {until}"


def _tip(field: str, title: str) -> Spec:
    return {"field": field, "type": "nominal", "title": title}


def _tips() -> list[Spec]:
    return [_tip("t", "What"), _tip("s", "State"), _tip("w", "Time"), _tip("d", "Lasted"), _tip("g", "Size")]


def _waits(line: Timeline) -> Spec:
    return {
        "data": {"values": _values(line, "wait")},
        "mark": {"type": "bar", "style": "missing", "height": {"band": 0.5}},
        "encoding": {"x2": {"field": "b"}, "tooltip": [_tip("t", "What"), _tip("w", "Time"), _tip("d", "Lasted")]},
    }


def _whys(line: Timeline) -> Spec:
    """Waits of known causes, each in the colour of its cause; thinner than what ran."""
    scale = {"domain": theme()["scales"]["owner"]["domain"], "range": "owner"}
    return {
        "data": {"values": _values(line, "why")},
        "mark": {"type": "bar", "style": "stack", "height": {"band": 0.5}, "minBandSize": 2},
        "encoding": {
            "x2": {"field": "b"},
            "color": {"field": "c", "type": "nominal", "scale": scale, "legend": None},
            "tooltip": [_tip("t", "Waits"), _tip("s", "Scheduler's word"), _tip("w", "Time"), _tip("d", "Lasted")],
        },
    }


def _runs(line: Timeline) -> Spec:
    return {
        "data": {"values": _values(line, "ran")},
        "mark": {"type": "bar", "style": "stack", "minBandSize": 2},
        "encoding": {"x2": {"field": "b"}, "tooltip": _tips()},
    }


def _saves(line: Timeline) -> Spec:
    """A stroke where each state was saved."""
    return {
        "data": {"values": _values(line, "saved")},
        "mark": {"type": "tick", "style": "saved", "thickness": 1.2, "size": 12, "orient": "vertical"},
        "encoding": {"tooltip": [_tip("t", "What"), _tip("w", "Time"), _tip("d", "Blocked")]},
    }


def _lost(line: Timeline) -> Spec:
    return {
        "data": {"values": _values(line, "lost")},
        "mark": {"type": "bar", "style": "lost", "minBandSize": 2},
        "encoding": {"x2": {"field": "b"}, "tooltip": [_tip("t", "What"), _tip("w", "Time"), _tip("d", "Lasted")]},
    }


def _labels(line: Timeline) -> Spec:
    """Words over the begin of a stretch; those without room are left out by the lanes' own spacing."""
    said = [value for value in _values(line, "ran") if value["l"]]
    return {
        "data": {"values": _apart(said, line)},
        "mark": {"type": "text", "style": "label", "align": "left", "baseline": "bottom", "dy": -11},
        "encoding": {"text": {"field": "l", "type": "nominal"}},
    }


def _apart(said: list[Spec], line: Timeline) -> list[Spec]:
    """Labels of one lane that fit before the next: a letter takes about 1 / LETTERS of the span.

    Of one that does not fit the parts behind are left out, then all of it; so is one that would reach the pointer at
    the end of its bar, or the end of the chart.
    """
    letter = (line.end - line.start).total_seconds() / LETTERS
    free: dict[str, float] = {}
    found: list[Spec] = []
    for value, following in zip_longest(said, said[1:]):
        same = following is not None and following["lane"] == value["lane"]
        edge = following["a"] if following is not None and same else line.end.timestamp()
        limit = min(edge, value["b"]) if value["e"] else edge
        text = _fitting(value["l"], (limit - value["a"]) / letter)
        if text and value["a"] >= free.get(value["lane"], float("-inf")):
            found.append({**value, "l": text})
            free[value["lane"]] = value["a"] + len(text) * letter
    return found


def _fitting(text: str, letters: float) -> str:
    """As many parts of a label as have room."""
    parts = text.split(" · ")
    while parts and len(" · ".join(parts)) + 1 > letters:
        parts.pop()
    return " · ".join(parts)


def _troubles(line: Timeline) -> Spec:
    """A pointer at the end of what ended badly."""
    data = [
        {"a": int(bar.end.timestamp()), "lane": bar.lane, "s": bar.state, "t": bar.text}
        for bar in line.bars
        if bar.trouble
    ]
    return {
        "data": {"values": data},
        "mark": {
            "type": "point", "style": "more", "shape": "triangle-down", "filled": True, "size": 60, "yOffset": -14,
        },
        "encoding": {"tooltip": [_tip("t", "What"), _tip("s", "Ended by")]},
    }  # fmt: skip


def _now(line: Timeline) -> Spec:
    at = int(line.now.timestamp()) if line.now is not None else 0
    return {
        "data": {"values": [{"a": at, "t": "now"}]},
        "mark": {"type": "rule", "style": "target"},
        "encoding": {"y": None, "tooltip": [_tip("t", "What")]},
    }
