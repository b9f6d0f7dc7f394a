"""What no projection could apply is refused at the door: the log keeps what it takes, and money groups stop at it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.db import connection

from events import projector
from events.adapters import cloudevents
from events.intake import Intake
from tests.hand import HOUR, ask, at, corrected, gpus, job, place, tell

pytestmark = pytest.mark.django_db
JOB = {"cluster": "pod-a", "job_id": "1", "state": "COMPLETED", "start": 1_773_122_400, "end": 1_773_126_000}
OVER = 2**31
"""One more than the integer columns of the read models hold."""


def send(kind: str, data: dict[str, Any]) -> str:
    """Take one CloudEvent in, project, and give `accepted` or the pointer and text of its rejection."""
    body = {"specversion": "1.0", "id": "1", "source": "t", "type": kind, "time": "2026-03-10T08:00:00Z", "data": data}
    (result,) = Intake("t", "t").take([cloudevents.sole(msgspec.json.encode(body), 0)])
    projector.catch_up()
    with connection.cursor() as cursor:
        cursor.execute("SELECT error FROM events_progress WHERE state <> 'live'")
        assert cursor.fetchall() == []
        cursor.execute("SELECT error FROM events_parked")
        assert cursor.fetchall() == []
    return result.status if result.status == "accepted" else f"{result.pointer} {result.text}"


@pytest.mark.parametrize("day", ["2026-02-30", "2026-13-01", "0000-01-01", "2026-00-10"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [("account.mapped", {"cluster": "c", "account": "a", "project": "p"}), ("project.moved", {"project": "p"}),
     ("rate.published", {"resource_class": "gpu", "currency": "EUR", "micro_per_hour": 1}),
     ("rate.withdrawn", {"resource_class": "gpu"})],
)  # fmt: skip
def test_a_day_that_is_not_in_the_calendar(kind: str, data: dict[str, Any], day: str) -> None:
    assert "from_day" in send(kind, {**data, "from_day": day})
    assert send(kind, {**data, "from_day": "2024-02-29"}) == "accepted"


@pytest.mark.parametrize("zone", ["Europe/Berlln", "Mars/Olympus", "../etc/passwd", "+01", "/etc/localtime"])
def test_a_zone_that_is_not_in_the_tz_database(zone: str) -> None:
    assert "timezone" in send("site.declared", {"name": "Hall", "timezone": zone, "currency": "EUR"})


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodes", OVER), ("cpus", OVER), ("gpus", OVER), ("het_offset", OVER), ("exit_code", OVER),
     ("exit_code", -OVER - 1), ("exit_signal", OVER), ("record", 2**63), ("limit_seconds", 2**63),
     ("energy_j", 2**63), ("suspended_seconds", 2**63), ("end", 253402300800)],
)  # fmt: skip
def test_a_number_that_no_column_holds(field: str, value: int) -> None:
    assert send("job.reported", {**JOB, field: value}).startswith(f"/data/{field} ")


def test_a_number_that_a_column_just_holds() -> None:
    most = dict.fromkeys(("nodes", "cpus", "gpus", "het_offset", "exit_code", "exit_signal"), OVER - 1)
    assert send("job.reported", {**JOB, **most, "record": 2**63 - 1}) == "accepted"
    assert ask("usage", "2026-03-01", "2026-04-01").total["gpu_seconds"] == (OVER - 1) * HOUR


def test_gpus_of_a_cluster() -> None:
    assert send("cluster.declared", {"cluster": "c", "gpus": OVER}).startswith("/data/gpus ")


@pytest.mark.parametrize("types", [["h100=9999999999"], ["h100=2147483647", "a100=1"], ["h100=9999999999999999"]])
def test_types_that_are_no_count_of_gpus_are_passed_over(types: list[str]) -> None:
    assert send("job.reported", {**JOB, "gpu_types": types}) == "accepted"
    assert ask("usage", "2026-03-01", "2026-04-01").total["gpu_seconds"] == 0
    assert send("job.reported", {**JOB, "job_id": "2", "gpus": 4, "gpu_types": types}) != ""


@pytest.mark.parametrize("field", ["cpus", "gpus", "nodes", "start", "end", "suspended_seconds"])
@pytest.mark.parametrize("new", ["9999999999999999", "2147483648", "253402300800", "-1", "x", "1.5"])
def test_a_correction_to_an_absurd_value_changes_nothing_or_what_it_says(field: str, new: str) -> None:
    start = at("2026-03-10 06:00")
    tell(place(), job("1", start, start + HOUR, cpus=1, **gpus(2)))
    tell(corrected("1", start, field, new))
    with connection.cursor() as cursor:
        cursor.execute("SELECT group_name, error FROM events_progress WHERE state <> 'live'")
        assert cursor.fetchall() == []
    if field in ("cpus", "gpus", "nodes"):
        assert ask("usage", "2026-03-01", "2026-04-01").total["gpu_seconds"] == 2 * HOUR
