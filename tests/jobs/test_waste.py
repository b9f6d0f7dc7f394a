"""GPU-seconds held in vain, by hand: each cause, what is no waste, what is not known, and how rows are ranked."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from events import actions, projector
from events.access import Scope
from events.append import append
from events.queries import head_position
from events.types.jobs import JobLost
from jobs.models import Run
from jobs.queries_waste import of_run
from jobs.report_waste import judged
from jobs.waste import CAUSES, ppm
from tests.hand import HOUR, ask, column, gpus, instant, job, mapped, place, project, say, tell
from tests.jobs.test_training import BEGIN, FAULT, books, heard, ms, save, steps

pytestmark = pytest.mark.django_db


def waste(by: str = "", **options: Any) -> Any:
    return ask("waste", "2026-03-01", "2026-04-01", by, **options)


def causes(**options: Any) -> dict[str, int]:
    """Wasted GPU-seconds by cause; they are the total, exactly."""
    answer = waste("cause", **options)
    found = column(answer, "cause", "gpu_seconds")
    assert sum(found.values()) == answer.total["gpu_seconds"]
    assert list(found.values()) == sorted(found.values(), reverse=True)
    return found


def follower(minute: int, job_id: str = "2", state: str = "COMPLETED") -> None:
    """Another hour of run `big` on 16 GPUs, that loads for 4 minutes and takes up the state of minute 30."""
    start = BEGIN + minute * 60
    say(job(job_id, start, start + HOUR, state=state, run="big", **gpus(16)))
    append([heard(minute + 4, "checkpoint.restored", job_id, step=300, state_ms=ms(30)),
            steps(minute + 4, minute + 60, job_id)])  # fmt: skip
    projector.catch_up()


# FAULT (tests/jobs/test_training): 16 GPUs from 0 to 60 min. First rank at 1, all at 2, first step at 5, the state of
# 30 saved in 30 s, last step at 50, noticed at 57, free at 60. The first loading (1 + 3 min) is not the fault's.
ROLLED, GANG, DETECT, TEARDOWN = 16 * (20 * 60 - 30), 16 * 60, 16 * 7 * 60, 16 * 3 * 60


def test_a_fault_costs_the_lost_work_its_end_and_the_start_after_it() -> None:
    books(*FAULT)
    assert causes() == {"rolled_back": ROLLED, "restart": DETECT + TEARDOWN, "partial_gang": GANG}
    follower(90)
    assert causes() == {"rolled_back": ROLLED, "restart": DETECT + TEARDOWN + 16 * 240, "partial_gang": GANG}
    total = waste("project").total
    wasted = ROLLED + GANG + DETECT + TEARDOWN + 16 * 240
    assert (total["gpu_seconds"], total["allocated_gpu_seconds"]) == (wasted, 2 * 16 * HOUR)
    assert (total["attempts"], total["attempts_ended"]) == (2, 2)
    assert total["waste_ppm"] == round(wasted / (2 * 16 * HOUR) * 1e6)
    assert total["energy_j"] is None


def test_only_the_attempt_right_after_a_fault_starts_again_because_of_it() -> None:
    """The third goes on from the second, which was cancelled with its work kept. Another run's start is its own."""
    books(*FAULT)
    follower(90, "2", "CANCELLED")
    before = causes()
    start = BEGIN + 160 * 60
    say(job("3", start, start + HOUR, run="big", **gpus(16)), job("4", start, start + HOUR, run="new", **gpus(16)))
    append([steps(160 + 5, 160 + 60, "3"), steps(160 + 7, 160 + 60, "4")])
    projector.catch_up()
    assert causes() == before


def test_a_start_after_a_fault_that_no_program_told_of_is_a_restart_too() -> None:
    """The first attempt told nothing: failed whole. The second is told of, and loaded for 4 minutes because of it."""
    books(state="NODE_FAIL")
    follower(90)
    assert causes() == {"failed": 16 * HOUR, "restart": 16 * 240}


def test_what_begins_while_another_runs_does_not_follow_it() -> None:
    books(*FAULT)
    before = causes()
    follower(59)
    assert causes() == before


@pytest.mark.parametrize("states", [("COMPLETED", "NODE_FAIL"), ("NODE_FAIL", "COMPLETED")])
def test_of_several_before_it_the_latest_to_start_counts_and_of_those_the_one_that_failed(
    states: tuple[str, str],
) -> None:
    """Jobs of the run without GPUs: two that began at once, then one that began later, though it ended before them."""
    said = [job(str(n), BEGIN, BEGIN + HOUR, state=state, run="big") for n, state in enumerate(states, 5)]
    tell(place(), *said)
    follower(90)
    assert causes() == {"restart": 16 * 240}
    tell(job("7", BEGIN + 600, BEGIN + 1200, run="big"))
    assert causes() == {}


def test_at_the_time_limit_lost_work_is_wasted_and_starting_again_is_not() -> None:
    """Steps from 5 to 59 min, saved at 30: 29 min less half a minute of saving. Then 4 min of loading by plan."""
    books(heard(2, "gang.ready", ranks=16), steps(5, 30), save(30, 32), steps(30.5, 59), state="TIMEOUT")
    follower(90)
    assert causes() == {"rolled_back": 16 * (29 * 60 - 30), "partial_gang": 16 * 120}


def test_what_was_productive_is_no_waste_though_the_attempt_failed() -> None:
    books(heard(0, "gang.ready", ranks=16), steps(0, 59), save(59, 59, blocking=0), state="FAILED")
    assert causes() == {"restart": 16 * 60}


@pytest.mark.parametrize(
    ("state", "cause"),
    [("FAILED", "failed"), ("OUT_OF_MEMORY", "failed"), ("NODE_FAIL", "failed"), ("BOOT_FAIL", "failed"),
     ("DEADLINE", "failed"), ("CANCELLED", "cancelled"), ("TIMEOUT", "timed_out"), ("COMPLETED", None)],
)  # fmt: skip
def test_more_than_a_gpu_hour_that_told_nothing_is_judged_by_its_end(state: str, cause: str | None) -> None:
    """Two GPUs for half an hour are not more than 1 GPU-hour; one second longer on both is."""
    say(place(), job("1", BEGIN, BEGIN + 1800, state=state, **gpus(2)), job("3", BEGIN, BEGIN + HOUR, state=state))
    tell(job("2", BEGIN, BEGIN + 1801, state=state, **gpus(2)))
    assert causes() == ({cause: 3602} if cause else {})
    assert waste("project").total["attempts"] == int(cause is not None)


def test_preempted_and_requeued_work_is_not_known_and_never_zero() -> None:
    """4 and 8 GPUs for an hour, and one that holds less than a GPU-hour: 12.5 GPU-hours."""
    say(place(), job("1", BEGIN, BEGIN + HOUR, state="PREEMPTED", **gpus(4)),
        job("2", BEGIN, BEGIN + HOUR, state="REQUEUED", record=2, **gpus(8)),
        job("3", BEGIN, BEGIN + 1800, state="PREEMPTED", **gpus(1)))  # fmt: skip
    projector.catch_up()
    answer = waste("cause")
    assert answer.rows == []
    assert answer.total["gpu_seconds"] == 0
    (gap,) = [gap for gap in answer.gaps if gap["cause"] == "not known"]
    assert (gap["attempts"], gap["gpu_seconds"]) == (3, 12 * HOUR + 1800)
    assert {gap["cause"] for gap in answer.gaps} == {"never_used", "idle", "not known"}


def test_an_attempt_whose_end_nobody_told_is_not_judged_until_a_source_tells_it() -> None:
    """8 GPUs, last seen after an hour; then the accounting says that it failed after half an hour."""
    say(place(), job("1", BEGIN, None, **gpus(8)))
    actions.say(JobLost("pod-a", "1", BEGIN, BEGIN + HOUR, "unseen"), type_="job.lost", actor="test")
    projector.catch_up()
    (gap,) = [gap for gap in waste().gaps if gap["cause"] == "not known"]
    assert (gap["attempts"], gap["gpu_seconds"], causes()) == (1, 8 * HOUR, {})
    tell(job("1", BEGIN, BEGIN + 1800, state="FAILED", **gpus(8)))
    assert causes() == {"failed": 4 * HOUR}
    assert {gap["cause"] for gap in waste().gaps} == {"never_used", "idle"}


def test_a_preempted_program_that_tells_is_judged_by_what_it_lost() -> None:
    books(*FAULT, state="PREEMPTED")
    assert causes() == {"rolled_back": ROLLED, "restart": DETECT + TEARDOWN, "partial_gang": GANG}
    assert {gap["cause"] for gap in waste().gaps} == {"never_used", "idle"}


def test_running_attempts_are_not_judged_yet_and_without_any_there_is_nothing_to_know() -> None:
    books(heard(2, "gang.ready", ranks=16), state="RUNNING", minutes=None)
    answer = waste("project")
    assert (answer.rows, answer.gaps) == ([], [])
    assert (answer.total["gpu_seconds"], answer.total["attempts_ended"], answer.total["waste_ppm"]) == (0, 0, None)


def test_telemetry_comes_before_the_end() -> None:
    """4 GPU-hours that failed: 1 h never used and 1,800 s idle are counted as such, the rest as failed. No source
    tells them, so they are put into the statement here."""
    tell(place(), job("1", BEGIN, BEGIN + HOUR, state="FAILED", **gpus(4)))
    seen = "NULL::bigint AS never_used, NULL::bigint AS idle"
    sql = judged("true")
    assert seen in sql
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(CAUSES)} FROM ({sql.replace(seen, '3600 AS never_used, 1800 AS idle')}) x")
        found = dict(zip(CAUSES, cursor.fetchone(), strict=True))
    expected = {**dict.fromkeys(CAUSES, 0), "never_used": 3600, "idle": 1800, "failed": 4 * HOUR - 5400}
    assert found == expected


def hall() -> None:
    """nlp wasted 3 GPU-hours on the 1st and 2 on the 2nd, vision 8 on the 2nd; one attempt of each completed."""
    day = 24 * HOUR
    say(place(), project("nlp"), project("vision"), mapped("a", "nlp"), mapped("b", "vision"))
    tell(job("1", BEGIN, BEGIN + HOUR, state="FAILED", user="ann", **gpus(3)),
         job("2", BEGIN + day, BEGIN + day + HOUR, state="CANCELLED", user="bob", **gpus(2)),
         job("3", BEGIN + day, BEGIN + day + HOUR, state="FAILED", account="b", user="bob", **gpus(8)),
         job("4", BEGIN, BEGIN + HOUR, user="ann", limit_seconds=7200, **gpus(5)),
         job("5", BEGIN, BEGIN + HOUR, account="b", user="bob", limit_seconds=3000, suspended_seconds=900, **gpus(4)),
         )  # fmt: skip


def hours(answer: Any, *keys: str) -> list[tuple[Any, ...]]:
    return [(*(row[key] for key in keys), row["gpu_seconds"] / HOUR) for row in answer.rows]


def test_ranked_by_what_was_wasted_in_time_order_where_time_is_asked_for() -> None:
    hall()
    assert hours(waste("project"), "project") == [("vision", 8), ("nlp", 5)]
    assert hours(waste("user"), "user") == [("bob", 10), ("ann", 3)]
    assert hours(waste("day,project"), "day", "project") == [
        ("2026-03-01", "nlp", 3), ("2026-03-01", "vision", 0), ("2026-03-02", "vision", 8), ("2026-03-02", "nlp", 2),
    ]  # fmt: skip
    assert hours(waste("cause"), "cause") == [("failed", 11), ("cancelled", 2)]
    assert hours(waste("cause,project"), "project", "cause") == [
        ("vision", "failed", 8), ("nlp", "failed", 3), ("nlp", "cancelled", 2)]  # fmt: skip
    by_run = waste("run,cause")
    assert hours(by_run, "run", "cause")[0] == ("pod-a/3", "failed", 8)
    assert [column.name for column in by_run.columns][:3] == ["run", "cause", "run_id"]
    days = waste("day")
    assert len(days.rows) == 31
    assert sum(row["gpu_seconds"] for row in days.rows) == waste("month").rows[0]["gpu_seconds"] == 13 * HOUR


def test_a_row_of_a_cause_has_its_own_attempts_and_the_whole_of_its_project() -> None:
    hall()
    failed, cancelled = (row for row in waste("project,cause").rows if row["project"] == "nlp")
    assert (failed["attempts"], cancelled["attempts"]) == (1, 1)
    for row in (failed, cancelled):
        assert (row["allocated_gpu_seconds"], row["attempts_ended"]) == (10 * HOUR, 3)
    assert (failed["waste_ppm"], cancelled["waste_ppm"]) == (300_000, 200_000)


def test_time_limits_are_set_against_what_was_used_of_them() -> None:
    """nlp: an hour of two; vision: an hour less 900 s suspended, of 50 min. Attempts without a limit are left out."""
    hall()
    used = {row["project"]: (row["limit_seconds"], row["used_seconds"]) for row in waste("project").rows}
    assert used == {"nlp": (7200, 3600), "vision": (3000, 2700)}
    total = waste("project").total
    assert (total["limit_seconds"], total["used_seconds"]) == (10_200, 6300)
    second = ask("waste", "2026-03-02", "2026-03-03").rows
    assert {row["limit_seconds"] for row in second} == {None}, "nobody told a limit: no data, not 0"


def test_a_lead_sees_the_waste_of_own_projects_alone() -> None:
    hall()
    nlp = Scope(frozenset({"nlp"}))
    assert hours(waste("project", scope=nlp), "project") == [("nlp", 5)]
    assert waste("cause", scope=nlp).total["gpu_seconds"] == 5 * HOUR
    assert waste("cause", project="vision").total["gpu_seconds"] == 8 * HOUR


def test_as_known_at_a_position_work_that_was_lost_later_is_not_wasted() -> None:
    say(place())
    books(heard(0, "gang.ready", ranks=16), steps(0, 30), save(30, 31), steps(30.5, 58), state="CANCELLED")
    before = head_position()
    follower(90)
    assert causes() == {"rolled_back": 16 * (27 * 60 + 30), "restart": 16 * (120 + 240)}
    assert causes(as_known_at=str(before)) == {}


def test_of_a_run_the_same_as_in_the_report() -> None:
    books(*FAULT)
    follower(90)
    tell(job("9", BEGIN, BEGIN + HOUR, state="FAILED", **gpus(4)))
    found = of_run(Run.objects.get(name="big"))
    (row,) = [row for row in waste("run").rows if row["run"] == "big"]
    assert found is not None
    for name in ("gpu_seconds", "allocated_gpu_seconds", "attempts", "attempts_ended"):
        assert found[name] == row[name]
    assert (found["rolled_back"], found["restart"], found["restart_attempts"]) == (
        ROLLED, DETECT + TEARDOWN + 16 * 240, 2)  # fmt: skip
    tell(job("10", BEGIN, None, **gpus(4)))
    assert of_run(Run.objects.get(cluster="pod-a", end=None)) is None


def test_a_window_counts_what_ends_in_it_and_nothing_else() -> None:
    tell(place(), job("1", BEGIN - 100 * HOUR, BEGIN, state="FAILED", **gpus(1)))
    end = instant("2026-03-01 10:00")
    for first, last, hours_ in (("09:00:00", "10:00:00", 0), ("10:00:00", "10:00:01", 100)):
        answer = ask("waste", f"2026-03-01T{first}Z", f"2026-03-01T{last}Z")
        assert answer.total["gpu_seconds"] == hours_ * HOUR, end


@pytest.mark.parametrize(
    ("part", "whole", "share"),
    [(1, 3, 333_333), (2, 3, 666_667), (1, 2_000_000, 1), (0, 5, 0), (5, 5, 1_000_000), (5, 0, None), (None, 5, None),
     (5, None, None)],
)  # fmt: skip
def test_shares_in_parts_per_million(part: int | None, whole: int | None, share: int | None) -> None:
    assert ppm(part, whole) == share
