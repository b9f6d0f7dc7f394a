"""Nodes of the captured Slurm 22.05: states as base and flags, sightings, the accounting's event list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from events.adapters import Draft, Refusal
from events.adapters.sacct_values import Bad
from events.adapters.slurm_node_states import NodeState, of_number, of_words
from events.adapters.slurm_nodes import node_events, slurm_nodes
from events.types.nodes import NodeListed, NodeReported

SLURM = Path(__file__).parents[2] / "payloads" / "slurm"
NUMBERS = {
    # db/event.tsv of the capture beside sacctmgr's own words for it (events_epoch.psv): FAIL, DRAIN, DOWN, UNK.
    8194: NodeState("IDLE", ("FAIL",)), 514: NodeState("IDLE", ("DRAIN",)), 1: NodeState("DOWN", ()),
    2097153: NodeState("DOWN", ("PLANNED",)), 0: NodeState("UNKNOWN", ()),
    # By slurm.h: 5 MIXED, 0x8000 MAINT, 0x800 NO_RESPOND, 0x400 COMPLETING.
    0x205: NodeState("MIXED", ("DRAIN",)), 0x8002: NodeState("IDLE", ("MAINTENANCE",)),
    0x802: NodeState("IDLE", ("NOT_RESPONDING",)), 0x602: NodeState("IDLE", ("COMPLETING", "DRAIN")),
    0x200003: NodeState("ALLOCATED", ("PLANNED",)),
}  # fmt: skip
WORDS = {
    ("idle", "PLANNED"): NodeState("IDLE", ("PLANNED",)), ("IDLE+DRAIN",): NodeState("IDLE", ("DRAIN",)),
    ("MIXED", "DRAIN"): NodeState("MIXED", ("DRAIN",)), ("draining",): NodeState("MIXED", ("DRAIN",)),
    ("drained",): NodeState("IDLE", ("DRAIN",)), ("idle*",): NodeState("IDLE", ("NOT_RESPONDING",)),
    ("down*",): NodeState("DOWN", ("NOT_RESPONDING",)), ("planned",): NodeState("IDLE", ("PLANNED",)),
    ("ALLOCATED", "MAINTENANCE", "SOMETHING_NEW"): NodeState("ALLOCATED", ("MAINTENANCE",)),
    ("DOWN", "DRAIN", "INVALID_REG"): NodeState("DOWN", ("DRAIN", "INVALID_REG")),
    ("allocated$",): NodeState("ALLOCATED", ("MAINTENANCE",)), ("FUTURE",): NodeState("FUTURE", ()),
    ("IDLE+CLOUD+POWERED_DOWN",): NodeState("IDLE", ("CLOUD", "POWERED_DOWN")),
}  # fmt: skip


@pytest.mark.parametrize(("number", "state"), NUMBERS.items())
def test_numbers(number: int, state: NodeState) -> None:
    assert of_number(number) == state


@pytest.mark.parametrize(("words", "state"), WORDS.items())
def test_words(words: tuple[str, ...], state: NodeState) -> None:
    assert of_words(words) == state


@pytest.mark.parametrize("words", [("sleepy",), (), ("",), ("*",)])
def test_words_that_are_no_state(words: tuple[str, ...]) -> None:
    with pytest.raises(Bad):
        of_words(words)


@pytest.mark.parametrize("number", [-1, 7, 15, 1 << 32])
def test_numbers_that_are_no_state(number: int) -> None:
    with pytest.raises(Bad):
        of_number(number)


def captured() -> bytes:
    return (SLURM / "rest" / "slurm_v0.0.38_nodes.json").read_bytes()


def sightings(body: bytes, **headers: str) -> dict[str, tuple[int, NodeReported]]:
    found = slurm_nodes("application/json", {"x-hallbook-cluster": "pod-a", **headers}, body)
    assert all(isinstance(one, Draft) for one in found)
    return {
        one.data.node: (one.occurred_us // 1_000_000, one.data)
        for one in found
        if isinstance(one, Draft) and isinstance(one.data, NodeReported)
    }


def test_the_captured_nodes() -> None:
    nodes = sightings(captured(), **{"x-hallbook-changes": "1796036466"})
    assert sorted(nodes) == [f"gpu00{n}" for n in range(1, 9)]
    assert {when for when, _ in nodes.values()} == {1796036466}
    said = {name: (one.state, one.flags, one.works, one.reason, one.reason_at) for name, (_, one) in nodes.items()}
    assert said == {
        "gpu001": ("UP", (), None, None, None), "gpu002": ("UP", (), None, None, None),
        "gpu003": ("UP", ("DRAIN",), True, "hot node: inlet 52C | coolant loop 2", 1796036303),
        "gpu004": ("UP", (), None, None, None),
        "gpu005": ("UP", ("DRAIN",), False, "swap planned: GPU 1 serial S-0000", 1796036403),
        "gpu006": ("UP", ("NOT_RESPONDING",), None, None, None), "gpu007": ("UP", (), None, None, None),
        "gpu008": ("DOWN", (), False, "CDU-2 leak detected: rack power cut", 1796036420),
    }  # fmt: skip
    one = nodes["gpu001"][1]
    assert (one.gpus, one.gpu_model, one.cpus, one.memory_mb) == (8, "h100", 64, 1_900_000)
    assert (one.partitions, one.features, one.boot) == (("debug", "scavenge", "train"), ("h100", "rail8"), 1796033438)
    assert (nodes["gpu008"][1].gpu_model, nodes["gpu006"][1].boot) == ("h200", None)


def test_what_moves_by_itself_says_nothing_new() -> None:
    document = json.loads(captured())
    for node in document["nodes"]:
        node.update(cpu_load=9, free_memory=1, last_busy=1796039999, alloc_cpus=2, gres_used="gpu:h100:1(IDX:0)")
        if node["state_flags"] in ([], ["PLANNED"]) and node["state"] == "idle":
            node.update(state="allocated", state_flags=[])
    later = sightings(json.dumps(document).encode())
    assert {name: one for name, (_, one) in later.items()} == {
        name: one for name, (_, one) in sightings(captured()).items()
    }


def test_later_generations_tell_states_as_lists() -> None:
    node = {"name": "gpu009", "state": ["MIXED", "DRAIN"], "reason": "swap", "gres": "gpu:b200:4", "cpus": 8,
            "reason_changed_at": {"set": True, "infinite": False, "number": 1796036403}, "features": ["b200"],
            "tres": "cpu=8,gres/gpu=4", "boot_time": {"set": False, "infinite": False, "number": 0}}  # fmt: skip
    body = json.dumps({"nodes": [node], "meta": {"slurm": {"cluster": "pod-b"}}}).encode()
    (found,) = slurm_nodes("application/json", {}, body)
    assert isinstance(found, Draft)
    assert isinstance(found.data, NodeReported)
    assert (found.data.cluster, found.data.state, found.data.flags, found.data.works) == (
        "pod-b",
        "UP",
        ("DRAIN",),
        True,
    )
    assert (found.data.gpus, found.data.gpu_model, found.occurred_us) == (4, None, 1796036403_000_000)


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        (b"{", "", "malformed"),
        (b'{"jobs": []}', "/nodes", "invalid"),
        (b'{"nodes": [{"state": "idle"}]}', "/nodes/0/name", "node_missing"),
        (b'{"nodes": [{"name": "a", "state": "sleepy", "boot_time": 1}]}', "/nodes/0/state", "bad_state"),
        (b'{"nodes": [{"name": "a", "state": "idle"}]}', "/nodes/0", "time_missing"),
        (b'{"nodes": [7]}', "/nodes/0", "invalid"),
    ],
)
def test_what_is_refused(body: bytes, pointer: str, code: str) -> None:
    (found,) = slurm_nodes("application/json", {"x-hallbook-cluster": "pod-a"}, body)
    assert isinstance(found, Refusal)
    assert (found.pointer, found.code) == (pointer, code)


def test_the_accountings_list_of_node_events() -> None:
    found = node_events("text/plain", {}, (SLURM / "sacctmgr" / "events_epoch.psv").read_bytes())
    entries = [one.data for one in found if isinstance(one, Draft) and isinstance(one.data, NodeListed)]
    assert len(found) == len(entries) == 12  # 13 rows, one of them of the cluster itself
    told = [
        (one.node, one.start, one.end, one.state, one.flags, one.reason) for one in entries if one.state != "UNKNOWN"
    ]
    assert told == [
        ("gpu005", 1796036374, 1796036403, "UP", ("FAIL",), "ECC uncorrectable on GPU 1; swap from spares"),
        ("gpu005", 1796036403, None, "UP", ("DRAIN",), "swap planned: GPU 1 serial S-0000"),
        ("gpu006", 1796036303, 1796036330, "DOWN", (), "xid 79: GPU 3 has fallen off the bus"),
        ("gpu008", 1796036420, None, "DOWN", (), "CDU-2 leak detected: rack power cut"),
    ]
    assert {one.reason_by for one in entries} == {"root"}


def test_a_reason_may_hold_the_delimiter() -> None:
    head = "Cluster|NodeName|Reason|TimeStart|TimeEnd|StateRaw|User"
    text = f"{head}\npod-a|gpu003|hot | loop 2|1796036303|Unknown|517|root(0)\n"
    (found,) = node_events("text/plain", {}, text.encode())
    assert isinstance(found, Draft)
    assert isinstance(found.data, NodeListed)
    # 517 is 0x205: MIXED and DRAIN.
    assert (found.data.reason, found.data.flags, found.data.works) == ("hot | loop 2", ("DRAIN",), True)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("pod-a|gpu003|x|2026-11-30T10:58:23|Unknown|514|root", "bad_number"),
        ("pod-a|gpu003|x|200|100|514|root", "negative_duration"),
        ("pod-a|gpu003|x|100|200|15|root", "bad_state"),
        ("|gpu003|x|100|200|514|root", "cluster_missing"),
    ],
)
def test_rows_that_are_refused(row: str, code: str) -> None:
    text = f"Cluster|NodeName|Reason|TimeStart|TimeEnd|StateRaw|User\n{row}\n"
    (found,) = node_events("text/plain", {}, text.encode())
    assert isinstance(found, Refusal)
    assert found.code == code
