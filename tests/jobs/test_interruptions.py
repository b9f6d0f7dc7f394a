"""What interruptions cost: the vector of the research note through the books, hand cases, and conservation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import projector
from events.append import append
from jobs.goodput import PARTS as ALL
from jobs.interruptions import ENDING, STARTING, Lived, Spent, charged, interruptions, uncharged
from jobs.models import Goodput, Run
from jobs.queries_interruptions import PARTS, RunInterruptions, of_run
from tests.hand import gpus, job, mapped, place, project, say
from tests.jobs.test_training import BEGIN, heard, ms, save, steps

pytestmark = pytest.mark.django_db


def found(name: str = "big") -> RunInterruptions:
    answer = of_run(Run.objects.get(name=name))
    assert answer is not None
    for part in PARTS:
        whole = sum(Goodput.objects.filter(run=Run.objects.get(name=name).id).values_list(part, flat=True))
        assert answer.total[f"{part}_gpu_seconds"] + answer.uncharged[part] == answer.told[part] == whole
    return answer


def start(*jobs: Any) -> None:
    say(place(), project("nlp"), mapped("a", "nlp"), *jobs)


def vector(end: int) -> dict[str, Any]:
    """512 GPUs; state 10:00:00, fault 10:47:30, noticed 10:49:00, again at 11:02:00, first step at 11:05:30.

    end: minutes after 10:00 at which the scheduler took the nodes away.
    """
    many = {"run": "big", "nodes": 64, **gpus(512)}
    start(job("1", BEGIN - 3600, BEGIN + end * 60, state="NODE_FAIL", record=1, **many),
          job("1", BEGIN + 62 * 60, BEGIN + 180 * 60, submit=BEGIN + end * 60, record=2, **many))  # fmt: skip
    append([
        steps(-60, 0), save(0, 2, blocking=0), steps(0, 47.5),
        heard(49, "run.interrupted", kind="hang", last_ms=ms(47.5), why="no step for 90 s"),
        heard(65.5, "checkpoint.restored", step=0, state_ms=ms(0)), steps(65.5, 180),
    ])  # fmt: skip
    projector.catch_up()
    answer = found()
    (row,) = answer.rows
    assert (row["happened"], row["noticed"]) == tuple(
        datetime(2026, 3, 1, 10, minute, second, tzinfo=UTC) for minute, second in ((47, 30), (49, 0)))  # fmt: skip
    assert (row["rollback_replay_seconds"], row["detect_seconds"], row["init_restore_seconds"]) == (2850, 90, 210)
    assert row["rollback_replay_gpu_seconds"] == 512 * 2850, "405.333 GPU-h"
    assert round(row["rollback_replay_gpu_seconds"] / 3600, 3) == 405.333
    assert (row["state"], row["told"], row["fault"], row["resumed_step"]) == ("NODE_FAIL", "hang", None, 0)
    assert row["stall_seconds"] == 3930, "10:00:00 to 11:05:30 all the same"
    return row


def test_the_vector_where_the_nodes_were_held_until_the_restart() -> None:
    """Then the 13 min are taking down, which costs: 405.333 + 12.8 + 110.933 + 29.867 = 558.933 GPU-h."""
    row = vector(62)
    assert (row["teardown_seconds"], row["requeue_seconds"], row["requeue_gpu_seconds"]) == (780, 0, 0)
    assert round(row["lost_gpu_seconds"] / 3600, 3) == 558.933


def test_the_vector_where_the_nodes_were_given_back() -> None:
    """Then the 13 min are a wait: time, and no GPU-seconds of this run. 558.933 - 110.933 = 448.000 GPU-h."""
    row = vector(49)
    assert (row["teardown_seconds"], row["requeue_seconds"], row["requeue_gpu_seconds"]) == (0, 780, 0)
    assert row["lost_gpu_seconds"] == 448 * 3600


def test_a_second_interruption_before_the_replay_has_caught_up() -> None:
    """State 30, lost at 50; again from 70, steps from 75, lost at 85 before anything was saved; again from 100.

    The first bears its 20 min and the start of the second, the second the 10 min that the second attempt did: the
    rollback counts from the same state, and the replay is not counted twice.
    """
    big = {"run": "big", **gpus(8)}
    start(job("1", BEGIN, BEGIN + 3000, state="NODE_FAIL", record=1, **big),
          job("1", BEGIN + 4200, BEGIN + 5100, submit=BEGIN + 3000, state="NODE_FAIL", record=2, **big),
          job("1", BEGIN + 6000, BEGIN + 9000, submit=BEGIN + 5100, record=3, **big))  # fmt: skip
    append([steps(0, 30), save(30, 31, blocking=0), steps(30, 50),
            heard(75, "checkpoint.restored", step=300, state_ms=ms(30)), steps(75, 85),
            heard(103, "checkpoint.restored", step=300, state_ms=ms(30)), steps(103, 150)])  # fmt: skip
    projector.catch_up()
    answer = found()
    names = ("rollback_replay_seconds", "requeue_seconds", "init_restore_seconds", "stall_seconds")
    assert [[row[name] for name in names] for row in answer.rows] == [[1200, 1200, 300, 2700], [600, 900, 180, 1680]]
    assert answer.total["lost_gpu_seconds"] == 8 * (1200 + 300 + 600 + 180)
    assert Goodput.objects.filter(number=3).get().productive == 8 * 47 * 60


def test_a_job_that_goes_on_for_another_and_one_of_which_nothing_was_told() -> None:
    """Job 1 fails, job 2 goes on; it fails and tells nothing of it, so what it lost is no data; nothing goes on."""
    big = {"run": "big", **gpus(8)}
    start(
        job("1", BEGIN, BEGIN + 600, state="FAILED", **big), job("2", BEGIN + 900, BEGIN + 1500, **big, state="FAILED")
    )
    append([steps(1, 9)])
    projector.catch_up()
    first, second = found().rows
    assert (first["requeue_seconds"], first["init_restore_seconds"], first["resumed_step"]) == (300, None, None)
    assert first["stall_seconds"] == 8 * 60 + 60 + 300
    assert (second["rollback_replay_gpu_seconds"], second["lost_gpu_seconds"], second["requeue_seconds"]) == (None,) * 3
    assert found().count_untold == 1


def test_jobs_side_by_side_do_not_go_on_for_each_other() -> None:
    """Job 1 fails while job 2 runs; job 3 begins beside it, with nothing taken up: nobody went on for job 1."""
    big = {"run": "big", **gpus(8)}
    start(job("1", BEGIN, BEGIN + 600, state="FAILED", **big), job("2", BEGIN, BEGIN + 9000, **big),
          job("3", BEGIN + 900, BEGIN + 1500, **big))  # fmt: skip
    append([steps(1, 9), steps(20, 24, "3")])
    projector.catch_up()
    assert found().rows[0]["resumed_attempt"] is None
    append([heard(16, "checkpoint.restored", "3", step=1)])
    projector.catch_up()
    assert found().rows[0]["resumed_attempt"] is not None


def test_a_program_that_saves_when_it_is_told_to_go_loses_nothing() -> None:
    """Its last step ended at 50; the save of that state was whole at 51, and was taken up. Before, it was in vain."""
    big = {"run": "big", **gpus(8)}
    start(job("1", BEGIN, BEGIN + 3120, state="PREEMPTED", record=1, **big),
          job("1", BEGIN + 4200, BEGIN + 6000, submit=BEGIN + 3120, record=2, **big))  # fmt: skip
    append([steps(0, 20), save(20, 21, blocking=0), steps(20, 50), save(50, 51, blocking=60_000),
            heard(51, "run.interrupted", kind="signal", last_ms=ms(50))])  # fmt: skip
    projector.catch_up()
    assert found().rows[0]["rollback_replay_seconds"] == 1800
    append([heard(72, "checkpoint.restored", step=500, state_ms=ms(50)), steps(72, 90)])
    projector.catch_up()
    (row,) = found().rows
    assert (row["rollback_replay_seconds"], row["init_restore_seconds"]) == (0, 120)
    assert Goodput.objects.get(number=1).productive == 8 * 3000


def test_a_state_that_nobody_told_was_saved_is_kept_if_it_is_taken_up() -> None:
    """Only the restore tells that the state of 40 was saved: 10 min are lost, not 50."""
    big = {"run": "big", **gpus(8)}
    start(job("1", BEGIN, BEGIN + 3000, state="FAILED", record=1, **big),
          job("1", BEGIN + 4200, BEGIN + 6000, submit=BEGIN + 3000, record=2, **big))  # fmt: skip
    append([steps(0, 50), heard(72, "checkpoint.restored", step=400, state_ms=ms(40)), steps(72, 90)])
    projector.catch_up()
    assert found().rows[0]["rollback_replay_seconds"] == 600


def test_a_run_without_words_has_no_data_and_one_without_trouble_no_rows() -> None:
    start(job("1", BEGIN, BEGIN + 600, state="FAILED", run="silent", **gpus(8)),
          job("2", BEGIN, BEGIN + 600, run="fine", **gpus(8)))  # fmt: skip
    append([steps(1, 9, "2")])
    projector.catch_up()
    assert of_run(Run.objects.get(name="silent")) is None
    assert (found("fine").rows, found("fine").uncharged["init_restore"]) == ([], 8 * 60)


# --- conservation ------------------------------------------------------------------------------------------------


@st.composite
def lives(draw: st.DrawFn) -> list[Lived]:
    """Attempts of up to four jobs, one after another inside each job, side by side across them."""
    every = []
    for number in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, 50))
        for place_ in range(draw(st.integers(1, 4))):
            end = at + draw(st.integers(0, 30))
            lost = draw(st.booleans())
            seconds = {part: draw(st.integers(0, 9)) if lost or part not in ENDING[:2] else 0 for part in PARTS}
            spent = None if draw(st.integers(0, 5)) == 0 else Spent({p: 8 * s for p, s in seconds.items()}, seconds)
            every.append(Lived(UUID(int=number * 10 + place_), UUID(int=number), at, end, lost, draw(st.booleans()),
                               spent))  # fmt: skip
            at = end + draw(st.integers(0, 20))
    return every


@given(lives())
def test_every_second_is_charged_once(every: list[Lived]) -> None:
    """What interruptions bear and what they do not is what the attempts spent, whatever the order; no attempt goes
    on for two, none for one that ended after it began; detecting and replay are borne whole."""
    rows = interruptions(every)
    assert rows == interruptions(every[::-1])
    assert [one.broken.attempt for one in rows].count(rows[0].broken.attempt if rows else None) == bool(rows)
    resumed = [one.resumed.attempt for one in rows if one.resumed]
    assert len(resumed) == len(set(resumed))
    assert all(one.requeue_seconds is None or one.requeue_seconds >= 0 for one in rows)
    for part in (*ENDING, *STARTING):
        spent = sum(one.spent.gpu_seconds[part] for one in every if one.spent)
        assert charged(rows, part) + uncharged(every, rows, part) == spent
        if part in ENDING[:2]:
            assert uncharged(every, rows, part) == 0
    assert set(PARTS) <= set(ALL)
