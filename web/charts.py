"""Charts: one Vega-Lite spec each, drawn in the page by the browser and in documents as SVG.

A spec holds no colours. Series have slots 1 to 5 and `other`; the theme gives each slot its colour, light or dark.
Where colours have a meaning, a series' slot is its name in one of the theme's scales (`owner`, `goodput`, ...).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

__all__ = ["OTHER", "SLOTS", "Series", "Stack", "across", "page_theme", "stacked", "svg", "theme"]

SLOTS: Final = ("1", "2", "3", "4", "5")
OTHER: Final = "other"
SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
NAME_WIDTH: Final = 150
ROW_HEIGHT, AXIS_HEIGHT = 22, 44
"""Pixels: names beside bars across, one such bar with the gap below it, and the axis below all of them."""
SVG_PADDING: Final = {"left": 4, "right": 4, "top": 0, "bottom": 0}
"""Pixels at the sides of a drawn chart: whoever shows it sets its words a little wider than they were measured."""
Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Series:
    """One colour of a stack: its slot, its name, its values by bucket (None: no data)."""

    slot: str
    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Stack:
    """Stacked bars over buckets of time (or of names, `across`). `missing`: buckets of which nothing is known.

    scale: name of the theme's scale by meaning that gives the colours; '' gives them by slot.
    """

    description: str
    unit: str
    bucket_head: str
    series_head: str
    buckets: Sequence[str]
    series: Sequence[Series]
    missing: Sequence[str] = ()
    scale: str = ""


@cache
def theme() -> dict[str, Any]:
    """The look of charts: configurations `light` and `dark`, and colours by meaning, also as ranges of their names."""
    text = (Path(__file__).parent / "chart_theme.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    for mode in ("light", "dark"):
        found[mode]["range"] |= {name: scale[mode] for name, scale in found["scales"].items()}
    return found


@cache
def page_theme() -> str:
    """Both configurations for pages as JSON: there the system's own face comes first, as in tokens.css."""
    both = {mode: theme()[mode] for mode in ("light", "dark")}
    return json.dumps(both, separators=(",", ":")).replace("Inter, system-ui, ", "system-ui, ")


def stacked(stack: Stack, *, legend: bool = False, width: int | str = "container", height: int = 264) -> Spec:
    """Stacked bars in the order of the series, the first at the bottom; gaps stay gaps.

    legend: draw one (in documents); a page writes its own above the chart, with totals.
    """
    layers = [_bars(stack, legend=legend)]
    if stack.missing:
        layers.insert(0, _missing(stack))
    return {
        "$schema": SCHEMA,
        "description": stack.description,
        "width": width,
        "height": height,
        "encoding": {"x": _x(stack)},
        "layer": layers,
    }


def across(stack: Stack, *, width: int | str = "container") -> Spec:
    """The same stacks as bars across, from top to bottom: for names, which are longer than dates."""
    bars = _bars(stack, legend=False)
    amount = bars["encoding"].pop("y")
    amount["axis"] |= {"grid": True, "domain": False, "tickCount": 6, "labelOverlap": "greedy"}
    names = {"title": None, "labelLimit": NAME_WIDTH, "grid": False, "domain": True}
    scale = {"domain": list(stack.buckets), "paddingInner": 0.3, "paddingOuter": 0.15}
    return {
        "$schema": SCHEMA,
        "description": stack.description,
        "width": width,
        "height": ROW_HEIGHT * len(stack.buckets) + AXIS_HEIGHT,
        "encoding": {"x": amount, "y": {"field": "x", "type": "ordinal", "sort": None, "scale": scale, "axis": names}},
        "layer": [bars],
    }


def _x(stack: Stack) -> Spec:
    axis = {"title": None, "labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 12}
    scale = {"domain": list(stack.buckets), "paddingInner": 0.16, "paddingOuter": 0.08}
    return {"field": "x", "type": "ordinal", "sort": None, "scale": scale, "axis": axis}


def _bars(stack: Stack, *, legend: bool) -> Spec:
    values = [
        {"x": bucket, "s": series.slot, "n": series.name, "v": value, "o": order}
        for order, series in enumerate(stack.series)
        for bucket, value in zip(stack.buckets, series.values, strict=True)
        if value
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "bar", "style": "stack"},
        "encoding": {
            "y": {"field": "v", "type": "quantitative", "axis": {"title": stack.unit}, "scale": {"zero": True}},
            "color": {
                "field": "s",
                "type": "nominal",
                "scale": _colours(stack),
                "legend": _legend(stack) if legend else None,
            },
            "order": {"field": "o", "type": "quantitative"},
            "tooltip": [
                {"field": "x", "type": "nominal", "title": stack.bucket_head},
                {"field": "n", "type": "nominal", "title": stack.series_head},
                {"field": "v", "type": "quantitative", "title": stack.unit, "format": ",.1f"},
            ],
        },
    }


def _colours(stack: Stack) -> Spec:
    """Slots, or names of a scale by meaning, in the order in which the theme has their colours."""
    if not stack.scale:
        return {"domain": [*SLOTS, OTHER]}
    return {"domain": theme()["scales"][stack.scale]["domain"], "range": stack.scale}


def _legend(stack: Stack) -> Spec:
    """A legend of the slots in use, by the names of their series."""
    names = json.dumps({series.slot: series.name for series in stack.series})
    return {"title": None, "values": [s.slot for s in stack.series], "labelExpr": f"({names})[datum.label]"}


def _missing(stack: Stack) -> Spec:
    return {
        "data": {"values": [{"x": bucket, "w": "no data"} for bucket in stack.missing]},
        "mark": {"type": "rect", "style": "missing"},
        "encoding": {
            "tooltip": [
                {"field": "x", "type": "nominal", "title": stack.bucket_head},
                {"field": "w", "type": "nominal", "title": stack.unit},
            ]
        },
    }


def svg(spec: Spec, *, mode: Literal["light", "dark"] = "light", width: int = 700, fonts: Path | None = None) -> str:
    """The chart as an SVG document, for PDFs and mails: literal colours, no script, nothing fetched.

    fonts: a folder of fonts to measure its words by, the ones of the document.
    """
    import vl_convert

    if fonts is not None:
        _register(fonts)
    fixed = {**spec, "width": width} if spec.get("width") == "container" else spec
    config = theme()[mode] | {"padding": SVG_PADDING}
    return str(vl_convert.vegalite_to_svg(fixed, config=config, allowed_base_urls=[]))


@cache
def _register(fonts: Path) -> None:
    import vl_convert

    vl_convert.register_font_directory(str(fonts))
