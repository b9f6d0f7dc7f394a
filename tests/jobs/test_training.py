"""Attempts and what their programs told, in the books: parts, lost work, order, reports. Worked by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from events import projector
from events.append import Fact, append, fact
from events.queries import head_position
from events.rebuild import known_at
from events.types import REGISTRY
from jobs.goodput import PARTS
from jobs.models import Attempt, Checkpoint, Goodput, Job, Run
from jobs.queries_goodput import of_run
from tests.hand import ask, at, column, gpus, job, mapped, place, project, say, tell

pytestmark = pytest.mark.django_db
BEGIN = at("2026-03-01 10:00")
MINUTE = 60_000


def heard(minute: float, type_: str, job_id: str = "1", /, **data: Any) -> Fact:
    """What a program of a job told so many minutes after BEGIN."""
    ms = round((BEGIN * 1000) + minute * MINUTE)
    said = REGISTRY.get(type_).struct(cluster="pod-a", job_id=job_id, **data)
    return fact(said, type_=type_, source="training:pod-a", source_key=f"{type_}/{job_id}/{ms}", occurred_us=ms * 1000,
                actor="test")  # fmt: skip


def ms(minute: float) -> int:
    return round(BEGIN * 1000 + minute * MINUTE)


def steps(first: float, last: float, job_id: str = "1", data_ms: int = 0, count: int = 10) -> Fact:
    """Ten steps from one minute to another."""
    return heard(last, "run.progressed", job_id, day="2026-03-01", step=round(last * 10), steps=count,
                 period_ms=round((last - first) * MINUTE), data_ms=data_ms, tokens=1000)  # fmt: skip


def save(state: float, whole: float, job_id: str = "1", blocking: int = 30_000) -> Fact:
    return heard(whole, "checkpoint.committed", job_id, step=round(state * 10), state_ms=ms(state),
                 blocking_ms=blocking, total_ms=round((whole - state) * MINUTE), bytes=10**12)  # fmt: skip


def books(*words: Fact, state: str = "NODE_FAIL", minutes: int | None = 60, **fields: Any) -> None:
    """Job 1 of run `big` on 16 GPUs, and what its program told."""
    end = None if minutes is None else BEGIN + minutes * 60
    said = {"state": state, **gpus(16), "nodes": 2, "run": "big", "submit": BEGIN - 600, "eligible": BEGIN - 300}
    say(place(), project("nlp"), mapped("a", "nlp"), job("1", BEGIN, end, **{**said, **fields}))
    append(list(words))
    projector.catch_up()


def parts(job_id: str = "1", number: int = 1) -> dict[str, int]:
    row = Goodput.objects.get(job_id=job_id, number=number)
    assert sum(getattr(row, part) for part in PARTS) == row.allocated
    return {part: getattr(row, part) for part in PARTS if getattr(row, part)}


FAULT: tuple[Fact, ...] = (
    heard(2, "gang.ready", ranks=16, first_ms=ms(1)),
    steps(5, 20), steps(20, 30, data_ms=40_000), save(30, 32), steps(30.5, 50), save(45, 59.5),
    heard(57, "run.interrupted", kind="error", last_ms=ms(50)),
)  # fmt: skip
LOST = {
    "init_restore": 16 * (60 + 180), "partial_gang_wait": 16 * 60, "productive": 16 * (25 * 60 - 40),
    "data_stall": 16 * 40, "checkpoint_stall": 16 * 30, "rollback_replay": 16 * (20 * 60 - 30), "detect": 16 * 7 * 60,
    "teardown": 16 * 3 * 60,
}  # fmt: skip
"""1 min until the first rank, 1 for the gang, 3 of loading; steps from 5 to 50, a save at 30, one that came too late;
noticed at 57, free at 60."""


def test_a_fault_in_the_books() -> None:
    books(*FAULT)
    assert parts() == LOST
    row = Goodput.objects.get()
    assert (row.rolled_back_seconds, row.productive_seconds, row.work_lost) == (20 * 60 - 30, 25 * 60 - 40, True)
    assert (row.steps, row.tokens, row.last_step) == (30, 3000, 500)
    saves = Checkpoint.objects.filter(kind="committed").order_by("state")
    assert [(one.step, one.blocking_ms, one.total_ms, one.bytes) for one in saves] == [
        (300, 30_000, 120_000, 10**12), (450, 30_000, 870_000, 10**12)]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_any_order_late_and_twice_gives_the_same(seed: int) -> None:
    """Words before the job is known, after it, one by one, and again."""
    words = [*FAULT]
    random.Random(seed).shuffle(words)
    cut = seed * 2
    append(words[:cut])
    projector.catch_up()
    books(*words[cut:])
    for word in words:
        append([word])
        projector.catch_up()
    assert parts() == LOST


def test_a_run_that_goes_on_from_before_the_last_step_has_lost_the_rest_whatever_the_scheduler_says() -> None:
    """Cancelled at 60 after steps until 58; the next job takes up the state of 30: 30:30 to 58:00 were in vain."""
    words = [heard(0, "gang.ready", ranks=16), steps(0, 30), save(30, 31), steps(30.5, 58)]
    books(*words, state="CANCELLED")
    kept = {"productive": 16 * (57 * 60 + 30), "checkpoint_stall": 16 * 30, "teardown": 16 * 120}
    assert parts() == kept

    say(job("2", BEGIN + 7200, BEGIN + 10800, run="big", **gpus(16)))
    append([heard(121, "checkpoint.restored", "2", step=300, state_ms=ms(30)), steps(122, 180, "2")])
    projector.catch_up()
    assert parts() == {"productive": 16 * 1800, "checkpoint_stall": 16 * 30, "rollback_replay": 16 * (27 * 60 + 30),
                       "detect": 16 * 120}  # fmt: skip
    assert parts("2") == {"init_restore": 16 * 120, "productive": 16 * 58 * 60}

    tell(job("2", BEGIN + 7200, BEGIN + 10800, run="other", **gpus(16)), key="again")
    assert parts() == kept, "another run went on from it: nothing of this one is lost"


def test_a_later_save_that_the_run_did_not_go_on_from_does_not_count() -> None:
    """Saves at 30 and 50, the run goes back to 30 (its loss ran away): all since then is lost, the save at 50 too."""
    books(heard(0, "gang.ready", ranks=16), steps(0, 30), save(30, 31), steps(30.5, 50), save(50, 51), steps(50.5, 60),
          state="CANCELLED")  # fmt: skip
    say(job("2", BEGIN + 7200, BEGIN + 10800, run="big", **gpus(16)))
    append([heard(121, "checkpoint.restored", "2", step=300, state_ms=ms(30)), steps(122, 180, "2")])
    projector.catch_up()
    assert parts() == {"productive": 16 * 1800, "checkpoint_stall": 16 * 30, "rollback_replay": 16 * (29 * 60 + 30)}


def test_words_go_to_the_attempt_that_ran_then_with_30_s_at_its_edges() -> None:
    """Requeued after 60 min, on again at 70; one 29 s after the end is of the first, one 31 s after of none."""
    books(minutes=60, state="NODE_FAIL", record=7)
    say(job("1", BEGIN + 4200, BEGIN + 7800, submit=BEGIN + 3600, run="big", record=8, **gpus(16)))
    append([steps(10, 60 + 29 / 60), steps(60 + 30 / 60, 60 + 31.2 / 60), steps(80, 100),
            heard(69.6, "gang.ready", ranks=16)])  # fmt: skip
    projector.catch_up()
    assert Attempt.objects.count() == 2
    assert {row.number: row.steps for row in Goodput.objects.all()} == {1: 10, 2: 10}
    assert parts(number=2)["productive"] == 16 * 1200


def test_a_running_attempt_is_parted_until_the_last_word_and_the_rest_is_other() -> None:
    books(heard(1, "gang.ready", ranks=16), steps(1, 40), state="RUNNING", minutes=None)
    assert parts() == {"partial_gang_wait": 16 * 60, "productive": 16 * 39 * 60}
    run = Run.objects.get()
    found = of_run(run, datetime.fromtimestamp(BEGIN + 45 * 60, UTC))
    assert found is not None
    assert (found.parts["other"], found.told, found.untold) == (16 * 300, 16 * 2700, 0)
    assert found.ettr == pytest.approx(39 * 60 / (50 * 60))
    append([steps(40, 45)])
    projector.catch_up()
    assert parts() == {"partial_gang_wait": 16 * 60, "productive": 16 * 44 * 60}


def test_after_a_resize_each_second_counts_with_its_own_gpus() -> None:
    say(place(), job("1", BEGIN, BEGIN + 1800, state="RESIZING", record=1, **gpus(16)),
        job("1", BEGIN, BEGIN + 3600, submit=BEGIN + 1800, record=2, **gpus(8)))  # fmt: skip
    append([heard(0, "gang.ready", ranks=16), steps(0, 60)])
    projector.catch_up()
    assert parts() == {"productive": 1800 * 16 + 1800 * 8}
    assert Goodput.objects.get().productive_seconds == 3600


def test_the_program_names_its_run_against_the_comment_and_the_latest_word_counts() -> None:
    books(heard(3, "run.declared", run="bigger"))
    assert list(Run.objects.values_list("name", "named", "jobs")) == [("bigger", True, 1)]
    append([heard(2, "run.declared", run="earlier")])
    projector.catch_up()
    assert Job.objects.get().run_name == "bigger"
    append([heard(4, "run.declared", run="biggest")])
    projector.catch_up()
    assert Job.objects.get().run_name == "biggest"
    assert Attempt.objects.get().run == Run.objects.get().id


def test_a_declaration_is_of_the_job_that_had_the_id_then() -> None:
    """The id is used again 40 days later: each job keeps its own name."""
    later = BEGIN + 40 * 86_400
    books(heard(1, "run.declared", run="first"), state="COMPLETED")
    tell(job("1", later, later + 600))
    append([heard(40 * 1440 + 1, "run.declared", run="second")])
    projector.catch_up()
    assert list(Job.objects.order_by("seq").values_list("run_name", flat=True)) == ["first", "second"]


def test_nonsense_does_not_stop_the_books() -> None:
    """The greatest numbers that a program may tell, often; contradictions; words of a job that nobody knows."""
    most = [heard(n / 20, "run.progressed", day="2026-03-01", step=2**53, steps=2**31 - 1, period_ms=400 * 86_400_000,
                  data_ms=400 * 86_400_000, tokens=2**53) for n in range(1, 1100)]  # fmt: skip
    far = 253_402_300_799_999
    books(*most, heard(1, "checkpoint.restored", step=2**53, state_ms=far), heard(2, "checkpoint.restored", step=1),
          heard(3, "checkpoint.committed", step=1, state_ms=far, blocking_ms=400 * 86_400_000, total_ms=0),
          heard(4, "gang.ready", "nobody", ranks=1), heard(5, "run.declared", "nobody", run="r"))  # fmt: skip
    row = Goodput.objects.get()
    assert row.tokens == 2**63 - 1
    assert sum(parts().values()) == row.allocated == 16 * 3600


def ask_goodput(by: str = "", **options: Any) -> Any:
    return ask("goodput", "2026-03-01", "2026-04-01", by, **options)


def test_the_report_counts_each_attempt_where_it_ends_and_what_was_not_told_apart() -> None:
    """Job 1 told of itself, job 2 did not, job 3 ended in February, job 4 runs (until the cut at noon)."""
    books(*FAULT)
    say(job("2", BEGIN, BEGIN + 3600, **gpus(4)), job("3", BEGIN - 90_000, BEGIN - 86_400, **gpus(8)),
        job("4", BEGIN, None, **gpus(2)))  # fmt: skip
    projector.catch_up()
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    answer = ask_goodput("project", cut=noon)
    (row,) = answer.rows
    assert (row["project"], row["attempts"], row["allocated_gpu_seconds"]) == ("nlp", 3, 3600 * 20 + 7200 * 2)
    assert row["not_instrumented_gpu_seconds"] == 3600 * 4 + 7200 * 2
    assert row["instrumented_gpu_seconds"] == 3600 * 16
    assert {part: row[f"{part}_gpu_seconds"] for part in PARTS if row[f"{part}_gpu_seconds"]} == LOST
    assert row["goodput"] == round((25 * 60 - 40) / 3600, 6) == answer.total["goodput"]
    assert column(ask_goodput("day", cut=noon), "day", "allocated_gpu_seconds")["2026-03-01"] == 3600 * 20 + 14_400
    assert ask_goodput("project", cut=noon + timedelta(days=40)).total["attempts"] == 2, "the cut is in another month"


def test_ettr_of_a_run_is_productive_time_over_wall_time_since_it_could_start() -> None:
    """1,460 productive seconds of 3,600 s and 300 s of waiting; without words of a tenth of its GPU time: no data."""
    books(*FAULT)
    by_run = ask_goodput("run")
    assert column(by_run, "run", "ettr") == {"big": round(1460 / 3900, 6)}
    assert by_run.total["ettr"] is None
    tell(job("2", BEGIN + 4000, BEGIN + 4400, run="big", **gpus(16)))
    assert column(ask_goodput("run"), "run", "ettr") == {"big": None}


def test_as_known_at_a_position() -> None:
    books(*FAULT[:-1])
    before = head_position()
    append([FAULT[-1]])
    projector.catch_up()
    assert parts() == LOST
    then = ask_goodput(as_known_at=str(before))
    assert then.total["teardown_gpu_seconds"] == 0
    assert then.total["detect_gpu_seconds"] == 16 * 600
    with known_at(before):
        assert parts() != LOST


def advice_of(saves: Sequence[Fact], state: str = "COMPLETED", minutes: int = 600) -> Any:
    books(heard(0, "gang.ready", ranks=16), steps(0, minutes), *saves, state=state, minutes=minutes)
    found = of_run(Run.objects.get(), datetime.now(UTC))
    assert found is not None
    return found.advice


def test_advice_from_the_measured_rate_and_saves() -> None:
    """2 nodes for 10 h are 5/6 node-days with one failure: by Gamma(2, 200 + 5/6) a node fails 2/200.833 a day, the run
    once in 200.833/4 = 50.2083 days; saves every 120 min of 30 s, whole after 3 min.

    Young: sqrt(2 x 30 x 4,338,000) = 16,133.2 s. The storage floor is 180 s.
    """
    advice = advice_of([save(120 * n, 120 * n + 3) for n in range(1, 5)], state="NODE_FAIL")
    assert (advice.refused, advice.failures) == ("", 1)
    assert advice.mttf == pytest.approx(4_338_000, rel=1e-6)
    assert (advice.interval, advice.blocking) == (7200, 30)
    assert advice.young == pytest.approx(16_133.196, abs=0.01)
    assert advice.band.floor == 180
    assert advice.band.low < 7200 < advice.band.high
    assert advice.saving == 0


@pytest.mark.parametrize(
    ("saves", "said"),
    [((), "Fewer than two saves"), ((save(10, 11),), "Fewer than two saves"),
     ((save(10, 11, blocking=0), save(20, 21, blocking=0)), "Saving does not stop its steps")],
)  # fmt: skip
def test_advice_is_refused_where_it_does_not_hold(saves: tuple[Fact, ...], said: str) -> None:
    assert said in advice_of(saves).refused


def test_advice_is_refused_where_the_run_fails_too_often() -> None:
    """2,048 nodes for 10 h with a failure: once in 22,219 s; saving takes two hours, so the best interval is so long
    that half of it is more than a quarter of that."""
    books(heard(0, "gang.ready", ranks=16), steps(0, 600), save(60, 190, blocking=7_200_000),
          save(240, 380, blocking=7_200_000), state="NODE_FAIL", minutes=600, nodes=2048)  # fmt: skip
    found = of_run(Run.objects.get(), datetime.now(UTC))
    assert found is not None
    assert "too often" in found.advice.refused
    assert found.advice.mttf is not None
