"""The benchmarks run: small sizes, shape of the lines, no verdict on speed."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from bench import data, imports, load
from bench.base import Measured
from events.adapters import Draft, cloudevents
from events.adapters.sacct import open_sacct


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(CommandError, match="no benchmark fast; there are ingest, single, project, import") as told:
        call_command("bench", "fast")
    assert told.value.returncode == 2


def test_without_a_name_it_asks_for_one() -> None:
    with pytest.raises(CommandError, match="name a benchmark"):
        call_command("bench")


def test_a_line_has_short_figures() -> None:
    line = Measured("x", 0.123456, {"rate": 12345.678, "count": 5, "text": "t"}, [0.123456]).line()
    assert line == {"name": "x", "ratio": 0.1235, "figures": {"rate": 12346, "count": 5, "text": "t"}, "runs": [0.1235]}


def test_events_are_taken_as_they_are() -> None:
    (body,) = data.bodies(50, 50, mixed=True)
    drafts = cloudevents.lines(body)
    assert len(drafts) == 50
    assert all(isinstance(draft, Draft) for draft in drafts)


def test_sacct_lines_are_read_as_they_are() -> None:
    from zoneinfo import ZoneInfo

    lines = list(imports.lines(50))
    reader = open_sacct(lines[0], cluster="pod-a", zone=ZoneInfo("UTC"))
    found = [reader.read(number, line) for number, line in enumerate(lines)]
    assert all(isinstance(draft, Draft) for draft in found)
    wanted = [(job["gpus"], job["start"], job["end"]) for job in data.jobs(50, seed=11)]
    assert [(draft.data.gpus, draft.data.start, draft.data.end) for draft in found] == wanted  # type: ignore[union-attr]


def test_the_length_of_an_answer_is_known_once_its_head_is_here() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    assert load._length(head[:-1]) is None
    assert load._length(head + b"ab") == len(head) + 5


@pytest.mark.faults
@pytest.mark.parametrize("name", ["ingest", "single", "project", "import"])
def test_a_quick_run_gives_positive_ratios(name: str, django_db_setup: None, django_db_blocker: Any) -> None:
    out = io.StringIO()
    with django_db_blocker.unblock():
        call_command("bench", name, "--quick", "--json", stdout=out)
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert set(line) == {"name", "ratio", "figures", "runs"}
    assert line["name"] == name
    assert line["ratio"] > 0
    assert all(run > 0 for run in line["runs"])
    numbers = [value for value in line["figures"].values() if not isinstance(value, str)]
    assert numbers
    assert all(math.isfinite(value) and value >= 0 for value in numbers)
