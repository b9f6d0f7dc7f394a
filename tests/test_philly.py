"""The converter of the Philly trace: rows by hand, and the sums of the public file."""

from __future__ import annotations

import json
from collections import defaultdict

import msgspec
import pytest

from events.types.jobs import JobReported
from tests.events.adapters.sacct_files import big_data
from tests.philly import cloud_events, main

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


def test_rows_by_hand() -> None:
    # Los Angeles is 7 h behind UTC and 8 h from 2017-11-05 02:00 on; 01:30 that day is its first pass.
    rows = ["2017-10-09 07:01:55,66.0,1,66.0,11cb48", "2017-11-05 01:30:00,3600.0,8,28800.0,6214e9",
            "2017-11-05 02:30:00,1.0,2,2.0,6214e9"]  # fmt: skip
    first, second, third = cloud_events([HEADER, *rows])
    assert first == {
        "specversion": "1.0", "id": "philly-0", "source": "philly", "type": "job.reported",
        "time": "2017-10-09T14:03:01Z",
        "data": {"cluster": "philly", "job_id": "row-0", "state": "COMPLETED", "submit": 1507557715,
                 "start": 1507557715, "end": 1507557781, "account": "11cb48", "gpus": 1},
    }  # fmt: skip
    assert (second["id"], second["time"]) == ("philly-1", "2017-11-05T09:30:00Z")
    assert third["time"] == "2017-11-05T10:30:01Z"
    for event in (first, second, third):
        assert msgspec.convert(event["data"], JobReported).cluster == "philly"


@pytest.mark.parametrize("duration", ["1.5", "-1.0", "x", "nan"])
def test_durations_must_be_whole(duration: str) -> None:
    with pytest.raises(ValueError):
        list(cloud_events([HEADER, f"2017-10-09 07:01:55,{duration},1,66.0,11cb48"]))


def test_public_file(capsys: pytest.CaptureFixture[str]) -> None:
    main(str(big_data("traces", "philly_jobs", "philly_jobs_rows_00000-49999.csv.gz")))
    lines = capsys.readouterr().out.splitlines()
    hours: dict[str, float] = defaultdict(float)
    for line in lines:
        data = json.loads(line)["data"]
        hours[data["account"]] += (data["end"] - data["start"]) * data["gpus"] / 3600
    assert len(lines) == 50_000
    assert len(hours) == 15
    assert sum(hours.values()) == pytest.approx(600_959.2, abs=0.1)
