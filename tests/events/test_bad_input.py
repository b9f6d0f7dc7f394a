"""Bad input through the real commands: a bad file is one line and exit 2, a bad line is a Rejection."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from events import queries
from events.models import Event, Rejection
from tests.conftest import environment

pytestmark = pytest.mark.django_db
HEADER = "JobIDRaw|State|Submit|Start|End|JobName"
OPTIONS = ("--cluster", "pod-a", "--timezone", "UTC")
IMPORT = ("import_sacct", *OPTIONS)


def job(number: int, name: str = "train") -> str:
    return f"{number}|COMPLETED|2026-11-01T00:00:00|2026-11-01T00:10:00|2026-11-01T01:10:00|{name}"


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output and error line of a command."""
    out = io.StringIO()
    try:
        call_command(*words, stdout=out, stderr=out)
    except CommandError as error:
        return error.returncode, out.getvalue(), str(error)
    return 0, out.getvalue(), ""


def jobs() -> list[str]:
    """Job numbers in the log, in order of position."""
    return [row.data["job_id"] for row in Event.objects.filter(type="job.reported").order_by("position")]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.psv"
    file.write_text("\n".join([HEADER, job(1), job(2)]) + "\n")
    return file


def cut_gzip() -> bytes:
    return gzip.compress("\n".join([HEADER, *(job(n) for n in range(1000))]).encode())[:-200]


WHOLE: dict[str, tuple[bytes, str]] = {
    "binary": (b"\x7fELF\x02\x01\x01\x00\x00", "is binary (NUL byte at offset 7)"),
    "empty": (b"", "is empty"),
    "blank lines": (b"\n\n", "no line in it"),
    "wrong columns": (b"name|size|colour\na|1|red\n", "JobIDRaw"),
    "another format": (b'{"jobs": []}\n', "this looks like JSON"),
    "truncated gzip": (cut_gzip(), "is cut short"),
    "corrupt gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03nonsense", "corrupt"),
    "first line of 2 MB": (b"x" * 2_000_000, "its first line is over 1 MiB"),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_file_that_is_unreadable_as_a_whole_keeps_nothing(tmp_path: Path, kind: str) -> None:
    body, words = WHOLE[kind]
    bad = tmp_path / "bad.psv"
    bad.write_bytes(body)
    code, printed, told = run(*IMPORT, str(bad))
    assert (code, printed) == (2, "")
    assert told.startswith(f"{bad}: ")
    assert words in told
    assert "\n" not in told
    assert (queries.head_position(), Rejection.objects.count()) == (0, 0)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    missing = tmp_path / "none.psv"
    assert run(*IMPORT, str(missing)) == (2, "", f"{missing}: no such file")
    assert run(*IMPORT, str(tmp_path)) == (2, "", f"{tmp_path}: is a folder, not a file")
    assert queries.head_position() == 0


def test_the_other_files_of_the_call_are_kept(tmp_path: Path, good: Path) -> None:
    missing, more = tmp_path / "none.psv", tmp_path / "more.psv"
    more.write_text("\n".join([HEADER, job(3)]) + "\n")
    code, printed, told = run(*IMPORT, str(good), str(missing), str(more))
    assert (code, told) == (2, f"{missing}: no such file")
    assert printed.splitlines() == [
        f"{good}: 2 accepted, 0 duplicate, 0 rejected",
        f"{more}: 1 accepted, 0 duplicate, 0 rejected",
    ]
    assert jobs() == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster", "pod-a", "--timezone", "Mars/Olympus"), "--timezone Mars/Olympus: not in the tz database"),
        (("--cluster", "pod-a", "--timezone", ""), "--timezone : not in the tz database"),
        (("--cluster", "", "--timezone", "UTC"), "--cluster"),
        (("--cluster", "a/b", "--timezone", "UTC"), "--cluster"),
        ((*OPTIONS, "--delimiter", ""), "--delimiter: empty"),
        ((*OPTIONS, "--delimiter", "\\x"), "--delimiter \\x: not a character"),
    ],
)
def test_an_option_that_cannot_be_used(good: Path, options: tuple[str, ...], words: str) -> None:
    code, _, told = run("import_sacct", str(good), *options)
    assert code == 2
    assert words in told
    assert "\n" not in told
    assert queries.head_position() == 0


def ahead() -> str:
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + s)) for s in (-60, 3600))
    return f"9|COMPLETED|{begin}|{begin}|{end}|train"


LINES = {
    "cut in half": (lambda: job(9)[: len(job(9)) // 2], "field_count", "", "expected 6 fields and found 4"),
    "clock an hour ahead": (ahead, "clock_ahead", "/end", "at most 300 s is expected"),
    "negative duration": (
        lambda: "9|COMPLETED|2026-11-01T00:00:00|2026-11-01T02:00:00|2026-11-01T01:00:00|x", "negative_duration",
        "End", "lies 3600 s before Start",
    ),
    "field of 10 MB": (lambda: job(9, "x" * 10_000_000), "too_long", "JobName", "at most 1 MiB is expected"),
    "field of 100 kB": (lambda: job(9, "x" * 100_000), "too_long", "JobName", "at most 64 KiB is expected"),
    "one field more": (lambda: job(9) + "|more", "field_count", "", "expected 6 fields and found 7"),
    "NUL": (lambda: job(9, "a\0b"), "nul", "JobName", "a NUL character stands at place"),
    "no time": (lambda: "9|COMPLETED|yesterday|||x", "bad_time", "Submit", "expected YYYY-MM-DDTHH:MM:SS"),
    "unknown state": (lambda: job(9).replace("COMPLETED", "DONE"), "bad_state", "State", "DONE"),
}  # fmt: skip
BEFORE = 1000
"""So many good lines that what follows stands after the first 64 KiB, where a NUL is no sign of a binary file."""


@pytest.mark.parametrize("kind", LINES)
def test_a_bad_line_is_a_rejection_and_its_neighbours_are_kept(tmp_path: Path, kind: str) -> None:
    made, code, pointer, words = LINES[kind]
    file = tmp_path / "jobs.psv"
    file.write_text("\n".join([HEADER, *(job(n) for n in range(10, 10 + BEFORE)), made(), job(2000)]) + "\n")
    exit_code, printed, _ = run(*IMPORT, "--no-project", str(file))
    assert exit_code == 0
    counted, shown, *_ = printed.splitlines()
    assert counted == f"{file}: {BEFORE + 1} accepted, 0 duplicate, 1 rejected ({code} 1)"
    assert shown.startswith(f"  line {BEFORE + 2}")
    assert words in shown
    assert jobs() == [*(str(n) for n in range(10, 10 + BEFORE)), "2000"]
    row = Rejection.objects.get()
    assert (row.origin, row.index, row.code, row.pointer) == (str(file), BEFORE + 2, code, pointer)
    assert words in row.text
    assert len(row.payload) <= 65536


REPORT: list[tuple[dict[str, Any], str]] = [
    ({"name": "gold"}, "there is no report 'gold'"),
    ({"timezone": "Mars"}, "--timezone: 'Mars' is not in the tz database"),
    ({"from": "yesterday"}, "--from: 'yesterday' is neither a date"),
    ({"from": "2026-13-01"}, "--from: '2026-13-01' is neither a date"),
    ({"to": "2026-11-01T00:00:00"}, "--to: '2026-11-01T00:00:00' is neither a date"),
    ({"to": "2026-10-31"}, "--to: 2026-10-31 is not after 2026-11-01"),
    ({"group-by": "colour"}, "--group-by: 'colour' is not a grouping of usage"),
    ({"group-by": "day,month"}, "--group-by: give at most one of"),
    ({"as-known-at": "-1"}, "--as-known-at: '-1' is neither a date"),
    ({"view": "secret"}, "--view: 'secret' is not a view of usage"),
]


@pytest.mark.parametrize(("change", "words"), REPORT)
def test_a_report_that_cannot_be_made(change: dict[str, str], words: str) -> None:
    asked = {"name": "usage", "from": "2026-11-01", "to": "2026-12-01", **change}
    code, printed, told = run("report", asked.pop("name"), *(f"--{key}={value}" for key, value in asked.items()))
    assert (code, printed) == (2, "")
    assert told.startswith(words)
    assert "\n" not in told


def test_the_process_ends_with_2_and_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "none.psv"
    done = subprocess.run(
        [sys.executable, "manage.py", *IMPORT, "--no-project", str(missing)],
        env=environment(), cwd=settings.BASE_DIR, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"CommandError: {missing}: no such file\n")
