"""A hall under fault: the real server processes, clients that try again, and what is asked afterwards."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from config.database import Server
from config.database_watch import pid_file
from tests.api.clouds import BATCH, STRUCTURED, cloud

BASE = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(true: Callable[[], Any], seconds: float, what: str) -> float:
    """Wait for a condition; gives the seconds it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A short-lived folder that the account of the embedded server can enter too."""
    top = Path(tempfile.mkdtemp(prefix="hb-", dir="/tmp"))
    top.chmod(0o755)
    try:
        yield top
    finally:
        shutil.rmtree(top, ignore_errors=True)


def events(prefix: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """CloudEvents about finished jobs, one job each; the id is the prefix and the number."""
    return [cloud(f"{prefix}-{number}", data={"job_id": f"{prefix}-{number}"}) for number in numbers]


class Hall:
    """Processes of one hall and its environment. Without `database` it runs the embedded server of its home."""

    def __init__(self, home: Path, database: dict[str, str] | None = None, **more: str) -> None:
        self.home, self.port = home, free_port()
        self.log = home.with_suffix(".log")
        ours = ("DATABASE_URL", "DATABASE_OWNER_URL", "CELERY_BROKER_URL", "HALLBOOK_HOME")
        self.environment = {key: value for key, value in os.environ.items() if key not in ours}
        for name in ours[:2]:
            if database:
                self.environment[name] = database[name]
        self.environment |= {"HALLBOOK_HOME": str(home), **more}
        self.running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Hall:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(AssertionError):
            until(lambda: not pid_file(self.home / "postgres"), 20, "the server stops with its last user")
        shutil.rmtree((self.home / "postgres").resolve(), ignore_errors=True)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Begin a process of this hall; its words go to the log."""
        with self.log.open("ab") as log:
            made = subprocess.Popen(command, env=self.environment, cwd=BASE, stdout=log, stderr=log)
        self.running.append(made)
        return made

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command of manage.py to its end."""
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            env=self.environment, cwd=BASE, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    def did(self, *words: str) -> str:
        """The same; it must succeed. Gives what it printed."""
        done = self.manage(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def serve(self) -> subprocess.Popen[bytes]:
        """`manage.py serve`, until it answers."""
        made = self.start(sys.executable, "manage.py", "serve", "--port", str(self.port))
        until(lambda: self.answers() or made.poll() is not None, 60, "serve answers")
        assert made.poll() is None, self.said()
        return made

    def worker(self) -> subprocess.Popen[bytes]:
        """A worker as `serve` runs it."""
        return self.start(*_celery("worker", "--pool", "solo", "--without-gossip", "--without-mingle"))

    def beat(self) -> subprocess.Popen[bytes]:
        """A beat as `serve` runs it."""
        place = str(self.home / "beat.alone")
        return self.start(*_celery("beat", "--pidfile", f"{place}.pid", "--schedule", place))

    def answers(self) -> bool:
        """Whether the web process is up and its database too."""
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One request: status, headers with names in lower case, body. Raises OSError when it fails."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            line.request(method, path, body or None, headers or {})
            answer = line.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, told, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            line.close()

    def connect(self) -> psycopg.Connection[Any]:
        """The owner's connection to the database, committing each statement."""
        if address := self.environment.get("DATABASE_OWNER_URL"):
            return psycopg.connect(address, autocommit=True)
        data = (self.home / "postgres").resolve()
        return psycopg.connect(Server(data, Path(pid_file(data)[4])).url("hallbook_owner"), autocommit=True)

    def ask(self, query: str, *values: Any) -> Any:
        """First column of the first row."""
        with self.connect() as connection:
            return (connection.execute(query.encode(), values).fetchone() or (None,))[0]

    def pending(self) -> int:
        """Deliveries that wait."""
        return int(self.ask("SELECT count(*) FROM events_delivery WHERE state = 'pending'"))

    def settled(self) -> bool:
        """Whether every delivery is in the log and every group at its head."""
        return bool(
            self.ask(
                """SELECT NOT EXISTS (SELECT 1 FROM events_delivery WHERE state = 'pending')
                   AND (SELECT min(position) FROM events_progress) = (SELECT max(position) FROM events_head)"""
            )
        )

    def stored(self) -> Counter[str]:
        """How often each key of the senders is in the log."""
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT source_key, count(*)::int FROM events_event WHERE source = 'slurm/pod-a' GROUP BY 1"
            )
            return Counter(dict(rows.fetchall()))

    def proof(self) -> str:
        """What `manage.py verify` prints; it must pass, and positions must be 1 to the count."""
        printed = self.did("verify")
        count, low, high = self._ends()
        assert (low, high) == (min(1, count), count)
        return printed

    def _ends(self) -> tuple[int, int, int]:
        with self.connect() as connection:
            row = connection.execute(
                "SELECT count(*), coalesce(min(position), 0), coalesce(max(position), 0) FROM events_event"
            ).fetchone()
            assert row is not None
            return int(row[0]), int(row[1]), int(row[2])

    def postmaster(self) -> int:
        """Process number of the embedded server."""
        return int(pid_file(self.home / "postgres")[0])

    def said(self) -> str:
        """The last that the processes said."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


def _celery(*words: str) -> list[str]:
    return [str(Path(sys.executable).parent / "celery"), "-A", "config", "--quiet", *words, "--loglevel", "WARNING"]


def children(pid: int, word: str) -> list[int]:
    """Processes below one whose command line holds a word."""
    found, left = [], [pid]
    while left:
        listed = Path(f"/proc/{left.pop()}")
        with contextlib.suppress(OSError):
            below = [
                int(each) for task in (listed / "task").iterdir() for each in (task / "children").read_text().split()
            ]
            left += below
            found += [each for each in below if word.encode() in Path(f"/proc/{each}/cmdline").read_bytes()]
    return found


def kill9(pid: int) -> None:
    """End one process without warning."""
    os.kill(pid, signal.SIGKILL)


class Senders:
    """Clients that send jobs, in batches and one by one, each again until it is acknowledged."""

    def __init__(self, hall: Hall, token: str, *, batches: int = 2, singles: int = 2, size: int = 100) -> None:
        self.hall, self.size = hall, size
        self.headers = {"Authorization": f"Bearer {token}"}
        self.acknowledged: set[str] = set()
        self.again = 0
        self.waits: set[str] = set()
        self.wrong: list[str] = []
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._send, args=(f"{kind}{number}", count))
            for kind, many, count in (("b", batches, size), ("s", singles, 1))
            for number in range(many)
        ]

    def __enter__(self) -> Senders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait(self, more: int, seconds: float = 30) -> float:
        """Wait until so many more events are acknowledged; gives the seconds."""
        least = len(self.acknowledged) + more
        return until(lambda: len(self.acknowledged) >= least or self.wrong, seconds, f"{more} more acknowledged")

    def _send(self, name: str, count: int) -> None:
        number = 0
        while not self._stop.is_set():
            said = events(name, range(number, number + count))
            number += count
            body = json.dumps(said if count > 1 else said[0]).encode()
            while not self._sent(said, body) and not self._stop.is_set():
                time.sleep(0.05)

    def _sent(self, said: list[dict[str, Any]], body: bytes) -> bool:
        kind = BATCH if len(said) > 1 else STRUCTURED
        try:
            status, told, answer = self.hall.call(
                "POST", "/api/v1/events", body, {**self.headers, "Content-Type": kind}
            )
        except OSError:
            status, told, answer = 0, {}, b""
        with self._lock:
            if status == 200:
                self.acknowledged.update(event["id"] for event in said)
            elif status and status < 500:
                self.wrong.append(f"{status} {answer[:200]!r}")
            else:
                self.again += 1
                self.waits.update([told["retry-after"]] if status == 503 else [])
        return status == 200

    def figures(self) -> str:
        """Acknowledged, present and doubled, asked of the log; fails when one is missing or doubled."""
        assert not self.wrong, self.wrong[0]
        stored = self.hall.stored()
        missing = self.acknowledged - stored.keys()
        doubled = [key for key, count in stored.items() if count > 1]
        assert (len(missing), len(doubled)) == (0, 0), (sorted(missing)[:3], doubled[:3])
        here = f"{len(self.acknowledged & stored.keys())} of them present, {len(doubled)} doubled"
        return f"{len(self.acknowledged)} acknowledged, {here}, {self.again} sent again"
