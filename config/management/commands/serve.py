"""`manage.py serve`: web, worker and beat in one process group, for one machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from config.management.commands.init import prepare
from web.bundle import bundle

PR_SET_PDEATHSIG: Final = 1
RESTART_SECONDS: Final = 2.0
BIN: Final = Path(sys.executable).parent


class Command(BaseCommand):
    """Run the three processes until a signal comes or the web process ends."""

    help = "Serve on one machine: web, worker and beat. In production run them apart (deploy/)."

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--workers", type=int, default=2, help="web processes")
        parser.add_argument("--threads", type=int, default=4, help="requests of one web process at a time")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run; exit 1 when the web process ends by itself."""
        prepare()
        _check_port(options["host"], options["port"])
        bundle()  # made once, so that the first page does not wait for it
        address = f"http://{options['host']}:{options['port']}/"

        def answers() -> None:
            self.stdout.write(f"Hallbook serves on {address} (stop with Ctrl-C)")
            self.stdout.flush()

        self.stdout.write(f"Hallbook starts on {address}")
        self.stdout.flush()
        code = run(options["host"], options["port"], options["workers"], options["threads"], answers=answers)
        connections.close_all()
        if code:
            raise CommandError("the web process ended by itself; its last lines are above", returncode=1)


def run(host: str, port: int, workers: int, threads: int = 4, *, answers: Callable[[], object] = lambda: None) -> int:
    """Run web, worker and beat; 0 after a signal, 1 when the web process ended by itself.

    answers: called once the port takes connections, so that nobody is told too early.

    A worker or beat that ends (a broken broker, kill -9) is started again: nothing is lost meanwhile.
    """
    os.environ["HALLBOOK_PORT"] = str(port)  # where links in mails lead, if nobody says otherwise
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda seen, _frame: stopped.append(seen))
    web, *others = _commands(host, port, workers, threads)
    processes = [_start(web), *(_start(command) for command in others)]
    due, told = time.monotonic(), False
    while not stopped and processes[0].poll() is None:
        time.sleep(0.1)
        if not told and _answers(host, port):
            told = True
            answers()
        if time.monotonic() > due and any(process.poll() is not None for process in processes[1:]):
            processes[1:] = [_again(*pair) for pair in zip(processes[1:], others, strict=True)]
            due = time.monotonic() + RESTART_SECONDS
    _stop(processes)
    return 0 if stopped else 1


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=0.2).close()
    except OSError:
        return False
    return True


def _again(process: subprocess.Popen[bytes], command: list[str]) -> subprocess.Popen[bytes]:
    """The process itself while it runs, else a new one."""
    if process.poll() is None:
        return process
    print(f"the celery {command[4]} ended ({process.returncode}) and is started again", file=sys.stderr, flush=True)
    return _start(command)


def _commands(host: str, port: int, workers: int, threads: int = 4) -> list[list[str]]:
    # fmt: off
    return [
        [str(BIN / "granian"), "--interface", "wsgi", "--host", host, "--port", str(port), "--workers", str(workers),
         "--blocking-threads", str(threads), "--runtime-mode", "st", "--backlog", "1024", "--log-level", "warning",
         "--no-ws", "--respawn-failed-workers", "config.wsgi:application"],
        [str(BIN / "celery"), "-A", "config", "--quiet", "worker", "--pool", "solo", "--loglevel", "WARNING",
         "--without-gossip", "--without-mingle", "--without-heartbeat"],
        [str(BIN / "celery"), "-A", "config", "--quiet", "beat", "--loglevel", "WARNING",
         "--pidfile", str(settings.HALLBOOK_HOME / f"beat.{port}.pid"),
         "--schedule", str(settings.HALLBOOK_HOME / f"beat.{port}")],
    ]
    # fmt: on


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(settings.BASE_DIR), *_python_path()])}
    return subprocess.Popen(
        command, env=environment, cwd=settings.BASE_DIR, start_new_session=True, preexec_fn=_die_with_parent
    )


def _python_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def _die_with_parent() -> None:
    """On Linux: end when `serve` ends, also by kill -9."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + 10
    for process in processes:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(ProcessLookupError):  # a web worker that had just been started again
            os.killpg(process.pid, signal.SIGKILL)


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"port {port} on {host} cannot be used ({error.strerror}); choose another with --port", returncode=2
            ) from None
