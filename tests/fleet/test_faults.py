"""Faults from the doors to the read model: captured alerts and Redfish events, posted as their senders do."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from api import tokens
from events import projector
from events.access import Scope
from events.deliveries import drain
from events.models import Event, Rejection
from events.rebuild import known_at
from events.types.clusters import ClusterDeclared
from events.types.faults import FaultSighted
from fleet.models import Fault
from fleet.queries_faults import troubled
from tests.hand import place, read_models, tell

pytestmark = pytest.mark.django_db
EVERYTHING = Scope.everything()
START = 1_796_035_000
"""Times below are seconds after this instant, read off the bodies' startsAt and endsAt by hand."""
REAL = [
    ("GPU fell off the bus", "gpu001", "", 5, 281.241, None, 2),
    ("thermal-throttle", "gpu002", "", 3, 283.241, 383.241, 1),
    ("xid-94", "gpu008", "", 2, 285.241, 385.241, 1),
    ("leak", "", "row-a-tray-2", None, 292.654, 386.654, 1),
    ("cdu-pump", "", "cdu-1", None, 306.654, 386.654, 1),
    ("telemetry-lost", "gpu004", "", None, 319.241, 333.241, 1),
    ("coolant-hot", "", "cdu-1", None, 426.654, None, 2),
]
"""What the journal of the rig did: XID 79, heat, XID 94, leak, pump, node down, hot supply for both coolant units."""


@pytest.fixture
def client() -> Client:
    tell(place(), ClusterDeclared("pod-a"))
    return Client(HTTP_AUTHORIZATION=f"Bearer {tokens.create('alerts', ['events:write'])[1]}")


def send(client: Client, door: str, body: bytes, query: str = "") -> Any:
    return client.generic("POST", f"/api/v1/ingest/{door}{query}", body, content_type="application/json")


def settled() -> None:
    while drain():
        pass
    projector.catch_up()


def faults() -> list[tuple[Any, ...]]:
    return [(row.kind if row.xid != 79 else "GPU fell off the bus", row.node, row.unit, row.gpu, seconds(row.opened),
             seconds(row.closed), row.times) for row in Fault.objects.order_by("opened")]  # fmt: skip


def seconds(at: datetime | None) -> float | None:
    return None if at is None else round(at.timestamp() - START, 3)


def bodies(folder: Path) -> list[bytes]:
    found = [path.read_bytes() for path in sorted(folder.glob("*-alerts.json"))]
    assert found
    return found


def all_ways(data: Path) -> Sequence[list[bytes]]:
    captured = bodies(data / "telemetry" / "prometheus-run")
    assert len(captured) == 30
    shuffled = [*captured, *captured]
    random.Random(5).shuffle(shuffled)
    return captured, [*captured, *captured], captured[::-1], shuffled


@pytest.mark.parametrize("way", range(4))
def test_one_fault_per_real_fault_whatever_is_posted_how_often_in_any_order(
    client: Client, data: Path, way: int
) -> None:
    for number, body in enumerate(all_ways(data)[way]):
        assert send(client, "alertmanager", body).status_code == 200
        if number % 7 == 0:
            settled()
    settled()
    assert faults() == REAL
    assert not Rejection.objects.exists()
    # 36 alerts are in 30 bodies; those that say something new: 9 begin (one of them under a second name), 6 end.
    assert Event.objects.filter(type="fault.sighted").count() == 15
    hall = Fault.objects.get(kind="coolant-hot")
    assert (hall.units, hall.streams) == (["cdu-1", "cdu-2"], ["fault/pod-a/cdu-1", "fault/pod-a/cdu-2"])
    live = read_models()
    with known_at(Event.objects.latest("position").position):
        assert read_models() == live


def test_the_captures_in_the_repository(client: Client, payloads: Path) -> None:
    for body in bodies(payloads / "telemetry" / "alerts"):
        send(client, "alertmanager", body)
    settled()
    kinds = list(Fault.objects.order_by("opened").values_list("kind", "times", "severity"))
    assert kinds == [("xid-79", 2, "fatal"), ("xid-94", 1, "app"), ("coolant-hot", 2, "warn")]


def test_redfish_in_every_way_a_controller_can_send_it(client: Client, payloads: Path) -> None:
    folder = payloads / "telemetry" / "constructed"
    leak = (folder / "constructed-redfish-leak.json").read_bytes()
    secret = client.defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    assert send(client, "redfish", leak).status_code == 200
    answer = send(Client(), "redfish", (folder / "constructed-redfish-event.json").read_bytes(), f"?token={secret}")
    assert answer.status_code == 200
    assert send(Client(), "redfish", leak, "?token=hb_wrong").status_code == 401
    well = json.loads(leak)
    well["Events"][0] |= {"MessageSeverity": "OK", "EventId": "92", "EventTimestamp": "2026-03-02T10:00:00Z"}
    assert send(client, "redfish", json.dumps(well).encode()).status_code == 200
    assert send(client, "redfish", leak).status_code == 200
    settled()
    rows = Fault.objects.order_by("opened").values_list("kind", "node", "unit", "part", "closed", "times")
    assert list(rows) == [
        ("leak", "", "cdu-1", "LeakDetectors/2", datetime(2026, 3, 2, 10, tzinfo=UTC), 1),
        ("unknown", "gpu001", "", "Processors/GPU_SXM_5", None, 1),
        ("fan", "gpu001", "", "Fans/Fan_3", None, 1),
    ]
    assert troubled(EVERYTHING) == {("pod-a", "gpu001"): ("degraded", 2)}
    # The subscription's context names the place; the address does where it does not.
    other = json.loads(leak) | {"Context": "x"}
    send(client, "redfish", json.dumps(other).encode(), "?cluster=pod-a&node=cdu-7")
    settled()
    assert Fault.objects.filter(unit="cdu-7", closed=None).count() == 1


def test_what_cannot_be_used_is_a_rejection_and_a_fast_200(client: Client, payloads: Path) -> None:
    told = json.loads((payloads / "telemetry" / "alerts" / "0043-alerts.json").read_bytes())
    for alert in told["alerts"]:
        alert["labels"]["cluster"] = "pod-z"
    for body in (json.dumps(told).encode(), b"{not json", b'{"version": "3"}'):
        assert send(client, "alertmanager", body).status_code == 200
    settled()
    codes = sorted(Rejection.objects.values_list("code", flat=True))
    assert codes == ["malformed", "not_alertmanager", "unknown_cluster", "unknown_cluster"]
    assert not Fault.objects.exists()
    assert send(client, "alertmanager", b"{}", "?node=a/b").status_code == 400


def test_a_filesystem_that_many_nodes_miss_is_one_fault_also_when_told_in_batches(client: Client) -> None:
    for number in (3, 1, 2):
        tell(FaultSighted("pod-a", "alert", "LustreMountStale", "firing", (START + 60 * number) * 1000,
                          node=f"gpu00{number}", fingerprint=f"f{number}"))  # fmt: skip
        projector.catch_up()
    (row,) = Fault.objects.all()
    assert (row.nodes, row.wide, seconds(row.opened), row.node) == (
        ["gpu001", "gpu002", "gpu003"],
        True,
        60.0,
        "gpu001",
    )
    # Node faults of the same nodes are others, and stay as they are when the incident grows.
    tell(FaultSighted("pod-a", "alert", "PsuFailed", "firing", START * 1000, node="gpu001", fingerprint="p"))
    tell(FaultSighted("pod-a", "alert", "LustreMountStale", "firing", (START + 400) * 1000, node="gpu004",
                      fingerprint="f4"))  # fmt: skip
    projector.catch_up()
    assert sorted(Fault.objects.values_list("kind", "nodes__len")) == [("filesystem", 4), ("psu", 1)]
    live = read_models()
    with known_at(Event.objects.latest("position").position):
        assert read_models() == live
