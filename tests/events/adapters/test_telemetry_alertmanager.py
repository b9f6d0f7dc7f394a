"""Alertmanager's webhook: the notifications of version 0.25 in the capture, and bodies that cannot be taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from events.adapters import Draft, Refusal
from events.adapters.alertmanager import translate, xid_of
from events.types.faults import FaultSighted
from events.validate import checked
from tests.events.adapters.telemetry import PAYLOADS, bodies

LATER_US = 1_796_040_000_000_000
CLUSTER = {"x-hallbook-cluster": "pod-a"}


def notification(name: str) -> dict[str, Any]:
    return json.loads((PAYLOADS / "alerts" / name).read_bytes())  # type: ignore[no-any-return]


def sightings(body: bytes) -> list[Draft]:
    items = translate("application/json", {}, body)
    assert all(isinstance(one, Draft) for one in items)
    return items  # type: ignore[return-value]


def alert(**changes: Any) -> Draft | Refusal:
    """The first alert of 0043 (XID 79 on GPU 5 of gpu001) with other fields; `...` takes one out."""
    body = notification("0043-alerts.json")
    changed = body["alerts"][0] | changes
    body["alerts"] = [{name: value for name, value in changed.items() if value is not ...}]
    (item,) = translate("application/json", {}, json.dumps(body).encode())
    return item


def seen(**changes: Any) -> FaultSighted:
    item = alert(**changes)
    assert isinstance(item, Draft)
    assert isinstance(item.data, FaultSighted)
    return item.data


def labelled(**labels: str) -> FaultSighted:
    return seen(labels={"alertname": "A", "cluster": "pod-a", **labels}, annotations={})


class TestRun:
    def test_thirty_notifications_are_fifteen_facts(self, data: Path) -> None:
        """Counted by hand: nine alerts fired, six of them were resolved; the rest are repeats of a group."""
        facts: dict[tuple[str, FaultSighted], int] = {}
        keys = set()
        for body in bodies(data / "telemetry" / "prometheus-run", "-alerts.json"):
            for one in sightings(body.raw):
                assert checked(one, LATER_US) == one.data
                facts[one.native_key, one.data] = facts.get((one.native_key, one.data), 0) + 1  # type: ignore[index,arg-type]
                keys.add(one.native_key)
        assert (sum(facts.values()), len(facts), len(keys)) == (37, 15, 15)
        fired = [fact for _, fact in facts if fact.state == "firing"]
        places = sorted((one.name, one.node or one.unit, one.gpu, one.xid) for one in fired)
        assert places == [
            ("CduPumpDown", "cdu-1", None, None),
            ("CoolantLeak", "row-a-tray-2", None, None),
            ("CoolantSupplyHot", "cdu-1", None, None),
            ("CoolantSupplyHot", "cdu-2", None, None),
            ("GpuTemperatureHigh", "gpu002", 3, None),
            ("GpuXid", "gpu001", 5, 79),
            ("GpuXid", "gpu001", 5, 79),  # the job ended, so its label went and the alert began anew
            ("GpuXid", "gpu008", 2, 94),
            ("NodeTelemetryLost", "gpu004", None, None),
        ]

    def test_a_value_that_changes_in_the_text_is_no_new_fact(self, data: Path) -> None:
        """0037 says 86 C, 0135 says 88 C of the same alert."""
        run = data / "telemetry" / "prometheus-run"
        first, second = (sightings((run / name).read_bytes()) for name in ("0037-alerts.json", "0135-alerts.json"))
        assert first == second

    def test_one_body_with_one_firing_and_one_resolved(self) -> None:
        first, second = sightings((PAYLOADS / "alerts" / "0170-alerts.json").read_bytes())
        assert (first.data.state, second.data.state) == ("firing", "resolved")  # type: ignore[attr-defined]
        # startsAt 10:41:25.241Z, endsAt 10:43:05.241Z of 2026-11-30
        assert (second.data.started_ms, second.data.ended_ms) == (1_796_035_285_241, 1_796_035_385_241)  # type: ignore[attr-defined]
        assert second.occurred_us == 1_796_035_385_241_000
        assert second.native_key == "e212f0bd42296847/1796035285241/resolved"

    def test_a_job_that_ends_changes_the_fingerprint_and_not_the_place(self) -> None:
        new, old = (one.data for one in sightings((PAYLOADS / "alerts" / "0181-alerts.json").read_bytes()))
        assert new.fingerprint != old.fingerprint  # type: ignore[attr-defined]
        assert {(one.node, one.gpu, one.gpu_uuid, one.xid, one.part) for one in (new, old)} == {  # type: ignore[attr-defined]
            ("gpu001", 5, "GPU-d0eda82f-ae97-2e44-1a61-923a94e3bf91", 79, None)}  # fmt: skip


class TestPlaces:
    def test_nodes(self) -> None:
        assert labelled(instance="gpu001:9400").node == "gpu001"
        assert labelled(instance="10.0.0.5:9400").node == "10.0.0.5"
        assert labelled(instance="[fe80::1]:9400").node == "fe80::1"
        assert labelled(instance="10.0.0.5:9400", hostname="gpu008").node == "gpu008"
        assert (
            labelled(instance="10.0.0.5:9400", Hostname="dcgm-exporter-x7k2p", pod="dcgm-exporter-x7k2p", gpu="1").node
            == "10.0.0.5"
        )
        assert labelled(instance="gpu001:9400", Hostname="localhost").node == "gpu001"
        assert labelled(instance="ksm:8080", node="gpu003", exported_node="gpu004").node == "gpu004"

    def test_units(self) -> None:
        pump = labelled(instance="bms-1", cdu="cdu-1", pump="pump-2")
        assert (pump.node, pump.unit, pump.part) == (None, "cdu-1", "pump-2")
        assert labelled(instance="gpu001:9400", gpu="3", rack="r1").unit is None
        assert labelled(instance="snmp:9116", switch="leaf-3", rack="r1").unit == "leaf-3"

    def test_a_sensor_is_a_part_unless_it_looks_for_leaks(self) -> None:
        power = labelled(instance="gpu001:9100", sensor="total")
        assert (power.node, power.unit, power.part) == ("gpu001", None, "total")
        leak = labelled(alertname="CoolantLeak", instance="bms-1", sensor="row-a-tray-2")
        assert (leak.node, leak.unit, leak.part) == (None, "row-a-tray-2", None)

    def test_ports(self) -> None:
        assert labelled(instance="gpu001:9100", device="mlx5_0", port="1").part == "mlx5_0/1"
        assert labelled(instance="gpu001:9400", device="nvidia5", gpu="5").part is None

    def test_a_slice_of_a_gpu_is_that_gpu(self) -> None:
        assert labelled(instance="gpu001:9400", gpu="2.1").gpu == 2


class TestXid:
    @pytest.mark.parametrize(
        ("labels", "notes", "code"),
        [
            ({"alertname": "GpuXid", "err_code": "94"}, {}, 94),
            ({"alertname": "GpuXid", "err_code": "0"}, {"summary": "XID 79"}, None),
            ({"alertname": "GpuXid"}, {"summary": "XID 79 on gpu001:9400 GPU 5"}, 79),
            ({"alertname": "A"}, {"description": "Xid error #119 (GSP)"}, 119),
            ({"alertname": "A"}, {"description": "xid=31"}, 31),
            ({"alertname": "A", "err_code": "94"}, {"summary": "disk 5 is full"}, None),
            ({"alertname": "GpuXid"}, {"summary": "sXID20034"}, None),
        ],
    )
    def test_where_the_code_is(self, labels: dict[str, str], notes: dict[str, str], code: int | None) -> None:
        assert xid_of(labels, notes) == code


class TestBad:
    @pytest.mark.parametrize(
        ("changes", "pointer", "code"),
        [
            ({"status": "pending"}, "/alerts/0/status", "bad_value"),
            ({"fingerprint": ...}, "/alerts/0/fingerprint", "identity_missing"),
            ({"startsAt": "yesterday"}, "/alerts/0/startsAt", "bad_time"),
            ({"startsAt": "2026-11-30T10:41:21"}, "/alerts/0/startsAt", "bad_time"),
            ({"startsAt": "0001-01-01T00:00:00Z"}, "/alerts/0/startsAt", "bad_time"),
            ({"status": "resolved"}, "/alerts/0/endsAt", "bad_time"),
            ({"status": "resolved", "endsAt": "2026-11-30T10:41:20Z"}, "/alerts/0/endsAt", "negative_duration"),
            ({"labels": {"cluster": "pod-a"}}, "/alerts/0/labels/alertname", "identity_missing"),
            ({"labels": {"alertname": "A"}}, "/alerts/0/labels/cluster", "cluster_missing"),
            ({"labels": {"alertname": "A", "cluster": "pod-a", "node": "a/b"}}, "/alerts/0/labels", "bad_name"),
            ({"labels": [1]}, "/alerts/0/labels", "bad_value"),
        ],
    )
    def test_an_alert_that_cannot_be_read(self, changes: dict[str, Any], pointer: str, code: str) -> None:
        item = alert(**changes)
        assert isinstance(item, Refusal)
        assert (item.pointer, item.code) == (pointer, code)

    def test_a_custom_body_is_refused_with_what_to_do(self) -> None:
        for body in (b'{"text": "XID 79"}', b'{"version": "3", "alerts": []}', b'{"version": "4", "alerts": {}}'):
            (item,) = translate("application/json", {}, body)
            assert isinstance(item, Refusal)
            assert item.code == "not_alertmanager"
        for body in (b"[]", b"", b"{"):
            (item,) = translate("application/json", {}, body)
            assert isinstance(item, Refusal)
            assert item.code == "malformed"

    def test_one_bad_alert_does_not_stop_the_others(self) -> None:
        body = notification("0043-alerts.json")
        body["alerts"].insert(1, 7)
        kinds = [type(one) for one in translate("application/json", {}, json.dumps(body).encode())]
        assert kinds == [Draft, Refusal, Draft]

    def test_alerts_that_were_cut_off_are_told(self) -> None:
        body = notification("0043-alerts.json") | {"truncatedAlerts": 3}
        *_, last = translate("application/json", {}, json.dumps(body).encode())
        assert isinstance(last, Refusal)
        assert (last.code, last.pointer) == ("truncated", "/truncatedAlerts")
        assert last.text.startswith("3 alerts were cut off")

    def test_a_newer_version_s_fields_are_passed_over(self) -> None:
        body = notification("0043-alerts.json") | {"notification_reason": "group_interval", "routeLabels": {}}
        assert sightings(json.dumps(body).encode()) == sightings(
            (PAYLOADS / "alerts" / "0043-alerts.json").read_bytes()
        )

    def test_the_alert_that_always_fires_is_no_fault(self) -> None:
        body = notification("0043-alerts.json")
        body["alerts"] = [{"labels": {"alertname": "Watchdog"}}]
        assert translate("application/json", {}, json.dumps(body).encode()) == []

    def test_the_source_names_the_cluster_where_no_label_does(self) -> None:
        body = notification("0043-alerts.json")
        for one in body["alerts"]:
            del one["labels"]["cluster"]
        items = translate("application/json", {"x-hallbook-cluster": "pod-b"}, json.dumps(body).encode())
        assert {one.source for one in items} == {"alertmanager:pod-b"}
