"""The books of the demo hall equal what happened there: the simulator's own sums, made without Hallbook's code."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection

from config.demo.alerts import gpu_of
from config.demo.loading import Plan, load
from config.demo.truth import Attempt, Truth, percentile, project_of
from config.demo.world import World, midnight
from events import projector
from events.access import Scope
from events.adapters.hostlist import expand
from events.rebuild import compare
from fleet.models import Fault, Hold, NodeSpell
from fleet.queries_faults import Ended, nearest
from fleet.queries_nodes import capacity
from jobs.goodput import PARTS
from jobs.models import Attempt as AttemptRow
from jobs.models import Checkpoint, Goodput, Job, ProjectPlace, Run
from jobs.queries_interruptions import of_run
from tests.hand import ask, column, own_database

BEGIN = date(2025, 3, 24)
"""The clocks of the site change on the seventh day."""
FIRST = midnight(BEGIN)
PLAN = Plan("pod", 5, BEGIN)


@pytest.fixture(scope="module", params=[9, pytest.param(90, marks=pytest.mark.slow)], ids="{} days".format)
def truth(request: Any, django_db_setup: None, django_db_blocker: Any) -> Iterator[Truth]:
    """A pod in a database of its own, until the middle of a day, as a demo ends."""
    with own_database(django_db_blocker), django_db_blocker.unblock():
        world = World(PLAN.pod, PLAN.seed, PLAN.begin)
        until = midnight(BEGIN + timedelta(days=request.param)) + 34_567
        yield load(PLAN, world, until, stdout=io.StringIO(), stderr=io.StringIO(), step=lambda _text: None)


def stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def report(truth: Truth, name: str, by: str = "", first: int = FIRST, last: int = 0) -> Any:
    return ask(name, stamp(first), stamp(last or truth.until), by)


def expected(truth: Truth, by: Callable[[Attempt], str]) -> dict[str, int]:
    return {key: seconds for key, seconds in truth.gpu_seconds(FIRST, truth.until, by).items() if seconds}


def told(truth: Truth, by: str) -> dict[str, int]:
    return {key: seconds for key, seconds in column(report(truth, "usage", by), by, "gpu_seconds").items() if seconds}


def test_gpu_seconds_by_project_account_user_and_partition(truth: Truth) -> None:
    assert told(truth, "project") == expected(truth, lambda a: project_of(a.account))
    assert told(truth, "account") == expected(truth, lambda a: a.account)
    assert told(truth, "user") == expected(truth, lambda a: a.job.ask.user)
    assert told(truth, "partition") == expected(truth, lambda a: a.job.ask.partition)
    assert len(told(truth, "project")) == 13


def test_gpu_seconds_by_day_over_the_change_of_clocks(truth: Truth) -> None:
    assert told(truth, "day") == {day: seconds for day, seconds in truth.by_day(FIRST, truth.until).items() if seconds}
    assert len(told(truth, "day")) in (10, 91)


def test_gpu_seconds_of_windows_that_cut_jobs(truth: Truth) -> None:
    edges = [FIRST, FIRST + 98_765, FIRST + 300_001, FIRST + 700_000, truth.until]
    for first, last in pairwise(edges):
        assert report(truth, "usage", first=first, last=last).total["gpu_seconds"] == sum(
            truth.gpu_seconds(first, last).values()
        )


def test_jobs_and_attempts_are_all_there_and_no_more(truth: Truth) -> None:
    attempts = list(truth.attempts())
    assert Job.objects.count() == len(truth.known())
    assert AttemptRow.objects.count() == len(attempts)
    assert AttemptRow.objects.filter(end=None).count() == sum(attempt.end is None for attempt in attempts)
    states = AttemptRow.objects.values_list("state", flat=True)
    assert Counter(states) == Counter(attempt.state for attempt in attempts)
    total = report(truth, "usage").total
    assert total["attempts_started"] == len(attempts)
    assert total["jobs_started"] == sum(bool(job.attempts) for job in truth.known())


def test_every_attempt_has_its_times_its_size_and_its_state(truth: Truth) -> None:
    rows = AttemptRow.objects.values_list("job_id", "number", "start", "end", "gpus", "cpus", "state", "gpu_seconds")
    found = {(job, number): rest for job, number, *rest in rows}
    for attempt in truth.attempts():
        start, end, gpus, cpus, state, seconds = found[str(attempt.job.id), attempt.number]
        assert (start.timestamp(), end and end.timestamp(), state) == (attempt.start, attempt.end, attempt.state)
        assert (gpus, cpus) == (attempt.sizes[0].gpus, attempt.sizes[0].cpus)
        if attempt.end is not None:
            assert seconds == attempt.gpu_seconds(0, truth.until)


def test_waits_are_those_of_the_queue(truth: Truth) -> None:
    waits, total = truth.waits(FIRST, truth.until), report(truth, "waits").total
    assert total["wait_seconds"] == sum(waits)
    assert total["wait_seconds_p50"] == percentile(waits, 0.5)
    assert total["wait_seconds_p90"] == percentile(waits, 0.9)
    assert total["wait_seconds_p95"] == percentile(waits, 0.95)
    assert total["wait_seconds_max"] == waits[-1]
    by_project = Counter[str]()
    for attempt in truth.started(FIRST, truth.until):
        by_project[project_of(attempt.account)] += max(0, attempt.wait)
    assert column(report(truth, "waits", "project"), "project", "wait_seconds") == by_project


def test_named_runs_have_the_gpu_seconds_of_their_jobs(truth: Truth) -> None:
    seconds, jobs, attempts = Counter[str](), Counter[str](), Counter[str]()
    for job in truth.known():
        if job.ask.run:
            jobs[job.ask.run] += 1
            attempts[job.ask.run] += len(job.attempts)
            seconds[job.ask.run] += sum(a.gpu_seconds(0, truth.until) for a in job.attempts if a.end is not None)
    runs = Run.objects.filter(named=True)
    assert {run.name: (run.gpu_seconds, run.jobs, run.attempts) for run in runs} == {
        name: (seconds[name], jobs[name], attempts[name]) for name in jobs
    }
    assert len(jobs) >= 5


def test_what_runs_or_ran_of_late_has_its_gpus_by_number(truth: Truth) -> None:
    late = [a for a in truth.attempts() if a.sizes[0].gpus and (a.end is None or a.end > truth.until - 86_400)]
    found = dict(AttemptRow.objects.exclude(gpu_indices="").values_list("record", "gpu_indices"))
    for attempt in late:
        entries = dict(entry.split("=") for entry in found[attempt.sizes[0].record].split())
        numbers = {node: sum(_count(part) for part in text.split(",")) for node, text in entries.items()}
        assert sum(numbers.values()) == attempt.sizes[0].gpus
        assert len(numbers) == len(attempt.sizes[0].nodes)
    assert len(late) > 100


def test_each_part_of_each_instrumented_attempt_is_within_a_second_of_what_happened(truth: Truth) -> None:
    """Seconds of time, on all its GPUs; and the parts add up to what was allocated, exactly."""
    rows = {(row.job_id, row.number): row for row in Goodput.objects.all()}
    assert rows.keys() == {(str(program.attempt.job.id), program.attempt.number) for program in truth.programs}
    for program in truth.programs:
        attempt, row = program.attempt, rows[str(program.attempt.job.id), program.attempt.number]
        happened, booked = program.gpu_seconds(), {part: getattr(row, part) for part in PARTS}
        assert set(happened) <= set(booked)
        off = {part: abs(seconds - happened.get(part, 0)) / row.gpus for part, seconds in booked.items()}
        assert max(off.values()) <= 1, (attempt.job.id, attempt.number, attempt.state, off)
        assert sum(booked.values()) == row.allocated
        assert row.allocated == attempt.gpu_seconds(0, program.until // 1000)
        assert (row.work_lost, row.until.timestamp()) == (program.lost, program.until / 1000)


def test_the_report_adds_up_to_what_was_allocated(truth: Truth) -> None:
    """Of ended attempts, by project: told and untold are what was allocated, parts are what was told."""
    ended = [attempt for attempt in truth.attempts() if attempt.end is not None and attempt.end < truth.until]
    told = {id(program.attempt): program for program in truth.programs}
    allocated, untold, productive = Counter[str](), Counter[str](), Counter[str]()
    for attempt in ended:
        seconds, project = attempt.gpu_seconds(0, truth.until), project_of(attempt.account)
        allocated[project] += seconds
        if id(attempt) in told:
            productive[project] += round(told[id(attempt)].gpu_seconds()["productive"])
        else:
            untold[project] += seconds
    answer = report(truth, "goodput", "project")
    assert column(answer, "project", "allocated_gpu_seconds") == allocated
    told_apart = column(answer, "project", "not_instrumented_gpu_seconds")
    assert told_apart == {project: untold[project] for project in allocated}
    for project, seconds in column(answer, "project", "productive_gpu_seconds").items():
        assert seconds == pytest.approx(productive[project], abs=96 * len(told))
    for row in [*answer.rows, answer.total]:
        parts = sum(row[f"{part}_gpu_seconds"] for part in PARTS)
        assert parts == row["instrumented_gpu_seconds"]
        assert parts + row["not_instrumented_gpu_seconds"] == row["allocated_gpu_seconds"]
    by_day = report(truth, "goodput", "day")
    assert sum(row["allocated_gpu_seconds"] for row in by_day.rows) == sum(allocated.values())


def test_saves_are_those_of_the_programs(truth: Truth) -> None:
    saves = [save for program in truth.programs for save in program.saves if save.committed]
    rows = Checkpoint.objects.filter(kind="committed").values_list("step", "state", "blocking_ms")
    found = Counter((step, round(state.timestamp() * 1000), blocking) for step, state, blocking in rows)
    assert found == Counter((save.step, save.state, save.blocking) for save in saves)
    assert Checkpoint.objects.filter(kind="restored").count() == sum(p.took_up is not None for p in truth.programs)


def test_rebuilt_from_the_log_they_are_the_same(truth: Truth) -> None:
    compare([group for group in projector.groups() if group.name == "jobs"])


def _count(part: str) -> int:
    first, _, last = part.partition("-")
    return int(last or first) - int(first) + 1


def test_sources_agree_and_four_records_are_refused(truth: Truth) -> None:
    assert not AttemptRow.objects.filter(disagree=True).exists()
    assert not AttemptRow.objects.filter(confirmed=False).exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT code FROM events_rejection ORDER BY code")
        assert [code for (code,) in cursor.fetchall()] == ["bad_state", "bad_time", "field_count", "malformed"]


def test_a_correction_a_move_and_an_unmapped_account(truth: Truth) -> None:
    (corrected,) = AttemptRow.objects.filter(corrected=True)
    assert corrected.account == "speech"
    assert [attempt.job.id for attempt in truth.attempts() if attempt.account != attempt.job.ask.account] == [
        int(corrected.job_id)
    ]
    assert told(truth, "project")["unmapped/visitors"] > 0
    places = ProjectPlace.objects.filter(project="world").order_by("from_day").values_list("path", flat=True)
    assert [path[1] for path in places] == ["embodied", "perception"]


def test_nodes_were_down_as_they_failed(truth: Truth) -> None:
    """Each fault of the truth is a stretch in which its node was down, to the second, and its hold the scheduler's."""
    hall = World(PLAN.pod, PLAN.seed, PLAN.begin).hall
    happened = [fault for fault in truth.faults if fault.start <= truth.until]
    down = sorted(NodeSpell.objects.filter(state="down").values_list("name", "start", "end"))
    assert [(name, round(start.timestamp()), end and round(end.timestamp())) for name, start, end in down] == sorted(
        (hall.name(one.node), one.start, one.end if one.end <= truth.until else None) for one in happened
    )
    assert set(Hold.objects.values_list("owner", "flag")) <= {("scheduler", "DOWN")}
    installed = hall.gpus * (truth.until - FIRST)
    lost = sum(8 * (min(one.end, truth.until) - one.start) for one in happened)
    pieces = [(datetime.fromtimestamp(FIRST, UTC), datetime.fromtimestamp(truth.until, UTC))]
    found = capacity(Scope.everything(), pieces, pieces[0][1])
    assert sum(one.installed_gpu_seconds or 0 for one in found) == installed
    assert sum(one.available_gpu_seconds or 0 for one in found) == installed - lost


def test_every_failure_of_a_node_is_one_fault_and_names_what_it_ended(truth: Truth) -> None:
    world = World(PLAN.pod, PLAN.seed, PLAN.begin)
    failed = [fault for fault in truth.faults if fault.start <= truth.until]
    expected = {
        (world.hall.name(fault.node), "node-down" if gpu_of(world.hall, fault) is None else "xid-79",
         gpu_of(world.hall, fault), fault.start, fault.end if fault.end <= truth.until else None)
        for fault in failed
    }  # fmt: skip
    rows = Fault.objects.values_list("node", "kind", "gpu", "opened", "closed")
    books = [(node, kind, gpu, second(opened), second(closed)) for node, kind, gpu, opened, closed in rows]
    assert len(books) == len(failed) > 0
    assert set(books) == expected
    # Attempts that a node's failure ended, by the simulator; those whose programs tell name the fault.
    ended = {
        (attempt.job.id, attempt.end): world.hall.name(fault.node)
        for attempt in truth.attempts()
        for fault in failed
        if (attempt.state, attempt.end) == ("NODE_FAIL", fault.start) and fault.node in attempt.sizes[-1].nodes
    }
    lost = {
        row.id: Ended(row.cluster, frozenset(expand(row.node_list)), row.end)
        for row in AttemptRow.objects.filter(state="NODE_FAIL")
    }
    named = nearest(Scope.everything(), lost)
    assert len(named) == len(lost) == len(ended)
    assert lost or truth.until < FIRST + 20 * 86_400, "in nine days only idle nodes failed"
    for row in AttemptRow.objects.filter(state="NODE_FAIL"):
        assert named[row.id].node == ended[int(row.job_id), second(row.end)]
    for run in Run.objects.filter(id__in=Goodput.objects.filter(attempt__in=lost).values("run")):
        told = of_run(run)
        rows_of_run = told.rows if told else ()
        assert all(row["fault"] == named[row["attempt"]].id for row in rows_of_run if row["attempt"] in lost)


def second(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp())
