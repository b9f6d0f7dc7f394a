"""The demo that goes on in real time ends with its server, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.faults.rig import BASE, folder, free_port, until

pytestmark = pytest.mark.faults


def processes(port: int) -> list[int]:
    """The command, its real-time child and what else was started with this port."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
        except OSError:
            continue
        if b"--port" in words and str(port).encode() in words:
            found.append(int(entry.name))
    return found


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_running(how: signal.Signals) -> None:
    port = free_port()
    with folder() as home:
        environment = {**os.environ, "HALLBOOK_HOME": str(home)}
        environment.pop("DATABASE_URL", None)
        command = [sys.executable, "manage.py", "demo", "--pod", "small", "--days", "1", "--port", str(port)]
        demo = subprocess.Popen(command, cwd=BASE, env=environment, stdout=subprocess.DEVNULL)
        try:
            until(lambda: answers(port), 120, "the demo is served")
            until(lambda: len(processes(port)) >= 3, 10, "the command, its child and the web server run")
            demo.send_signal(how)
            demo.wait(30)
            until(lambda: not processes(port), 30, "all of them have ended")
        finally:
            demo.kill()
            demo.wait()
            until(lambda: not (home / "postgres" / "postmaster.pid").exists(), 30, "the database has stopped")
