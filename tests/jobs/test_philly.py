"""The Philly slice as events: 600,959.2 GPU-hours of 15 groups, in the order of the file and shuffled.

The sum is the published one of the rows (duration x num_gpus); tests/philly.py says how rows become events.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.events.adapters.sacct_files import big_data
from tests.hand import HOUR, ask
from tests.philly import cloud_events, open_text

pytestmark = pytest.mark.django_db

Order = Callable[[list[str]], None]


def unchanged(_lines: list[str]) -> None:
    """The order of the file."""


def shuffled(lines: list[str]) -> None:
    random.Random(9).shuffle(lines)


@pytest.mark.parametrize("order", [unchanged, shuffled])
def test_gpu_hours_by_account(tmp_path: Path, order: Order) -> None:
    with open_text(big_data("traces", "philly_jobs", "philly_jobs_rows_00000-49999.csv.gz")) as text:
        lines = [json.dumps(event) for event in cloud_events(str(line) for _, line in text.lines())]
    order(lines)
    (tmp_path / "philly.ndjson").write_text("\n".join(lines), encoding="utf-8")
    out = io.StringIO()
    call_command("import_events", str(tmp_path / "philly.ndjson"), stdout=out)
    assert "50000 accepted, 0 duplicate, 0 rejected" in out.getvalue()
    report = ask("usage", "2017-01-01", "2019-01-01", "account")
    assert len(report.rows) == 15
    assert sum(row["gpu_seconds"] for row in report.rows) == report.total["gpu_seconds"]
    assert report.total["gpu_seconds"] / HOUR == pytest.approx(600_959.2, abs=0.1)
    assert report.total["jobs_ended"] == 50_000
