"""What the calls of a training become: times and counts worked out by hand, the clock set by the test."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.training.conftest import NOON_MS, Clock
from tests.training.door import Door

Begin = Callable[..., Any]


def data(door: Door, kind: str) -> list[dict[str, Any]]:
    return [{"time": event["time"], **event["data"]} for event in door.of(kind)]


def told(run: Any, door: Door, kind: str) -> list[dict[str, Any]]:
    assert run.flush(10)
    return data(door, kind)


def test_steps_are_told_together_every_five_minutes(begin: Begin, door: Door, clock: Clock) -> None:
    """601 steps of 1 s: two reports of 300 steps, and the rest at the end."""
    run = begin(flop_per_token=420_000_000_000, peak_gflops=989_400, convention="6N, dense BF16")
    run.begin(1000)
    for number in range(1, 602):
        clock.pass_by(1)
        run.step(1000 + number, tokens=2048, loss=2.5 - number / 1000, data_seconds=0.05, communication_seconds=0.2)
    assert len(told(run, door, "run.progressed")) == 2
    run.finish()
    first, second, rest = data(door, "run.progressed")
    assert first == {
        "time": "2026-11-30T12:05:00.000Z", "cluster": "pod-a", "job_id": "412", "day": "2026-11-30", "step": 1300,
        "steps": 300, "period_ms": 300_000, "data_ms": 15_000, "communication_ppm": 200_000, "tokens": 614_400,
        "loss_micro": 2_200_000, "flop_per_token": 420_000_000_000, "peak_gflops": 989_400,
        "convention": "6N, dense BF16",
    }  # fmt: skip
    assert (second["step"], second["steps"], second["time"]) == (1600, 300, "2026-11-30T12:10:00.000Z")
    assert (rest["step"], rest["steps"], rest["period_ms"], rest["tokens"]) == (1601, 1, 1000, 2048)
    assert data(door, "run.interrupted") == [
        {"time": "2026-11-30T12:10:01.000Z", "cluster": "pod-a", "job_id": "412", "kind": "finished",
         "last_ms": NOON_MS + 601_000}
    ]  # fmt: skip


def test_without_a_beginning_the_end_of_the_first_step_is_one(begin: Begin, door: Door, clock: Clock) -> None:
    """The first step of a program is longer than the others: what came before it is not known to be work."""
    run = begin()
    clock.pass_by(40)
    run.step(1)
    clock.pass_by(3)
    run.step(2)
    run.finish()
    (only,) = data(door, "run.progressed")
    assert (only["steps"], only["period_ms"], only["time"]) == (1, 3000, "2026-11-30T12:00:43.000Z")


@pytest.mark.parametrize(("numbers", "steps"), [
    ([10, 20, 30], 30), ([1, 1, 2, 2], 2), ([1, 2, 0, 1], 4), ([5], 5),
])  # fmt: skip
def test_steps_are_counted_by_their_numbers(
    begin: Begin, door: Door, clock: Clock, numbers: list[int], steps: int
) -> None:
    """Told after every tenth, for each part of a step (gradients accumulated), anew from 0 in each epoch."""
    run = begin()
    run.begin(0)
    for number in numbers:
        clock.pass_by(1)
        run.step(number)
    run.finish()
    assert data(door, "run.progressed")[0]["steps"] == steps


def test_midnight_parts_nothing_but_names_the_day_of_the_end(begin: Begin, door: Door, clock: Clock) -> None:
    clock.pass_by(12 * 3600 - 60)
    run = begin()
    run.begin(0)
    clock.pass_by(90)
    run.step(1)
    run.finish()
    (only,) = data(door, "run.progressed")
    assert (only["time"], only["day"], only["period_ms"]) == ("2026-12-01T00:00:30.000Z", "2026-12-01", 90_000)


def test_a_save_closes_the_stretch_and_the_next_one_begins_after_it(begin: Begin, door: Door, clock: Clock) -> None:
    """Steps until 60 s, a save that blocks 7.5 s, steps from there."""
    run = begin()
    run.begin(0)
    clock.pass_by(59)
    run.step(1)
    clock.pass_by(1)
    with run.checkpoint(1, path_class="parallel file system") as save:
        clock.pass_by(7.5)
        save.bytes = 840_000_000_000
    clock.pass_by(10)
    run.step(2)
    run.finish()
    assert data(door, "checkpoint.started") == [
        {"time": "2026-11-30T12:01:00.000Z", "cluster": "pod-a", "job_id": "412", "step": 1,
         "path_class": "parallel file system"}
    ]  # fmt: skip
    assert data(door, "checkpoint.committed") == [
        {"time": "2026-11-30T12:01:07.500Z", "cluster": "pod-a", "job_id": "412", "step": 1,
         "state_ms": NOON_MS + 60_000, "blocking_ms": 7500, "total_ms": 7500, "bytes": 840_000_000_000,
         "path_class": "parallel file system"}
    ]  # fmt: skip
    before, after = data(door, "run.progressed")
    assert (before["time"], before["period_ms"]) == ("2026-11-30T12:01:00.000Z", 60_000)
    assert (after["time"], after["period_ms"], after["steps"]) == ("2026-11-30T12:01:17.500Z", 10_000, 1)


def test_a_save_that_goes_on_is_committed_later(begin: Begin, door: Door, clock: Clock) -> None:
    run = begin()
    with run.checkpoint(5, later=True) as save:
        clock.pass_by(2)
    clock.pass_by(28)
    assert not told(run, door, "checkpoint.committed")
    save.committed(bytes=10)
    save.committed(bytes=11)
    (only,) = told(run, door, "checkpoint.committed")
    assert (only["time"], only["state_ms"], only["blocking_ms"], only["total_ms"], only["bytes"]) == (
        "2026-11-30T12:00:30.000Z", NOON_MS, 2000, 30_000, 10)  # fmt: skip


def test_a_save_that_is_whole_before_the_steps_go_on(begin: Begin, door: Door, clock: Clock) -> None:
    run = begin()
    with run.checkpoint(5, later=True) as save:
        clock.pass_by(1)
        save.committed()
        clock.pass_by(2)
    (only,) = told(run, door, "checkpoint.committed")
    assert (only["time"], only["blocking_ms"], only["total_ms"]) == ("2026-11-30T12:00:01.000Z", 3000, 1000)


def test_a_save_that_fails_is_told_and_its_exception_goes_on(begin: Begin, door: Door, clock: Clock) -> None:
    run = begin()
    with pytest.raises(OSError, match="quota"), run.checkpoint(5):  # noqa: PT012 - the clock is part of it
        clock.pass_by(4)
        raise OSError("quota exceeded")
    (only,) = told(run, door, "checkpoint.failed")
    assert (only["blocking_ms"], only["state_ms"], only["why"]) == (4000, NOON_MS, "OSError: quota exceeded")
    with run.checkpoint(6, later=True) as save:
        clock.pass_by(1)
    clock.pass_by(9)
    save.failed("node lost")
    save.committed()
    assert told(run, door, "checkpoint.failed")[1]["blocking_ms"] == 1000
    assert not data(door, "checkpoint.committed")


def test_a_save_told_afterwards(begin: Begin, door: Door, clock: Clock) -> None:
    run = begin()
    run.begin(0)
    clock.pass_by(10)
    run.step(1)
    clock.pass_by(6)
    run.saved(1, clock.ms / 1000 - 5, bytes=7)
    (only,) = told(run, door, "checkpoint.committed")
    assert (only["state_ms"], only["blocking_ms"], only["bytes"]) == (NOON_MS + 11_000, 5000, 7)
    assert data(door, "checkpoint.started")[0]["time"] == "2026-11-30T12:00:11.000Z"
    assert data(door, "run.progressed")[0]["period_ms"] == 11_000


def test_the_beginning_of_an_attempt(begin: Begin, door: Door, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "64")
    run = begin(run="atlas-70b")
    clock.pass_by(30)
    run.gang_ready()
    clock.pass_by(45)
    run.restored(1200, state_time=NOON_MS / 1000 - 3600, seconds=44.5)
    clock.pass_by(2)
    run.step(1201)
    run.finish()
    assert [(event["type"], event["time"]) for event in door.events][:3] == [
        ("run.declared", "2026-11-30T12:00:00.000Z"),
        ("gang.ready", "2026-11-30T12:00:30.000Z"),
        ("checkpoint.restored", "2026-11-30T12:01:15.000Z"),
    ]
    assert data(door, "run.declared")[0]["run"] == "atlas-70b"
    ready, restored = data(door, "gang.ready")[0], data(door, "checkpoint.restored")[0]
    assert (ready["ranks"], ready["first_ms"]) == (64, NOON_MS)
    assert (restored["step"], restored["state_ms"], restored["restore_ms"]) == (1200, NOON_MS - 3_600_000, 44_500)
    assert (data(door, "run.progressed")[0]["steps"], data(door, "run.progressed")[0]["period_ms"]) == (1, 2000)


def test_an_interruption_names_the_end_of_the_last_whole_step(begin: Begin, door: Door, clock: Clock) -> None:
    run = begin()
    run.begin(0)
    clock.pass_by(5)
    run.step(1)
    clock.pass_by(90)
    run.interrupted("hang", "no answer of rank 17")
    run.finish()
    (only,) = data(door, "run.interrupted")
    assert (only["kind"], only["last_ms"], only["why"]) == ("hang", NOON_MS + 5000, "no answer of rank 17")
    assert only["time"] == "2026-11-30T12:01:35.000Z"
    assert data(door, "run.progressed")[0]["time"] == "2026-11-30T12:00:05.000Z"


def test_an_exception_out_of_the_context_is_an_error(begin: Begin, door: Door) -> None:
    with pytest.raises(ZeroDivisionError), begin():
        _ = 1 // 0
    (only,) = data(door, "run.interrupted")
    assert (only["kind"], only["why"]) == ("error", "ZeroDivisionError: integer division or modulo by zero")


def test_the_wait_for_each_batch_is_timed(begin: Begin, door: Door, clock: Clock, tool: Any) -> None:
    """Three batches, each 0.25 s late, in steps of 1 s: `perf_counter` is the clock's here."""
    tool.time.perf_counter = lambda: clock.ms / 1000

    def loader() -> Any:
        for batch in "abc":
            clock.pass_by(0.25)
            yield batch

    run = begin()
    run.begin(0)
    seen = []
    for number, batch in enumerate(run.data(loader()), 1):
        clock.pass_by(0.75)
        run.step(number)
        seen.append(batch)
    run.finish()
    (only,) = data(door, "run.progressed")
    assert (seen, only["steps"], only["period_ms"], only["data_ms"]) == (["a", "b", "c"], 3, 3000, 750)


class Tensor:
    """What a tensor on a GPU is to us: looking at it waits for the device, and it holds a graph until detached."""

    looks = 0

    def __init__(self, value: float, detached: bool = False) -> None:
        self.value, self.detached = value, detached

    def detach(self) -> Tensor:
        return Tensor(self.value, detached=True)

    def __float__(self) -> float:
        assert self.detached
        Tensor.looks += 1
        return self.value

    def __add__(self, other: Tensor) -> Tensor:
        return Tensor(self.value + other.value, detached=True)


def test_a_tensor_is_looked_at_once_per_report(begin: Begin, door: Door, clock: Clock) -> None:
    run = begin()
    run.begin(0)
    for number in range(1, 11):
        clock.pass_by(1)
        run.step(number, loss=Tensor(number / 8), tokens=Tensor(100.0))
    assert Tensor.looks == 0
    run.finish()
    (only,) = data(door, "run.progressed")
    assert (only["loss_micro"], only["tokens"], Tensor.looks) == (1_250_000, 1000, 2)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), "x", 1e300])
def test_a_loss_that_is_no_number_is_left_out(begin: Begin, door: Door, clock: Clock, loss: Any) -> None:
    run = begin()
    run.begin(0)
    clock.pass_by(1)
    run.step(1, loss=loss)
    run.finish()
    (only,) = data(door, "run.progressed")
    assert "loss_micro" not in only


def test_only_rank_0_speaks(begin: Begin, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "3")
    run = begin()
    run.step(1)
    with run.checkpoint(1):
        pass
    run.finish()
    assert (run.speaks, door.posts) == (False, [])
    monkeypatch.setenv("RANK", "0")  # torchrun inside task 3
    assert begin().speaks
    monkeypatch.setenv("RANK", "9")
    assert not begin().speaks
    assert begin(speaks=True).speaks


def test_job_and_address_come_from_slurm(tool: Any, door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("hb_of_file\n")
    for name, text in {
        "HALLBOOK_URL": door.url + "/", "HALLBOOK_TOKEN_FILE": str(tmp_path / "token"), "HALLBOOK_RUN": "atlas",
        "SLURM_CLUSTER_NAME": "pod-b", "SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "2", "SLURM_PROCID": "0",
        "HALLBOOK_SPOOL": str(tmp_path / "spool"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, text)
    tool.start(signals=False).finish()
    path, headers, events = door.posts[0]
    assert (path, headers["authorization"]) == ("/api/v1/events?results=rejected", "Bearer hb_of_file")
    assert headers["content-type"] == "application/x-ndjson"
    assert events[0]["source"] == "training:pod-b"
    assert events[0]["id"].startswith("77.2-")
    assert events[0]["data"] == {"cluster": "pod-b", "job_id": "77", "run": "atlas"}


def test_without_a_job_it_says_so_and_does_nothing(tool: Any, caplog: pytest.LogCaptureFixture) -> None:
    run = tool.start(url="http://127.0.0.1:1", signals=False)
    run.step(1)
    run.finish()
    assert not run.speaks
    assert "no cluster and job" in caplog.text


def test_nonsense_reaches_no_training(begin: Begin, door: Door, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    run = begin()
    run.begin(0)
    for wrong in ({"step": "x"}, {"step": None}, {"step": 1, "tokens": object()}, {"step": 2, "data_seconds": "y"}):
        run.step(**wrong)
    run.gang_ready("many")
    run.restored("here")
    run.interrupted("error", object())
    with run.checkpoint("x"):
        pass
    clock.pass_by(1)
    run.step(3)
    run.finish()
    assert door.of("run.interrupted")
    assert caplog.text.count("a report failed") == 4  # once for each call: step, gang_ready, restored, checkpoint


def test_the_training_draws_the_same_random_numbers(begin: Begin, door: Door) -> None:
    random.seed(7)
    expected = [random.random() for _ in range(3)]
    door.first = [(503, {}, b"")] * 2
    random.seed(7)
    run = begin(run="atlas")
    drawn = [random.random()]
    run.flush(5)
    drawn += [random.random() for _ in range(2)]
    assert drawn == expected


def test_both_frameworks_are_asked_for_only_when_used(tool: Any) -> None:
    assert not {"HallbookLightning", "HallbookTrainer"} & vars(tool).keys()
    with pytest.raises(AttributeError, match="no attribute 'HallbookJax'"):
        tool.HallbookJax  # noqa: B018
