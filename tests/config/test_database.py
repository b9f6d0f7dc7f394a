"""The embedded server with real processes: who shares it, when it ends, and what it survives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from config import database_files

SOURCES = Path(database_files.__file__).parent
PROGRAM = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from config.database import DatabaseSetupError, ensure_server
try:
    server = ensure_server(Path(sys.argv[2]))
except DatabaseSetupError as error:
    print("error:", error, flush=True)
    sys.exit(1)
assert ensure_server(Path(sys.argv[2])) == server
print(server.url("postgres"), flush=True)
if "fork" in sys.argv and os.fork():
    os._exit(0)
sys.stdin.read()
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


class Rig:
    """A temporary home, and processes that use its server."""

    def __init__(self, top: Path) -> None:
        self.top, self.home, self.code = top, top / "home", top / "code"
        (self.code / "config").mkdir(parents=True)
        (self.code / "config" / "__init__.py").touch()  # without Django: the server stands on its own
        for source in SOURCES.glob("database*.py"):
            shutil.copy(source, self.code / "config")
        self.users: list[subprocess.Popen[str]] = []
        self.python, self.options, self.environment = sys.executable, {}, dict(os.environ)
        self.environment.pop("HALLBOOK_PG_BIN", None)
        self.environment["HALLBOOK_PG_BIN"] = os.environ.get("HALLBOOK_PG_BIN", str(database_files._programs()))

    def spawn(self, *extra: str) -> subprocess.Popen[str]:
        """Begin a process that joins the server, then waits."""
        user = subprocess.Popen(
            [self.python, "-c", PROGRAM, str(self.code), str(self.home), *extra],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=self.environment,
            **self.options,
        )
        self.users.append(user)
        return user

    def join(self, *extra: str) -> tuple[subprocess.Popen[str], str]:
        """Begin such a process and give it with its URL (or error)."""
        user = self.spawn(*extra)
        return user, self.answer(user)

    def answer(self, user: subprocess.Popen[str]) -> str:
        assert user.stdout is not None
        assert select.select([user.stdout], [], [], 30)[0], "no answer within 30 s"
        return user.stdout.readline().strip()

    def end(self, user: subprocess.Popen[str], number: signal.Signals | None = None) -> None:
        if number:
            user.send_signal(number)
        assert user.stdin is not None
        assert user.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            user.stdin.close()
        user.wait(10)
        user.stdout.close()
        if user in self.users:
            self.users.remove(user)

    def postmaster(self) -> int:
        return int((self.home / "postgres" / "postmaster.pid").read_text().split()[0])

    def watchdog(self) -> int:
        """Find the watchdog by its command line."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if str(self.home).encode() in words and any(w.endswith(b"database_watch.py") for w in words):
                    return int(entry.name)
        raise AssertionError("no watchdog")

    def is_gone(self) -> bool:
        """Say whether every process of the server has ended: they all hold one lock."""
        with contextlib.suppress(FileNotFoundError), (self.home / "postgres.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def gone_after(self) -> float:
        """Wait for the end of the server; gives the seconds."""
        began = time.monotonic()
        while not self.is_gone():
            assert time.monotonic() - began < 10, "the server outlives its users"
            time.sleep(0.02)
        return time.monotonic() - began

    def close(self) -> None:
        """End everything at once, and leave nothing."""
        for user in list(self.users):
            self.end(user, signal.SIGKILL)
        if not self.is_gone():
            socket_folder = (self.home / "postgres" / "postmaster.pid").read_text().splitlines()[4]
            with contextlib.suppress(AssertionError):
                os.kill(self.watchdog(), signal.SIGKILL)
            os.kill(self.postmaster(), signal.SIGINT)
            self.gone_after()
            shutil.rmtree(socket_folder)
        shutil.rmtree((self.home / "postgres").resolve(), ignore_errors=True)
        shutil.rmtree(self.top)


@pytest.fixture(scope="module")
def filled() -> Iterator[Path]:
    """A home with a fresh data directory, to copy: initdb takes most of a second."""
    with _open_folder() as top:
        (top / "home").mkdir()
        database_files.prepare(top / "home")
        yield top / "home"


@contextlib.contextmanager
def _open_folder() -> Iterator[Path]:
    top = Path(tempfile.mkdtemp(prefix="hb-", dir="/tmp"))
    top.chmod(0o755)  # as root the server's own user must be able to enter
    yield top
    shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
def bare() -> Iterator[Rig]:
    """A rig whose home does not exist yet."""
    with _open_folder() as top:
        made = Rig(top)
        yield made
        made.close()


@pytest.fixture
def rig(bare: Rig, filled: Path) -> Rig:
    """A rig whose home has had its first start."""
    subprocess.run(["cp", "-a", str(filled), str(bare.home)], check=True)
    return bare


def ask(url: str, query: str) -> object:
    """Give the first column of the first row; commits."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_roles_and_database(bare: Rig) -> None:
    _, url = bare.join()
    owner = url.replace("postgres@", "hallbook_owner@")
    application = url.replace("postgres@", "hallbook@")
    assert ask(owner, "SELECT rolcreatedb AND NOT rolsuper FROM pg_roles WHERE rolname = current_user") is True
    assert ask(application, "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert ask(url, "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'hallbook'") == "hallbook_owner"
    for name, value in (
        ("listen_addresses", ""),
        ("fsync", "on"),
        ("jit", "off"),
        ("TimeZone", "UTC"),
        ("data_checksums", "on"),
    ):
        assert ask(application, f"SHOW {name}") == value
    run(owner, "CREATE TABLE proof ()")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(application, "CREATE TABLE forbidden ()")


def test_processes_share_one_server_that_ends_after_the_last(rig: Rig) -> None:
    first, url = rig.join()
    second, other_url = rig.join()
    assert url == other_url
    postmaster = rig.postmaster()
    rig.end(first)
    time.sleep(1.6)
    assert ask(url, "SELECT 1") == 1
    assert rig.postmaster() == postmaster
    socket_folder = Path((rig.home / "postgres" / "postmaster.pid").read_text().splitlines()[4])
    rig.end(second, signal.SIGKILL)
    assert rig.gone_after() < 5
    assert not (rig.home / "postgres" / "postmaster.pid").exists()
    time.sleep(0.2)
    assert not socket_folder.exists()


def test_many_starters_at_once_start_one_server(bare: Rig) -> None:
    users = [bare.spawn() for _ in range(5)]
    assert len({bare.answer(user) for user in users}) == 1
    log = (bare.home / "postgres.log").read_text()
    assert log.count("ready to accept connections") == 1


def test_arrivals_while_it_stops(rig: Rig) -> None:
    user, _ = rig.join()
    for pause in (1.1, 1.3):
        rig.end(user)
        time.sleep(pause)
        user, url = rig.join()
        assert ask(url, "SELECT 1") == 1
        time.sleep(0.3)
        assert ask(url, "SELECT 1") == 1


def test_a_forked_child_is_a_user(rig: Rig) -> None:
    user, url = rig.join("fork")
    user.wait(10)
    time.sleep(1.6)
    assert ask(url, "SELECT 1") == 1


def test_kill_of_the_postmaster_under_a_busy_backend(rig: Rig) -> None:
    user, url = rig.join()
    run(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    busy = threading.Thread(target=_ask_in_vain, args=(url, "SELECT count(*) FROM generate_series(1, 10000000000)"))
    busy.start()
    time.sleep(0.3)
    watchdog = rig.watchdog()
    os.kill(watchdog, signal.SIGKILL)  # else it would be quicker than the next command
    os.kill(rig.postmaster(), signal.SIGKILL)
    assert not rig.is_gone()
    rig.end(user, signal.SIGKILL)
    began = time.monotonic()
    _, url = rig.join()
    assert time.monotonic() - began < 8
    assert ask(url, "SELECT answer FROM kept") == 42
    assert rig.watchdog() != watchdog
    busy.join(10)


def test_a_crashed_server_comes_back_to_living_users(rig: Rig) -> None:
    _, url = rig.join()
    run(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(rig.postmaster(), signal.SIGKILL)
    began = time.monotonic()
    while _ask_in_vain(url, "SELECT answer FROM kept") != 42:
        assert time.monotonic() - began < 10
        time.sleep(0.05)


def _ask_in_vain(url: str, query: str) -> object:
    with contextlib.suppress(psycopg.OperationalError):
        return ask(url, query)
    return None


def test_stale_pid_file_that_names_another_program(rig: Rig) -> None:
    user, _ = rig.join()
    pid_file = rig.home / "postgres" / "postmaster.pid"
    text = pid_file.read_text()
    owner = pid_file.stat()
    rig.end(user)
    rig.gone_after()
    time.sleep(0.2)
    with subprocess.Popen(["sleep", "60"], user=owner.st_uid if os.geteuid() == 0 else None) as other:
        lines = [str(other.pid), *text.splitlines()[1:]]
        pid_file.write_text("\n".join(lines) + "\n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        _, url = rig.join()
        assert ask(url, "SELECT 1") == 1
        other.kill()


def test_adopts_a_server_whose_watchdog_was_killed(rig: Rig) -> None:
    first, _ = rig.join()
    postmaster = rig.postmaster()
    os.kill(rig.watchdog(), signal.SIGKILL)
    rig.end(first)
    time.sleep(1.6)
    assert not rig.is_gone()
    second, url = rig.join()
    assert ask(url, "SELECT 1") == 1
    assert rig.postmaster() == postmaster
    rig.end(second)
    assert rig.gone_after() < 5


@needs_root
def test_an_ordinary_user(bare: Rig) -> None:
    nobody = pwd.getpwnam("nobody")
    bare.options = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    bare.python = _python_for(bare)
    programs = database_files._reachable_programs(database_files._programs(), "nobody")
    bare.environment["HALLBOOK_PG_BIN"] = str(programs)
    bare.home.mkdir()
    os.chown(bare.home, nobody.pw_uid, nobody.pw_gid)
    user, url = bare.join()
    assert ask(url, "SELECT 1") == 1  # root, too, may look
    assert Path(f"/proc/{bare.postmaster()}").stat().st_uid == nobody.pw_uid
    bare.options, bare.python = {}, sys.executable
    bare.end(user)
    assert bare.gone_after() < 5
    time.sleep(0.2)
    user, url = bare.join()  # root later runs it as the owner of the data, never as root
    assert Path(f"/proc/{bare.postmaster()}").stat().st_uid == nobody.pw_uid


def _python_for(rig: Rig) -> str:
    """Find an interpreter that the user of the rig can run; a virtual environment below /root is none."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with contextlib.suppress(OSError):
            check = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(check, check=False, cwd="/", capture_output=True, **rig.options).returncode == 0:
                return python
    pytest.skip("no Python >= 3.11 that an ordinary user can run")


@needs_root
def test_a_home_that_only_root_can_enter(bare: Rig) -> None:
    bare.top.chmod(0o700)
    _, url = bare.join()
    assert ask(url, "SELECT 1") == 1
    assert bare.top.stat().st_mode & 0o777 == 0o700
    assert (bare.home / "postgres").is_symlink()
    assert (bare.home / "postgres").resolve().parent == database_files.SYSTEM_STATE


def test_wrong_programs_are_one_clear_error(bare: Rig) -> None:
    bare.environment["HALLBOOK_PG_BIN"] = str(bare.top)
    user, answer = bare.join()
    advice = "correct HALLBOOK_PG_BIN or unset it."
    assert answer == f"error: There is no program postgres or initdb in {bare.top}: {advice}"
    assert user.wait(10) == 1


def test_data_of_another_version_is_one_clear_error(bare: Rig) -> None:
    (bare.home / "postgres").mkdir(parents=True)
    (bare.home / "postgres" / "PG_VERSION").write_text("9\n")
    os.chown(bare.home / "postgres", pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else -1, -1)
    _, answer = bare.join()
    assert answer.startswith(f"error: The data in {bare.home}/postgres were made by PostgreSQL 9, but ")
    assert "HALLBOOK_PG_BIN" in answer
