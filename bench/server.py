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
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from bench.base import environment
from config.management.commands import serve


@contextmanager
def running(workers: int = 2, application: str = "bench.site:application") -> Iterator[tuple[int, int]]:
    """Gives (port, process id). Its home is a folder of its own, so that no worker of the site is woken."""
    port = _free_port()
    command, *_ = serve._commands("127.0.0.1", port, workers)
    with tempfile.TemporaryDirectory(prefix="hallbook-bench-") as home:
        env = {
            **os.environ, **environment(), "HALLBOOK_HOME": home, "PYTHONPATH": str(settings.BASE_DIR),
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }  # fmt: skip
        process = subprocess.Popen(
            [*command[:-1], application],
            env=env,
            cwd=settings.BASE_DIR,
            start_new_session=True,
            preexec_fn=serve._die_with_parent,
        )
        try:
            _wait(process, port)
            yield port, process.pid
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


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
    """Processor time so far of a process and its children (Linux), 0 where that is not told."""
    if sys.platform != "linux":
        return 0.0
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(_ticks(Path(f"/proc/{each}/stat")) for each in [pid, *_children(pid)]) / ticks


def _ticks(stat: Path) -> int:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _children(pid: int) -> list[int]:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(each) for each in found]
