"""A published resource: Open XDMoD's reference log and the figures its own tests expect (LGPL-3.0, ubccr/xdmod)."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from events.reports import Report
from tests.events.adapters.sacct_files import big_data
from tests.hand import HOUR, ask, own_database

WINDOW = ("2016-12-22", "2017-01-02")
UNITS = ("day", "month", "quarter", "year")
# Published metric -> report, measure and unit; hours are printed to 4 decimals. Its wait is from submit.
METRICS = {
    "job_count": ("usage", "jobs_ended", 1),
    "started_job_count": ("usage", "jobs_started", 1),
    # What touches a day counts there; XDMoD also counts what ends exactly at its midnight. No job here does:
    #   zcat phillips.log.gz | awk -F'|' '$14 ~ /T00:00:00/' | wc -l  ->  0
    "running_job_count": ("usage", "attempts", 1),
    "total_cpu_hours": ("usage", "cpu_seconds", HOUR),
    "total_gpu_hours": ("usage", "gpu_seconds", HOUR),
    "total_node_hours": ("usage", "node_seconds", HOUR),
    "total_wallduration_hours": ("usage", "wall_seconds", HOUR),
    "total_waitduration_hours": ("waits", "wait_from_submit_seconds", HOUR),
}
# Averages are totals per job that was running, printed to 8 decimals; that of waits is per job that started.
AVERAGES = {
    "avg_cpu_hours": ("total_cpu_hours", "running_job_count"),
    "avg_gpu_hours": ("total_gpu_hours", "running_job_count"),
    "avg_node_hours": ("total_node_hours", "running_job_count"),
    "avg_wallduration_hours": ("total_wallduration_hours", "running_job_count"),
    "avg_waitduration_hours": ("total_waitduration_hours", "started_job_count"),
}
# Not compared: sizes and ratios that no report has (avg_processors, avg_gpus, avg_job_size_*, expansion_factor,
# max_processors, min_processors), and submitted_job_count, which drops jobs submitted on days they did not touch.
LEFT_OUT = 8


@pytest.fixture(scope="module")
def published(django_db_setup: None, django_db_blocker: Any) -> Iterator[Path]:
    """The log imported into a database of this module's own; gives the folder of the reference data."""
    folder = big_data("xdmod")
    with own_database(django_db_blocker):
        assert load(folder / "phillips.log.gz").count("4285 accepted, 0 duplicate, 0 rejected") == 1
        yield folder


def load(*files: Path) -> str:
    out = io.StringIO()
    call_command("import_sacct", *map(str, files), cluster="phillips", timezone="UTC", stdout=out)
    return out.getvalue()


def reports() -> dict[tuple[str, str], Report]:
    return {(name, unit): ask(name, *WINDOW, unit) for name in ("usage", "waits") for unit in UNITS}


def figures(found: dict[tuple[str, str], Report]) -> list[Any]:
    """All that the reports say, to compare them with each other."""
    return [(key, list(report.rows), report.total) for key, report in sorted(found.items())]


def expected(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """(metric, unit, period as we write it or `total`, value)."""
    with (folder / "expected_phillips.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            period = "total" if row["mode"] == "aggregate" else row["period"].replace(" ", "-")
            yield row["metric"], row["unit"].lower(), period, row["expected"]


def told(found: dict[tuple[str, str], Report], metric: str, unit: str, period: str) -> Fraction:
    """What the reports say for a published metric."""
    if metric in AVERAGES:
        sum_, number = (told(found, name, unit, period) for name in AVERAGES[metric])
        return sum_ / number if number else Fraction(0)
    name, measure, divisor = METRICS[metric]
    report = found[name, unit]
    rows = [report.total] if period == "total" else [row for row in report.rows if row[unit] == period]
    assert len(rows) == 1
    return Fraction(rows[0][measure], divisor)


def agrees(value: Fraction, printed: str) -> bool:
    """Whether the value is what was printed, to its last decimal place."""
    places = len(printed.partition(".")[2])
    return abs(value - Fraction(printed)) <= Fraction(1, 2 * 10**places)


def test_every_published_figure_is_ours(published: Path) -> None:
    found = reports()
    wrong, compared = [], 0
    for metric, unit, period, value in expected(published):
        if metric in METRICS or metric in AVERAGES:
            compared += 1
            ours = told(found, metric, unit, period)
            if not agrees(ours, value):
                wrong.append((metric, unit, period, value, float(ours)))
    assert wrong == []
    # 21 published figures a metric: aggregate by 4 units, 11 days, 2 months, 2 quarters, 2 years.
    assert compared == 21 * (21 - LEFT_OUT)


def test_imported_again_nothing_changes(published: Path) -> None:
    before, position = figures(reports()), head()
    assert "0 accepted, 4285 duplicate, 0 rejected" in load(published / "phillips.log.gz")
    assert head() == position
    assert figures(reports()) == before


def test_it_is_verified(published: Path) -> None:
    out = io.StringIO()
    call_command("verify", stdout=out)
    # One event a line, and the cluster.
    assert out.getvalue().startswith("log: 4286 events to position 4286 as written")
    assert out.getvalue().splitlines()[-1] == "books balance"


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_doubled_and_in_three_files_gives_the_same(
    published: Path, tmp_path: Path, seed: int, django_db_blocker: Any
) -> None:
    before = figures(reports())
    parts = thirds(published / "phillips.log.gz", tmp_path, random.Random(seed))
    with own_database(django_db_blocker):
        load(*parts)
        assert head() == 4286
        assert figures(reports()) == before
        call_command("verify", stdout=io.StringIO())


def thirds(log: Path, folder: Path, dice: random.Random) -> list[Path]:
    """The log shuffled, each line twice, cut into three files in any order."""
    lines = gzip.decompress(log.read_bytes()).decode().splitlines(keepends=True) * 2
    dice.shuffle(lines)
    parts = [folder / f"part{number}.log" for number in range(3)]
    for number, part in enumerate(parts):
        part.write_text("".join(lines[number::3]), encoding="utf-8")
    return dice.sample(parts, 3)


def head() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT position FROM events_head")
        return int(cursor.fetchone()[0])
