"""Worker and beat on the broker that needs no server, and on Redis: what was accepted is shown within seconds."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from django.db import connection

from events.deliveries import accept_delivery
from tests.faults.rig import Hall, events, folder, free_port, kill9, until

pytestmark = pytest.mark.faults
SECONDS = 5
STARTING = 30


def accept(number: int) -> None:
    """One delivery, as the door keeps it; no message wakes the worker, as if it were lost."""
    accept_delivery(
        source="slurm/pod-a", kind="cloudevents", content_type="application/cloudevents+json", headers={},
        body=json.dumps(events("d", [number])[0]).encode(), actor="token:faults",
    )  # fmt: skip
    connection.close()


def shown(hall: Hall, count: int) -> bool:
    """Whether so many jobs are in the read models."""
    return hall.ask("SELECT count(*) FROM jobs_job") == count and hall.settled()


def killed_and_restarted(hall: Hall) -> None:
    """Deliveries before, during and after the worker's death are projected in time."""
    beat, first = hall.beat(), hall.worker()
    accept(1)
    until(lambda: shown(hall, 1), STARTING, "the worker is up and projects")
    accept(2)
    took = [until(lambda: shown(hall, 2), SECONDS, "projected by the first worker")]
    kill9(first.pid)
    first.wait()
    accept(3)
    second = hall.worker()
    until(lambda: shown(hall, 3), STARTING, "the second worker is up and projects what came meanwhile")
    accept(4)
    took.append(until(lambda: shown(hall, 4), SECONDS, "projected by the second worker"))
    assert beat.poll() is second.poll() is None, hall.said()
    assert set(hall.stored().values()) == {1}
    print("\nprojected after " + ", ".join(f"{each:.1f} s" for each in took))
    hall.proof()


def test_the_broker_without_a_server(house: Hall) -> None:
    killed_and_restarted(house)
    left = list((house.home / "broker" / "queue").iterdir())
    assert len(left) < 20, "messages pile up"


@pytest.fixture
def redis() -> Iterator[str]:
    """Address of a Redis of our own."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed (.ci/run installs it)")
    port = str(free_port())
    with folder() as top, (top / "log").open("wb") as log:
        options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(top)]
        server = subprocess.Popen([program, *options], stdout=log, stderr=log)
        try:
            time.sleep(0.5)
            assert server.poll() is None, (top / "log").read_text()
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait(10)


def test_redis(hall: dict[str, str], redis: str) -> None:
    with folder() as top, Hall(top / "home", hall, CELERY_BROKER_URL=redis) as made:
        made.home.mkdir()
        killed_and_restarted(made)
