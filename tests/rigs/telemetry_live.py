"""A real Prometheus writes to `manage.py serve`, which is stopped in the middle; no sample may be lost.

    python -m tests.rigs.telemetry_live --rig DIR [--scenario dev.json] [--stop-at 60 --stop-for 20]

DIR (or HALLBOOK_TELEMETRY_RIG) holds run.py and scenarios of a rig that starts Prometheus and Alertmanager (PROMETHEUS,
ALERTMANAGER and PROMTOOL name the programs). The truth is Prometheus' own database, dumped by promtool afterwards: each
sample in it must be staged, with its value. Prints one JSON line; exit 1 when one is missing or differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.faults.rig import Hall, folder

EXTERNAL: Final = ("cluster", "replica")
"""Labels that Prometheus adds when it sends, and does not keep itself."""
_LINE: Final = re.compile(r"^\{(.*)\} (\S+) (\d+)$")
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
Samples = dict[tuple[frozenset[tuple[str, str]], int], float | None]


class Verdict(NamedTuple):
    """scraped: samples of Prometheus. staged: ours. missing: not staged. differ: staged with another value.

    unsent: of the missing, those of the last seconds before Prometheus was stopped or started again: it gives up what
    it has not sent. ended: stale markers. answers: codes by which a batch failed, by Prometheus' log.
    """

    scraped: int
    staged: int
    missing: int
    unsent: int
    differ: int
    ended: int
    rejections: int
    answers: dict[str, int]

    @property
    def good(self) -> bool:
        """All that Prometheus had time to send is staged, as it was."""
        return self.scraped > 0 and self.missing == self.unsent and not self.differ and not self.rejections


def main() -> int:
    """Run; 0 when all is so."""
    asked = _arguments()
    with ExitStack() as stack:
        top = stack.enter_context(folder())
        home = top / "home"
        home.mkdir()
        hall = stack.enter_context(Hall(home))
        verdict = run(hall, asked, top / "state")
    print(json.dumps({**verdict._asdict(), "good": verdict.good}))
    return 0 if verdict.good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.telemetry_live", description=__doc__)
    known = os.environ.get("HALLBOOK_TELEMETRY_RIG")
    parser.add_argument("--rig", type=Path, default=known and Path(known), metavar="DIR", help="folder of run.py")
    parser.add_argument("--scenario", default="smoke.json", help="file in its folder `scenarios`")
    parser.add_argument("--port-base", type=int, default=19470, help="first of the rig's ports")
    parser.add_argument("--stop-at", type=float, default=6, metavar="SECONDS", help="after the start of the rig")
    parser.add_argument("--stop-for", type=float, default=4, metavar="SECONDS", help="0: do not stop Hallbook")
    asked = parser.parse_args()
    if not asked.rig or not (asked.rig / "run.py").exists():
        parser.error("--rig (or HALLBOOK_TELEMETRY_RIG) must be a folder with run.py")
    return asked


def run(hall: Hall, asked: argparse.Namespace, state: Path) -> Verdict:
    """Bring both up, play the scenario, and compare what was scraped with what is staged."""
    hall.did("migrate", "--verbosity", "0")
    hall.did("init", "--site", "Rig", "--timezone", "UTC", "--currency", "EUR")
    token = hall.did("token", "rig", "--scope", "events:write").split()[-1]
    serving = hall.serve()
    door = f"http://127.0.0.1:{hall.port}/api/v1/ingest"
    told = {
        "REMOTE_WRITE_URL": f"{door}/prometheus/write", "ALERT_WEBHOOK_URL": f"{door}/alertmanager", "TOKEN": token,
        "PORT_BASE": str(asked.port_base),
    }  # fmt: skip
    rig = subprocess.Popen(
        [sys.executable, str(asked.rig / "run.py"), "--scenario", str(asked.rig / "scenarios" / asked.scenario),
         "--state", str(state)],
        env=os.environ | told, stdout=sys.stderr,
    )  # fmt: skip
    if asked.stop_for:
        threading.Event().wait(asked.stop_at)
        serving.terminate()
        serving.wait(30)
        threading.Event().wait(asked.stop_for)
        hall.serve()
    if rig.wait(600) != 0:
        said = "".join(path.read_text()[-2000:] for path in sorted(state.glob("*.log")))
        raise RuntimeError(f"the rig failed: {said}")
    return judge(dict(_scraped(state)), hall, state)


def _scraped(state: Path) -> Iterator[tuple[tuple[frozenset[tuple[str, str]], int], float | None]]:
    """The samples in Prometheus' own database. A stale marker is a NaN there."""
    tool = os.environ.get("PROMTOOL", "promtool")
    done = subprocess.run([tool, "tsdb", "dump", str(state / "tsdb")], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        found = _LINE.match(line)
        assert found, f"not a line of a dump: {line!r}"
        labels = frozenset((name, _plain(value)) for name, value in _LABEL.findall(found[1]))
        value = float(found[2])
        yield (labels, int(found[3])), None if value != value else value  # noqa: PLR0124 - that is what a NaN is


def _plain(value: str) -> str:
    return str(json.loads(f'"{value}"'))


def judge(scraped: Samples, hall: Hall, state: Path) -> Verdict:
    """What of the scraped is staged."""
    staged = dict(_staged(hall))
    missing = [key for key in scraped if key not in staged]
    ends = _ends(state)
    unsent = [key for key in missing if any(end - 5_000 <= key[1] <= end + 1_000 for end in ends)]
    differ = sum(key in staged and staged[key] != value for key, value in scraped.items())
    ended = sum(value is None for value in staged.values())
    rejections = hall.ask("SELECT count(*) FROM events_rejection WHERE source LIKE 'prometheus%%'")
    log = (state / "prom.log").read_text()
    answers = {code: log.count(f"HTTP status {code}") for code in ("400", "401", "413", "415", "429", "503")}
    return Verdict(
        len(scraped), len(staged), len(missing), len(unsent), differ, ended, int(rejections or 0),
        {code: count for code, count in answers.items() if count},
    )  # fmt: skip


def _staged(hall: Hall) -> Iterator[tuple[tuple[frozenset[tuple[str, str]], int], float | None]]:
    with hall.connect() as connection:
        rows: Any = connection.execute(
            """SELECT s.metric, s.labels, e.t_ms, e.value FROM events_sample e
               JOIN events_sampleseries s ON s.shard = e.shard AND s.id = e.series"""
        )
        for metric, labels, t_ms, value in rows:
            own = {name: text for name, text in labels.items() if name not in EXTERNAL} | {"__name__": metric}
            yield (frozenset(own.items()), t_ms), None if value is None or value != value else value  # noqa: PLR0124


def _ends(state: Path) -> list[int]:
    """When Prometheus was told to stop, in ms: at the end, and where the scenario started it again."""
    ends = [int(time.time() * 1000)]
    for line in (state / "journal.jsonl").read_text().splitlines():
        said = json.loads(line)
        step = said.get("step", {})
        if step.get("do") == "restart" and step.get("what") == "prom":
            ends.append(int((said["unix"] - step.get("pause", 0)) * 1000))
        if step.get("text") == "end":
            ends.append(int(said["unix"] * 1000))
    return ends


if __name__ == "__main__":
    sys.exit(main())
