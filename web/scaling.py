"""The page Scaling: how fast clusters were measured to be as they grew, against what they were designed for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from fleet.queries import Site, site
from jobs import queries_scaling as queries
from jobs.queries import scope_of
from jobs.queries_scaling import TARGETS, Judged, target
from web import figures, history
from web.bundle import bundle_url
from web.charts import OTHER, SCHEMA, SLOTS
from web.frame import frame
from web.rights import page
from web.speed import TARGET, decimals, judged, share, targets_row
from web.state import one_state
from web.tables import Cell, Head, Link, Table, label, number
from web.usagecharts import Key
from web.usagetables import KEYS

__all__ = ["scaling"]

HEADS: Final = (
    Head("Model"), Head("GPUs", "n"), Head("Measured"), Head("Tokens/s", "n"),
    Head("Per GPU", "n"), Head("Step s", "n"), Head("Scaling %", "n"), Head("MFU %", "n"),
    Head("Convention"), Head("Communication %", "n"), Head("Signed by"),
)  # fmt: skip
MOST_GPUS: Final = next(one.most_gpus for one in TARGETS if one.measure == "scaling_efficiency")


@page
def scaling(request: HttpRequest) -> HttpResponse:
    """GET /scaling/."""
    scope, here, cut = scope_of(request.user), site(), datetime.now(UTC)
    with one_state():
        every = list(queries.records(scope))
        rows = [row for row in every if row.replaced_by is None]
        found = queries.judged(rows)
        context = {
            "records": None,
            "targets": [(one.measure, one.words) for one in TARGETS],
            "source": TARGETS[0].source,
        }
        if rows:
            context |= _shown(rows, found, len(every) - len(rows), here)
        around = frame(request, "scaling", log.as_of(cut), here)
    return render(request, "web/scaling.html", {**around, **context, "api": reverse("api-scaling-records")})


def _shown(rows: Sequence[Any], found: Mapping[int, Judged], replaced: int, here: Site) -> dict[str, Any]:
    people = log.people({row.signed_by for row in rows})
    texts = log.texts({row.note for row in rows if row.note})
    body = [_row(row, found[row.position], people, texts, here) for row in rows]
    caption = (
        f"Dates in {here.timezone}. Scaling is throughput per GPU against the record of the same model and cluster "
        "with the fewest GPUs, measured nearest in time; the convention is the MFU's, which is comparable within one."
    )
    address = reverse("api-scaling-records")
    more = Link(f"{history.counted(replaced, 'replaced record')}", f"{address}?counts=false") if replaced else None
    foot = [label(TARGET), *[Cell()] * 5, *targets_row(), Cell()]
    tools = history.tools_of("api-scaling-records", counts="true")
    table = Table("records", "Records", caption, HEADS, body, foot, tools, more, wide=True)
    return {"records": table, **_chart(rows, found)}


def _row(
    row: Any, result: Judged, people: Mapping[str, str], texts: Mapping[str, str], here: Site
) -> list[Cell]:  # fmt: skip
    tokens, at = row.milli_tokens_per_second / 1000, row.measured.astimezone(here.zone)
    said = (row.reference, texts.get(row.note, ""))
    step = None if row.step_us is None else row.step_us / 1_000_000
    return [
        Cell(row.model, "w", note=f"{row.precision} on {row.cluster}".strip()),
        number(figures.thousands(row.gpus)),
        Cell(figures.day(at.date(), year=True), iso=row.measured.isoformat(timespec="seconds"), note=row.kind),
        decimals(tokens, 0),
        decimals(tokens / row.gpus, 1),
        decimals(step, 3),
        judged("scaling_efficiency", result.efficiency, row.gpus),
        judged("mfu", result.mfu, row.gpus),
        Cell(row.convention, "name") if row.convention else Cell(figures.NO_DATA, "nodata"),
        judged("communication", result.communication, row.gpus),
        Cell(people.get(row.signed_by, row.signed_by), "says", note="; ".join(filter(None, said))),
    ]


# --- chart -------------------------------------------------------------------------------------------------------


def _chart(rows: Sequence[Any], found: Mapping[int, Judged]) -> dict[str, Any]:
    """Efficiency by number of GPUs, a line per model; {} where there is one size only."""
    lines: dict[tuple[str, str, str], list[Any]] = {}
    for row in rows:
        lines.setdefault((row.model, row.precision, row.cluster), []).append(row)
    grown = {key: line for key, line in lines.items() if len({row.gpus for row in line}) > 1}
    if not grown:
        return {}
    clusters = {cluster for _, _, cluster in grown}
    slots = {key: SLOTS[place] if place < len(SLOTS) else OTHER for place, key in enumerate(grown)}
    values = [
        {"g": row.gpus, "e": round(found[row.position].efficiency * 100, 2), "s": slots[key], "n": _name(key, clusters),
         "m": figures.day(row.measured.date(), year=True)}
        for key, line in grown.items() for row in line
    ]  # fmt: skip
    best = {key: max(line, key=lambda row: (row.gpus, row.measured)) for key, line in grown.items()}
    legend = [Key(KEYS[slots[key]], _name(key, clusters),
                  f"{share(found[row.position].efficiency)} % at {figures.thousands(row.gpus)}")
              for key, row in best.items()]  # fmt: skip
    text = "Scaling efficiency by number of GPUs; figures in the table Records"
    aim = Key("", f"design target (dashed): {target('scaling_efficiency').words}", "")
    return {"stack": {"description": text}, "spec": _spec(text, values), "legend": [*legend, aim],
            "bundle_url": bundle_url()}  # fmt: skip


def _name(key: tuple[str, str, str], clusters: set[str]) -> str:
    model, precision, cluster = key
    named = f"{model} {precision}".strip()
    return f"{named} on {cluster}" if len(clusters) > 1 else named


def _spec(text: str, values: list[dict[str, Any]]) -> dict[str, Any]:
    sizes = sorted({value["g"] for value in values})
    low = min(80.0, min(value["e"] for value in values) - 2)
    x = {"field": "g", "type": "quantitative", "scale": {"type": "log", "base": 2, "nice": False, "padding": 12},
         "axis": {"title": "GPUs", "values": sizes, "grid": False, "format": ",d"}}  # fmt: skip
    y = {"field": "e", "type": "quantitative", "scale": {"zero": False, "domainMin": low},
         "axis": {"title": "Scaling %"}}  # fmt: skip
    aim = target("scaling_efficiency")
    edge = {"g": sizes[0], "to": min(sizes[-1], aim.most_gpus or sizes[-1]), "e": aim.low * 100}
    tooltip = [
        {"field": "n", "type": "nominal", "title": "Model"}, {"field": "g", "type": "quantitative", "title": "GPUs"},
        {"field": "e", "type": "quantitative", "title": "Scaling %", "format": ".2f"},
        {"field": "m", "type": "nominal", "title": "Measured"},
    ]  # fmt: skip
    colour = {"field": "s", "type": "nominal", "scale": {"domain": [*SLOTS, OTHER]}, "legend": None}
    return {
        "$schema": SCHEMA, "description": text, "width": "container", "height": 264, "layer": [
            {"data": {"values": values}, "mark": {"type": "line", "point": True},
             "encoding": {"x": x, "y": y, "color": colour, "detail": {"field": "n"}, "tooltip": tooltip}},
            {"data": {"values": [edge]}, "mark": {"type": "rule", "style": "target"},
             "encoding": {"x": x, "x2": {"field": "to"}, "y": y}},
        ],
    }  # fmt: skip
