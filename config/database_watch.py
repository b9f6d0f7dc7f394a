"""The watchdog of the embedded PostgreSQL: starts it, restarts it after a crash, stops it when unused.

Run as a script by `config/database.py`, with the standard library alone; see there for the locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PORT = 5432  # only a part of the socket's name; stated so that PGPORT of the caller has no say
ROLES = ("hallbook", "hallbook_owner", "postgres")
READY_SECONDS = 300.0  # a long crash recovery is not a failure
ORPHAN_SECONDS = 60.0
LINGER_SECONDS = 1.0  # one command after the other, or an exec, keeps the server
POLL_SECONDS = 0.25
LOG_BYTES = 16 * 1024 * 1024
SPARE_BYTES = 1024 * 1024
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "256MB",
    "max_connections": "100",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "effective_io_concurrency": "16",
    "random_page_cost": "1.1",
    "idle_in_transaction_session_timeout": "60s",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "log_min_messages": "warning",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class DatabaseSetupError(Exception):
    """The embedded server cannot be had; the text is one line: what, where, what to do."""


@dataclass(frozen=True)
class Cluster:
    """Where a server lives, and who runs it."""

    home: Path
    data: Path
    programs: Path
    account: str  # the operating system's user that runs the server

    @property
    def tag(self) -> str:
        """A short name that shows in the title of every process of this server."""
        return tag(self.data)

    @property
    def identity(self) -> dict[str, Any]:
        """Arguments for subprocess: root steps down, for PostgreSQL refuses to run as root."""
        base: dict[str, Any] = {"env": ENVIRONMENT, "cwd": "/", "stdin": subprocess.DEVNULL}
        if os.geteuid() != 0:
            return base
        who = pwd.getpwnam(self.account)
        return base | {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}


def tag(data: Path) -> str:
    """Name the server of a data directory; stands in the titles of all its processes, as cluster_name."""
    return "hallbook-" + hashlib.sha256(os.fsencode(data)).hexdigest()[:10]


def open_lock(path: Path) -> int:
    """Open a lock file of the home; closed on exec, so that programs run by a user are not users."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    owner = path.parent.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:  # root came first; the owner of the home must be able to follow
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def try_lock(descriptor: int) -> bool:
    """Take the lock for ourselves alone, if nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for a lock and hold it for the length of a block."""
    descriptor = open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def pid_file(data: Path) -> list[str]:
    """Read postmaster.pid: line 1 is the process, 5 the socket's folder, 8 the state."""
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def _commands(only: int | None = None) -> dict[int, str]:
    """Map each live process (or only one) to its command line; a zombie has none."""
    if not Path("/proc/self/cmdline").exists():
        chosen = ["-ax"] if only is None else ["-p", str(only)]
        listed = subprocess.run(["ps", *chosen, "-o", "pid=,command="], capture_output=True, text=True, check=False)
        pairs = (line.split(None, 1) for line in listed.stdout.splitlines())
        return {int(pair[0]): pair[1] for pair in pairs if len(pair) == 2}
    names = (entry.name for entry in Path("/proc").iterdir()) if only is None else [str(only)]
    found = {}
    for name in filter(str.isdigit, names):
        with contextlib.suppress(OSError):
            found[int(name)] = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def _is_postgres(command: str) -> bool:
    program = command.split(" -", 1)[0].strip()
    return command.startswith("postgres:") or Path(program).name in {"postgres", "postmaster"}


def _processes(data: Path, only: int | None = None) -> list[int]:
    """The processes of this server, by their titles.

    The working directory would tell as well, but root may not read it in a container without CAP_SYS_PTRACE.
    """
    return [pid for pid, command in _commands(only).items() if tag(data) in command and _is_postgres(command)]


def postmaster(data: Path) -> int | None:
    """Give the process number of the postmaster that serves a data directory, if it lives."""
    lines = pid_file(data)
    if not lines or not lines[0].isdigit():
        return None
    return next(iter(_processes(data, int(lines[0]))), None)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def can_enter(folder: Path, account: str) -> bool:
    """Ask the kernel, not the mode bits, whether the server's account reaches a folder."""
    probe = Cluster(folder, folder, folder, account)
    command = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False, **probe.identity).returncode == 0


def last_line(text: str) -> str:
    """Pick the line of a server's output that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR|error|No space)\b", line)]
    return (telling or lines or ["it said nothing"])[-1]


def _watch(cluster: Cluster) -> None:
    """Start or adopt the server, report on standard output, keep it until no user is left."""
    try:
        child = _start(cluster)
    except (DatabaseSetupError, OSError) as error:
        _report(f"PostgreSQL could not start in {cluster.data}: {error}")
        return
    _report("ready")
    users = open_lock(cluster.home / "postgres.users")
    used = time.monotonic()
    while True:
        time.sleep(POLL_SECONDS)
        if _is_used(users):
            used = time.monotonic()
            child = _revive(cluster, child)
        elif time.monotonic() - used > LINGER_SECONDS and _stop_if_unused(cluster, users):
            return


def _is_used(users: int) -> bool:
    if not try_lock(users):
        return True
    fcntl.flock(users, fcntl.LOCK_UN)
    return False


def _revive(cluster: Cluster, child: subprocess.Popen[bytes] | None) -> subprocess.Popen[bytes] | None:
    """Start the server again if it is gone; if that fails (a full disk), log it and try again later."""
    if child:
        child.poll()  # takes the exit status, lest a zombie stays
    if postmaster(cluster.data):
        return child
    try:
        return _start(cluster)
    except (DatabaseSetupError, OSError) as error:
        with _log(cluster).open("a") as log:
            log.write(f"watchdog: PostgreSQL could not start again: {error}\n")
        time.sleep(1)
        return None


def _log(cluster: Cluster) -> Path:
    return cluster.home / "postgres.log"


def _report(text: str) -> None:
    """Tell the command that launched us, and let it go on."""
    os.write(1, text.encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)


def _stop_if_unused(cluster: Cluster, users: int) -> bool:
    """Stop under both locks: a command that comes now waits at `postgres.start`, then starts anew."""
    start = open_lock(cluster.home / "postgres.start")
    try:
        if not (try_lock(start) and try_lock(users)):
            return False
        _stop(cluster)
        return True
    finally:
        fcntl.flock(users, fcntl.LOCK_UN)
        os.close(start)


def _stop(cluster: Cluster) -> None:
    """Fast shutdown: sessions are ended, the last checkpoint is written."""
    socket_dir = Path((pid_file(cluster.data) + [""] * 5)[4] or "/nonexistent")
    lock = open_lock(cluster.home / "postgres.lock")
    deadline = time.monotonic() + ORPHAN_SECONDS
    while not try_lock(lock) and time.monotonic() < deadline:
        if pid := postmaster(cluster.data):
            _signal(pid, signal.SIGINT)
        time.sleep(0.1)
    if not try_lock(lock):
        _end_orphans(cluster, lock)
    os.close(lock)
    if socket_dir.name == cluster.tag:
        shutil.rmtree(socket_dir, ignore_errors=True)


def _start(cluster: Cluster) -> subprocess.Popen[bytes] | None:
    """Start the server and wait until it is ready; None if it runs already and is adopted."""
    lock = open_lock(cluster.home / "postgres.lock")
    try:
        if not try_lock(lock):
            if postmaster(cluster.data):
                _wait_ready(cluster, None, 0)
                return None
            _end_orphans(cluster, lock)
        _write_access_rules(cluster)
        _drop_foreign_pid_file(cluster)
        return _start_patiently(cluster, lock)
    finally:
        os.close(lock)  # the server's processes have it


def _end_orphans(cluster: Cluster, lock: int) -> None:
    """End the backends that outlived their postmaster; the shared memory they hold forbids a new one."""
    began = time.monotonic()
    while not try_lock(lock):
        waited = time.monotonic() - began
        if waited > ORPHAN_SECONDS:
            raise DatabaseSetupError(
                f"processes of an earlier server do not end: {_processes(cluster.data)}; end them by hand"
            )
        for pid in _processes(cluster.data):
            _signal(pid, signal.SIGQUIT if waited < 2 else signal.SIGKILL)
        time.sleep(0.1)


def _write_access_rules(cluster: Cluster) -> None:
    """Let root and the server's own account in, by the kernel's word (peer); nobody else, and no password."""
    rules = "local all all peer map=hallbook\nlocal replication all peer map=hallbook\n"
    names = dict.fromkeys(["root", cluster.account])
    maps = "".join(f'hallbook "{name}" {role}\n' for name in names for role in ROLES)
    for name, text in (("pg_hba.conf", rules), ("pg_ident.conf", maps)):
        path = cluster.data / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _drop_foreign_pid_file(cluster: Cluster) -> None:
    """Remove a stale postmaster.pid whose number now belongs to some other program (usual in containers).

    A number that is free, or that of a PostgreSQL, is left for the server to judge.
    """
    lines = pid_file(cluster.data)
    if lines and lines[0].isdigit():
        command = _commands().get(int(lines[0]))
        if command is not None and not _is_postgres(command):
            (cluster.data / "postmaster.pid").unlink(missing_ok=True)


def _start_patiently(cluster: Cluster, lock: int) -> subprocess.Popen[bytes]:
    """Try again for a while when an earlier server has not quite ended."""
    pause, deadline = 0.1, time.monotonic() + ORPHAN_SECONDS
    while True:
        child, offset = _spawn(cluster, lock)
        try:
            _wait_ready(cluster, child, offset)
        except DatabaseSetupError as error:
            leftovers = re.search(r"pre-existing shared memory|postmaster\.pid|already exists", str(error))
            if not leftovers or time.monotonic() > deadline:
                raise
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
        else:
            return child


def _spawn(cluster: Cluster, lock: int) -> tuple[subprocess.Popen[bytes], int]:
    """Run the postmaster in its own session; gives it and where its words begin in the log."""
    log = _log(cluster)
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    arguments = ["-D", str(cluster.data), "-k", str(_socket_dir(cluster)), "-p", str(PORT)]
    for name, value in {**SETTINGS, "cluster_name": cluster.tag}.items():
        arguments += ["-c", f"{name}={value}"]
    with log.open("ab") as output:
        child = subprocess.Popen(
            [str(cluster.programs / "postgres"), *arguments],
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(lock,),
            **cluster.identity,
        )
        return child, output.tell()


def _wait_ready(cluster: Cluster, child: subprocess.Popen[bytes] | None, offset: int) -> None:
    """Wait for `ready` in postmaster.pid, as pg_ctl does."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        lines = pid_file(cluster.data)
        ours = bool(lines) and (child is None or lines[0] == str(child.pid))
        if ours and len(lines) >= 8 and lines[7].strip() == "ready":
            return
        if child and child.poll() is not None:
            raise DatabaseSetupError(_reason(cluster, offset))
        time.sleep(0.01)
    raise DatabaseSetupError(f"not ready after {READY_SECONDS:.0f} s")


def _reason(cluster: Cluster, offset: int) -> str:
    """Say why the server ended; on a full disk it could not even write that."""
    if shutil.disk_usage(cluster.data).free < SPARE_BYTES:
        return "the disk is full: make room and try again"
    with _log(cluster).open("rb") as log:
        log.seek(offset)
        return last_line(log.read().decode(errors="replace"))


def _socket_dir(cluster: Cluster) -> Path:
    """Make the private folder of the socket.

    Its path must be short, so not below the home; it must outlast a login, so not in XDG_RUNTIME_DIR.
    """
    for base in ("/run", "/tmp", tempfile.gettempdir()):  # noqa: S108  (the folder is ours alone or refused)
        path = Path(base) / cluster.tag
        fits = len(os.fsencode(path / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES
        if fits and os.access(base, os.W_OK | os.X_OK) and can_enter(Path(base), cluster.account):
            return _own_folder(path, cluster)
    raise DatabaseSetupError("no folder for the socket: /tmp is not writable and TMPDIR is too long a path")


def _own_folder(path: Path, cluster: Cluster) -> Path:
    who = pwd.getpwnam(cluster.account)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(path, who.pw_uid, who.pw_gid)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != who.pw_uid or found.st_mode & 0o077:
        raise DatabaseSetupError(f"{path} is not a private folder of {cluster.account}: remove it and try again")
    for left in path.glob(".s.PGSQL.*"):  # of a server that crashed; we hold the lock that says none runs
        left.unlink(missing_ok=True)
    return path


def _main(arguments: list[str]) -> None:
    """Detach from the launching command, then watch."""
    if os.fork():
        return
    os.setsid()
    home, data, programs, account = arguments
    _watch(Cluster(Path(home), Path(data), Path(programs), account))


if __name__ == "__main__":
    _main(sys.argv[1:])
