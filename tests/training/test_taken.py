"""Hallbook's own intake takes what `hallbook_run` sends: the same names, the same units, each report once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from events.adapters import Draft, cloudevents
from events.intake import Intake
from events.types import REGISTRY
from jobs import goodput
from tests.training.conftest import Clock
from tests.training.door import Door

Begin = Callable[..., Any]
TYPES = {
    "run.declared", "gang.ready", "run.progressed", "checkpoint.started", "checkpoint.committed", "checkpoint.failed",
    "checkpoint.restored", "run.interrupted",
}  # fmt: skip


def attempt(begin: Begin, clock: Clock) -> None:
    """Everything a program can say, in the order of a real attempt of 4,000 s."""
    clock.ms = (int(time.time()) - 4000) * 1000  # the past, as intake believes no clock that is ahead
    run = begin(run="atlas-70b", flop_per_token=420_000_000_000, peak_gflops=989_400, convention="6N, dense BF16")
    clock.pass_by(40)
    run.gang_ready(ranks=64)
    clock.pass_by(50)
    run.restored(1000, state_time=clock.ms / 1000 - 900, seconds=45)
    clock.pass_by(10)
    run.begin(1000)
    for step in range(1001, 1301):
        clock.pass_by(10)
        run.step(step, tokens=4_194_304, loss=1.75, data_seconds=0.5, communication_seconds=2.0)
        if step == 1150:
            with run.checkpoint(step, path_class="pfs") as save:
                clock.pass_by(20)
                save.bytes = 840_000_000_000
        if step == 1250:
            with pytest.raises(OSError, match="no space"), run.checkpoint(step):  # noqa: PT012
                clock.pass_by(5)
                raise OSError("/lustre/alice/ckpt: no space left")
    clock.pass_by(100)
    run.interrupted("error", "NCCL timeout")
    run.finish()


@pytest.mark.django_db
def test_every_report_is_taken_once(begin: Begin, door: Door, clock: Clock) -> None:
    attempt(begin, clock)
    assert {event["type"] for event in door.events} == TYPES
    body = b"\n".join(json.dumps(event).encode() for event in door.events)
    way_in = Intake(source="test", actor="token:test", origin="test")
    first = Counter(result.status for result in way_in.take(cloudevents.lines(body)))
    again = Counter(result.status for result in way_in.take(cloudevents.lines(body)))
    assert (first, again) == ({"accepted": len(door.events)}, {"duplicate": len(door.events)})


def test_the_names_of_programs_texts_stay_out_of_the_log(begin: Begin, door: Door, clock: Clock) -> None:
    """What a program printed may name people: it is kept apart as other texts of users are."""
    attempt(begin, clock)
    (failed,) = door.of("checkpoint.failed")
    assert failed["data"]["why"] == "OSError: /lustre/alice/ckpt: no space left"
    assert {name: list(REGISTRY.get(name).markers) for name in ("checkpoint.failed", "run.interrupted")} == {
        "checkpoint.failed": ["why"], "run.interrupted": ["why"]}  # fmt: skip


def test_a_clock_that_is_ahead_is_refused_by_the_field_that_tells_it() -> None:
    data = {
        "cluster": "pod-a",
        "job_id": "1",
        "step": 1,
        "state_ms": 4_102_444_800_000,
        "blocking_ms": 1,
        "total_ms": 1,
    }
    for kind in ("checkpoint.committed", "checkpoint.failed"):
        said = {key: value for key, value in data.items() if (kind, key) != ("checkpoint.failed", "total_ms")}
        assert REGISTRY.get(kind).decoder.decode(msgspec.json.encode(said)).happened() == ("state_ms", 4_102_444_800)


def test_the_partition_of_an_attempt_by_its_own_reports(begin: Begin, door: Door, clock: Clock) -> None:
    """64 GPUs over the attempt above, parted by hand.

    40 s until all were there (from this program's start on), 60 s to the first step; 300 steps of 10 s; saves of 20 and
    5 s; 100 s after the last step until it noticed, and 15 s to take down; 0.5 s of each step's 10 s for data. The
    work since the save at step 1150 is lost: 150 steps, and the failed save among them.
    """
    attempt(begin, clock)
    drafts = [item for item in cloudevents.lines(b"\n".join(json.dumps(e).encode() for e in door.events))
              if isinstance(item, Draft)]  # fmt: skip
    start = min(draft.occurred_us for draft in drafts) // 1000
    parted = goodput.partition(_attempt(drafts, start, start + (100 + 3000 + 25 + 100 + 15) * 1000))
    assert parted is not None
    assert {part: seconds for part, seconds in parted.gpu_seconds.items() if seconds} == {
        "partial_gang_wait": 64 * 40, "init_restore": 64 * 60, "productive": 64 * 1500 - 64 * 75,
        "data_stall": 64 * 75, "checkpoint_stall": 64 * 20, "rollback_replay": 64 * (1500 + 5), "detect": 64 * 100,
        "teardown": 64 * 15,
    }  # fmt: skip
    assert parted.allocated == 64 * 3240


def _attempt(drafts: list[Draft], start: int, end: int) -> goodput.Attempt:
    """What the fold of the jobs makes of these events, as far as the partition needs it."""
    at = [(draft.type, draft.occurred_us // 1000, draft.data) for draft in drafts]
    by: dict[str, list[tuple[int, Any]]] = {}
    for kind, ms, data in at:
        by.setdefault(kind, []).append((ms, data))
    (ready, gang), (noticed, told) = by["gang.ready"][0], by["run.interrupted"][-1]
    saves = [goodput.Save(data.state_ms, data.blocking_ms, ms) for ms, data in by["checkpoint.committed"]]
    saves += [goodput.Save(data.state_ms, data.blocking_ms, None) for _, data in by["checkpoint.failed"]]
    progress = [goodput.Progress(ms - data.period_ms, ms, data.data_ms) for ms, data in by["run.progressed"]]
    return goodput.Attempt(
        sizes=[goodput.Size(start, end, 64)], ended=True, lost=True, ready=ready, first_rank=gang.first_ms,
        progress=progress, saves=saves, last=told.last_ms, noticed=noticed,
    )  # fmt: skip
