"""Charts: the spec, the SVG for documents, the script for pages."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from web import bundle, charts
from web.charts import Series, Stack

STACK = Stack(
    "GPU-hours per day by project", "GPU-hours", "Day", "Project", ["1 Oct", "2 Oct", "3 Oct"],
    [Series("1", "atlas", [5.0, None, 2.0]), Series("2", "vision", [1.0, 0.0, 0.5]),
     Series("other", "others", [0.1, 0, 0])],
    ["2 Oct"],
)  # fmt: skip


def test_a_spec_holds_no_colour_and_no_address_but_its_schema() -> None:
    text = str(charts.stacked(STACK))
    assert not re.search(r"#[0-9a-f]{6}", text)
    assert text.count("http") == 1


def test_every_bucket_has_its_place_also_without_use() -> None:
    spec = charts.stacked(STACK)
    assert spec["encoding"]["x"]["scale"]["domain"] == ["1 Oct", "2 Oct", "3 Oct"]
    missing, bars = spec["layer"]
    assert missing["data"]["values"] == [{"x": "2 Oct", "w": "no data"}]
    assert {(row["x"], row["n"]) for row in bars["data"]["values"]} == {
        ("1 Oct", "atlas"), ("3 Oct", "atlas"), ("1 Oct", "vision"), ("3 Oct", "vision"), ("1 Oct", "others"),
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_svg_for_documents(mode: Any) -> None:
    drawn = charts.svg(charts.stacked(STACK, legend=True), mode=mode)
    palette = charts.theme()[mode]["range"]["category"]
    assert drawn.startswith("<svg")
    for colour in (palette[0], palette[1], palette[5], charts.theme()[mode]["style"]["missing"]["color"]):
        assert colour in drawn
    for name in ("atlas", "vision", "others", "GPU-hours"):
        assert f">{name}<" in drawn
    assert "<script" not in drawn
    assert drawn.count('aria-roledescription="bar"') == 5


def test_names_cannot_break_out_of_a_legend() -> None:
    odd = Stack("d", "h", "Day", "User", ["1"], [Series("1", "a\"b'</text>", [1.0])])
    assert "</text></text>" not in charts.svg(charts.stacked(odd, legend=True))


def test_the_script_is_made_once_and_kept_for_good(tmp_path: Path, settings: Any, monkeypatch: Any) -> None:
    settings.HALLBOOK_HOME = tmp_path
    client, address = Client(), bundle.bundle_url()
    zipped = client.get(address, headers={"accept-encoding": "br, gzip"})
    script = gzip.decompress(zipped.content)
    assert b"vegaEmbed" in script
    assert b"window.hallbookTheme=" in script
    assert zipped["Cache-Control"] == "public, max-age=31536000, immutable"
    assert zipped["Content-Type"] == "text/javascript; charset=utf-8"
    assert len(zipped.content) < 340_000
    monkeypatch.setattr(bundle, "_make", lambda _: pytest.fail("made twice"))
    assert client.get(address).content == script
    assert client.get("/charts/vega-0123456789abcdef.js").status_code == 404
    assert [file.suffix for file in (tmp_path / "static-cache").iterdir()] == [".gz"]
