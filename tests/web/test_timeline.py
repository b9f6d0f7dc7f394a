"""The scale of the timeline: ticks at readable local times, also where clocks change; and its drawing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from web import charts, timeline
from web.timeline import Bar, Timeline

BERLIN = ZoneInfo("Europe/Berlin")


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).astimezone(UTC)


@pytest.mark.parametrize(
    ("start", "end", "first", "number"),
    [
        ("2026-10-05 09:12", "2026-10-30 18:44", "7 Oct", 12),
        ("2026-10-05 09:12", "2026-10-05 09:20", "09:12", 9),
        ("2026-10-05 09:12", "2026-10-05 18:20", "10:00", 9),
        ("2026-10-05 22:12", "2026-10-06 18:20", "6 Oct", 10),
        ("2026-03-05 00:00", "2026-10-06 18:20", "1 Apr 2026", 7),
        ("2020-01-01 00:00", "2026-10-06 18:20", "1 Jan 2020", 7),
    ],
)
def test_ticks_are_few_and_readable(start: str, end: str, first: str, number: int) -> None:
    found = timeline.ticks(local(start), local(end), BERLIN)
    assert (found[0][1], len(found)) == (first, number)


def test_ticks_in_the_night_of_25_hours() -> None:
    """Clocks go back on 25 October 2026 at 03:00: the next midnight comes 25 hours after the last."""
    found = timeline.ticks(local("2026-10-24 00:00"), local("2026-10-27 00:00"), BERLIN)
    midnights = [at for at, text in found if "Oct" in text]
    assert [text for _, text in found if "Oct" in text] == ["24 Oct", "25 Oct", "26 Oct", "27 Oct"]
    assert [two - one for one, two in pairwise(midnights)] == [86_400, 90_000, 86_400]


def test_a_moment_has_a_scale_too() -> None:
    now = datetime.now(UTC)
    assert len(timeline.ticks(now, now, BERLIN)) <= 1
    spec = timeline.lanes(Timeline("d", BERLIN, now, now, [Bar("Attempts", "ran", now, now, "t")]))
    low, high = spec["encoding"]["x"]["scale"]["domain"]
    assert high > low


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_lanes_are_drawn_in_the_themes_colours(mode: str) -> None:
    start = local("2026-10-05 09:00")
    hour = timedelta(hours=1)
    bars = [
        Bar("Attempts", "wait", start, start + hour, "wait of attempt 1"),
        Bar("Attempts", "ran", start + hour, start + 9 * hour, "attempt 1", "failed", "1 · 8 GPUs", "8 GPUs", True),
        Bar('odd "lane" </text>', "ran", start + 4 * hour, start + 20 * hour, "attempt 2", "running", "2"),
    ]
    line = Timeline("two attempts", BERLIN, start, start + 21 * hour, bars, start + 20 * hour)
    drawn = charts.svg(timeline.lanes(line), mode=mode)  # type: ignore[arg-type]
    theme = charts.theme()[mode]
    for colour in (theme["mark"]["color"], theme["style"]["missing"]["color"], theme["style"]["more"]["color"]):
        assert colour in drawn
    assert ">1 · 8 GPUs<" in drawn
    assert ">12:00<" in drawn
    assert "</text></text>" not in drawn


def test_what_was_held_is_drawn() -> None:
    start = local("2026-10-05 09:00")
    hour = timedelta(hours=1)
    line = Timeline("held", BERLIN, start, start + 3 * hour, ())
    spec = timeline.held(
        line, [(start + n * hour, start + (n + 1) * hour, value) for n, value in enumerate((8.0, 0.0, 2.5))]
    )
    drawn = charts.svg(spec)
    assert ">GPUs held<" in drawn
    assert [row["v"] for row in spec["layer"][0]["data"]["values"]] == [8.0, 0.0, 2.5]
    assert spec["layer"][0]["data"]["values"][0]["w"] == "5 Oct 09:00:00 to 10:00:00"
