"""A run's name may be used again once it is closed: jobs submitted later are another run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from events import projector
from events.access import Scope
from events.queries import head_position
from events.rebuild import known_at
from events.types.runs import RunClosed, RunReopened
from jobs.actions import Closed, NotDone, Saying, close_run, closings_of, reopen_run
from jobs.models import Attempt, Closing, Job, Run, Segment
from tests.hand import HOUR, at, gpus, job, place, read_models, tell

pytestmark = pytest.mark.django_db
T = at("2026-03-10 06:00")
STAFF = Saying(Scope.everything(), "user:1")
SPACE = uuid.UUID("6f0f4e8e-6f0e-5f0b-9d53-5a5a3c1d9e10")


def closed(at_s: int, run: str = "big", account: str = "a") -> RunClosed:
    return RunClosed(account=account, run=run, closed_s=at_s)


def reopened(at_s: int, run: str = "big") -> RunReopened:
    return RunReopened(account="a", run=run, closed_s=at_s)


def runs() -> dict[str, tuple[int, int]]:
    """Jobs and GPU-seconds of the runs of account a, by what they are called."""
    return {run.title: (run.jobs, run.gpu_seconds) for run in Run.objects.filter(named=True, account="a")}


def keys() -> dict[int, uuid.UUID]:
    return {run.generation: run.id for run in Run.objects.filter(name="big", account="a")}


TWO = (place(), job("1", T, T + HOUR, run="big", **gpus(8)), job("2", T + 2 * HOUR, T + 4 * HOUR, run="big", **gpus(2)))
"""8 GPU-hours, and 4 from two hours after."""


def test_jobs_submitted_after_a_closing_are_another_run() -> None:
    """Job 3 is of another account: the closing does not speak of it."""
    tell(*TWO, job("3", T + 3 * HOUR, T + 4 * HOUR, run="big", account="other", **gpus(1)))
    (first,) = keys().values()
    assert first == uuid.uuid5(SPACE, "run/a/big")
    tell(closed(T + HOUR))
    assert runs() == {"big": (1, 8 * HOUR), "big #2": (1, 4 * HOUR)}
    assert keys() == {1: first, 2: uuid.uuid5(SPACE, "run/a/big/2")}
    second = Job.objects.get(job_id="2")
    assert (second.run, second.run_title) == (keys()[2], "big #2")
    assert Attempt.objects.get(job_id="2").run == Segment.objects.get(stream=second.stream).run == keys()[2]
    assert Run.objects.get(account="other").generation == 1
    assert [(row.generation, row.actor) for row in Closing.objects.all()] == [(1, "test")]


def test_a_job_submitted_before_stays_also_when_learnt_late() -> None:
    """The second of the closing is before it; one second later is after."""
    tell(*TWO, closed(T + HOUR))
    tell(job("4", T + 9 * HOUR, T + 10 * HOUR, submit=T + HOUR, run="big", **gpus(1)),
         job("5", T + 9 * HOUR, T + 10 * HOUR, submit=T + HOUR + 1, run="big", **gpus(16)))  # fmt: skip
    assert runs() == {"big": (2, 9 * HOUR), "big #2": (2, 20 * HOUR)}


def test_without_its_submission_a_job_counts_from_its_start() -> None:
    tell(*TWO, closed(T + HOUR), job("4", T + HOUR, T + 2 * HOUR, submit=None, eligible=None, run="big", **gpus(1)),
         job("5", T + HOUR + 1, T + 2 * HOUR, submit=None, eligible=None, run="big", **gpus(1)))  # fmt: skip
    assert {row.job_id: row.generation for row in Job.objects.all()} == {"1": 1, "2": 2, "4": 1, "5": 2}


def test_a_reopened_run_is_one_again_and_the_first_key_never_moved() -> None:
    tell(*TWO, closed(T + HOUR))
    tell(reopened(T + HOUR))
    assert runs() == {"big": (2, 12 * HOUR)}
    assert keys() == {1: uuid.uuid5(SPACE, "run/a/big")}
    tell(closed(T + 8 * HOUR))
    assert runs() == {"big": (2, 12 * HOUR)}
    assert [row.closed.timestamp() for row in Closing.objects.all()] == [T + 8 * HOUR]


def test_of_one_second_the_later_word_holds() -> None:
    """Closed, taken back and closed again as of one second, by other people: the last closing stands, and is whose."""
    tell(*TWO, reopened(T + HOUR))
    parted, whole = {"big": (1, 8 * HOUR), "big #2": (1, 4 * HOUR)}, {"big": (2, 12 * HOUR)}
    words: list[Callable[[int], RunClosed | RunReopened]] = [
        closed, reopened, closed, closed, reopened, reopened, closed]  # fmt: skip
    for number, expected in enumerate([parted, whole, parted, parted, whole, whole, parted]):
        tell(words[number](T + HOUR), key=f"{number}/")
        assert runs() == expected, number
    with known_at(head_position()):
        assert runs() == parted


def test_as_known_before_the_closing() -> None:
    tell(*TWO)
    before, models = head_position(), read_models()
    tell(closed(T + HOUR))
    with known_at(before):
        assert read_models() == models
    with known_at(head_position()):
        assert runs() == {"big": (1, 8 * HOUR), "big #2": (1, 4 * HOUR)}


# --- the command --------------------------------------------------------------------------------------------------


def test_close_and_take_back_by_command() -> None:
    tell(*TWO)
    (key,) = keys().values()
    said = close_run(STAFF, key)
    projector.catch_up()
    assert closings_of("a", "big") == [said]
    assert (said.actor, Closing.objects.get().closed) == ("user:1", said.at)
    with pytest.raises(NotDone, match="closed already") as caught:
        close_run(STAFF, key)
    assert caught.value.code == "closed"
    assert reopen_run(STAFF, key).at == said.at
    assert closings_of("a", "big") == []
    with pytest.raises(NotDone, match="not closed"):
        reopen_run(STAFF, key)


def test_closed_again_as_of_the_second_that_was_taken_back() -> None:
    tell(*TWO)
    as_of = datetime.fromtimestamp(T + HOUR, UTC)
    close_run(STAFF, keys()[1], as_of)
    projector.catch_up()
    reopen_run(STAFF, keys()[1])
    projector.catch_up()
    other = Saying(Scope.everything(), "user:2")
    assert close_run(other, keys()[1], as_of) == Closed(as_of, "user:2")
    projector.catch_up()
    assert closings_of("a", "big") == [Closed(as_of, "user:2")]
    assert runs() == {"big": (1, 8 * HOUR), "big #2": (1, 4 * HOUR)}
    assert Closing.objects.get().actor == "user:2"


def test_a_closing_before_the_first_job_would_lose_the_run() -> None:
    """Job 1 was submitted at T: a second before there was no run, at that second there was."""
    tell(*TWO)
    with pytest.raises(NotDone, match="no job of the run was submitted by then") as caught:
        close_run(STAFF, keys()[1], datetime.fromtimestamp(T - 1, UTC))
    assert (caught.value.code, caught.value.fields) == ("at", ("at",))
    assert closings_of("a", "big") == []
    assert close_run(STAFF, keys()[1], datetime.fromtimestamp(T + HOUR, UTC)).at.timestamp() == T + HOUR
    projector.catch_up()
    with pytest.raises(NotDone, match="no job of the run"):
        close_run(STAFF, keys()[2], datetime.fromtimestamp(T + 2 * HOUR - 1, UTC))
    assert close_run(STAFF, keys()[2], datetime.fromtimestamp(T + 4 * HOUR, UTC)).at.timestamp() == T + 4 * HOUR
    projector.catch_up()
    assert runs() == {"big": (1, 8 * HOUR), "big #2": (1, 4 * HOUR)}


def test_the_second_run_cannot_be_closed_once_the_first_is_open_again() -> None:
    """The read model still shows #2 while the log knows already that there is none."""
    tell(*TWO, closed(T + HOUR))
    reopen_run(STAFF, keys()[1])
    with pytest.raises(NotDone, match="just taken back") as caught:
        close_run(STAFF, keys()[2])
    assert caught.value.code == "moved"


def test_a_run_with_open_jobs_cannot_be_closed() -> None:
    tell(*TWO, job("7", None, None, state="PENDING", submit=T, run="big"), job("8", T, None, run="big", **gpus(1)))
    (key,) = keys().values()
    with pytest.raises(NotDone, match="2 jobs wait or run: 7, 8") as caught:
        close_run(STAFF, key)
    assert (caught.value.code, [row.job_id for row in caught.value.jobs]) == ("open", ["7", "8"])
    assert closings_of("a", "big") == []


def test_only_a_named_run_in_scope_can_be_closed() -> None:
    tell(place(), job("1", T, T + HOUR, **gpus(1)), job("2", T, T + HOUR, run="big", **gpus(1)))
    with pytest.raises(NotDone) as caught:
        close_run(STAFF, Run.objects.get(named=False).id)
    assert caught.value.code == "unnamed"
    with pytest.raises(NotDone) as caught:
        close_run(Saying(Scope.only({"elsewhere"}), "user:2"), Run.objects.get(named=True).id)
    assert caught.value.code == "missing"


def test_the_same_key_says_the_same_once_and_nothing_else() -> None:
    tell(*TWO, job("3", T, T + HOUR, run="small", **gpus(1)))
    big, small = Run.objects.get(name="big").id, Run.objects.get(name="small").id
    keyed = Saying(Scope.everything(), "user:1", "k1")
    first = close_run(keyed, big)
    position = head_position()
    assert close_run(keyed, big) == first
    assert head_position() == position
    with pytest.raises(NotDone) as caught:
        close_run(keyed, small)
    assert caught.value.code == "key_used"
    with pytest.raises(NotDone) as caught:
        reopen_run(keyed, big)
    assert caught.value.code == "key_used"
    assert close_run(Saying(Scope.everything(), "user:2", "k1"), small).actor == "user:2", "a key is its caller's own"


def test_a_key_is_of_one_run_and_of_one_instant() -> None:
    """What closed #1 says nothing of #2 of the same name; what was said as of one hour not of another."""
    tell(*TWO)
    keyed = Saying(Scope.everything(), "user:1", "k1")
    as_of = datetime.fromtimestamp(T + HOUR, UTC)
    first = close_run(keyed, keys()[1], as_of)
    projector.catch_up()
    assert close_run(keyed, keys()[1], as_of) == close_run(keyed, keys()[1]) == first
    for run, instant in ((keys()[2], None), (keys()[2], as_of), (keys()[1], datetime.fromtimestamp(T, UTC))):
        with pytest.raises(NotDone) as caught:
            close_run(keyed, run, instant)
        assert caught.value.code == "key_used"
    again = Saying(Scope.everything(), "user:1", "k2")
    assert close_run(again, keys()[2]).actor == "user:1"
    projector.catch_up()
    back = Saying(Scope.everything(), "user:1", "k3")
    reopened_two = reopen_run(back, keys()[2])
    with pytest.raises(NotDone) as caught:
        reopen_run(back, keys()[1])
    assert caught.value.code == "key_used"
    assert reopen_run(back, keys()[2]) == reopened_two


def test_only_the_last_closing_can_be_taken_back() -> None:
    tell(*TWO, closed(T + HOUR), closed(T + 6 * HOUR))
    with pytest.raises(NotDone, match="closing of #2") as caught:
        reopen_run(STAFF, keys()[1])
    assert caught.value.code == "not_last"
    assert reopen_run(STAFF, keys()[2]).at.timestamp() == T + 6 * HOUR
