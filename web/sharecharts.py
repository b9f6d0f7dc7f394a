"""The chart of fair share: an account's part of the use against its share, by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.share_history import Course
from web import figures
from web.charts import SCHEMA
from web.usagecharts import Key
from web.usagetables import KEYS

__all__ = ["course_chart"]


def course_chart(account: str, points: Sequence[Course]) -> dict[str, Any]:
    """What templates/parts/chart.html draws: one line of use, and the share as a dashed one."""
    rows = [{"x": figures.day(point.day), "u": round(point.usage, 4), "s": round(point.share, 4)} for point in points]
    first, last = figures.day(points[0].day, year=True), figures.day(points[-1].day, year=True)
    text = f"Use of {account} as a part of its level's use against its share, {first} to {last}; figures in its table"
    return {
        "stack": {"description": text},
        "spec": _spec(text, rows),
        "legend": [
            Key(KEYS["1"], "part of the decayed use", f"{points[-1].usage:.3f}"),
            Key("", "share (dashed)", f"{points[-1].share:.3f}"),
        ],
    }


def _spec(text: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    axis = {"title": None, "labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 12}
    scale = {"zero": True, "domainMin": 0}
    tooltip = [
        {"field": "x", "type": "nominal", "title": "As the day begins"},
        {"field": "u", "type": "quantitative", "title": "Part of the use", "format": ".3f"},
        {"field": "s", "type": "quantitative", "title": "Share", "format": ".3f"},
    ]
    return {
        "$schema": SCHEMA, "description": text, "width": "container", "height": 264, "data": {"values": rows},
        "encoding": {"x": {"field": "x", "type": "ordinal", "sort": None, "axis": axis}, "tooltip": tooltip},
        "layer": [
            {"mark": {"type": "line"}, "encoding": {"y": {"field": "u", "type": "quantitative", "scale": scale,
                                                          "axis": {"title": "Part of the level"}}}},
            {"mark": {"type": "line", "style": "target"}, "encoding": {"y": {"field": "s", "type": "quantitative"}}},
        ],
    }  # fmt: skip
