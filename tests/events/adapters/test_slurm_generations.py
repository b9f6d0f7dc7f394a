"""Documents of the generations that were not captured: made after Slurm's published field lists (23.02 to 25.11).

The whole capture is also written anew as a younger generation would and must say the same, and more where it can.
"""

from __future__ import annotations

from typing import Any

import pytest

from events.adapters import Draft
from events.adapters.slurm_json import sacct_json, slurmctld_jobs, slurmdb_jobs
from events.adapters.slurm_values import accounting_state
from events.types.jobs import JobReported
from tests.events.adapters.slurm_documents import (
    CONSTRUCTED,
    SACCT,
    SLURMCTLD,
    Items,
    body,
    document,
    drafts_of,
    dump,
    of_job,
    of_step,
    rows,
    younger_job,
    younger_record,
)

T = 1_800_000_000


@pytest.fixture(scope="module")
def records() -> Items:
    """slurmdb, v0.0.44."""
    return slurmdb_jobs("", {}, body(CONSTRUCTED / "slurmdb_v0.0.44_constructed.json"))


@pytest.fixture(scope="module")
def live() -> dict[str, JobReported]:
    """slurmctld, v0.0.44."""
    made = slurmctld_jobs("", {}, body(CONSTRUCTED / "slurmctld_v0.0.44_constructed.json"))
    return {of_job(item).job_id: of_job(item) for item in made}


def test_failed_with_its_code_and_steps(records: Items) -> None:
    job = of_job(records[0])
    assert (job.cluster, job.job_id, job.state, job.exit_code, job.exit_signal) == ("pod-b", "101", "FAILED", 2, 0)
    assert (job.submit, job.start, job.end, job.suspended_seconds, job.limit_seconds) == (T, T + 100, T + 700, 60, 7200)
    assert (job.nodes, job.cpus, job.gpus, job.gpu_types, job.energy_j) == (2, 128, 16, ("h100=16",), 381000)
    assert (job.node_list, job.run, job.comment, job.restarts) == ("gpu[001-002]", "atlas-70b", "run=atlas-70b", 0)
    batch, extern, ranks = (of_step(item) for item in records[1:4])
    assert [step.step for step in (batch, extern, ranks)] == ["batch", "extern", "0"]
    assert [(step.exit_code, step.exit_signal) for step in (batch, extern, ranks)] == [(2, 0), (0, 0), (0, 15)]
    assert (ranks.start, ranks.end, ranks.gpus, ranks.nodes, ranks.energy_j) == (T + 105, T + 699, 16, 2, 381000)
    assert isinstance(records[3], Draft)
    assert (records[3].native_key, records[3].source) == (f"pod-b/101/submit:{T}/0", "slurmdbd:pod-b")


def test_requeued_waiting_and_running_records(records: Items) -> None:
    requeued, waiting, running = (of_job(item) for item in records[4:7])
    # Flags win over the base state: this record was closed by a requeue; no limit; energy -2 is none.
    assert (requeued.state, requeued.restarts, requeued.limit_seconds) == ("REQUEUED", 1, None)
    assert (requeued.start, requeued.end, requeued.gpus, requeued.energy_j) == (T + 10, T + 400, 8, None)
    assert (waiting.array_job_id, waiting.array_task, waiting.reason) == ("103", "13-30%2", "JobArrayTaskLimit")
    assert (waiting.start, waiting.end, waiting.nodes, waiting.gpus) == (None, None, None, None)
    # The job itself names nobody: its association does. Energy 2^64-2 is none.
    assert (running.account, running.user, running.het_job_id, running.het_offset) == ("speech", "u02", "104", 0)
    assert (running.end, running.energy_j, running.gpu_types) == (None, None, ("h200=1",))
    step = of_step(records[7])
    assert (step.step, step.state, step.end, step.exit_code) == ("batch", "RUNNING", None, None)


def test_running_on_two_nodes_with_two_types(live: dict[str, JobReported]) -> None:
    job = live["201"]
    assert (job.state, job.start, job.end, job.gpus) == ("RUNNING", T + 20, None, 9)
    assert (job.nodes, job.gpu_types, job.run) == (2, ("h100=4", "h200=5"), "atlas 70b")
    assert job.gpu_indices == ("ia1=0-5", "ia2=0,3,6")


def test_waiting_suspended_and_ended(live: dict[str, JobReported]) -> None:
    waiting = live["202"]
    assert (waiting.reason, waiting.limit_seconds, waiting.restarts) == ("Dependency", None, 2)
    assert (waiting.array_task, waiting.eligible, waiting.end) == ("0-15%4", T, None)
    assert waiting.start == 1_800_007_200  # T is a full hour; T + 7000 is before T + 7200
    assert (live["203"].state, live["203"].end) == ("COMPLETING", T + 31)
    # Suspended for the first time at T + 41, after 40 s of running.
    assert (live["204"].state, live["204"].suspended_seconds, live["204"].end) == ("SUSPENDED", 0, None)
    assert (live["205"].state, live["205"].exit_code, live["205"].reason) == ("FAILED", 3, "NonZeroExitCode")
    assert (live["206"].state, live["206"].exit_code, live["206"].exit_signal) == ("OUT_OF_MEMORY", 0, 9)


def test_complex_form_of_23_02() -> None:
    killed, held = (
        of_job(item)
        for item in slurmctld_jobs("", {}, body(CONSTRUCTED / "slurmctld_v0.0.39_complex_constructed.json"))
    )
    assert (killed.exit_code, killed.exit_signal, killed.limit_seconds) == (0, 9, None)
    assert (killed.gpus, killed.gpu_types, killed.gpu_indices) == (4, (), ("gpu003=0-3",))
    assert (held.eligible, held.limit_seconds, held.het_job_id, held.qos) == (None, None, None, None)
    assert (held.array_job_id, held.array_task, held.partition) == ("302", "5", "train,debug")


def test_the_captured_records_in_younger_form_say_the_same() -> None:
    """And the exit code that 22.05 lost, with the wait status of the database put in its place."""
    table = rows()
    olds = document(SACCT)["jobs"]
    status = {(old["job_id"], old["time"]["submission"]): int(table[str(old["job_id"]), old["time"]["submission"]]
              ["exit_code"]) for old in olds}  # fmt: skip
    young = [younger_record(old, status[old["job_id"], old["time"]["submission"]]) for old in olds]
    made = sacct_json("", {}, dump(young))
    reference = drafts_of(SACCT)
    assert len(made) == len(reference)
    failed = 0
    for found, expected in zip(made, reference, strict=True):
        assert isinstance(found, Draft)
        assert (found.native_key, found.occurred_us, found.source) == (
            expected.native_key, expected.occurred_us, expected.source,
        )  # fmt: skip
        if isinstance(found.data, JobReported) and found.data.state == "FAILED":
            failed += 1
            assert found.data.exit_code or found.data.exit_signal
        assert fields(found.data) == fields(expected.data)
    assert failed == 13


def fields(data: Any) -> dict[str, Any]:
    """What both generations know."""
    left_out = {"restarts"} | ({"exit_code", "exit_signal"} if data.state in ("FAILED", "NODE_FAIL") else set())
    return {name: getattr(data, name) for name in data.__struct_fields__ if name not in left_out}


def test_the_captured_jobs_in_younger_form_say_the_same() -> None:
    made = slurmctld_jobs("", {}, dump(younger_job(old) for old in document(SLURMCTLD)["jobs"]))
    assert made == drafts_of(SLURMCTLD)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("PENDING", "REQUEUED"), "REQUEUED"),
        (("PENDING", "RESIZING"), "RESIZING"),
        (("CANCELLED",), "CANCELLED"),
        (("CANCELLED by 1001",), "CANCELLED"),
        (("RUNNING", "POWER_UP_NODE"), "RUNNING"),
        (("CANCELLED", "REVOKED"), "REVOKED"),
    ],
)
def test_accounting_states(words: tuple[str, ...], state: str) -> None:
    assert accounting_state(words) == state
