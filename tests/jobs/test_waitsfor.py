"""What a waiting job waits for, worked out by hand; texts as Slurm's documentation and the real captures have them."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from jobs import waitsfor
from jobs.waitsfor import Dependency, Free, Holder, Running

PAYLOADS = Path(__file__).parent.parent / "payloads" / "slurm"
CUT = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("afterok:201(unfulfilled)", [("afterok", "201", "", "unfulfilled")]),
        ("afterok:1:2,afterany:7_3(failed)", [("afterok", "1", "", ""), ("afterok", "2", "", ""),
                                             ("afterany", "7", "3", "failed")]),
        ("afternotok:5_*(unfulfilled)?after:6+30(unfulfilled)", [("afternotok", "5", "*", "unfulfilled"),
                                                                ("after", "6", "", "unfulfilled")]),
        ("singleton(unfulfilled)", [("singleton", "", "", "unfulfilled")]),
        ("something else", []),
    ],
)  # fmt: skip
def test_dependencies_are_read(text: str, found: list[tuple[str, ...]]) -> None:
    assert waitsfor.dependencies(text) == [Dependency(*one) for one in found]


def test_a_text_that_was_cut_does_not_name_a_wrong_job() -> None:
    whole = ",".join(f"afterok:{number}" for number in range(100000, 100040))
    assert len(whole) > 400
    cut = whole[:400]  # ends with afterok:10 or the like, which is another job
    assert [one.job_id for one in waitsfor.dependencies(cut)] == [str(n) for n in range(100000, 100026)]


def test_dependencies_of_the_capture() -> None:
    with gzip.open(PAYLOADS / "rest" / "slurm_v0.0.38_jobs.json.gz") as file:
        jobs = json.load(file)["jobs"]
    told = {job["job_id"]: job.get("dependency", "") for job in jobs if job.get("dependency")}
    assert told, "the capture has jobs with dependencies"
    for text in told.values():
        read = waitsfor.dependencies(text)
        assert len(read) == len(text.replace("?", ",").split(","))
        assert all(one.job_id in text for one in read)


@pytest.mark.parametrize(
    ("reason", "limit"),
    [("JobArrayTaskLimit", "array"), ("QOSMaxGRESPerUser", "user_qos"), ("QOSMaxJobsPerUserLimit", "user_qos"),
     ("AssocMaxJobsLimit", "user"), ("AssocGrpGRES", "account"), ("MaxCpuPerAccount", "account"),
     ("QOSGrpNodeLimit", "qos"), ("PartitionTimeLimit", "request"), ("QOSMaxWallDurationPerJobLimit", "request")],
)  # fmt: skip
def test_whose_running_jobs_use_a_limit_up(reason: str, limit: str) -> None:
    assert waitsfor.limit_of(reason) == limit


def running(number: int, **more: object) -> Running:
    given = {"job": UUID(int=number), "job_id": str(number), "cluster": "pod-a", "partition": "train", "project": "nlp",
             "account": "a", "user": "u", "qos": "normal", "array": None, "gpus": 8, "cpus": 64, "ends": None,
             **more}  # fmt: skip
    return Running(**given)  # type: ignore[arg-type]


def test_what_counts_against_a_limit() -> None:
    job = ("pod-a", "a", "u", "normal", "33")
    mine, task, other_account = running(1), running(2, array="33"), running(3, account="b")
    stranger, high, elsewhere = running(4, user="v"), running(5, qos="high"), running(6, cluster="pod-b")
    everything = [mine, task, other_account, stranger, high, elsewhere]

    def used(limit: waitsfor.Limit) -> list[str]:
        return [one.job_id for one in everything if waitsfor.uses_limit(one, limit, job)]

    assert used("array") == ["2"]
    assert used("user") == ["1", "2", "5"]
    assert used("user_qos") == ["1", "2", "3"]
    assert used("account") == ["1", "2", "4", "5"]
    assert used("qos") == ["1", "2", "3", "4"]
    assert used("request") == []


def test_who_holds_room_and_when_it_is_given_back() -> None:
    def later(hours: int) -> datetime:
        return datetime(2026, 3, 10, 12 + hours, tzinfo=UTC)

    held = [running(1, gpus=32, ends=later(4)), running(2, gpus=16, ends=later(2), project="vision"),
            running(3, gpus=64, ends=later(3), project=None), running(4, gpus=8),
            running(5, gpus=8, ends=later(-1)), running(6, gpus=0, ends=later(1))]  # fmt: skip
    assert waitsfor.holders(held, "gpus") == [
        Holder("nlp", 48, 3, later(-1)),
        Holder("vision", 16, 1, later(2)),
        Holder(None, 64, 1, later(3)),
    ]
    # What is over its limit goes now; the one without a limit is never counted on.
    ends = waitsfor.frees(held, "gpus", CUT)
    assert ends == [
        Free(CUT, "nlp", 8, 8), Free(later(2), "vision", 16, 24), Free(later(3), None, 64, 88),
        Free(later(4), "nlp", 32, 120),
    ]  # fmt: skip
    assert waitsfor.enough_at(ends, 24, 0, CUT) == later(2)
    assert waitsfor.enough_at(ends, 25, 0, CUT) == later(3)
    assert waitsfor.enough_at(ends, 121, 0, CUT) is None
    assert waitsfor.enough_at(ends, None, 0, CUT) is None
    # 64 asked, 40 free: the 24 that are missing are given back at 2 h, 25 only at 3 h; 40 are free now.
    assert waitsfor.enough_at(ends, 64, 40, CUT) == later(2)
    assert waitsfor.enough_at(ends, 65, 40, CUT) == later(3)
    assert waitsfor.enough_at(ends, 40, 40, CUT) == CUT
    assert waitsfor.enough_at([], 41, 40, CUT) is None
    assert waitsfor.enough_at(ends, None, 40, CUT) is None
    assert [one.amount for one in waitsfor.holders(held, "cpus")] == [64 * 4, 64, 64]


def test_partitions_that_overlap() -> None:
    assert waitsfor.shares_partition("train,debug", "debug")
    assert not waitsfor.shares_partition("train,debug", "scavenge")
