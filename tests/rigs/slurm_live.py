"""A real Slurm posts to and is pulled by `manage.py serve`; every job must be right within 2 s of its end.

    python -m tests.rigs.slurm_live --rig DIR [--stop-for 60] [--mix 40]

DIR (or HALLBOOK_SLURM_RIG) holds up.sh, jobs.sh and down.sh of a rig: jobcomp and hooks post by URL, slurmrestd is
pulled. Prints a table and one JSON line; exit 1 when something is not so. Needs root, takes about five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.faults.rig import Hall, folder, until
from tests.rigs.slurm_rig import Rig
from tests.rigs.verdict import Stop, Verdict, judge
from tests.rigs.watching import Watch

STOP_AFTER: Final = 60
"""Seconds after the first job at which Hallbook is stopped, if it is to be."""
START_SECONDS: Final = 300
"""Longest that `serve` may take until it answers."""
SETTLE: Final = 35
"""jobcomp/elasticsearch wakes every 30 s: what it still holds has come after this long."""


def main() -> int:
    """Run; 0 when all is so."""
    asked = _arguments()
    with ExitStack() as stack:
        top = stack.enter_context(folder())
        home = top / "home"
        home.mkdir()
        hall = stack.enter_context(Hall(home))
        rig = Rig(asked.rig, asked.work or top / "rig", asked.port_base, MIX=str(asked.mix))
        verdict = run(hall, rig, asked.stop_for, asked.every)
    print(verdict.table())
    print(json.dumps(verdict.figures))
    return 0 if verdict.good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.slurm_live", description=__doc__)
    known = os.environ.get("HALLBOOK_SLURM_RIG")
    parser.add_argument("--rig", type=Path, default=known and Path(known), metavar="DIR", help="folder of its scripts")
    parser.add_argument("--work", type=Path, metavar="DIR", help="folder that the rig makes; a temporary one if unset")
    parser.add_argument("--port-base", type=int, default=27810, help="first of the rig's ports")
    parser.add_argument("--mix", type=int, default=40, help="jobs of the random part")
    parser.add_argument("--every", type=int, default=1, help="seconds between two pulls of slurmrestd")
    parser.add_argument("--stop-for", type=int, default=0, metavar="SECONDS", help="stop Hallbook in the middle")
    asked = parser.parse_args()
    if not asked.rig or not (asked.rig / "up.sh").exists():
        parser.error("--rig (or HALLBOOK_SLURM_RIG) must be a folder with up.sh, jobs.sh and down.sh")
    return asked


def run(hall: Hall, rig: Rig, stop_for: int, every: int) -> Verdict:
    """Bring both up, run the jobs, and judge what was shown."""
    hall.did("migrate", "--verbosity", "0")
    hall.did("init", "--site", "Rig", "--timezone", "UTC", "--currency", "EUR")
    writes = hall.did("token", "rig", "--scope", "events:write").split()[-1]
    reads = hall.did("token", "watch", "--scope", "log:read").split()[-1]
    began = datetime.now(UTC)
    serving = _serve(hall)
    door = f"127.0.0.1:{hall.port}/api/v1/ingest/slurm"
    with rig.running(f"http://slurm:{writes}@{door}/jobcomp", f"http://{door}/hook?token={writes}"):
        _add_source(hall, rig, every, began)
        watch = Watch(hall, reads, rig.cluster)
        stops: list[Stop] = []
        with watch.running():
            _say("jobs start")
            jobs, first = rig.jobs(), time.time()
            if stop_for:
                time.sleep(max(0.0, first + STOP_AFTER - time.time()))
                stops.append(_stop(hall, serving, stop_for))
            jobs.wait()
            _say("jobs are done; the last posts are waited for")
            rig.await_roll_up()
            time.sleep(SETTLE)
            expected, attempts, shown = _still(rig, watch)
            rig.keep(rig.folder.with_suffix(".records"))
        return judge(rig, watch, expected, attempts, shown, stops)


def _add_source(hall: Hall, rig: Rig, every: int, began: datetime) -> None:
    secret = hall.home / "slurm.token"
    secret.touch(mode=0o600)
    secret.write_text(rig.token())
    said = hall.did(
        "source", "add", "slurmrestd", rig.cluster, "--url", rig.rest, "--token-file", str(secret), "--user", "root",
        "--every", str(every), "--from", began.isoformat(),
    )  # fmt: skip
    _say(said)


def _serve(hall: Hall) -> subprocess.Popen[bytes]:
    """`manage.py serve`, until it answers; a machine that also runs a rig is slow."""
    made = hall.start(sys.executable, "manage.py", "serve", "--port", str(hall.port))
    until(lambda: hall.answers() or made.poll() is not None, START_SECONDS, "serve answers")
    assert made.poll() is None, hall.said()
    return made


def _stop(hall: Hall, serving: subprocess.Popen[bytes], seconds: int) -> Stop:
    """Stop Hallbook for so long."""
    _say(f"Hallbook is stopped for {seconds} s")
    gone = time.time()
    serving.terminate()
    serving.wait(30)
    time.sleep(seconds)
    started = time.time()
    _serve(hall)
    _say("Hallbook is back")
    return Stop(gone, started, time.time())


def _still(rig: Rig, watch: Watch) -> tuple[Any, Any, Any]:
    """Records of the rig that did not change while Hallbook was read, with what it showed."""
    for _ in range(20):
        before = rig.records()
        time.sleep(4)
        attempts, jobs = watch.all("attempts"), watch.all("jobs")
        after = rig.records()
        if [one.state for one in before] == [one.state for one in after]:
            return after, attempts, jobs
    raise AssertionError("the rig's jobs did not stand still for 4 s")


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} load {os.getloadavg()[0]:.1f}  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
