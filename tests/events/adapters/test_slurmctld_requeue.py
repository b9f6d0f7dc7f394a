"""A requeued job while its former nodes are cleaned up, as the live rig once showed it to a pull at that moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from events.adapters import Draft, slurm_json


@pytest.fixture
def ended(data: Path) -> dict[str, Any]:
    """A job of the capture that has ended."""
    document = json.loads((data / "slurm" / "raw" / "rest" / "slurm_v0.0.38_jobs.json").read_text())
    found: dict[str, Any] = next(job for job in document["jobs"] if job["job_state"] == "COMPLETED")
    return found


def _said(job: dict[str, Any]) -> Any:
    body = json.dumps({"jobs": [job]}).encode()
    (draft,) = slurm_json.slurmctld_jobs("application/json", {"x-hallbook-cluster": "pod-a"}, body)
    assert isinstance(draft, Draft)
    return draft.data


def test_a_plan_made_at_the_requeue_is_no_run(ended: dict[str, Any]) -> None:
    # job 14 of the rig: put back into hold at 16:03:24, shown as COMPLETING from then for 120 s, its time limit
    requeued = 1796054604
    times = {"submit_time": requeued, "start_time": requeued, "end_time": requeued + 120}
    said = _said({**ended, **times, "job_state": "COMPLETING", "restart_cnt": 1})
    assert (said.state, said.submit, said.end, said.gpus) == ("PENDING", requeued, None, None)


def test_a_first_run_that_began_at_its_submission_is_one(ended: dict[str, Any]) -> None:
    began = 1796054604
    times = {"submit_time": began, "start_time": began, "end_time": began + 7}
    said = _said({**ended, **times, "job_state": "COMPLETING", "restart_cnt": 0})
    assert (said.state, said.start, said.end) == ("COMPLETING", began, began + 7)
