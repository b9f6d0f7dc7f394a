"""The catalogue of faults: what the evidence lists, which sighting is which, and a site's own entries."""

from __future__ import annotations

from typing import Any

import pytest

from events.types.faults import FaultSighted
from fleet.catalogue import Misread, read, shipped

CODES = [8, 13, 31, 32, 38, 43, 45, 46, 48, 54, 62, 63, 64, 69, 74, 79, 92, 94, 95, 109, 110, 119, 120, 121, 136, 137,
         140, 143, 144, 145, 146, 147, 148, 149, 150, 151, 154, 155, 156, 157, 158, 165, 167, 168]  # fmt: skip
"""Those of the table in NVIDIA's catalogue, state of 2025-10-29, that concern us."""
OTHERS = {"ib-link-down", "ib-degraded", "low-speed", "nvswitch", "cdu-pump", "leak", "coolant-hot",
          "thermal-throttle", "psu", "fan", "dimm", "host", "nvme", "filesystem", "fabric-switch", "silent-corruption",
          "unknown"}  # fmt: skip
SITE = """
version = 7
[[class]]
id = "xid-94"
xid = 94
title = "Contained memory error"
component = "memory"
scope = "gpu"
severity = "fatal"
action = "reset_gpu"
then = "support"
replace = "on_repeat"
[[class]]
id = "busbar"
title = "Busbar warm"
component = "busbar"
scope = "rack"
severity = "warn"
action = "inspect"
then = "ticket"
replace = "no"
alerts = ["supply"]
"""


def class_of(name: str = "A", signal: str = "alert", **more: Any) -> str:
    sighting = FaultSighted("pod-a", signal, name, "firing", 1, node="gpu001", **more)  # type: ignore[arg-type]
    return shipped().classify(sighting).id


def test_every_code_and_class_is_there() -> None:
    classes = shipped().by_id.values()
    assert sorted(one.xid for one in classes if one.xid is not None) == CODES
    assert {one.id for one in classes} >= OTHERS


@pytest.mark.parametrize(
    ("code", "severity", "action", "replace"),
    [(79, "fatal", "reboot_node", "on_repeat"), (94, "app", "restart_app", "no"), (63, "warn", "reset_at_idle", "no"),
     (64, "fatal", "reset_gpu", "likely"), (154, "meta", "none", "no"), (43, "info", "none", "no")],
)  # fmt: skip
def test_some_codes_by_hand(code: int, severity: str, action: str, replace: str) -> None:
    one = shipped().by_id[f"xid-{code}"]
    assert (one.severity, one.action, one.replace, one.scope) == (severity, action, replace, "gpu")


@pytest.mark.parametrize(
    ("name", "found"),
    [("GpuTemperatureHigh", "thermal-throttle"), ("CoolantLeak", "leak"), ("CduPumpDown", "cdu-pump"),
     ("CoolantSupplyHot", "coolant-hot"), ("NodeTelemetryLost", "telemetry-lost"), ("TargetDown", "telemetry-lost"),
     ("NodeDown", "node-down"),
     ("InfiniBandLinkDown", "ib-link-down"), ("InfinibandSymbolErrors", "ib-degraded"), ("NodeFanFailed", "fan"),
     ("NvmeMissing", "nvme"), ("LustreMountStale", "filesystem"), ("LeafSwitchDown", "fabric-switch"),
     ("PowerSupplyFailed", "psu"), ("NVSwitchSXid", "nvswitch"), ("GpuXid", "xid-other"), ("DashboardSlow", "unknown")],
)  # fmt: skip
def test_names_of_alerts(name: str, found: str) -> None:
    assert class_of(name) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [("Environmental.LeakDetectedCritical", "leak"), ("Environmental.FanSpeedWarning", "fan"),
     ("Power.PowerSupplyFailed", "psu"), ("ThermalEquipment.PumpFailed", "cdu-pump"),
     ("ResourceEvent.ResourceErrorsDetected", "unknown"), ("FanRegistry.Something", "unknown")],
)  # fmt: skip
def test_keys_of_redfish_messages(name: str, found: str) -> None:
    assert class_of(name, "redfish") == found


def test_a_code_beats_the_name_and_a_rule_s_own_word_beats_both() -> None:
    assert class_of("GpuTemperatureHigh", xid=79) == "xid-79"
    assert class_of("XID", "xid", xid=9_000) == "xid-other"
    assert class_of("GpuXid", xid=79, hint="leak") == "leak"
    assert class_of("GpuXid", xid=79, hint="no-such-class") == "xid-79"


def test_a_site_lays_its_own_over() -> None:
    both = shipped().laid_over(read_site())
    assert both.by_id["xid-94"].severity == "fatal"
    assert both.by_id["xid-79"] == shipped().by_id["xid-79"]
    assert both.classify(FaultSighted("pod-a", "alert", "CoolantSupplyHot", "firing", 1)).id == "busbar"
    assert (both.version, shipped().laid_over(None).version) == (7, shipped().version)


def read_site() -> Any:
    """A site's file alone lacks the two classes that every catalogue needs."""
    return read(SITE, whole=False)


@pytest.mark.parametrize(
    ("text", "why"),
    [("version = 1", "class"), ("version = 1\nclass = []", "'unknown' is missing"), ("x", "cannot be read"),
     (SITE.replace('scope = "rack"', 'scope = "moon"'), "moon"),
     (SITE.replace("busbar\"\nt", "xid-94\"\nt"), "two classes"),
     (SITE.replace("supply", "("), "pattern")],
)  # fmt: skip
def test_a_file_that_cannot_be_used(text: str, why: str) -> None:
    with pytest.raises(Misread, match=why.replace("(", r"\(")):
        read(text, whole="class = []" in text)
