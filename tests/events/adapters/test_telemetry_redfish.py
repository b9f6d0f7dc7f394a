"""Redfish events: bodies built from the schema of DSP0266 (no BMC was at hand), and what vendors leave out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from events.adapters import Draft, Refusal
from events.adapters.redfish import translate
from events.types.faults import FaultSighted
from events.validate import checked
from tests.events.adapters.telemetry import PAYLOADS


def body(name: str = "constructed-redfish-event.json") -> dict[str, Any]:
    return json.loads((PAYLOADS / "constructed" / name).read_bytes())  # type: ignore[no-any-return]


def taken(said: dict[str, Any], **headers: str) -> list[Draft | Refusal]:
    return translate("application/json", headers, json.dumps(said).encode())


def record(**changes: Any) -> Draft | Refusal:
    """The first record with other fields; `...` takes one out."""
    said = body()
    changed = said["Events"][0] | changes
    said["Events"] = [{name: value for name, value in changed.items() if value is not ...}]
    return taken(said)[0]


def seen(item: Draft | Refusal) -> FaultSighted:
    assert isinstance(item, Draft)
    assert isinstance(item.data, FaultSighted)
    return item.data


class TestBodies:
    def test_a_gpu_and_a_fan_of_a_node(self) -> None:
        gpu, fan = (seen(one) for one in taken(body()))
        assert (gpu.cluster, gpu.node, gpu.unit, gpu.part) == ("pod-a", "gpu001", None, "Processors/GPU_SXM_5")
        assert (gpu.name, gpu.state, gpu.severity) == ("ResourceEvent.ResourceErrorsDetected", "firing", "critical")
        assert gpu.started_ms == 1_772_446_445_000  # 2026-03-02T10:14:05Z
        assert (fan.part, fan.severity) == ("Fans/Fan_3", "warning")
        assert gpu.gpu is None  # the module's number is not the driver's index

    def test_a_leak_in_a_coolant_unit(self) -> None:
        (item,) = taken(body("constructed-redfish-leak.json"))
        leak = seen(item)
        assert (leak.node, leak.unit, leak.part) == (None, "cdu-1", "LeakDetectors/2")
        assert leak.started_ms == 1_772_442_000_000  # 11:00 in a zone two hours east
        assert checked(item, 1_796_040_000_000_000) == leak  # type: ignore[arg-type]

    def test_the_same_again_is_the_same(self) -> None:
        assert taken(body()) == taken(body())
        assert [one.native_key for one in taken(body())] == [  # type: ignore[union-attr]
            "gpu001/8123/1772446445000", "gpu001/8124/1772446447000"]  # fmt: skip


class TestVendors:
    def test_where_the_condition_is_may_be_a_text_or_missing(self) -> None:
        whole = seen(record())
        assert seen(record(OriginOfCondition="/redfish/v1/Systems/System_0/Processors/GPU_SXM_5")) == whole
        assert seen(record(OriginOfCondition=...)).part == "GPU_SXM_5"
        assert seen(record(OriginOfCondition="/redfish/v1/Systems/System_0", MessageArgs=[])).part is None

    def test_severity_may_be_the_old_one(self) -> None:
        assert seen(record(MessageSeverity=...)) == seen(record())

    def test_the_version_of_a_registry_does_not_matter(self) -> None:
        assert seen(record(MessageId="ResourceEvent.1.4.2.ResourceErrorsDetected")) == seen(record())

    def test_without_an_event_id_body_and_member_name_it(self) -> None:
        item = record(EventId=...)
        assert isinstance(item, Draft)
        assert item.native_key == "gpu001/4711.0/1772446445000"

    def test_ok_is_well_again(self) -> None:
        found = seen(record(MessageSeverity="OK"))
        assert (found.state, found.ended_ms) == ("resolved", 1_772_446_445_000)

    def test_headers_serve_where_the_context_is_not_sent_back(self) -> None:
        said = body() | {"Context": ""}
        found = seen(taken(said, **{"x-hallbook-cluster": "pod-b", "x-hallbook-node": "gpu009"})[0])
        assert (found.cluster, found.node) == ("pod-b", "gpu009")


class TestBad:
    @pytest.mark.parametrize(
        ("changes", "pointer", "code"),
        [
            ({"MessageId": ...}, "/Events/0/MessageId", "identity_missing"),
            ({"MessageId": "no key"}, "/Events/0/MessageId", "identity_missing"),
            ({"EventTimestamp": ...}, "/Events/0/EventTimestamp", "bad_time"),
            ({"EventTimestamp": "2026-03-02T10:14:05"}, "/Events/0/EventTimestamp", "bad_time"),
            ({"MessageSeverity": "Bad"}, "/Events/0/MessageSeverity", "bad_value"),
            ({"EventId": ["1"]}, "/Events/0/EventId", "bad_value"),
        ],
    )
    def test_a_record_that_cannot_be_read(self, changes: dict[str, Any], pointer: str, code: str) -> None:
        item = record(**changes)
        assert isinstance(item, Refusal)
        assert (item.pointer, item.code) == (pointer, code)

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"@odata.type": "#MetricReport.v1_4_2.MetricReport"}, "not_redfish"),
            ({"Events": []}, "not_redfish"),
            ({"Context": "gpu001"}, "cluster_missing"),
            ({"Context": None}, "cluster_missing"),
            ({"Context": "pod-a:x/y"}, "cluster_missing"),
        ],
    )
    def test_a_body_that_is_something_else(self, changes: dict[str, Any], code: str) -> None:
        (item,) = taken(body() | changes)
        assert isinstance(item, Refusal)
        assert item.code == code

    def test_one_bad_record_does_not_stop_the_others(self) -> None:
        said = body()
        said["Events"].insert(0, "x")
        assert [type(one) for one in taken(said)] == [Refusal, Draft, Draft]
