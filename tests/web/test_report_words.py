"""What reports say to people: shares in per cent, causes and gaps in words, why totals differ, one left out named."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from events import reports
from events.reports import AsOf, Column, Params, Report
from jobs.waiting import CAUSES as WAITS
from jobs.waste import CAUSES as WASTE
from web.causes import CAUSE_TEXTS, cause_text
from web.reportcells import head, key_text, label_of, measured, scaled
from web.reportcharts import Pile as OnePile
from web.reportcharts import _coloured, _names, _sums
from web.reporttable import gap_texts

PPM, RATIO = Column("waste_ppm", "Share", "integer", "ppm"), Column("goodput", "Goodput", "number", "ratio")


@pytest.mark.parametrize(
    ("column", "value", "text", "title"),
    [
        (PPM, 968_750, "96.88", "968\u202f750 ppm"), (PPM, 1344, "0.13", "1\u202f344 ppm"), (PPM, 0, "0.00", "0 ppm"),
        (RATIO, 0.969, "96.90", "0.969"), (RATIO, 1.0, "100.00", "1.0"), (RATIO, 0.12345, "12.35", "0.12345"),
    ],
)  # fmt: skip
def test_shares_are_read_in_per_cent_whatever_files_hold(column: Column, value: Any, text: str, title: str) -> None:
    cell = measured(column, value)
    assert (cell.text, cell.title) == (text, title)
    assert key_text(column, Decimal(str(value))) == text
    assert head(column, "EUR") in ("Share, %", "Goodput, %")


def test_a_chart_has_shares_in_per_cent_too() -> None:
    assert (scaled(PPM, Decimal(968_750)), scaled(RATIO, Decimal("0.969"))) == (96.875, 96.9)


def test_seconds_that_are_no_whole_number_are_rounded_not_cut() -> None:
    column = Column("decayed_seconds", "Decayed", "number", "billing-s")
    assert measured(column, 179.6).text == "0.1"  # 180 s are 0.05 h
    assert measured(column, -179.6).text == "\u22120.1"


def test_every_cause_has_one_word_everywhere() -> None:
    assert set(CAUSE_TEXTS) == {*WAITS, *WASTE}
    assert len(CAUSE_TEXTS) == len(WAITS) + len(WASTE)
    assert cause_text("restart") == "restart after a fault"
    assert cause_text("timed_out") == "ended at its limit"
    assert cause_text("own_share") == "own share"
    assert label_of(Column("cause", "Cause", "label"), "timed_out").text == "ended at its limit"


def answer(*gaps: dict[str, Any]) -> Report:
    day = datetime(2026, 10, 1, tzinfo=UTC)
    columns = (Column("installed_gpu_seconds", "Installed", "seconds", "GPU-s"),)
    return Report("utilisation", Params(day, day, ZoneInfo("UTC")), columns, [], {}, AsOf(1, day), gaps)


def test_what_is_missing_is_told_in_words() -> None:
    nobody = "no data, since no source tells how busy GPUs are"
    unseen = [{"cause": name, "reason": nobody} for name in ("never_used", "idle")]
    untold = {"cause": "not known", "attempts": 17, "gpu_seconds": 5400, "reason": "preempted"}
    assert gap_texts(answer(*unseen, untold)) == [
        f"never used and idle: {nobody}", "17 attempts, 1.5 GPU-h: preempted"
    ]  # fmt: skip
    assert gap_texts(answer({"measure": "installed_gpu_seconds", "reason": "no cluster is known"})) == [
        "Installed: no cluster is known"
    ]
    assert gap_texts(answer({"resource_class": "cpu", "cpu_seconds": 3600, "reason": "no price"})) == [
        "cpu, 1.0 CPU-h: no price"
    ]


def test_reports_whose_allocated_differs_say_why() -> None:
    for name in ("goodput", "waste", "utilisation"):
        assert "cut at" in reports.definition(name).note, name
    assert "the whole hall" in reports.definition("utilisation").note
    assert "attempts do not add up" in reports.definition("waits").note


def pile(name: str, amount: int) -> OnePile:
    return OnePile(name, name, _sums([(name, amount)]))


def test_one_that_would_be_left_out_alone_is_named() -> None:
    def legend(number: int) -> list[str]:
        return [one.text for one in _coloured([pile(f"p{n}", 90 - n) for n in range(number)], {})[1]]

    assert legend(6) == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert legend(7) == ["p0", "p1", "p2", "p3", "p4", "2 others"]

    def bars(number: int) -> list[str]:
        return list(_names("user", [pile(f"u{n:02d}", 90 - n) for n in range(number)]).values())

    assert bars(21)[-1] == "u20"
    assert (len(bars(22)), bars(22)[-1]) == (21, "2 others")
