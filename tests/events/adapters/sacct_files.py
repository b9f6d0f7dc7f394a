"""Reads the captured sacct files for the tests: one call from a file to its drafts and refusals."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from datetime import UTC, tzinfo
from pathlib import Path

import pytest

from events.adapters import Draft, Refusal
from events.adapters.sacct import open_sacct
from events.adapters.textfiles import open_text
from events.types.jobs import JobReported, StepReported

SLURM = Path(__file__).parents[2] / "payloads" / "slurm"
SACCT = SLURM / "sacct"


def read_lines(
    lines: Iterable[str], *, zone: tzinfo = UTC, delimiter: str = "|", cluster: str = "pod-a"
) -> list[Draft | Refusal]:
    """What the adapter makes of the lines of one file, blank lines and header left out."""
    lines = list(lines)
    reader = open_sacct(lines[0], cluster=cluster, zone=zone, delimiter=delimiter)
    made = [reader.read(number, line) for number, line in enumerate(lines, 1)]
    return [item for item in made if item is not None]


def read_file(path: Path, *, zone: tzinfo = UTC, delimiter: str = "|", cluster: str = "pod-a") -> list[Draft | Refusal]:
    """What the adapter makes of a stored file."""
    with open_text(path) as text:
        lines = [line if isinstance(line, str) else line.head for _, line in text.lines()]
    return read_lines(lines, zone=zone, delimiter=delimiter, cluster=cluster)


def drafts(items: Iterable[Draft | Refusal]) -> list[Draft]:
    """The drafts among them."""
    return [item for item in items if isinstance(item, Draft)]


def refusals(items: Iterable[Draft | Refusal]) -> list[Refusal]:
    """The refusals among them."""
    return [item for item in items if isinstance(item, Refusal)]


def jobs(items: Iterable[Draft | Refusal]) -> list[JobReported]:
    """The data of the job records among them."""
    return [item.data for item in drafts(items) if isinstance(item.data, JobReported)]


def steps(items: Iterable[Draft | Refusal]) -> list[StepReported]:
    """The data of the step records among them."""
    return [item.data for item in drafts(items) if isinstance(item.data, StepReported)]


def table(name: str) -> list[dict[str, str]]:
    """Rows of a captured database table."""
    with (SLURM / "db" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def big_data(*parts: str) -> Path:
    """A file of the public test data that is too big for the repository; skips the test without it."""
    root = os.environ.get("HALLBOOK_TEST_DATA")
    if not root:
        pytest.skip("HALLBOOK_TEST_DATA is not set: public reference data is not at hand")
    return Path(root).joinpath(*parts)
