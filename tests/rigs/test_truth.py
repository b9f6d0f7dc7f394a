"""What the live rig is compared with, tried on a capture of one: its own reports say what must come out."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.slurm_rig import Record, _record, attempts_of, sreport_seconds


@pytest.fixture
def raw(data: Path) -> Path:
    """The capture."""
    return data / "slurm" / "raw"


@pytest.fixture
def records(raw: Path) -> list[Record]:
    """The capture's job table."""
    of = {row["id_assoc"]: (row["acct"], row["user"]) for row in _rows(raw, "assoc")}
    names = ("state", "time_submit", "time_start", "time_end", "time_suspended", "mod_time", "tres_alloc")
    return [
        _record([row["job_db_inx"], row["id_job"], *of[row["id_assoc"]], *(row[name] for name in names)])
        for row in _rows(raw, "job")
    ]


def _rows(raw: Path, name: str) -> Iterator[dict[str, str]]:
    with (raw / "db" / f"{name}.tsv").open() as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def test_states_are_read_as_the_capture_tells_them(records: list[Record]) -> None:
    # counted in the capture's README
    assert Counter(record.state for record in records) == {
        "COMPLETED": 75, "FAILED": 13, "PENDING": 11, "CANCELLED": 4, "REQUEUED": 4, "RUNNING": 3, "TIMEOUT": 2,
        "NODE_FAIL": 2, "PREEMPTED": 1, "RESIZING": 1,
    }  # fmt: skip


def test_records_inside_the_hour_add_up_to_sreport(raw: Path, records: list[Record]) -> None:
    start, end = 1796032800, 1796036400  # the hour window of FACTS.txt
    used: Counter[tuple[str, str]] = Counter()
    for one in records:
        if one.start:
            held = max(0, min(one.end or end, end) - max(one.start, start))
            used[one.account, one.user] += held * one.gpus
    theirs = sreport_seconds((raw / "sreport" / "account_by_user_hour.psv").read_text())
    assert +used == {key: seconds for key, seconds in theirs.items() if seconds}


def test_a_resized_job_is_one_attempt_and_counted_once(records: list[Record]) -> None:
    (one,) = attempts_of(records)["15"]
    # 4 GPUs on two nodes until the resize after 25 s, then 2 on one node until the end after 41 s; the table has
    # the second record from the start on, so that 25 s x 2 GPUs are in it twice
    assert (one.gpu_seconds, one.overlap, one.state) == (25 * 4 + 16 * 2, 25 * 2, "COMPLETED")


def test_a_job_that_waits_again_after_its_node_failed_has_one_attempt(records: list[Record]) -> None:
    assert [(one.state, one.gpu_seconds) for one in attempts_of(records)["7"]] == [("NODE_FAIL", 95 * 16)]
