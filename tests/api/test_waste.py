"""Waste and utilisation in REST and on the command line: the same figures, and who may see them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from events import projector
from events.append import append
from tests.hand import HOUR, gpus, job, mapped, place, project, say
from tests.jobs.test_training import BEGIN, FAULT, LOST

Make = Callable[..., Client]
MARCH = "from=2026-03-01&to=2026-04-01"


@pytest.fixture
def books(hall: Any) -> None:
    """Job 1 met a fault and told of it; of vision 4 GPU-h failed, and of its preempted 2 GPU-h nobody knows."""
    say(place(), project("nlp"), project("vision"), mapped("a", "nlp"), mapped("b", "vision"),
        job("1", BEGIN, BEGIN + HOUR, state="NODE_FAIL", run="big", limit_seconds=7200, **gpus(16)),
        job("2", BEGIN, BEGIN + HOUR, state="FAILED", account="b", **gpus(4)),
        job("3", BEGIN, BEGIN + HOUR, state="PREEMPTED", account="b", **gpus(2)))  # fmt: skip
    append(list(FAULT))
    projector.catch_up()


def answer(client: Client, name: str, query: str) -> dict[str, Any]:
    found = client.get(f"/api/v1/reports/{name}?{query}")
    assert found.status_code == 200, found.content
    return dict(found.json())


@pytest.mark.usefixtures("books")
def test_waste_as_rest_gives_it(caller: Make) -> None:
    found = answer(caller("read"), "waste", f"{MARCH}&group_by=project,cause")
    restart = LOST["detect"] + LOST["teardown"]
    common = {"energy_j": None, "attempts": 1}
    nlp = {"project": "nlp", "allocated_gpu_seconds": 16 * HOUR, "attempts_ended": 1, "limit_seconds": 7200,
           "used_seconds": 3600, **common}  # fmt: skip
    assert found["rows"] == [
        {**nlp, "cause": "rolled_back", "gpu_seconds": LOST["rollback_replay"], "waste_ppm": 325_000},
        {"project": "vision", "cause": "failed", "gpu_seconds": 4 * HOUR, "waste_ppm": 666_667,
         "allocated_gpu_seconds": 6 * HOUR, "attempts_ended": 2, "limit_seconds": None, "used_seconds": None, **common},
        {**nlp, "cause": "restart", "gpu_seconds": restart, "waste_ppm": 166_667},
        {**nlp, "cause": "partial_gang", "gpu_seconds": LOST["partial_gang_wait"], "waste_ppm": 16_667},
    ]  # fmt: skip
    assert found["total"]["gpu_seconds"] == LOST["rollback_replay"] + restart + LOST["partial_gang_wait"] + 4 * HOUR
    assert [gap["cause"] for gap in found["gaps"]] == ["never_used", "idle", "not known"]
    assert found["gaps"][2]["gpu_seconds"] == 2 * HOUR
    assert set(found["as_of"]) == {"position", "time"}


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize("name", ["waste", "utilisation"])
def test_the_command_line_and_files_give_the_same(name: str, caller: Make) -> None:
    client = caller("read")
    rest = answer(client, name, MARCH)
    out = io.StringIO()
    call_command("report", name, start="2026-03-01", end="2026-04-01", format="json", stdout=out)
    said = json.loads(out.getvalue())
    assert (said["rows"], said["total"], said["gaps"]) == (rest["rows"], rest["total"], rest["gaps"])
    file: Any = client.get(f"/api/v1/reports/{name}?{MARCH}&format=csv")
    text = b"".join(file.streaming_content).decode()
    assert [row["project"] for row in csv.DictReader(io.StringIO(text))] == [row["project"] for row in rest["rows"]]


@pytest.mark.usefixtures("books")
def test_a_token_of_one_project_sees_its_own(caller: Make) -> None:
    client = caller("read", projects=("vision",))
    assert [row["project"] for row in answer(client, "waste", MARCH)["rows"]] == ["vision"]
    assert [row["project"] for row in answer(client, "utilisation", MARCH)["rows"]] == ["vision"]
    assert client.get(f"/api/v1/reports/waste?{MARCH}&project=nlp").status_code == 400
    assert client.get(f"/api/v1/reports/waste?{MARCH}&group_by=causes").status_code == 400
