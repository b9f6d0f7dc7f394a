"""The fold against the accounting table and the roll-up of a real Slurm 22.05.8."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

from events.derive.attempts import Job, Sighting, fold
from tests.events.derive.sightings import gpu_seconds, spans, told

PAYLOADS = Path(__file__).parents[2] / "payloads" / "slurm"
STATES = {0: "PENDING", 1: "RUNNING", 3: "COMPLETED", 4: "CANCELLED", 5: "FAILED", 6: "TIMEOUT",
          7: "NODE_FAIL", 8: "PREEMPTED", 1024: "REQUEUED", 8192: "RESIZING"}  # fmt: skip
CPU, NODE, GPU = 1, 4, 1001


def read_table() -> dict[str, list[Sighting]]:
    """Slurm's own accounting table, one sighting a row, by raw job id."""
    streams = defaultdict(list)
    with (PAYLOADS / "db" / "job.tsv").open(encoding="utf-8") as file:
        for position, row in enumerate(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
            streams[row["id_job"]].append(read_row(position, row))
    return dict(streams)


def read_row(position: int, row: dict[str, str]) -> Sighting:
    tres = {
        int(key): int(value) for key, _, value in (part.partition("=") for part in row["tres_alloc"].split(",") if part)
    }
    times = {name: int(row[f"time_{name}"]) or None for name in ("submit", "eligible", "start", "end")}
    return told(
        STATES[int(row["state"])],
        position,
        "slurmdbd:pod-a",
        record=int(row["job_db_inx"]),
        user=row["id_user"],
        suspended_seconds=int(row["time_suspended"]),
        cpus=tres.get(CPU),
        nodes=tres.get(NODE),
        gpus=tres.get(GPU, 0),
        **times,
    )


class TestCapture:
    """The real cluster's own table (Slurm 22.05.8): 116 records of 109 job ids, 104 of them started.

    Two of the 104 are the halves of job 15, so 103 attempts. GPU-seconds of the ended runs were added up per
    user with awk over `tres_alloc` (id 1001) x (time_end - time_start): 2271 705 441 879 742 512 658 413.
    Job 15 (user 42006) counts 4 x 25 + 2 x 41 = 182 there, as in sreport, because both halves begin with the
    job; the GPUs were held 4 x 25 + 2 x 16 = 132 seconds, so 42006 has 512 - 50 = 462.
    """

    SUMS = {"42001": 2271, "42002": 705, "42003": 441, "42004": 879, "42005": 742, "42006": 462, "42007": 658,
            "42008": 413}  # fmt: skip

    def jobs(self) -> dict[str, tuple[Job, ...]]:
        return {job_id: fold(sightings) for job_id, sightings in read_table().items()}

    def test_counts(self) -> None:
        jobs = [job for found in self.jobs().values() for job in found]
        attempts = [one for job in jobs for one in job.attempts]
        assert (len(jobs), len(attempts)) == (109, 103)
        assert sum(not job.attempts for job in jobs) == 9  # 8 wait and one was cancelled while waiting
        assert sum(len(job.attempts) == 2 for job in jobs) == 3  # 2 (preempted), 12 and 13 (requeued)
        assert Counter(job.state for job in jobs)["PENDING"] == 11  # 7, 14 and 99 wait for another attempt
        assert sum(one.end is None for one in attempts) == 3
        assert all(one.confirmed and not one.disagree for one in attempts)

    def test_gpu_seconds(self) -> None:
        sums: Counter[str] = Counter()
        for one in (one for found in self.jobs().values() for job in found for one in job.attempts):
            sums[one.user or ""] += gpu_seconds(one)
        assert sums == self.SUMS

    def test_the_hour_that_sreport_printed(self) -> None:
        """Slurm's own roll-up of the hour 1796032800..1796036400, running jobs cut at its end."""
        sums: Counter[str] = Counter()
        for one in (one for found in self.jobs().values() for job in found for one in job.attempts):
            for part in one.segments:
                until = min(part.end or 1796036400, 1796036400)
                sums[f"u{(one.user or '')[-2:]}"] += (part.gpus or 0) * max(0, until - part.start)
        printed: Counter[str] = Counter()
        for line in (PAYLOADS / "sreport" / "account_by_user_hour.psv").read_text().splitlines():
            if "|gres/gpu|" in line and (login := line.split("|")[2]).startswith("u"):
                printed[login] += int(line.rsplit("|", 1)[1])
        assert sum(printed.values()) == 5788
        assert printed - sums == {"u06": 50}

    def test_the_resize(self) -> None:
        (one,) = self.jobs()["15"][0].attempts
        assert spans(one) == [(1796036277, 1796036302, 4), (1796036302, 1796036318, 2)]
        assert gpu_seconds(one) == 132

    def test_the_suspended_job(self) -> None:
        assert self.jobs()["11"][0].attempts[0].suspended_seconds == 27
