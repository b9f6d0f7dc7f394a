"""A Slurm rig (a folder with up.sh, jobs.sh and down.sh), driven and asked for the truth about its jobs.

The truth is the accounting table behind slurmdbd, read with the rig's own database client, and `sreport`.
"""

from __future__ import annotations

import csv
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Attempt", "Record", "Rig", "attempts_of", "sreport_seconds"]

STATES: Final = {
    0: "PENDING", 1: "RUNNING", 2: "SUSPENDED", 3: "COMPLETED", 4: "CANCELLED", 5: "FAILED", 6: "TIMEOUT",
    7: "NODE_FAIL", 8: "PREEMPTED", 9: "BOOT_FAIL", 10: "DEADLINE", 11: "OUT_OF_MEMORY", 1024: "REQUEUED",
    8192: "RESIZING",
}  # fmt: skip
"""Slurm's numbers of job states (slurm.h): the base states, and the two flags that accounting keeps as a state."""
GPU: Final = 1001
"""Number of the TRES gres/gpu: the first that a site adds."""
RECORDS: Final = """select j.job_db_inx, j.id_job, a.acct, a.user, j.state, j.time_submit, j.time_start, j.time_end,
    j.time_suspended, j.mod_time, j.tres_alloc
    from `{cluster}_job_table` j join `{cluster}_assoc_table` a on a.id_assoc = j.id_assoc order by j.job_db_inx"""


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the rig's job table. Times are epoch seconds, 0 while there is none."""

    number: int
    job_id: str
    account: str
    user: str
    state: str
    submit: int
    start: int
    end: int
    suspended: int
    changed: int
    gpus: int

    @property
    def gpu_seconds(self) -> int:
        """As sreport counts it: the whole time from start to end."""
        return (self.end - self.start) * self.gpus if self.start and self.end else 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one execution must look like: the last record of it, and its GPU-seconds without counting any twice.

    told: when slurmdbd wrote the last of it down. overlap: GPU-seconds that the records of a resized job count twice.
    """

    job_id: str
    account: str
    user: str
    state: str
    start: int
    end: int
    gpu_seconds: int
    told: int
    overlap: int = 0


def attempts_of(records: Sequence[Record]) -> dict[str, list[Attempt]]:
    """Executions by job id. A record that a resize closed and the next one are one execution.

    The later record has the start of the whole, so that their times overlap (and sreport counts both).
    """
    by_job: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_job[record.job_id].append(record)
    return {job_id: list(_attempts(found)) for job_id, found in by_job.items()}


def _attempts(records: Sequence[Record]) -> Iterator[Attempt]:
    resized: list[Record] = []
    for record in records:
        if record.state == "RESIZING":
            resized.append(record)
            continue
        if record.start:
            yield _attempt(record, resized)
        resized = []


def _attempt(record: Record, resized: Sequence[Record]) -> Attempt:
    start = min([record.start, *(each.start for each in resized)])
    at, seconds = start, 0
    for part in resized:
        seconds, at = seconds + (part.end - at) * part.gpus, part.end
    whole = seconds + (record.end - at) * record.gpus if record.end else 0
    twice = sum(each.gpu_seconds for each in (*resized, record)) - whole if record.end else 0
    return Attempt(
        record.job_id, record.account, record.user, record.state, start, record.end, whole, record.changed, twice
    )


class Rig:
    """One rig in a folder of its own. Its scripts need root and install the packages that they miss."""

    def __init__(self, scripts: Path, folder: Path, port_base: int, **more: str) -> None:
        self.scripts, self.folder, self.port_base = scripts, folder, port_base
        self.environment = {**os.environ, "RIG_DIR": str(folder), "PORT_BASE": str(port_base), **more}
        self.log = folder.with_suffix(".log")

    @contextmanager
    def running(self, jobcomp: str, hooks: str) -> Iterator[None]:
        """Brought up with these addresses to post to; taken down and wiped at the end."""
        self.environment |= {"WEBHOOK_URL": jobcomp, "HOOK_URL": hooks}
        try:
            self._script("up.sh")
            yield
        finally:
            self._script("down.sh", WIPE="1", check="")

    def keep(self, place: Path) -> None:
        """Copy the accounting table to a file, for whoever wants to look closer."""
        rows = [" ".join(str(getattr(one, name)) for name in Record.__slots__) for one in self.records()]
        place.write_text("\n".join([" ".join(Record.__slots__), *rows, ""]))

    def _script(self, name: str, **more: str) -> None:
        strict = more.pop("check", "yes")
        with self.log.open("ab") as log:
            subprocess.run(
                [str(self.scripts / name)], env={**self.environment, **more}, stdout=log, stderr=log, check=bool(strict)
            )

    def jobs(self) -> subprocess.Popen[bytes]:
        """Begin the mix of jobs."""
        with self.log.open("ab") as log:
            return subprocess.Popen([str(self.scripts / "jobs.sh")], env=self.environment, stdout=log, stderr=log)

    @property
    def cluster(self) -> str:
        """Slurm's ClusterName."""
        lines = (self.folder / "etc" / "slurm.conf").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("ClusterName="))

    @property
    def rest(self) -> str:
        """Address of its slurmrestd."""
        return f"http://127.0.0.1:{self.port_base + 3}"

    @property
    def midnight(self) -> int:
        """When the rig's local day ends: slurmdbd has rolled up the hour before soon afterwards."""
        return int((self.folder / "boundary").read_text())

    def labels(self) -> dict[str, str]:
        """What each job is called, by id, as far as the scripts wrote it down."""
        rows = csv.reader((self.folder / "jobs.tsv").open(), delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row[1]: row[0] for row in rows if len(row) > 1}

    def token(self) -> str:
        """A token for slurmrestd, for an hour, as `scontrol token` prints it."""
        return self._ask("scontrol", "token", "username=root", "lifespan=3600")

    def records(self) -> list[Record]:
        """The accounting table as it is now."""
        query = RECORDS.format(cluster=self.cluster)
        socket = str(self.folder / "run" / "db.sock")
        text = self._ask(
            "mariadb", "--batch", "--skip-column-names", f"--socket={socket}", "slurm_acct_db", "-e", query
        )
        return [_record(line.split("\t")) for line in text.splitlines()]

    def sreport(self) -> dict[tuple[str, str], int]:
        """GPU-seconds by account and user in the hour before the rig's midnight, as `sreport` prints them."""
        zone = (self.folder / "tz").read_text().strip()
        start, end = (
            self._ask("date", "-d", f"@{at}", "+%FT%T", TZ=zone) for at in (self.midnight - 3600, self.midnight)
        )
        return sreport_seconds(self._ask(
            "sreport", "-P", "-t", "Seconds", "-T", "gres/gpu", "cluster", "AccountUtilizationByUser",
            f"start={start}", f"end={end}", TZ=zone,
        ))  # fmt: skip

    def _ask(self, *command: str, **more: str) -> str:
        environment = {**self.environment, "SLURM_CONF": str(self.folder / "etc" / "slurm.conf"), **more}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.rstrip("\n")

    def await_roll_up(self, seconds: float = 120) -> None:
        """Until slurmdbd has rolled up the hour before midnight (it does so soon after it)."""
        until = time.monotonic() + seconds
        while time.time() < self.midnight + 5 or (not self.sreport() and time.monotonic() < until):
            time.sleep(1)


def _record(row: Sequence[str]) -> Record:
    number, job_id, account, user, state, submit, start, end, suspended, changed, tres = row
    held = dict(part.split("=") for part in tres.split(",") if "=" in part)
    return Record(
        int(number), job_id, account, user, STATES[int(state)], int(submit), int(start), int(end), int(suspended),
        int(changed), int(held.get(str(GPU), 0)),
    )  # fmt: skip


def sreport_seconds(text: str) -> dict[tuple[str, str], int]:
    """GPU-seconds by (account, user) of `sreport -P -T gres/gpu cluster AccountUtilizationByUser`."""
    rows = [line.split("|") for line in text.splitlines()]
    return {(row[1], row[2]): int(row[5]) for row in rows if len(row) == 6 and row[4] == "gres/gpu" and row[2]}
