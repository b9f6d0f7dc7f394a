"""The same batch from two clients, a broker that is gone, a burst, a full disk: nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.clouds import BATCH, STRUCTURED
from tests.faults.conftest import make_token
from tests.faults.rig import Hall, Senders, children, events, folder, until

pytestmark = pytest.mark.faults
BOUND = 200


def post(hall: Hall, token: str, sent: list[dict[str, Any]]) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Send a batch, or one event by itself."""
    kind = BATCH if len(sent) > 1 else STRUCTURED
    body = json.dumps(sent if len(sent) > 1 else sent[0]).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    status, told, answer = hall.call("POST", "/api/v1/events", body, headers)
    return status, told, json.loads(answer)


def at_once(hall: Hall, token: str, *batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send batches from one client each at the same moment; their answers."""
    gate, answers = threading.Barrier(len(batches)), [{} for _ in batches]

    def client(place: int) -> None:
        gate.wait()
        status, _, answer = post(hall, token, batches[place])
        answers[place] = {"code": status, **answer}

    threads = [threading.Thread(target=client, args=(place,)) for place in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer["code"] for answer in answers] == [200] * len(batches)
    return answers


def test_two_clients_at_once(house: Hall) -> None:
    token = make_token(house)
    house.serve()
    same = events("same", range(2000))
    one, two = at_once(house, token, same, same)
    assert sorted((answer["accepted"], answer["duplicate"]) for answer in (one, two)) == [(0, 2000), (2000, 0)]
    places = [[result["position"] for result in answer["results"]] for answer in (one, two)]
    assert places[0] == places[1]

    answers = at_once(house, token, events("half", range(1000)), events("half", range(500, 1500)))
    assert sum(answer["accepted"] for answer in answers) == 1500
    assert sum(answer["duplicate"] for answer in answers) == 500

    crossed = at_once(house, token, events("cross", range(1000)), events("cross", range(999, -1, -1)))
    assert sum(answer["accepted"] for answer in crossed) == sum(answer["duplicate"] for answer in crossed) == 1000
    assert set(house.stored().values()) == {1}
    house.proof()


def test_broker_gone_and_back(house: Hall) -> None:
    token = make_token(house)
    serve = house.serve()
    broker = house.home / "broker"
    post(house, token, events("before", [1]))
    until(house.settled, 20, "the first event is projected")
    shutil.rmtree(broker)
    broker.write_text("in the way")
    for number in range(20):
        assert post(house, token, events("gone", [number]))[0] == 200
        assert post(house, token, events("gone", range(100 + 10 * number, 110 + 10 * number)))[0] == 200
    assert serve.poll() is None, house.said()
    broker.unlink()
    seconds = until(house.settled, 20, "a tick catches up once the broker is back")
    print(f"\nbroker: 221 accepted, {len(house.stored())} present, caught up {seconds:.1f} s after it was back")
    assert len(house.stored()) == 221
    assert serve.poll() is None, house.said()
    house.proof()


@pytest.fixture
def narrow(hall: dict[str, str]) -> Iterator[Hall]:
    """A hall that lets few deliveries wait."""
    with folder() as top, Hall(top / "home", hall, HALLBOOK_MAX_PENDING_DELIVERIES=str(BOUND)) as made:
        made.home.mkdir()
        yield made


def test_a_burst_over_the_bound_is_refused_and_sent_again(narrow: Hall) -> None:
    token = make_token(narrow)
    serve = narrow.serve()
    (worker,) = children(serve.pid, "worker\0--pool")
    os.kill(worker, signal.SIGSTOP)  # nothing drains: a burst that is faster than any drain
    try:
        with Senders(narrow, token, batches=0, singles=8) as senders:
            until(lambda: senders.waits, 60, "503 with Retry-After")
            kept = narrow.pending()
            os.kill(worker, signal.SIGCONT)
            senders.wait(max(1, 10 * BOUND - len(senders.acknowledged)), 120)
    finally:
        os.kill(worker, signal.SIGCONT)
    until(narrow.settled, 60, "the drain catches up")
    print(f"\nburst: bound {BOUND}, {kept} waited at the first 503; {senders.figures()}")
    assert senders.waits == {"5"}
    assert kept >= BOUND
    narrow.proof()


@pytest.fixture
def small() -> Iterator[Hall]:
    """A hall with a server of its own on a file system of 420 MB."""
    with folder() as top:
        size = ["mount", "-t", "tmpfs", "-o", "size=420m,mode=755", "tmpfs", str(top)]
        if os.geteuid() != 0 or subprocess.run(size, check=False, capture_output=True).returncode:
            pytest.skip("a small file system cannot be mounted here (needs root and CAP_SYS_ADMIN)")
        try:
            with Hall(top / "home") as made:
                made.did("migrate", "--verbosity", "0")
                yield made
        finally:
            subprocess.run(["umount", "-l", str(top)], check=True)


def test_a_full_disk_refuses_and_keeps_what_it_acknowledged(small: Hall) -> None:
    token = make_token(small)
    serve = small.serve()
    ballast = small.home / "ballast"
    acknowledged: set[str] = set()
    answers: Counter[int] = Counter()
    sent = events("b", range(500))
    assert post(small, token, sent)[0] == 200
    acknowledged |= {event["id"] for event in sent}
    _fill(ballast)
    for number in range(1, 400):
        sent = events("b", range(500 * number, 500 * number + 500))
        status, told, _ = post(small, token, sent)
        answers[status] += 1
        if status == 200:
            acknowledged |= {event["id"] for event in sent}
        else:
            assert status == 503, small.said()
            assert int(told["retry-after"]) >= 1
        if answers[503] > 5:
            break
    assert answers[503] > 5, "the disk did not fill up"
    ballast.unlink()
    until(lambda: post(small, token, sent)[0] == 200, 60, "events are taken once there is room")
    acknowledged |= {event["id"] for event in sent}
    until(small.settled, 60, "the worker catches up")
    stored = small.stored()
    print(f"\nfull disk: {len(acknowledged)} acknowledged, {answers[503]} answers 503, {len(stored)} present")
    assert acknowledged <= stored.keys()
    assert set(stored.values()) == {1}
    assert serve.poll() is None, small.said()
    small.proof()


def _fill(file: Path) -> None:
    """Leave 12 MB of the file system."""
    with file.open("wb") as out:
        left = shutil.disk_usage(file.parent).free - 12 * 1024 * 1024
        os.posix_fallocate(out.fileno(), 0, left)
