"""The web server of `serve`, alone, over this bench's database. The DRF yardstick is served beside the real door."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

from bench.base import environment
from config.management.commands import serve


@contextmanager
def running(workers: int = 2, application: str = "bench.site:application") -> Iterator[tuple[int, int]]:
    """Gives (port, process id). Its home is a folder of its own, so that no worker of the site is woken."""
    port = _free_port()
    command, *_ = serve._commands("127.0.0.1", port, workers)
    with _process([*command[:-1], application], port) as pid:
        yield port, pid


@contextmanager
def serving() -> Iterator[tuple[int, int]]:
    """All of `manage.py serve`, web, worker, beat and broker, over this bench's database. (port, process id)."""
    port = _free_port()
    with _process([sys.executable, "manage.py", "serve", "--port", str(port)], port) as pid:
        yield port, pid


@contextmanager
def _process(command: list[str], port: int) -> Iterator[int]:
    with tempfile.TemporaryDirectory(prefix="hallbook-bench-", ignore_cleanup_errors=True) as home:
        env = {
            **os.environ, **environment(), "HALLBOOK_HOME": home, "PYTHONPATH": str(settings.BASE_DIR),
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }  # fmt: skip
        process = subprocess.Popen(
            command, env=env, cwd=settings.BASE_DIR, start_new_session=True, preexec_fn=serve._die_with_parent
        )
        try:
            _wait(process, port)
            yield process.pid
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # `serve` ends its own processes
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError("the server ended at once; its last lines are above")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the server did not get ready")


def cpu_seconds(pid: int) -> float:
    """Processor time so far of a process and all below it (Linux), 0 where that is not told."""
    if sys.platform != "linux":
        return 0.0
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(_ticks(Path(f"/proc/{each}/stat")) for each in _family(pid)) / ticks


def resident_mb(pid: int) -> float:
    """Memory that a process and all below it have in use (Linux), in MB, shared pages counted for each."""
    pages = 0
    for each in _family(pid):
        with suppress(OSError):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _ticks(stat: Path) -> int:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(each for child in below for each in _family(int(child)))]
