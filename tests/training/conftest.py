"""The file that users copy, loaded as they do, with a clock that the test sets."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.door import Door

FILE = Path(__file__).parents[2] / "deploy" / "training" / "hallbook_run.py"
NOON_MS = 1_796_040_000_000
"""2026-11-30 12:00:00 UTC: 20,787 days of 86,400 s and half a day."""


class Clock:
    """What the module takes for the time of day; threads wait in real time."""

    def __init__(self) -> None:
        self.ms = NOON_MS

    def pass_by(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, loaded anew, in an environment that says nothing of a job."""
    for name in list(os.environ):
        if name.startswith(("HALLBOOK_RUN", "HALLBOOK_URL", "HALLBOOK_TOKEN", "SLURM_", "HALLBOOK_SPOOL")):
            monkeypatch.delenv(name)
    for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    hook = sys.excepthook
    spec = importlib.util.spec_from_file_location("hallbook_run", FILE)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.OPEN_SECONDS = 0.05
    yield made
    for run in list(made._runs):
        run._leave("exited", "")
    sys.excepthook = hook


@pytest.fixture
def clock(tool: Any, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replaces the module's time of day."""
    made = Clock()
    fake = types.SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if not name.startswith("_")})
    fake.time_ns = lambda: made.ms * 1_000_000
    fake.time = lambda: made.ms / 1000
    monkeypatch.setattr(tool, "time", fake)
    return made


@pytest.fixture
def door() -> Iterator[Door]:
    """A server that is up."""
    made = Door()
    made.up()
    yield made
    made.down()


@pytest.fixture
def begin(tool: Any, door: Door, tmp_path: Path) -> Callable[..., Any]:
    """`start` for job 412 of pod-a, with a spool of the test."""

    def start(**options: Any) -> Any:
        given = {"url": door.url, "token": "hb_secret", "cluster": "pod-a", "job": "412", "spool": tmp_path / "spool",
                 "signals": False, "exit_seconds": 5}  # fmt: skip
        return tool.start(**{**given, **options})

    return start


@pytest.fixture(scope="session")
def torch_python() -> Callable[..., str]:
    """Gives a Python that has the packages named, or skips: torch is no dependency of Hallbook's tests by default."""

    def find(*packages: str) -> str:
        wanted = f"import {', '.join(packages)}"
        for candidate in (os.environ.get("HALLBOOK_TRAINING_PYTHON"), sys.executable):
            if candidate and not subprocess.run([candidate, "-c", wanted], capture_output=True, check=False).returncode:
                return candidate
        pytest.skip(f"no {' and '.join(packages)} here: name a Python that has it in HALLBOOK_TRAINING_PYTHON")

    return find
