"""Why jobs waited: looks of the scheduler become stretches with one cause each, and they add up to the wait."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events import projector
from events.deliveries import accept_delivery, drain
from events.types.clusters import ClusterDeclared
from jobs.models import Job, Look, Wait
from jobs.waiting import CAUSES, cause_of
from tests.hand import ask, at, column, job, mapped, place, project, tell

pytestmark = pytest.mark.django_db
T: Final = at("2026-03-10 06:00")
WORDS: Final = {
    # Slurm's own list of reasons, and what it says of each.
    "Dependency": "dependency_or_hold", "JobHeldUser": "dependency_or_hold", "BeginTime": "dependency_or_hold",
    "Priority": "own_share", "Resources": "full", "Reservation": "reserved",
    "ReqNodeNotAvail, May be reserved for other job": "reserved",
    "ReqNodeNotAvail, UnavailableNodes:gpu[001-004]": "nodes_held",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": "nodes_held",
    "QOSMaxGRESPerUser": "own_limit", "AssocGrpGRESRunMinutes": "own_limit", "MaxCpuPerAccount": "own_limit",
    "JobArrayTaskLimit": "own_limit", "PartitionTimeLimit": "own_limit", "(Resources)": "full",
    "None": "unknown", "": "unknown", "SomethingNew": "unknown",
}  # fmt: skip


def begin() -> None:
    """The site and its cluster: posts of unknown clusters are refused."""
    tell(place(), ClusterDeclared(cluster="pod-a", scheduler="slurm"))


def look(job_id: int, when: int, reason: str, *, changes: str | None = "0", **fields: Any) -> None:
    """A job list of slurmrestd with one waiting job, looked at `when`."""
    record = {"job_id": job_id, "job_state": ["PENDING"], "state_reason": reason, "submit_time": T,
              "eligible_time": T, "last_sched_evaluation": when, "account": "a", "user_name": "u",
              "partition": "train", "tres_req_str": "cpu=32,mem=1M,node=4,billing=32,gres/gpu=32",
              "dependency": "", **fields}  # fmt: skip
    headers = {"x-hallbook-cluster": "pod-a"} | ({} if changes is None else {"x-hallbook-changes": changes})
    accept_delivery(source="slurmctld:pod-a", kind="slurmctld-jobs", content_type="application/json", headers=headers,
                    body=json.dumps({"jobs": [record]}).encode(), actor="test")  # fmt: skip
    while drain():
        pass
    projector.catch_up()


def waits(job_id: str) -> list[tuple[str, str, int, int | None]]:
    """(cause, reason, from, to) of a job's waits, seconds after T."""
    found = Wait.objects.filter(stream=f"job/pod-a/{job_id}").order_by("number", "seq")
    return [(w.cause, w.reason, round(w.start.timestamp()) - T, w.end and round(w.end.timestamp()) - T) for w in found]


@pytest.mark.parametrize(("reason", "cause"), WORDS.items())
def test_words_of_the_scheduler(reason: str, cause: str) -> None:
    assert cause_of(reason) == cause
    assert cause in CAUSES


def test_a_wait_is_cut_at_looks_and_adds_up() -> None:
    begin()
    look(7, T + 20, "Priority")
    look(7, T + 600, "Resources")
    look(7, T + 900, "Priority")
    look(7, T + 900, "Priority")  # the same again says nothing new
    look(7, T + 1500, "Resources")
    assert waits("7") == [
        ("own_share", "Priority", 0, 600), ("full", "Resources", 600, 900), ("own_share", "Priority", 900, 1500),
        ("full", "Resources", 1500, None),
    ]  # fmt: skip
    tell(job("7", T + 2000, T + 5600, submit=T, eligible=T, gpus=32))
    report = ask("waits", "2026-03-10", "2026-03-11", "cause")
    # Priority 0-600 and 900-1500, Resources 600-900 and 1500-2000.
    assert column(report, "cause", "wait_seconds") == {"own_share": 1200, "full": 800}
    assert column(report, "cause", "wait_from_submit_seconds") == {"own_share": 1200, "full": 800}
    assert column(report, "cause", "attempts_started") == {"own_share": 1, "full": 1}
    assert (report.total["wait_seconds"], report.total["attempts_started"]) == (2000, 1)


def test_what_it_asked_for_is_kept_and_never_counted_as_used() -> None:
    begin()
    look(7, T + 20, "Dependency", dependency="afterok:412", eligible_time=0)
    asked = Job.objects.get()
    assert (asked.asked_nodes, asked.asked_cpus, asked.asked_gpus, asked.dependency) == (4, 32, 32, "afterok:412")
    tell(job("7", T + 60, T + 120, submit=T, eligible=T + 50, nodes=1, gpus=8))
    ran = Job.objects.get()
    assert (ran.asked_nodes, ran.asked_gpus) == (4, 32)
    assert ask("usage", "2026-03-10", "2026-03-11").total["gpu_seconds"] == 8 * 60


def test_before_it_is_eligible_it_waits_for_others() -> None:
    begin()
    look(7, T + 1000, "Resources", eligible_time=T + 900)
    tell(job("7", T + 1200, T + 1300, submit=T, eligible=T + 900))
    assert waits("7") == [
        ("dependency_or_hold", "", 0, 900),
        ("unknown", "", 900, 1000),
        ("full", "Resources", 1000, 1200),
    ]
    report = ask("waits", "2026-03-10", "2026-03-11", "cause")
    assert column(report, "cause", "wait_seconds") == {"dependency_or_hold": 0, "unknown": 100, "full": 200}
    assert column(report, "cause", "wait_from_submit_seconds") == {
        "dependency_or_hold": 900,
        "unknown": 100,
        "full": 200,
    }


def test_nobody_looked() -> None:
    # 1: 40 s not eligible, 60 s nobody knows why. 2: eligible before its submission (a requeue). 3: did not wait.
    # 4: the source does not tell since when it could have run.
    tell(
        place(),
        job("1", T + 100, T + 200, submit=T, eligible=T + 40),
        job("2", T + 100, T + 200, submit=T + 30, eligible=T),
        job("3", T, T + 9),
        job("4", T + 50, T + 99, submit=T, eligible=None),
    )
    report = ask("waits", "2026-03-10", "2026-03-11", "cause")
    assert column(report, "cause", "wait_seconds") == {"unknown": 60 + 100, "dependency_or_hold": 0}
    assert column(report, "cause", "wait_from_submit_seconds") == {"unknown": 60 + 70 + 50, "dependency_or_hold": 40}
    assert column(report, "cause", "wait_unknown") == {"unknown": 1, "dependency_or_hold": 0}
    assert (report.total["wait_seconds"], report.total["wait_from_submit_seconds"]) == (160, 220)


def test_tasks_of_an_array_waited_as_their_array() -> None:
    begin()
    look(33, T + 10, "Resources", array_job_id=33, array_task_string="0-3%2")
    look(33, T + 400, "JobArrayTaskLimit", array_job_id=33, array_task_string="2-3%2")
    for number, (raw, start) in enumerate((("34", T + 300), ("35", T + 300), ("36", T + 700), ("33", T + 900))):
        tell(job(raw, start, start + 100, submit=T, eligible=T, array_job_id="33", array_task=str(number)))
    assert waits("34") == [("full", "Resources", 0, 300)]
    assert waits("36") == [("full", "Resources", 0, 400), ("own_limit", "JobArrayTaskLimit", 400, 700)]
    assert waits("33") == [("full", "Resources", 0, 400), ("own_limit", "JobArrayTaskLimit", 400, 900)]
    look(33, T + 100, "Priority", array_job_id=33, array_task_string="0-3%2")  # heard late: its tasks are cut anew
    assert waits("35") == [("full", "Resources", 0, 100), ("own_share", "Priority", 100, 300)]


def test_a_requeued_job_waits_twice() -> None:
    begin()
    look(7, T + 30, "Resources")
    tell(job("7", T + 100, T + 500, submit=T, eligible=T, state="PREEMPTED", record=1))
    look(7, T + 520, "BeginTime", submit_time=T + 500, eligible_time=T + 621, restart_cnt=1)
    look(7, T + 650, "Priority", submit_time=T + 500, eligible_time=T + 621, restart_cnt=1)
    assert waits("7")[-1] == ("own_share", "Priority", 650, None)
    tell(job("7", T + 700, T + 800, submit=T + 500, eligible=T + 621, record=2))
    # The second wait begins with the requeue; nobody had looked for its first 20 s, in which it was not eligible.
    assert waits("7") == [
        ("full", "Resources", 0, 100),
        ("dependency_or_hold", "", 500, 520),
        ("dependency_or_hold", "BeginTime", 520, 621),
        ("dependency_or_hold", "BeginTime", 621, 650),
        ("own_share", "Priority", 650, 700),
    ]


def test_a_whole_list_sent_again_says_nothing_new() -> None:
    begin()
    for when in (T + 10, T + 40, T + 70):
        look(7, when, "Resources", changes=None)
    assert Look.objects.count() == 1


def test_the_time_of_the_look_counts_where_it_is_told() -> None:
    begin()
    look(7, T + 10, "Resources")
    # A hold is no evaluation: the scheduler's own time stands still.
    look(7, T + 10, "JobHeldUser", changes=str(T + 300))
    look(7, T + 10, "Resources", changes=str(T + 360))
    assert waits("7") == [
        ("full", "Resources", 0, 300), ("dependency_or_hold", "JobHeldUser", 300, 360), ("full", "Resources", 360, None)
    ]  # fmt: skip


LOOKS = st.lists(st.tuples(st.integers(0, 1200), st.sampled_from(["Priority", "Resources", "Dependency", "QOSMaxX"])),
                 max_size=8, unique_by=lambda pair: pair[0])  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    looks=LOOKS,
    submit=st.integers(0, 600),
    eligible=st.integers(0, 900),
    start=st.integers(600, 1200),
    order=st.randoms(),
)
def test_stretches_are_the_wait_in_any_order(
    looks: list[tuple[int, str]], submit: int, eligible: int, start: int, order: Any
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT one")
        try:
            order.shuffle(looks)
            half = len(looks) // 2
            begin()
            tell(project("p"), mapped("a", "p"))
            for when, reason in looks[:half]:
                look(7, T + when, reason, submit_time=T + submit)
            tell(job("7", T + start, T + 2000, submit=T + submit, eligible=T + eligible))
            for when, reason in looks[half:]:
                look(7, T + when, reason, submit_time=T + submit)
            _check(looks, submit, eligible, start)
        finally:
            cursor.execute("ROLLBACK TO one")


def _check(looks: list[tuple[int, str]], submit: int, eligible: int, start: int) -> None:
    report = ask("waits", "2026-03-10", "2026-03-11", "cause")
    assert sum(row["wait_seconds"] for row in report.rows) == max(0, start - eligible) == report.total["wait_seconds"]
    assert sum(row["wait_from_submit_seconds"] for row in report.rows) == max(0, start - submit)
    found = waits("7")
    assert all(one[3] == two[2] for one, two in pairwise(found))
    # Second by second: the last look said why, or the first if it came soon.
    # A look before the submission was made at it; of two at one moment the one with the later word counts.
    low = min(submit, eligible)
    told = sorted((max(when, submit), reason) for when, reason in looks)
    own = list({when: cause_of(reason) for when, reason in told if when < start}.items())
    for cause, _, begin, end in found:
        for second in {begin, (end or start) - 1}:
            before = [said for when, said in own if when <= second]
            soon = own[0][1] if own and own[0][0] <= low + 300 else "unknown"
            expected = before[-1] if before else "dependency_or_hold" if second < eligible else soon
            assert cause == expected


def test_later_words_change_only_what_they_speak_of() -> None:
    begin()
    look(7, T + 20, "Priority")
    tell(job("8", T, T + 10))
    assert waits("7") == [("own_share", "Priority", 0, None)]
    assert waits("8") == []
