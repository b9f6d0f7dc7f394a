"""The captured JSON documents of Slurm 22.05: against sacct's text, the accounting's tables and the hooks."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from events.adapters import Draft
from events.adapters.slurmctld import live_state
from events.derive.attempts import fold
from events.types.jobs import JobReported, StepReported
from tests.events.adapters.sacct_files import SACCT as TEXT
from tests.events.adapters.sacct_files import SLURM, drafts, read_file
from tests.events.adapters.slurm_documents import (
    OLDER,
    SACCT,
    SLURMCTLD,
    SLURMDB,
    SQUEUE,
    drafts_of,
    jobs_of,
    live,
    of_job,
    rows,
    sightings,
)

Place = tuple[str, str, int | None, str]

# Odd in the capture (numbers of its README), so that text and JSON of the same record do differ:
NO_ENERGY = 2**64 - 2
"""7: no reading, in the database."""
BROKEN_ROWS = {("7", 1796036274), ("7", 1796036369), ("23", 1796036277)}
"""14: a delimiter in the name or comment breaks these rows of text."""
EXIT_LOST = ("FAILED", "NODE_FAIL")
"""8: JSON of 22.05 gives SUCCESS and 0 for what exited with a code, so that a 0 is not known to be one."""
LATER = {SACCT: {"2"}, SLURMDB: {"2", "106", "108"}}
"""The text was taken first: these jobs ended or began in the seconds before the JSON was."""


def place(draft: Draft) -> Place:
    data = draft.data
    assert isinstance(data, JobReported | StepReported)
    return draft.type, data.job_id, data.submit, getattr(data, "step", "")


def told(made: list[Draft]) -> dict[Place, Draft]:
    found = {place(draft): draft for draft in made}
    assert len(found) == len(made)
    return found


@pytest.fixture(scope="module")
def text() -> dict[Place, Draft]:
    return told(drafts(read_file(TEXT / "all_duplicates.psv.gz")))


@pytest.mark.parametrize(("path", "count"), [(SACCT, 264), (SLURMDB, 266)])
def test_json_says_what_the_text_says(path: Path, count: int, text: dict[Place, Draft]) -> None:
    made = told(drafts_of(path))
    assert len(made) == count
    assert not text.keys() - made.keys()
    only_json = {(job, submit) for _, job, submit, _ in made.keys() - text.keys()}
    assert {key for key in only_json if key[0] not in LATER[path]} == BROKEN_ROWS
    for key, draft in text.items():
        if key[1] not in LATER[path]:
            assert made[key].occurred_us == draft.occurred_us
            assert differences(draft.data, made[key].data) == {}, key


def differences(text: Any, found: Any) -> dict[str, tuple[Any, Any]]:
    """Fields that differ, but for the three that are explained."""
    pairs = {name: (getattr(text, name), getattr(found, name)) for name in text.__struct_fields__}
    differ = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    assert differ.pop("record", (1, None))[1] is None  # JSON has no DBIndex
    if text.state in EXIT_LOST and found.exit_code is None:
        assert text.exit_code > 0 or text.state == "NODE_FAIL"
        differ.pop("exit_code"), differ.pop("exit_signal", None)
    # 7: no reading is an empty field in text, or 0 for what has no energy at all; null in JSON.
    if differ.get("energy_j") == (0, None):
        del differ["energy_j"]
    return differ


@pytest.mark.parametrize("path", [SACCT, SLURMDB])
def test_the_fold_of_json_is_the_fold_of_text(path: Path) -> None:
    by_text, by_json = (
        sightings(made) for made in (drafts(read_file(TEXT / "all_duplicates.psv.gz")), drafts_of(path))
    )
    same = by_text.keys() - LATER[path] - {"7"}
    assert len(same) >= 98
    for job_id in same:
        assert attempts(by_json[job_id]) == attempts(by_text[job_id]), job_id
        # Told by both, they are one record: the one with the number is confirmed by the other.
        both = [*by_text[job_id], *(one._replace(position=900 + one.position) for one in by_json[job_id])]
        assert attempts(both) == attempts(by_text[job_id]), job_id
        assert len(fold(both)) == 1


def attempts(stream: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (job.state, one.number, one.start, one.end, one.state, one.suspended_seconds, one.segments)
        for job in fold(stream)
        for one in job.attempts
    ]


def test_sources_and_keys() -> None:
    sources = {path: {draft.source for draft in drafts_of(path)} for path in (SACCT, SLURMDB, SLURMCTLD, SQUEUE)}
    assert sources == {
        SACCT: {"sacct:pod-a"},
        SLURMDB: {"slurmdbd:pod-a"},
        SLURMCTLD: {"slurmctld:pod-a"},
        SQUEUE: {"slurmctld:pod-a"},
    }
    for path in sources:
        keys = [draft.native_key for draft in drafts_of(path)]
        assert len(set(keys)) == len(keys)
        assert all(draft.by_content for draft in drafts_of(path))
    assert "pod-a/2/submit:1796036319" in {draft.native_key for draft in drafts_of(SLURMDB)}


def test_slurmctld_against_the_accounting_tables() -> None:
    """Ended jobs of the scheduler, field by field against the row of the same record in the database."""
    table = rows()
    ended = [job for job in jobs_of(SLURMCTLD).values() if job.end is not None]
    assert Counter(job.state for job in ended) == {
        "COMPLETED": 74, "FAILED": 13, "CANCELLED": 4, "TIMEOUT": 2, "NODE_FAIL": 1,
    }  # fmt: skip
    for job in ended:
        assert job.submit is not None
        row = table[job.job_id, job.submit]
        sizes = dict(part.split("=") for part in row["tres_alloc"].split(",") if part)
        assert (job.start or 0, job.end) == (int(row["time_start"]), int(row["time_end"]))
        assert job.suspended_seconds == (int(row["time_suspended"]) if job.start else None)
        assert (job.cpus or 0, job.nodes or 0) == (int(sizes.get("1", 0)), int(sizes.get("4", 0)))
        assert job.gpus == (None if job.start is None else int(sizes.get("1001", 0)))
        assert job.node_list == (None if row["nodelist"] == "None assigned" else row["nodelist"])
        assert (job.eligible, job.limit_seconds) == (eligible(row), int(row["timelimit"]) * 60)
        assert (job.account, job.partition) == (row["account"], row["partition"])
        energy = int(sizes.get("3", NO_ENERGY))
        assert job.energy_j == (None if energy in (NO_ENERGY, 0) else energy)


def eligible(row: dict[str, str]) -> int:
    """A resize makes a new record, eligible at the resize; the scheduler keeps the first time (job 15)."""
    return 1796036275 if row["id_job"] == "15" else int(row["time_eligible"])


def test_exit_codes_are_wait_statuses() -> None:
    """Oddity 8; the codes by the job's own label: exit 1, 127, kill -9, segfault, exit 42 of a rank."""
    found = {job.job_id: (job.exit_code, job.exit_signal) for job in jobs_of(SLURMCTLD).values()}
    assert [found[job] for job in ("16", "17", "18", "19", "21", "10")] == [
        (1, 0), (127, 0), (0, 9), (0, 11), (42, 0), (143, 0),
    ]  # fmt: skip
    # Job 7 waits again after its node failed: the status of its former run is not its own.
    assert found["7"] == (None, None)
    assert found["3"] == (None, None)
    for row in rows().values():
        if row["state"] == "5":
            assert found[row["id_job"]] == (int(row["exit_code"]) >> 8, int(row["exit_code"]) & 0x7F)


def test_running_jobs_and_their_gpus() -> None:
    """Oddity 23: the prolog of each node was told the same indices."""
    by_hook = defaultdict(dict)
    for line in gzip.decompress((SLURM / "http" / "hook_posts.jsonl.gz").read_bytes()).splitlines():
        said = json.loads(json.loads(line)["body"])
        if said["hook"] == "prolog" and "SLURM_JOB_GPUS" in said["env"]:
            by_hook[said["env"]["SLURM_JOB_ID"]][said["host"]] = said["env"]["SLURM_JOB_GPUS"]
    running = {job.job_id: job for job in jobs_of(SLURMCTLD).values() if job.state == "RUNNING"}
    assert {job_id: job.gpu_indices for job_id, job in running.items()} == {
        "3": ("gpu003=0-3",), "99": ("gpu007=4-5",), "107": ("gpu004=1",), "108": ("gpu004=0",),
    }  # fmt: skip
    assert by_hook["3"] == {"gpu003": "0,1,2,3"}
    assert by_hook["99"]["gpu007"] == "4,5"  # later it was requeued to another node
    assert {job.end for job in running.values()} == {None}
    assert (running["3"].gpus, running["3"].gpu_types, running["3"].reason) == (4, ("h100=4",), None)


def test_waiting_jobs() -> None:
    waiting = {job.job_id: job for job in jobs_of(SLURMCTLD).values() if job.state == "PENDING"}
    assert {job_id: job.reason for job_id, job in waiting.items()} == {
        "7": "Priority", "14": "JobHeldUser", "25": "JobHeldUser", "26": "BeginTime",
        "27": "DependencyNeverSatisfied", "33": "JobArrayTaskLimit", "74": "Resources",
        "96": "ReqNodeNotAvail, UnavailableNodes:gpu[003,005-006]", "97": "Priority", "98": "Priority",
    }  # fmt: skip
    # 12: the tasks of an array that wait are one job, whose number the array keeps.
    assert (waiting["33"].array_job_id, waiting["33"].array_task) == ("33", "14-30%2")
    # 20: after a requeue it was submitted anew, may run 21 s later and has one restart behind it.
    assert (waiting["7"].submit, waiting["7"].eligible, waiting["7"].restarts) == (1796036369, 1796036390, 1)
    # What it asks for is not what it has; the expected start 1796037604 (11:20:04), 20 minutes ahead when it was
    # looked at, is kept as "by 11:30".
    assert (waiting["74"].nodes, waiting["74"].cpus, waiting["74"].gpus) == (None, None, None)
    assert waiting["74"].start == 1796038200
    assert (waiting["74"].asked_nodes, waiting["74"].asked_cpus, waiting["74"].asked_gpus) == (4, 32, 32)
    assert waiting["96"].start is None
    assert {waiting[job].submit for job in ("25", "26", "27")} == {1796036277}  # 22: sacct does not show these


def test_never_started() -> None:
    """Oddity 5: cancelled while it waited; the scheduler gives the end as start, and what was asked for."""
    job = jobs_of(SLURMCTLD)["28", 1796036277]
    assert (job.state, job.start, job.end, job.nodes, job.node_list) == ("CANCELLED", None, 1796036302, None, None)


def test_suspended_seconds() -> None:
    """Oddity 10: suspended for 27 s of 52, as the database says."""
    assert jobs_of(SLURMCTLD)["11", 1796036275].suspended_seconds == 27
    # Suspended at 1100 after 90 s of running, resumed at 1130; suspended again at 1150 after 110 s.
    assert of_job(live(suspend_time=1130, pre_sus_time=90)).suspended_seconds == 30
    again = of_job(live(job_state="SUSPENDED", suspend_time=1150, pre_sus_time=110))
    assert (again.state, again.suspended_seconds, again.end) == ("SUSPENDED", 30, None)


def test_resize_keeps_both_sizes() -> None:
    """Oddity 2: two nodes until 1796036302, one until 1796036318, from the scheduler's two sightings alone."""
    after = next(draft for draft in drafts_of(SLURMCTLD) if draft.native_key == "pod-a/15/submit:1796036302")
    before = live(
        job_id=15, submit_time=1796036275, start_time=1796036277, nodes="gpu[001-002]",
        tres_alloc_str="cpu=32,node=2,billing=44,gres/gpu=4,gres/gpu:h100=4",
    )  # fmt: skip
    assert isinstance(before, Draft)
    (job,) = fold(sightings([before, after])["15"])
    (attempt,) = job.attempts
    assert [(part.start, part.end, part.gpus, part.nodes) for part in attempt.segments] == [
        (1796036277, 1796036302, 4, 2),
        (1796036302, 1796036318, 2, 1),
    ]
    # With the accounting's two records it is the same.
    both = [before, after, *(draft for draft in drafts_of(SACCT) if draft.type == "job.reported")]
    (job,) = fold(sightings(both)["15"])
    assert [(part.start, part.end, part.gpus) for part in job.attempts[0].segments] == [
        (1796036277, 1796036302, 4),
        (1796036302, 1796036318, 2),
    ]


def test_het_jobs() -> None:
    """Oddity 13: 35 and 36 are parts of het job 35; an ordinary job has offset 0 in REST and is no part."""
    for path in (SLURMCTLD, SACCT):
        found = {job.job_id: (job.het_job_id, job.het_offset) for job in jobs_of(path).values()}
        assert (found["35"], found["36"], found["16"]) == (("35", 0), ("35", 1), (None, None))


def test_names_and_comments_survive() -> None:
    """Oddity 14: slurmctld keeps quotes and Greek letters, the database does not."""
    job = jobs_of(SLURMCTLD)["23", 1796036277]
    assert (job.name, job.comment) == ('odd|name, "q" αβ', 'a|b;c=d,"e"\ttab')
    assert jobs_of(SACCT)["23", 1796036277].name == "odd|name, `q` ??"


def test_the_run_is_read_from_the_comment() -> None:
    assert of_job(live(comment="nightly run=atlas-70b x")).run == "atlas-70b"
    assert {job.run for job in jobs_of(SLURMCTLD).values()} == {None}


def test_older_generation_and_squeue_say_the_same() -> None:
    """v0.0.37 and squeue were taken seconds apart from v0.0.38; jobs 2, 33, 106 and 108 moved on meanwhile."""
    reference = jobs_of(SLURMCTLD)
    for path in (OLDER, SQUEUE):
        found = jobs_of(path)
        assert len(found) == {OLDER: 108, SQUEUE: 107}[path]
        for key, job in found.items():
            if key[0] not in ("2", "33", "106", "108"):
                assert job == reference[key]


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("RUNNING",), "RUNNING"),
        (("COMPLETED", "COMPLETING"), "COMPLETING"),
        (("COMPLETING",), "COMPLETING"),
        (("RUNNING", "CONFIGURING", "POWER_UP_NODE"), "CONFIGURING"),
        (("CONFIGURING",), "CONFIGURING"),
        (("RUNNING", "RESIZING"), "RUNNING"),
        (("RESIZING",), "RUNNING"),
        (("PENDING", "REQUEUED"), "PENDING"),
        (("REQUEUED",), "PENDING"),
        (("PENDING", "REQUEUED", "COMPLETING"), "COMPLETING"),
        (("PENDING", "REQUEUE_HOLD"), "REQUEUE_HOLD"),
        (("PENDING", "SPECIAL_EXIT"), "SPECIAL_EXIT"),
        (("SUSPENDED", "STOPPED"), "STOPPED"),
        (("FAILED", "LAUNCH_FAILED"), "FAILED"),
        (("CANCELLED", "REVOKED"), "REVOKED"),
        (("PREEMPTED", "SIGNALING"), "PREEMPTED"),
    ],
)
def test_live_states(words: tuple[str, ...], state: str) -> None:
    assert live_state(words) == state


def test_cleaning_up_before_a_requeue_is_the_former_run() -> None:
    """Submitted anew at 1100, while the nodes of the run from 1010 to 1095 are cleaned up: two records."""
    made = live(job_state=["PENDING", "COMPLETING"], submit_time=1100, end_time=1095, nodes="gpu001", cpus=8)
    job = of_job(made)
    assert (job.submit, job.start, job.end) == (None, 1010, 1095)
    first = live(nodes="gpu001", tres_alloc_str="cpu=8,node=1,gres/gpu=1")
    again = live(submit_time=1100, start_time=1200, end_time=1260, job_state="COMPLETED", nodes="gpu002", restart_cnt=1)
    assert isinstance(first, Draft)
    assert isinstance(made, Draft)
    assert isinstance(again, Draft)
    (folded,) = fold(sightings([first, made, again])["7"])
    assert [(one.start, one.end) for one in folded.attempts] == [(1010, 1095), (1200, 1260)]


def test_what_moves_by_itself_makes_no_event() -> None:
    """The scheduler's backfill moves an expected start by minutes and the priority at each cycle.

    20,000 and 20,600 s lie in the hour that ends at 21,600.
    """
    waiting = {"job_state": "PENDING", "start_time": 20_000, "priority": 1, "last_sched_evaluation": 1100}
    later = {**waiting, "start_time": 20_600, "priority": 2, "last_sched_evaluation": 1130, "accrue_time": 9}
    assert of_job(live(**waiting)) == of_job(live(**later))
    moved = of_job(live(**{**later, "start_time": 21_601}))
    assert (of_job(live(**later)).start, moved.start) == (21_600, 25_200)
    # 7300 is two hours ahead or less: it is kept by ten minutes.
    assert of_job(live(**{**later, "start_time": 7300})).start == 7800
    running = {"end_time": 4000, "state_reason": "Prolog", "priority": 7, "last_sched_evaluation": 1010}
    assert of_job(live(**running)) == of_job(live(end_time=4060, state_reason="None"))
    # When it was looked at puts two reasons in order.
    at = [live(**waiting, state_reason="Priority"), live(**later, state_reason="Resources")]
    assert [item.occurred_us for item in at if isinstance(item, Draft)] == [1_100_000_000, 1_130_000_000]
