"""From the spool to Hallbook: what is sent again, what is kept, what is refused, and that none of it costs a step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Clock
from tests.training.door import Door, soon

Begin = Callable[..., Any]
AT_ONCE = 0.1
"""Seconds that a call may take on a busy machine, whatever the server does."""


def steps(run: Any, clock: Clock, first: int, last: int) -> None:
    """One report per step: `every_seconds` of these runs is 1."""
    for number in range(first, last + 1):
        clock.pass_by(1)
        run.step(number)


def waiting(folder: Path) -> list[dict[str, Any]]:
    """What the spool on disk holds, oldest first."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("*/[0-9]*.ndjson"))
        for line in path.read_text().splitlines()
    ]  # fmt: skip


def test_what_could_not_be_sent_is_sent_later_once_and_in_order(begin: Begin, door: Door, clock: Clock) -> None:
    door.down()
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 5)
    assert not run.flush(5)
    door.up()
    steps(run, clock, 6, 8)
    run.finish()
    assert [event["data"]["step"] for event in door.of("run.progressed")] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not door.again


def test_a_lost_answer_makes_no_second_report(begin: Begin, door: Door, clock: Clock) -> None:
    """Hallbook took them, but its answer was cut off: they are sent again under the same ids."""
    taken = door.answer
    door.answer = lambda events: (taken(events), (200, {}, b'{"accepted"'))[1]  # type: ignore[method-assign]
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 3)
    assert not run.flush(5)
    sent = {event["id"] for event in door.events}
    door.answer = taken  # type: ignore[method-assign]
    run.finish()
    assert set(door.again) == sent
    assert (len(sent), len(door.events), door.conflicts) == (3, 4, [])


def test_the_spool_is_empty_and_gone_when_all_is_sent(begin: Begin, door: Door, clock: Clock, tmp_path: Path) -> None:
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 3)
    run.finish()
    assert len(door.events) == 4
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_server_that_hangs_costs_nothing(begin: Begin, door: Door, clock: Clock, tmp_path: Path) -> None:
    door.hangs.set()
    run = begin(every_seconds=1, exit_seconds=0.3)
    run.begin(0)
    steps(run, clock, 1, 1)
    soon(lambda: door.posts)
    began = time.perf_counter()
    steps(run, clock, 2, 1000)
    with run.checkpoint(1000):
        pass
    assert time.perf_counter() - began < 10 * AT_ONCE
    began = time.perf_counter()
    run.finish()
    assert time.perf_counter() - began < 0.3 + 0.5 + AT_ONCE
    door.hangs.clear()
    door.free.set()
    soon(lambda: len(waiting(tmp_path / "spool")) == 1003)


@pytest.mark.parametrize(("status", "headers"), [
    (401, {}), (403, {}), (404, {}), (429, {}), (500, {}), (503, {}), (302, {"Location": "/elsewhere"}),
    (200, {"X-Portal": "please log in"}),
])  # fmt: skip
def test_what_is_not_taken_now_stays(
    begin: Begin, door: Door, clock: Clock, tmp_path: Path, status: int, headers: dict[str, str]
) -> None:
    door.first = [(status, headers, b"<html>")] * 50
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 2)
    run.finish()
    assert len(waiting(tmp_path / "spool")) == 3
    assert all(path == "/api/v1/events?results=rejected" for path, _, _ in door.posts)
    door.first = []
    begin().finish()
    assert len(door.of("run.progressed")) == 2
    assert waiting(tmp_path / "spool") == []


def test_retry_after_is_honoured(tool: Any) -> None:
    wait = tool._retry_after
    assert (wait("7"), wait(None), wait("soon"), wait("-3"), wait("999999")) == (7.0, 0.0, 0.0, 0.0, 3600.0)
    assert 118 < wait(formatdate(time.time() + 120, usegmt=True)) <= 120


def test_nothing_is_sent_before_the_time_it_was_asked_to_wait(begin: Begin, door: Door, clock: Clock) -> None:
    door.first = [(503, {"Retry-After": "1"}, b"")]
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 1)
    soon(lambda: len(door.posts) == 1)
    began = time.monotonic()
    assert not run.flush(5)
    assert len(door.posts) == 1
    soon(lambda: door.events)
    assert time.monotonic() - began > 0.9


def test_waits_grow_and_differ(tool: Any) -> None:
    """Halves to wholes of 1, 2, 4, ... 300 s, and of 60, 120, 240, 300 s where it will not be different soon."""
    courier = tool._Courier(tool._Spool(None), tool._Door("http://x", str, None), lambda: None)
    bounds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    for most in bounds:
        courier._postpone(tool._Later("down"))
        assert most / 2 - 0.1 <= courier._not_before - time.monotonic() <= most
    courier._failures = 0
    for most in (60, 120, 240, 300):
        courier._postpone(tool._Later("no right", slow=True))
        assert most / 2 - 0.1 <= courier._not_before - time.monotonic() <= most


def test_a_batch_that_is_too_large_is_halved(begin: Begin, door: Door, clock: Clock) -> None:
    """10 reports and the end, 3 at most: 11 -> 5 and 6 -> (2, 3) and (3, 3)."""
    door.down()
    door.most = 3
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 10)
    run.interrupted("finished")
    assert not run.flush(5)
    door.up()
    run.flush(5)
    run.finish()
    sizes = [len(events) for _, _, events in door.posts]
    assert sizes == [11, 5, 2, 3, 6, 3, 3]
    assert [event["data"].get("step") for event in door.events] == [*range(1, 11), None]


def test_what_is_refused_is_kept_apart_and_the_others_are_taken(
    begin: Begin, door: Door, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    door.refuses = lambda event: event["data"].get("step") in (2, 4)
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 5)
    run.finish()
    assert [event["data"]["step"] for event in door.of("run.progressed")] == [1, 3, 5]
    kept = [json.loads(line) for line in (tmp_path / "spool" / "refused.ndjson").read_text().splitlines()]
    assert [(one["event"]["data"]["step"], one["code"], one["pointer"]) for one in kept] == [
        (2, "invalid", "/data/step"), (4, "invalid", "/data/step")]  # fmt: skip
    assert caplog.text.count("Hallbook refused a run.progressed (invalid at /data/step") == 1
    assert waiting(tmp_path / "spool") == []


def test_all_refused_is_no_reason_to_send_it_again(begin: Begin, door: Door, tmp_path: Path) -> None:
    door.refuses = lambda _event: True
    begin(run="atlas").finish()
    assert len((tmp_path / "spool" / "refused.ndjson").read_text().splitlines()) == 2
    posts = len(door.posts)
    begin(job="413").finish()
    assert all(event["data"]["job_id"] == "413" for _, _, events in door.posts[posts:] for event in events)


def test_one_that_no_answer_explains_is_kept_apart_alone(
    begin: Begin, door: Door, clock: Clock, tmp_path: Path
) -> None:
    """A proxy in between answers 413 to what is larger than its own limit, whatever the size of the batch."""
    taken = door.answer

    def answer(events: list[dict[str, Any]]) -> Any:
        return (413, {}, b"too large") if any(e["data"].get("step") == 2 for e in events) else taken(events)

    door.answer = answer  # type: ignore[method-assign]
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 4)
    run.finish()
    (kept,) = [json.loads(line) for line in (tmp_path / "spool" / "refused.ndjson").read_text().splitlines()]
    assert (kept["event"]["data"]["step"], kept["code"], kept["text"]) == (2, "413", "too large")
    assert [event["data"]["step"] for event in door.of("run.progressed")] == [1, 3, 4]


def test_a_full_spool_drops_the_oldest_progress_and_says_so(
    begin: Begin, door: Door, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """400 reports of some 300 bytes against 32,000 bytes; saves and the interruption stay whatever happens."""
    door.down()
    run = begin(every_seconds=1, spool_bytes=32_000)
    run.begin(0)
    for block in range(4):
        steps(run, clock, 100 * block + 1, 100 * block + 100)
        with run.checkpoint(100 * block + 100):
            clock.pass_by(1)
        run.flush(5)
    run.interrupted("error", "node lost")
    run.flush(5)
    held = waiting(tmp_path / "spool")
    assert sum(path.stat().st_size for path in (tmp_path / "spool").glob("*/*.ndjson")) <= 32_000
    saves = [event["data"]["step"] for event in held if event["type"] == "checkpoint.committed"]
    assert saves == [100, 200, 300, 400]
    assert held[-1]["type"] == "run.interrupted"
    kept = [event["data"]["step"] for event in held if event["type"] == "run.progressed"]
    assert kept == list(range(401 - len(kept), 401))
    assert 20 < len(kept) < 110
    door.up()
    steps(run, clock, 401, 401)
    run.finish()
    told = door.of("run.progressed")
    assert sum(event["data"].get("dropped", 0) for event in told) + len(told) == 401


def test_no_folder_for_the_spool(begin: Begin, door: Door, clock: Clock, tmp_path: Path) -> None:
    """Then reports wait in memory, and arrive all the same."""
    (tmp_path / "file").write_text("")
    door.down()
    run = begin(every_seconds=1, spool=tmp_path / "file")
    run.begin(0)
    steps(run, clock, 1, 600)
    assert not run.flush(5)
    door.up()
    run.finish()
    assert len(door.of("run.progressed")) == 600


def test_a_disk_that_fills_up_in_between(
    begin: Begin, door: Door, clock: Clock, tool: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Half of a write arrives, then none: nothing is torn, nothing is lost."""
    door.down()
    run = begin(every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 2)
    run.flush(5)
    write = tool.os.write
    monkeypatch.setattr(tool.os, "write", lambda file, body: write(file, body[: len(body) // 2]))
    steps(run, clock, 3, 4)
    run.flush(5)
    monkeypatch.setattr(tool.os, "write", write)
    steps(run, clock, 5, 6)
    run.flush(5)
    assert [event["data"]["step"] for event in waiting(tmp_path / "spool")] == [1, 2, 5, 6]
    door.up()
    run.finish()
    assert sorted(event["data"]["step"] for event in door.of("run.progressed")) == [1, 2, 3, 4, 5, 6]


def test_a_living_process_keeps_its_spool(begin: Begin, door: Door, clock: Clock, tmp_path: Path) -> None:
    """Two trainings in one job: the second does not take what the first still holds."""
    door.down()
    first = begin(every_seconds=1)
    first.begin(0)
    steps(first, clock, 1, 3)
    first.flush(5)
    door.up()
    second = begin()
    second.finish()
    assert door.of("run.progressed") == []
    first.finish()
    assert len(door.of("run.progressed")) == 3


def test_a_line_that_a_crash_cut_off_hides_no_other(tool: Any, tmp_path: Path) -> None:
    whole = b'{"id":"a","type":"run.progressed","data":{}}\n'
    (tmp_path / "x.ndjson").write_bytes(whole + b'{"id":"b","type":"run.pro')
    assert [event["id"] for event in tool._read(tmp_path / "x.ndjson")] == ["a"]


def test_what_is_left_can_be_sent_by_hand(
    begin: Begin, door: Door, tool: Any, clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """From a login node, where compute nodes have no way out."""
    run = begin(url="", every_seconds=1)
    run.begin(0)
    steps(run, clock, 1, 3)
    run.finish()
    assert door.posts == []
    monkeypatch.setenv("HALLBOOK_TOKEN", "hb_other")
    assert tool.main(["send", "--spool", str(tmp_path / "spool"), "--url", door.url]) == 0
    assert capsys.readouterr().out == "4 reports sent, 0 of them refused; spools left: 0\n"
    assert door.posts[0][1]["authorization"] == "Bearer hb_other"
    assert len(door.of("run.progressed")) == 3
    assert list((tmp_path / "spool").iterdir()) == []
