"""A real training on one core reports while Hallbook is stopped and started again: nothing lost, hardly slowed."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rig import BASE, Hall, folder, until
from tests.training.conftest import FILE

pytestmark = pytest.mark.faults

PROGRAM = Path(__file__).parent / "programs" / "torch_loop.py"
PAIRS, STEPS = int(os.environ.get("HALLBOOK_TRAINING_PAIRS", "400")), 2
MOST = 0.01
"""A training may be slowed by so much at most."""


@pytest.fixture
def own() -> Iterator[Hall]:
    """A hall with an embedded server of its own."""
    if sys.platform != "linux":
        pytest.skip("processes are found in /proc, which only Linux has")
    with folder() as top, Hall(top / "home") as made:
        made.did("migrate", "--verbosity", "0")
        yield made


@contextlib.contextmanager
def _started(words: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A program that does not outlive the test."""
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as made:
        try:
            yield made
        finally:
            made.kill()


def logged(hall: Hall) -> Counter[str]:
    """How often each id of the training is in the log."""
    with hall.connect() as connection:
        rows = connection.execute(
            "SELECT source_key, count(*)::int FROM events_event WHERE source = 'training:pod-a' GROUP BY 1"
        )
        return Counter(dict(rows.fetchall()))


def test_no_report_is_lost_and_the_training_is_hardly_slowed(
    own: Hall, tmp_path: Path, torch_python: Callable[..., str]
) -> None:
    """A report every half second, 600 times as often as by default, and a save after every fiftieth pair of blocks."""
    python = torch_python("torch")
    serving = own.serve()
    token = own.did("token", "training", "--scope", "events:write")
    env = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(FILE.parent), "PYTHONDONTWRITEBYTECODE": "1",
        "HALLBOOK_URL": f"http://127.0.0.1:{own.port}", "HALLBOOK_TOKEN": token, "SLURM_CLUSTER_NAME": "pod-a",
        "SLURM_JOB_ID": "412", "HALLBOOK_SPOOL": str(tmp_path / "spool"), "HOME": str(tmp_path),
    }  # fmt: skip
    words = [python, str(PROGRAM), str(BASE / "LICENSE"), str(tmp_path / "stop"), str(PAIRS), str(STEPS)]
    with _started(words, env) as training:
        until(lambda: sum(logged(own).values()) >= 5 or training.poll() is not None, 60, "five reports arrived")
        before = sum(logged(own).values())
        serving.terminate()  # the embedded server stops with it
        serving.wait(20)
        until(lambda: _spooled(tmp_path) >= 15, 60, "fifteen reports wait")
        assert training.poll() is None
        own.serve()
        until(lambda: _spooled(tmp_path) < 5, 90, "they were sent")
        (tmp_path / "stop").touch()
        out, err = training.communicate(timeout=400)
    assert training.returncode == 0, err
    said = json.loads(out)
    handed = said["ids"]
    print(f"\nreports {len(handed)}, {before} of them before the stop; it said {err.strip()!r}")
    assert logged(own) == Counter(handed)
    assert set(Counter(handed).values()) == {1}
    assert said["left"] == 0
    assert statistics.mean(said["losses"][-20:]) < said["losses"][0] * 0.7  # it is a training
    _slowed(said)


def _spooled(folder: Path) -> int:
    """Reports that wait on disk."""
    count = 0
    for path in folder.glob("spool/*/[0-9]*.ndjson"):
        with contextlib.suppress(FileNotFoundError):
            count += path.read_bytes().count(b"\n")
    return count


def _slowed(said: dict[str, Any]) -> None:
    """Two measures: what our calls and threads cost by the clock, and blocks that report against those beside them."""
    ours = (said["calls_s"] + said["threads_s"]) / said["wall_s"] * 2  # half of the blocks report
    each = said["calls_s"] / (len(said["pairs"]) * STEPS)
    print(f"{said['steps']} steps of {said['wall_s'] / said['steps'] * 1e3:.1f} ms; calls {each * 1e6:.1f} us a step")
    print(f"threads {said['threads_s']:.3f} s of processor in {said['wall_s']:.1f} s; all {ours:.3%} of what reports")
    for name, at in (("passed", 0), ("processor", 1)):
        ratios = [reports[at] / silent[at] - 1 for reports, silent in said["pairs"]]
        low, middle, high = statistics.quantiles(ratios, n=4)
        error = 1.2533 * statistics.stdev(ratios) / math.sqrt(len(ratios))
        print(
            f"blocks, time {name}: {len(ratios)} pairs, median {middle:+.2%} (standard error {error:.2%}), "
            f"quartiles {low:+.1%} to {high:+.1%}"
        )
    assert ours < MOST
