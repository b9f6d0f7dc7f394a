"""Converts the public Philly job trace into CloudEvents, one JSON object a line.

    python -m tests.philly FILE.csv.gz > events.ndjson

The file has a header and the columns timestamp (submit, local time of Los Angeles without a zone), duration
(run time, s), num_gpus, gpu_time (GPU-s, not used) and cluster (hash of the virtual cluster, our account).
It does not tell when a job started, where, or how it ended: each job is taken to start when it was
submitted, to run without a break and to be COMPLETED; nodes and CPUs are left out as not known.

Data: Microsoft Philly traces, CC BY 4.0; Jeon et al., USENIX ATC 2019.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from events.adapters.textfiles import open_text

ZONE = ZoneInfo("America/Los_Angeles")


def cloud_events(lines: Iterable[str]) -> Iterator[dict[str, object]]:
    """A `job.reported` event for each row, numbered from 0; the lines start with the header.

    Raises ValueError on a duration that is no whole number of seconds, and KeyError on a missing column.
    """
    for number, row in enumerate(csv.DictReader(lines)):
        yield _event(number, row)


def _event(number: int, row: dict[str, str]) -> dict[str, object]:
    start = _epoch(row["timestamp"])
    end = start + _whole(row["duration"])
    return {
        "specversion": "1.0",
        "id": f"philly-{number}",
        "source": "philly",
        "type": "job.reported",
        "time": datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "data": {
            "cluster": "philly",
            "job_id": f"row-{number}",
            "state": "COMPLETED",
            "submit": start,
            "start": start,
            "end": end,
            "account": row["cluster"],
            "gpus": int(row["num_gpus"]),
        },
    }


def _epoch(text: str) -> int:
    # The hour that clocks repeat in November is read as its first pass: the trace does not tell them apart.
    naive = datetime.strptime(text, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - the zone is given in the next line
    return int(naive.replace(tzinfo=ZONE).timestamp())


def _whole(text: str) -> int:
    seconds = float(text)
    if not seconds.is_integer() or seconds < 0:
        raise ValueError(f"duration {text!r} is no whole number of seconds")
    return int(seconds)


def main(path: str) -> None:
    """Write the events of one file (plain or gzip) to standard output."""
    with open_text(Path(path)) as text:
        for event in cloud_events(str(line) for _, line in text.lines()):
            sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
