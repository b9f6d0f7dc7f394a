"""The callbacks on the real frameworks: skipped where no Python at hand has them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.conftest import FILE
from tests.training.door import Door

PROGRAMS = Path(__file__).parent / "programs"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(door: Door, tmp_path: Path) -> Run:
    """Runs a program of a framework to its end, as a job."""

    def to_the_end(python: str, name: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(FILE.parent), "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HALLBOOK_URL": door.url, "HALLBOOK_TOKEN": "hb_secret",
            "HALLBOOK_SPOOL": str(tmp_path / "spool"), "HALLBOOK_CLUSTER": "pod-a", "HALLBOOK_JOB": "412", **more,
        }  # fmt: skip
        command = [python, str(PROGRAMS / name), str(tmp_path / "checkpoints"), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)

    return to_the_end


def steps(door: Door, kind: str) -> list[int]:
    return [event["data"]["step"] for event in door.of(kind)]


@pytest.mark.parametrize("mode", ["plain", "async"])
def test_lightning(run: Run, door: Door, torch_python: Callable[..., str], mode: str, tmp_path: Path) -> None:
    """12 steps of 8 rows and a save after each sixth, twice over: the second time from step 12."""
    done = run(torch_python("torch", "lightning"), "lightning_fit.py", mode)
    assert (done.returncode, done.stdout) == (0, "steps 24\nafter True\n"), done.stderr
    progress = door.of("run.progressed")
    assert [(event["data"]["step"], event["data"]["steps"], event["data"]["tokens"]) for event in progress] == [
        (6, 6, 48), (12, 6, 48), (18, 6, 48), (24, 6, 48)]  # fmt: skip
    assert all(event["data"]["period_ms"] >= 6 * 5 for event in progress)
    assert sorted(set(steps(door, "checkpoint.committed"))) == [6, 12, 18, 24]
    assert steps(door, "checkpoint.started") == steps(door, "checkpoint.committed")
    sizes = {path.stat().st_size for path in (tmp_path / "checkpoints").glob("*.ckpt")}
    assert {event["data"]["bytes"] for event in door.of("checkpoint.committed")} & sizes
    assert steps(door, "checkpoint.restored") == [12]
    assert [event["data"]["ranks"] for event in door.of("gang.ready")] == [1, 1]
    assert [event["data"]["kind"] for event in door.of("run.interrupted")] == ["finished", "finished"]


def test_lightning_fails(run: Run, door: Door, torch_python: Callable[..., str]) -> None:
    done = run(torch_python("torch", "lightning"), "lightning_fit.py", "fails")
    assert done.returncode == 1
    assert steps(door, "run.progressed") == [6, 7]
    (only,) = door.of("run.interrupted")
    assert (only["data"]["kind"], only["data"]["why"]) == (
        "error", "RuntimeError: CUDA error: an illegal memory access was encountered")  # fmt: skip


def test_lightning_still_saves_and_requeues_on_a_warning(
    run: Run, door: Door, torch_python: Callable[..., str], tmp_path: Path
) -> None:
    """Lightning sets no handler where it finds one: ours comes after it, and before it in turn."""
    python = torch_python("torch", "lightning")
    (tmp_path / "bin").mkdir()
    asked = tmp_path / "asked"
    (tmp_path / "bin" / "scontrol").write_text(f'#!/bin/sh\necho "$@" >>{asked}\n')
    (tmp_path / "bin" / "scontrol").chmod(0o755)
    slurm = {
        "SLURM_JOB_ID": "412", "SLURM_JOB_NAME": "atlas", "SLURM_NTASKS": "1", "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "localhost", "SLURM_NTASKS_PER_NODE": "1",
    }  # fmt: skip
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run(python, "lightning_fit.py", "requeue", PATH=path, **slurm)
    assert (done.returncode, asked.read_text() if asked.exists() else "") == (0, "requeue 412\n"), done.stderr
    first, last = door.of("run.interrupted")
    assert (first["data"]["kind"], first["data"]["why"], last["data"]["kind"]) == ("signal", "SIGUSR1", "finished")
    assert 7 in steps(door, "checkpoint.committed")


def test_trainer_of_transformers(run: Run, door: Door, torch_python: Callable[..., str]) -> None:
    """48 rows of 16 tokens, 4 at a time, each 1 ms late: 12 steps an epoch, twice, a save after each sixth."""
    done = run(torch_python("torch", "transformers", "accelerate"), "hf_trainer.py")
    assert (done.returncode, [line for line in done.stdout.splitlines() if line.startswith("steps")]) == (
        0, ["steps 12", "steps 24"]), done.stderr  # fmt: skip
    progress = [event["data"] for event in door.of("run.progressed")]
    assert [(data["step"], data["steps"], data["tokens"]) for data in progress] == [
        (6, 6, 384), (12, 6, 384), (18, 6, 384), (24, 6, 384)]  # fmt: skip
    assert all(data["period_ms"] > data["data_ms"] >= 6 * 4 for data in progress)
    assert all(3_000_000 < data["loss_micro"] < 5_000_000 for data in progress)  # ln 64 = 4.16, hardly trained
    assert steps(door, "checkpoint.committed") == [6, 12, 18, 24]
    assert steps(door, "checkpoint.restored") == [12]
    assert [event["data"]["kind"] for event in door.of("run.interrupted")] == ["finished", "finished"]
