"""What waits now and for whom: hand-made books, every figure worked out here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.access import Scope
from events.queries import ids_of_person
from events.reports import BadParameter
from events.types.nodes import NodeReported
from jobs.models import Job
from jobs.queries_waiting import (
    Question,
    last_look,
    read_question,
    waiting_job,
    waiting_jobs,
    waits_of_job,
    waits_of_run,
)
from jobs.waiting_now import (
    Depends,
    Full,
    HeldBack,
    HeldNode,
    Nodes,
    OwnLimit,
    OwnShare,
    Total,
    Unknown,
    Waited,
    Waiting,
    WaitingJob,
)
from jobs.waitsfor import Free, Holder
from tests.hand import ask, job, mapped, place, project, tell
from tests.jobs.test_waits import T, begin, look

pytestmark = pytest.mark.django_db
ALL = Scope.everything()
NLP = Scope.only(frozenset({"nlp"}), money=False)
NOW = datetime.fromtimestamp(T + 7200, UTC)
HOUR = 3600


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(T + seconds, UTC)


def runs(raw: str, account: str, gpus: int, limit: int | None, **more: Any) -> None:
    tell(job(raw, T, None, account=account, gpus=gpus, cpus=8 * gpus, limit_seconds=limit, qos="normal", **more))


def hall() -> None:
    """nlp and vision share the partition train: 40 and 24 GPUs run, 8 jobs wait in nlp and one in vision."""
    begin()
    tell(project("nlp"), project("vision"), mapped("a", "nlp"), mapped("v", "vision"))
    own: dict[str, Any] = {"qos": "normal"}
    look(10, T + 7000, "Resources", start_time=T + 4 * HOUR, **own)
    look(11, T + 6000, "Priority", start_time=T + 6 * HOUR, **own)
    look(12, T + 6000, "Priority", tres_req_str="cpu=8,node=1,gres/gpu=8", **own)
    look(13, T + 6000, "QOSMaxGRESPerUser", **own)
    look(
        14, T + 6000, "Dependency", dependency="afterok:1(unfulfilled),afterany:3(unfulfilled)", eligible_time=0, **own
    )
    look(15, T + 6000, "JobHeldAdmin", eligible_time=0, **own)
    look(16, T + 6000, "BeginTime", eligible_time=T + 3 * HOUR, **own)
    look(50, T + 6000, "JobArrayTaskLimit", array_job_id=50, array_task_string="1-3%1", **own)
    look(20, T + 6000, "Resources", account="v", user_name="w", start_time=T + 5 * HOUR, **own)
    u, w = ids_of_person("u")[0], ids_of_person("w")[0]
    runs("1", "a", 32, 3 * HOUR, user=u)
    runs("2", "a", 8, 4 * HOUR, user=u, array_job_id="50", array_task="0")
    runs("3", "v", 24, 5 * HOUR, user=w)


def rows(found: Waiting) -> dict[str, WaitingJob]:
    return {row.job_id: row for row in found.rows}


def test_each_job_with_its_cause_and_what_it_waits_for() -> None:
    hall()
    found = waiting_jobs(ALL, cut=NOW)
    told = rows(found)
    assert len(told) == 9
    ten = told["10"]
    assert (ten.project, ten.user, ten.nodes, ten.gpus, ten.cause, ten.reason) == (
        "nlp",
        "u",
        4,
        32,
        "full",
        "Resources",
    )
    assert (ten.since, ten.waited_seconds, ten.expected, ten.looked_at) == (at(0), 7200, at(4 * HOUR), at(7000))
    holders = (Holder("nlp", 40, 2, at(3 * HOUR)), Holder("vision", 24, 1, at(5 * HOUR)))
    assert isinstance(ten.waits_for, Full)
    assert (ten.waits_for.held, tuple(ten.waits_for.holders)) == (64, holders)
    assert ten.waits_for.enough_at == at(3 * HOUR)  # job 1 gives 32 back
    # Of train, 10 (4 h) and 20 (5 h) are expected before 11 (6 h): 32 GPUs each. Beside it wait 7 x 32 and 8.
    assert told["11"].waits_for == OwnShare(True, 2, 64, 8, 7 * 32 + 8, None)
    assert told["12"].waits_for == OwnShare(False, 0, 0, 8, 8 * 32, None)
    limit = told["13"].waits_for
    assert isinstance(limit, OwnLimit)
    assert (limit.of, limit.attempts, limit.gpus, [one.job_id for one in limit.running]) == (
        "user_qos",
        2,
        40,
        ["1", "2"],
    )
    depends = told["14"].waits_for
    assert isinstance(depends, Depends)
    keys = {row.job_id: row.id for row in Job.objects.filter(job_id__in=["1", "3"])}
    assert [(one.kind, one.job_id, one.told, one.job, one.state) for one in depends.on] == [
        ("afterok", "1", "unfulfilled", keys["1"], "RUNNING"), ("afterany", "3", "unfulfilled", keys["3"], "RUNNING"),
    ]  # fmt: skip
    assert told["15"].waits_for == HeldBack("operator", None)
    assert told["16"].waits_for == HeldBack("time", at(3 * HOUR))
    array = told["50"].waits_for
    assert isinstance(array, OwnLimit)
    assert (array.of, array.attempts, [one.job_id for one in array.running]) == ("array", 1, ["2"])
    (room,) = found.partitions
    assert list(room.ends) == [
        Free(at(3 * HOUR), "nlp", 32, 32), Free(at(4 * HOUR), "nlp", 8, 40), Free(at(5 * HOUR), "vision", 24, 64)
    ]  # fmt: skip
    assert found.totals == [
        Total("nlp", "dependency_or_hold", 3, 96, 3 * 7200), Total("nlp", "own_limit", 2, 64, 2 * 7200),
        Total("nlp", "own_share", 2, 40, 2 * 7200), Total("nlp", "full", 1, 32, 7200),
        Total("vision", "full", 1, 32, 7200),
    ]  # fmt: skip
    assert (found.others.jobs, found.others.gpus) == (0, 0)


def test_a_lead_sees_others_only_as_counts() -> None:
    hall()
    found = waiting_jobs(NLP, cut=NOW)
    told = rows(found)
    assert set(told) == {"10", "11", "12", "13", "14", "15", "16", "50"}
    assert (found.others.jobs, found.others.gpus) == (1, 32)
    assert {total.project for total in found.totals} == {"nlp"} == set(found.projects)
    (room,) = found.partitions
    assert list(room.holders) == [Holder("nlp", 40, 2, at(3 * HOUR)), Holder(None, 24, 1, at(5 * HOUR))]
    assert [one.project for one in room.ends] == ["nlp", "nlp", None]
    assert told["11"].waits_for == OwnShare(True, 2, 64, 8, 7 * 32 + 8, None)
    depends = told["14"].waits_for
    assert isinstance(depends, Depends)
    assert [(one.job_id, one.job is None, one.state) for one in depends.on] == [
        ("1", False, "RUNNING"),
        ("3", True, ""),
    ]
    assert waiting_jobs(Scope.only(frozenset(), money=False), cut=NOW).rows == []


def test_questions_narrow_and_order() -> None:
    hall()

    def asked(**given: str) -> list[str]:
        return [row.job_id for row in waiting_jobs(ALL, read_question(given), NOW).rows]

    assert asked(project="vision") == ["20"]
    assert asked(cause="own_share") == ["11", "12"]
    assert asked(cause="own_share", ordering="gpus") == ["12", "11"]
    assert asked(ordering="expected")[:3] == ["10", "20", "11"]
    assert asked(ordering="-expected")[:3] == ["11", "20", "10"]
    assert asked(ordering="-project")[0] == "20"
    assert asked(ordering="cause")[:3] == ["14", "15", "16"]
    assert asked(cluster="pod-b") == []
    assert asked(user="w") == ["20"]
    for wrong in ({"cause": "moon"}, {"ordering": "moon"}, {"project": "a\0b"}, {"user": "x" * 201}):
        with pytest.raises(BadParameter):
            read_question(wrong)
    assert read_question({"format": "csv"}) == Question()


def test_nodes_and_unknown_words() -> None:
    begin()
    look(1, T + 60, "ReqNodeNotAvail, UnavailableNodes:gpu[001-002]")
    look(2, T + 60, "Reservation")
    look(3, T + 60, "None")
    tell(job("4", None, None, submit=T, eligible=T))
    told = rows(waiting_jobs(ALL, cut=NOW))
    assert [told[name].waits_for for name in "1234"] == [
        Nodes([HeldNode("gpu001", ""), HeldNode("gpu002", "")]), Nodes([]), Unknown(looked=True), Unknown(looked=False)
    ]  # fmt: skip
    assert [told[name].cause for name in "1234"] == ["nodes_held", "reserved", "unknown", "unknown"]


def test_nodes_that_take_no_work_are_named_once_they_are_known() -> None:
    begin()
    look(1, T + 60, "ReqNodeNotAvail, UnavailableNodes:gpu[001-002]")
    look(2, T + 60, "PartitionDown")
    parts = {"partitions": ("debug", "train")}
    tell(
        NodeReported("pod-a", "gpu001", "UP", ("DRAIN",), works=False, **parts),
        NodeReported("pod-a", "gpu002", "UP", **parts),
        NodeReported("pod-a", "gpu003", "DOWN", works=False, **parts),
        NodeReported("pod-a", "gpu004", "DOWN", works=False, partitions=("other",)),
    )
    told = rows(waiting_jobs(ALL, cut=NOW))
    # The first names its nodes; of the second's partition three are known, and two of them take no work.
    assert told["1"].waits_for == Nodes([HeldNode("gpu001", "drained"), HeldNode("gpu002", "in_service")], 3)
    assert told["2"].waits_for == Nodes([HeldNode("gpu001", "drained"), HeldNode("gpu003", "down")], 3)


def test_a_requeued_job_waits_since_its_last_attempt_ended() -> None:
    begin()
    look(7, T + 30, "Resources", start_time=T + 2 * HOUR)
    tell(job("7", T + 100, T + 500, submit=T, eligible=T, state="PREEMPTED", record=1))
    look(7, T + 520, "BeginTime", submit_time=T + 500, eligible_time=T + 621, restart_cnt=1)
    (row,) = waiting_jobs(ALL, cut=NOW).rows
    assert (row.attempts, row.since, row.waited_seconds, row.reason) == (1, at(500), 6700, "BeginTime")
    assert row.expected is None, "what was expected of the first attempt says nothing of the second"
    look_ = last_look(ALL, Job.objects.get())
    assert look_ is not None
    assert (look_.reason, look_.expected) == ("BeginTime", None)


def test_stretches_until_now_and_not_beyond() -> None:
    begin()
    tell(project("nlp"), mapped("a", "nlp"))
    look(7, T + 10, "BeginTime", eligible_time=T + 3 * HOUR)
    key = Job.objects.get()
    told = waits_of_job(ALL, key.id, NOW, 100)
    assert [(one.cause, one.seconds, one.open, one.since_eligible) for one in told.stretches] == [
        ("dependency_or_hold", 10, False, False), ("dependency_or_hold", 7190, True, False)
    ]  # fmt: skip
    assert [(one.stretches, one.seconds, one.since_eligible, one.since_submit) for one in told.sums] == [
        (2, 7200, 0, 7200)
    ]
    half = datetime.fromtimestamp(T + 7200.75, UTC)
    told = waits_of_run(ALL, key.run, half, 100)
    assert sum(one.seconds for one in told.sums) == sum(one.seconds for one in told.stretches) == 7200
    assert not waits_of_job(Scope.only(frozenset({"vision"}), money=False), key.id, NOW, 100).stretches
    assert not waits_of_run(Scope.only(frozenset({"vision"}), money=False), key.run, NOW, 100).sums


def node(name: str, *flags: str, partitions: tuple[str, ...] = ("train",), gpus: int | None = 8) -> NodeReported:
    return NodeReported("pod-a", name, "UP", flags, works=False, gpus=gpus, partitions=partitions)


def asks(gpus: int) -> dict[str, str]:
    return {"tres_req_str": f"cpu=8,node=1,gres/gpu={gpus}"}


def partly_free() -> None:
    """12 of the 40 GPUs of train are free: 4 of gpu003, the other 4 of which a job of debug has, and 8 of gpu004."""
    begin()
    shared = ("debug", "train")
    tell(
        node("gpu001"), node("gpu002"), node("gpu003", partitions=shared), node("gpu004"),
        node("gpu005", "DRAIN"), node("gpu006", partitions=("debug",)),
    )  # fmt: skip
    runs("1", "a", 16, 3 * HOUR, node_list="gpu[001-002]", nodes=2)
    runs("2", "a", 4, 5 * HOUR, node_list="gpu003", partition="debug")


def test_what_is_free_counts_towards_enough() -> None:
    partly_free()
    look(10, T + 60, "Resources", **asks(24))
    look(11, T + 60, "Resources", **asks(12))
    look(12, T + 60, "Resources", **asks(40))
    look(13, T + 60, "Priority", **asks(8))
    look(14, T + 60, "Resources", tres_req_str="cpu=8,node=1")
    found = waiting_jobs(ALL, cut=NOW)
    told = {name: row.waits_for for name, row in rows(found).items()}
    full = {name: one for name, one in told.items() if isinstance(one, Full)}
    # Free are 12 now, and 28 once job 1 has given back its 16 at 3 h.
    assert {name: (one.held, one.free, one.enough_at) for name, one in full.items() if name != "14"} == {
        "10": (16, 12, at(3 * HOUR)), "11": (16, 12, NOW), "12": (16, 12, None),
    }  # fmt: skip
    assert told["13"] == OwnShare(False, 0, 0, 4, 24 + 12 + 40, 12)
    assert [(room.unit, room.free) for room in found.partitions] == [("cpus", None), ("gpus", 12)]
    assert (full["14"].unit, full["14"].free) == ("cpus", None), "of CPUs nobody tells how many a node has"


def test_what_runs_nobody_knows_where_is_not_free() -> None:
    partly_free()
    runs("3", "a", 5, None)  # no nodes are told
    runs("4", "a", 3, None, partition="other")
    look(10, T + 60, "Resources", **asks(8))
    (row,) = waiting_jobs(ALL, cut=NOW).rows
    assert isinstance(row.waits_for, Full)
    assert row.waits_for.free == 12 - 5


def test_free_is_no_data_where_a_node_or_its_size_is_not_known() -> None:
    begin()
    look(10, T + 60, "Resources", **asks(8))
    look(11, T + 60, "Priority", **asks(8))

    def free() -> list[int | None]:
        kinds = (row.waits_for for row in waiting_jobs(ALL, cut=NOW).rows)
        return [kind.free for kind in kinds if isinstance(kind, Full | OwnShare)]

    assert free() == [None, None]
    tell(node("gpu001"), node("gpu009", partitions=("debug",), gpus=None))
    assert free() == [8, 8], "a node of another partition does not matter"
    tell(node("gpu002", gpus=None))
    assert free() == [None, None]


def test_one_waiting_job_is_told_as_among_all() -> None:
    hall()
    for row in waiting_jobs(NLP, cut=NOW).rows:
        assert waiting_job(NLP, row.id, NOW) == row
    vision, runs_now = Job.objects.get(job_id="20"), Job.objects.get(job_id="1")
    assert waiting_job(NLP, vision.id, NOW) is None
    assert waiting_job(ALL, runs_now.id, NOW) is None


def test_attempts_that_nobody_looked_at_count_too() -> None:
    begin()
    tell(project("p"), mapped("a", "p"))
    look(7, T + 10, "Resources")
    tell(job("7", T + 100, T + 500, submit=T, eligible=T, state="PREEMPTED", record=1))
    tell(job("7", T + 504, T + 600, submit=T + 500, eligible=T + 501, record=2))
    found = Job.objects.get()
    for told in (waits_of_job(ALL, found.id, NOW, 100), waits_of_run(ALL, found.run, NOW, 100)):
        # The second attempt was not eligible for a second, and then waited 3 s for nobody knows what.
        assert [(one.number, one.cause, one.start, one.end, one.begun) for one in told.stretches] == [
            (1, "full", at(0), at(100), True),
            (2, "dependency_or_hold", at(500), at(501), True),
            (2, "unknown", at(501), at(504), True),
        ]
        assert {one.cause: one[1:] for one in told.sums} == {
            "full": (1, 100, 100, 100), "dependency_or_hold": (1, 1, 0, 1), "unknown": (1, 3, 3, 3)
        }  # fmt: skip
    assert len(waits_of_job(ALL, found.id, NOW, 2).stretches) == 2
    assert sum(one.stretches for one in waits_of_job(ALL, found.id, NOW, 2).sums) == 3


def test_where_nobody_looked_at_all_nothing_is_told() -> None:
    tell(place(), project("p"), mapped("a", "p"), job("7", T + 9, T + 20, submit=T, eligible=T + 3))
    found = Job.objects.get()
    assert waits_of_job(ALL, found.id, NOW, 9) == waits_of_run(ALL, found.run, NOW, 9) == Waited([], [])


TIMES = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attempts=st.lists(TIMES, min_size=1, max_size=4))
def test_causes_of_a_run_add_up_to_the_waits_of_all_its_attempts(attempts: list[tuple[int, int, int]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT one")
        try:
            begin()
            tell(project("p"), mapped("a", "p"))
            look(7, T + 10, "Priority")
            tell(job("7", T + 100, T + 150, submit=T, eligible=T, state="PREEMPTED", record=1))
            for number, (submit, eligible, start) in enumerate(attempts, 2):
                base = T + 100 * number
                told = {"submit": base + submit, "eligible": base + eligible, "record": number}
                tell(job("7", base + start, base + 60, state="PREEMPTED", **told))
            sums = waits_of_run(ALL, Job.objects.get().run, NOW, 100).sums
            assert sum(one.since_eligible for one in sums) == 100 + sum(max(0, s - e) for _, e, s in attempts)
            assert sum(one.since_submit for one in sums) == 100 + sum(max(0, s - u) for u, _, s in attempts)
            report = ask("waits", "2026-03-10", "2026-03-11", "cause")
            seconds = {one.cause: (one.since_eligible, one.since_submit) for one in sums}
            assert {
                row["cause"]: (row["wait_seconds"], row["wait_from_submit_seconds"])
                for row in report.rows
                if row["wait_seconds"] or row["wait_from_submit_seconds"]
            } == {cause: both for cause, both in seconds.items() if any(both)}
        finally:
            cursor.execute("ROLLBACK TO one")
