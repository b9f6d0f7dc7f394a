"""How a training process can end: each in a process of its own, and what the next start makes of what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import FILE
from tests.training.door import Door, soon

Program = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def program(door: Door, tmp_path: Path) -> Iterator[Program]:
    """Starts programs that have `hallbook_run` at hand and the environment of a job."""
    started: list[subprocess.Popen[str]] = []

    def begin(*parts: str, **more: str) -> subprocess.Popen[str]:
        head = "import hallbook_run, os, signal, sys, time\nhallbook_run.OPEN_SECONDS = 0.05\n"
        env = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(FILE.parent), "PYTHONDONTWRITEBYTECODE": "1",
            "HALLBOOK_URL": door.url, "HALLBOOK_TOKEN": "hb_secret", "HALLBOOK_SPOOL": str(tmp_path / "spool"),
            "SLURM_CLUSTER_NAME": "pod-a", "SLURM_JOB_ID": "412", **more,
        }  # fmt: skip
        made = subprocess.Popen(
            [sys.executable, "-c", head + "".join(map(textwrap.dedent, parts))], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(made)
        return made

    yield begin
    for process in started:
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()
        process.wait()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def kinds(door: Door) -> list[tuple[str, Any]]:
    return [(event["type"], event["data"].get("kind") or event["data"].get("step")) for event in door.events]


STEPS = """
    run = hallbook_run.start(every_seconds=3600)
    run.begin(0)
    for step in range(1, 6):
        time.sleep(0.01)
        run.step(step)
"""


def test_killed_in_the_middle_nothing_is_lost_and_nothing_double(program: Program, door: Door, tmp_path: Path) -> None:
    """Hallbook is down; a save and its steps are spooled, three more steps are told to nobody yet: kill -9."""
    door.down()
    process = program("""
        run = hallbook_run.start(run="atlas", every_seconds=3600)
        run.begin(0)
        for step in range(1, 6):
            time.sleep(0.01)
            run.step(step)
        with run.checkpoint(5):
            pass
        for step in range(6, 9):
            time.sleep(0.01)
            run.step(step)
        time.sleep(60)
    """)
    soon(lambda: any(b'"step":8' in path.read_bytes() for path in tmp_path.glob("spool/*/open.json")))
    process.kill()
    ended(process)
    door.up()
    again = program('hallbook_run.start(run="atlas").finish()', SLURM_RESTART_COUNT="1")
    assert ended(again)[0] == 0
    assert [(kind, number) for kind, number in kinds(door) if kind not in ("run.declared", "run.interrupted")] == [
        ("run.progressed", 5), ("checkpoint.started", 5), ("checkpoint.committed", 5), ("run.progressed", 8),
    ]  # fmt: skip
    assert [event["data"]["steps"] for event in door.of("run.progressed")] == [5, 3]
    assert len(door.of("run.declared")) == 2  # each attempt's own
    assert (door.again, door.conflicts) == ({}, [])
    assert list((tmp_path / "spool").iterdir()) == []


def test_killed_while_its_reports_are_on_their_way(program: Program, door: Door) -> None:
    """Hallbook took them, the process died before it knew: they come again, under the same ids and alike."""
    door.hangs.set()
    process = program(STEPS, 'run.interrupted("error", "x")\ntime.sleep(60)')
    soon(lambda: door.posts)
    process.kill()
    ended(process)
    door.hangs.clear()
    door.free.set()
    taken = door.posts[0][2]
    door.answer(taken)
    ended(program("hallbook_run.start(run='atlas').finish()"))
    assert set(door.again) == {event["id"] for event in taken}
    assert (door.conflicts, len(door.of("run.progressed"))) == ([], 1)


def test_sigterm_is_told_and_ends_the_program_as_before(program: Program, door: Door) -> None:
    process = program(STEPS, "print('up', flush=True)\ntime.sleep(60)")
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert ended(process)[0] == -signal.SIGTERM
    assert kinds(door) == [("run.progressed", 5), ("run.interrupted", "signal")]
    told = door.of("run.interrupted")[0]["data"]
    assert (told["why"], told["last_ms"] % 86_400_000 // 1000) == (
        "SIGTERM", _second(door.of("run.progressed")[0]["time"]))  # fmt: skip


def _second(time: str) -> int:
    hours, minutes, seconds = time[11:19].split(":")
    return 3600 * int(hours) + 60 * int(minutes) + int(seconds)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_handler_that_was_there_is_called(program: Program, door: Door, name: str) -> None:
    """It saves and goes on, as on a warning before preemption."""
    handler = f"signal.signal(signal.{name}, lambda number, _: os.write(1, b'saving %d\\n' % number))"
    process = program(
        handler,
        STEPS,
        """
        print("up", flush=True)
        while not sys.stdin.readline():
            pass
        time.sleep(0.01)
        run.step(6)
        run.finish()
    """,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(getattr(signal, name))
    assert (process.stdout.readline(), process.poll()) == (f"saving {int(getattr(signal, name))}\n", None)
    assert ended_after_line(process) == 0
    assert kinds(door) == [
        ("run.progressed", 5), ("run.interrupted", "signal"), ("run.progressed", 6), ("run.interrupted", "finished")
    ]  # fmt: skip
    assert door.of("run.interrupted")[0]["data"]["why"] == name


def ended_after_line(process: subprocess.Popen[str]) -> int:
    process.communicate("go on\n", timeout=30)
    return process.returncode


def test_a_signal_inside_a_call_is_told_after_it(program: Program, door: Door) -> None:
    """10,000 steps with a signal every half millisecond: none is lost, no step is counted twice or not at all."""
    process = program("""
        seen = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        run = hallbook_run.start(every_seconds=3600)
        inner = run._on_signal
        signals = []
        signal.signal(signal.SIGALRM, lambda number, frame: (signals.append(1), os.kill(os.getpid(), signal.SIGUSR1)))
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        run.begin(0)
        for step in range(1, 10001):
            run.step(step)
        signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(0.05)
        run.finish()
        print(len(seen), len(signals))
    """)
    code, out, err = ended(process)
    assert (code, err) == (0, "")
    seen, sent = map(int, out.split())
    assert seen > 10
    assert seen <= sent
    assert sum(event["data"]["steps"] for event in door.of("run.progressed")) == 10_000
    told = [event["data"]["kind"] for event in door.of("run.interrupted")]
    assert told.count("signal") == seen


@pytest.mark.parametrize(("body", "code", "kind", "why"), [
    ("raise RuntimeError('CUDA error: ECC')", 1, "error", "RuntimeError: CUDA error: ECC"),
    ("raise KeyboardInterrupt", -signal.SIGINT, "signal", "KeyboardInterrupt"),
    ("sys.exit(3)", 3, "exited", "the program ended without saying how"),
    ("run.finish()", 0, "finished", None),
])  # fmt: skip
def test_ends_of_a_program(program: Program, door: Door, body: str, code: int, kind: str, why: str | None) -> None:
    done, _, err = ended(program(STEPS, body))
    assert done == code
    assert ("RuntimeError" in err) == ("RuntimeError" in body)  # Python's own words are still there
    assert kinds(door) == [("run.progressed", 5), ("run.interrupted", kind)]
    assert door.of("run.interrupted")[0]["data"].get("why") == why


def test_an_end_waits_no_longer_than_told_for_a_server_that_hangs(program: Program, door: Door) -> None:
    """0.5 s and 0.5 s to let go; the rest is Python's own start and end."""
    door.hangs.set()
    process = program("""
        run = hallbook_run.start(run="atlas", exit_seconds=0.5)
        time.sleep(0.1)
        began = time.monotonic()
        run.finish()
        print(time.monotonic() - began)
    """)
    code, out, _ = ended(process)
    assert code == 0
    assert 0.4 < float(out) < 1.5


def test_a_fork_is_silent(program: Program, door: Door) -> None:
    """Loaders of data are forks that are ended by SIGTERM: that is no interruption of the training."""
    process = program(
        STEPS,
        """
    child = os.fork()
    if not child:
        run.step(99)
        run.interrupted("error", "in a child")
        time.sleep(60)
        os._exit(0)
    time.sleep(0.2)
    os.kill(child, signal.SIGTERM)
    print(os.waitpid(child, 0)[1])
    run.finish()
    """,
    )
    code, out, err = ended(process)
    assert (code, out, err) == (0, f"{int(signal.SIGTERM)}\n", "")
    assert kinds(door) == [("run.progressed", 5), ("run.interrupted", "finished")]


@pytest.mark.parametrize("version", [(3, 8), (3, 9)])
def test_it_is_written_for_old_pythons(version: tuple[int, int]) -> None:
    """Their grammar at least; where such a Python is at hand it is run by it too."""
    import ast
    import shutil

    ast.parse(FILE.read_text(encoding="utf-8"), feature_version=version)
    old = shutil.which(f"python{version[0]}.{version[1]}")
    if old and not subprocess.run([old, "-c", ""], capture_output=True, check=False).returncode:
        body = "import hallbook_run; run = hallbook_run.start(signals=False); run.step(1); run.finish()"
        env = {"PYTHONPATH": str(FILE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([old, "-c", body], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, "no cluster and job" in done.stderr) == (0, True)
