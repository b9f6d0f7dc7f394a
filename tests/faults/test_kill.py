"""kill -9 of writer, worker, web process and PostgreSQL: what was acknowledged is there, once."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from events.append import append
from events.deliveries import accept_delivery
from tests.faults.conftest import make_token
from tests.faults.rig import BASE, Hall, Senders, children, events, kill9, until
from tests.faults.test_race import said

pytestmark = pytest.mark.faults

HALF_DONE = """
import django, time
django.setup()
from django.db import transaction
from events.append import append
from tests.faults.test_race import said
with transaction.atomic():
    append([said(f"lost-{number}") for number in range(1000)])
    print("appended", flush=True)
    time.sleep(60)
"""
ROUNDS = 3
MOMENTS = (
    # A writing transaction is open: the drain. Then something is drained: it is being projected. Then some of it
    # is projected, and the next is being drained.
    """SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL
       AND pid <> pg_backend_pid())""",
    "SELECT max(position) >= 5000 FROM events_head",
    "SELECT max(position) >= 5000 FROM events_progress",
)


def test_a_writer_killed_in_its_batch_leaves_nothing_and_holds_nobody_up(house: Hall) -> None:
    append([said("before")])
    environment = {**house.environment, "DJANGO_SETTINGS_MODULE": "config.settings"}
    command = [sys.executable, "-c", HALF_DONE]
    with subprocess.Popen(command, env=environment, cwd=BASE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"appended\n"
        kill9(writer.pid)
        writer.wait()
        began = time.monotonic()
        outcomes = append([said("lost-0"), said("after")])
        waited = time.monotonic() - began
    print(f"\nwriter: next append after {waited:.3f} s")
    assert [(outcome.status, outcome.position) for outcome in outcomes] == [("accepted", 2), ("accepted", 3)]
    assert waited < 2
    house.proof()


def test_an_import_killed_half_way_is_finished_by_repeating_it(house: Hall, tmp_path: Path) -> None:
    lines = [f"{n}|{n}|COMPLETED|2026-11-01T00:00:00|2026-11-01T00:00:00|2026-11-01T01:00:00" for n in range(1, 40001)]
    file = tmp_path / "jobs.psv"
    file.write_text("\n".join(["JobIDRaw|DBIndex|State|Submit|Start|End", *lines]) + "\n")
    words = ("import_sacct", str(file), "--cluster", "pod-a", "--timezone", "UTC")
    importer = house.start(sys.executable, "manage.py", *words)
    until(lambda: (house.ask("SELECT max(position) FROM events_head") or 0) > 5000, 30, "the first batch")
    kill9(importer.pid)
    importer.wait()
    kept = int(house.ask("SELECT count(*) FROM events_event WHERE type = 'job.reported'"))
    assert 5000 <= kept < 40000
    assert kept % 5000 == 0
    assert f"{40000 - kept} accepted, {kept} duplicate, 0 rejected" in house.did(*words)
    print(f"\nimport: {kept} of 40000 were kept at the kill, the rest by the second run")
    house.proof()


def test_a_worker_killed_while_it_drains_and_projects_loses_and_doubles_nothing(house: Hall) -> None:
    import json

    sent = events("d", range(12000))
    for event in sent:
        body = json.dumps(event).encode()
        accept_delivery(
            source="slurm/pod-a", kind="cloudevents", content_type="application/cloudevents+json", headers={},
            body=body, actor="token:faults",
        )  # fmt: skip
    connection.close()
    beat, caught = house.beat(), []
    for moment in MOMENTS:
        worker = house.worker()
        until(lambda: house.ask(moment), 60, moment)  # noqa: B023 - called at once
        time.sleep(0.1)
        kill9(worker.pid)
        worker.wait()
        caught.append((house.pending(), house.ask("SELECT max(position) FROM events_head")))
    assert not house.settled(), "every kill came too late"
    house.worker()
    until(house.settled, 60, "the last worker catches up")
    assert beat.poll() is None
    stored = house.stored()
    print(f"\nworker: 12000 accepted, {len(stored)} present, pending and head at the kills: {caught}")
    assert stored == {event["id"]: 1 for event in sent}
    house.proof()


def test_postgres_killed_under_clients_loses_nothing_that_was_acknowledged(own: Hall) -> None:
    token = make_token(own)
    own.serve()
    recoveries = []
    with Senders(own, token) as senders:
        for _ in range(ROUNDS):
            senders.wait(1500)
            began, killed = time.monotonic(), own.postmaster()
            kill9(killed)
            until(lambda: _other_postmaster(own, killed), 60, "another server")  # noqa: B023 - called at once
            senders.wait(1)
            recoveries.append(time.monotonic() - began)
        senders.wait(500)
    until(own.settled, 60, "worker catches up")
    seconds = ", ".join(f"{each:.2f}" for each in recoveries)
    print(f"\npostgres: {senders.figures()}, acknowledged again after {seconds} s")
    assert senders.again > 0
    assert max(recoveries) < 15
    own.proof()


def _other_postmaster(hall: Hall, before: int) -> bool:
    try:
        return hall.postmaster() != before and hall.ask("SELECT 1") == 1
    except (IndexError, ValueError, OSError, psycopg.Error):
        return False


def test_a_web_worker_killed_in_a_batch_is_replaced(house: Hall) -> None:
    token = make_token(house)
    serve = house.serve()
    with Senders(house, token, size=500) as senders:
        for _ in range(ROUNDS):
            senders.wait(1000)
            until(lambda: len(_web(serve)) == 2, 30, "two web workers")
            kill9(_web(serve)[0])
        senders.wait(1000)
    assert serve.poll() is None, house.said()
    until(house.settled, 60, "worker catches up")
    print(f"\nweb worker: {senders.figures()}")
    house.proof()


def _web(serve: subprocess.Popen[bytes]) -> list[int]:
    """The web workers: children of granian that are not helpers of multiprocessing."""
    main = children(serve.pid, "granian")[0]
    return [
        pid for pid in children(main, "granian") if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
