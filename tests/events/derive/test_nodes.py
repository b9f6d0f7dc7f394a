"""A node's stream to spells and holds: looks, the accounting's list, the owner's word, in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.adapters import Draft
from events.adapters.slurm_node_states import owner_of
from events.adapters.slurm_nodes import node_events, slurm_nodes
from events.derive.nodes import Heard, Hold, Node, Spell, fold, lifecycle_of
from events.types.nodes import NodeDeclared, NodeListed, NodeReported, NodeRetired

SLURM = Path(__file__).parents[2] / "payloads" / "slurm"
DAY = {"2026-11-01": 1000, "2026-11-30": 9000}
STATES = {
    # The research note's table for Slurm (4.1).
    ("UP", (), None): "in_service", ("UP", ("DRAIN",), True): "draining", ("UP", ("DRAIN",), False): "drained",
    ("UP", ("FAIL",), False): "drained", ("UP", ("FAIL",), True): "draining", ("DOWN", (), False): "down",
    ("DOWN", ("DRAIN",), False): "down", ("UP", ("MAINTENANCE",), False): "maintenance",
    ("UP", ("RESERVED",), None): "in_service", ("UP", ("INVALID_REG",), False): "drained",
    ("FUTURE", (), None): "planned",
    ("UP", ("NOT_RESPONDING",), None): "in_service", ("UP", ("POWERED_DOWN",), None): "in_service",
    ("UNKNOWN", (), None): None,
}  # fmt: skip


@pytest.mark.parametrize(("said", "state"), STATES.items())
def test_states(said: tuple[str, tuple[str, ...], bool | None], state: str | None) -> None:
    assert lifecycle_of(*said) == state


@pytest.mark.parametrize(
    ("reason", "by", "owner"),
    [
        ("hallbook: hold 7 hot GPU", "root", "policy"),
        ("Not responding", "slurm", "scheduler"),
        ("Node unexpectedly rebooted", "slurm", "scheduler"),
        ("gres/gpu count reported lower than configured (7 < 8)", "slurm", "scheduler"),
        ("Kill task failed", "root", "scheduler"),
        ("NHC: check_fs_mount failed", "root", "operator"),
        ("swap planned", "anna", "operator"),
        ("", "", "scheduler"),
    ],
)
def test_owners(reason: str, by: str, owner: str) -> None:
    assert owner_of(reason, by) == owner


def look(
    at: int, state: str = "UP", *flags: str, works: bool | None = None, reason: str | None = None, **more: Any
) -> Heard:
    owner = owner_of(reason or "", more.get("reason_by", ""))
    data = NodeReported("pod-a", "n1", state, flags, works, owner, reason, **more)  # type: ignore[arg-type]
    return Heard(at, "slurmctld:pod-a", at, data)


def listed(start: int, end: int | None, state: str, *flags: str, reason: str = "") -> Heard:
    works = False if flags or state == "DOWN" else None
    data = NodeListed("pod-a", "n1", start, state, end, flags, works, owner_of(reason, "root"), reason or None, "root")  # type: ignore[arg-type]
    return Heard(50_000 + start, "slurmdbd:pod-a", end or start, data)


def node(*heard: Heard) -> Node:
    found = fold(heard, DAY)
    assert found is not None
    return found


def test_a_drain_that_empties_and_is_cleared() -> None:
    found = node(
        look(100),
        look(200, "UP", "DRAIN", works=True, reason="hot", reason_by="anna", reason_at=190),
        look(300, "UP", "DRAIN", works=False, reason="hot", reason_by="anna", reason_at=190),
        look(400),
    )
    assert found.spells == (
        Spell("in_service", 100, 200), Spell("draining", 200, 300), Spell("drained", 300, 400),
        Spell("in_service", 400, None),
    )  # fmt: skip
    assert found.holds == (Hold("operator", "DRAIN", "hot", "anna", 190, 400),)


def test_a_second_reason_is_a_second_hold() -> None:
    found = node(
        look(100, "UP", "DRAIN", works=False, reason="hot", reason_by="anna"),
        look(200, "DOWN", works=False, reason="Not responding", reason_by="slurm"),
        look(300, "UP", "DRAIN", works=False, reason="swap", reason_by="ben"),
    )
    assert [(one.owner, one.reason, one.since, one.until) for one in found.holds] == [
        ("operator", "hot", 100, 200), ("scheduler", "Not responding", 200, 300), ("operator", "swap", 300, None),
    ]  # fmt: skip
    assert [one.state for one in found.spells] == ["drained", "down", "drained"]


def test_the_list_fills_what_no_look_saw() -> None:
    found = node(look(100), look(5000), listed(1000, 1400, "DOWN", reason="xid 79"), listed(4000, 4100, "UP", "DRAIN"))
    assert found.spells == (
        Spell("in_service", 100, 1000), Spell("down", 1000, 1400), Spell("in_service", 1400, 4000),
        Spell("drained", 4000, 4100), Spell("in_service", 4100, None),
    )  # fmt: skip


def test_an_entry_that_was_read_open_is_closed_by_the_next_reading() -> None:
    found = node(listed(1000, None, "DOWN"), listed(1000, 1600, "DOWN"))
    assert found.spells == (Spell("down", 1000, 1600), Spell("in_service", 1600, None))


def test_a_poll_and_the_list_speak_of_one_hold() -> None:
    drained: dict[str, Any] = {"reason": "swap planned", "reason_by": "root", "reason_at": 1000, "works": False}
    found = node(
        look(900),
        look(1010, "UP", "DRAIN", **drained),
        look(1520),
        listed(1000, 1500, "UP", "DRAIN", reason="swap planned"),
    )
    assert found.holds == (Hold("operator", "DRAIN", "swap planned", "root", 1000, 1520),)
    # Drained from the list's start to the poll that first saw it back.
    assert found.spells[1] == Spell("drained", 1000, 1520)


def test_the_owner_says_when_it_was_there() -> None:
    found = node(
        Heard(1, "hallbook", 0, NodeDeclared("pod-a", "n1", gpus=8, from_day="2026-11-01")),
        look(3000),
        Heard(9, "hallbook", 0, NodeRetired("pod-a", "n1", "2026-11-30")),
    )
    assert found.spells == (Spell("in_service", 1000, 9000), Spell("retired", 9000, None))
    assert found.declared is not None
    assert (found.declared.gpus, found.first_at, found.last_position) == (8, 1000, 3000)


def test_unknown_says_nothing() -> None:
    assert node(look(100), look(200, "UNKNOWN"), look(300, "DOWN", works=False)).spells == (
        Spell("in_service", 100, 300), Spell("down", 300, None),
    )  # fmt: skip
    assert fold([], {}) is None


def test_the_captured_cluster() -> None:
    """rest/slurm_v0.0.38_nodes.json (looked at 1796036466) and sacctmgr/events_epoch.psv of the same minute."""
    headers = {"x-hallbook-cluster": "pod-a", "x-hallbook-changes": "1796036466"}
    bodies = ((slurm_nodes, "rest/slurm_v0.0.38_nodes.json"), (node_events, "sacctmgr/events_epoch.psv"))
    drafts = [one for read, name in bodies for one in read("", headers, (SLURM / name).read_bytes())]
    streams: dict[str, list[Heard]] = {}
    for position, one in enumerate(drafts):
        assert isinstance(one, Draft)
        data: Any = one.data
        streams.setdefault(data.node, []).append(Heard(position, one.source, one.occurred_us // 1_000_000, data))
    nodes = {name: node(*heard) for name, heard in streams.items()}
    assert {name: found.spells[-1].state for name, found in nodes.items()} == {
        "gpu001": "in_service", "gpu002": "in_service", "gpu003": "draining", "gpu004": "in_service",
        "gpu005": "drained", "gpu006": "in_service", "gpu007": "in_service", "gpu008": "down",
    }  # fmt: skip
    # By db/event.tsv: gpu005 failed at ...374 and was drained from ...403 on; gpu006 was down for 27 s.
    assert nodes["gpu005"].spells == (
        Spell("in_service", 1796036264, 1796036374), Spell("drained", 1796036374, None),
    )  # fmt: skip
    assert [(one.reason, one.since, one.until) for one in nodes["gpu005"].holds] == [
        ("ECC uncorrectable on GPU 1; swap from spares", 1796036374, 1796036403),
        ("swap planned: GPU 1 serial S-0000", 1796036403, None),
    ]
    assert nodes["gpu006"].spells == (
        Spell("in_service", 1796036264, 1796036303), Spell("down", 1796036303, 1796036330),
        Spell("in_service", 1796036330, None),
    )  # fmt: skip
    # The list does not hold the drain of gpu003, which had work: its reason was set at ...303, first seen at ...466.
    assert [(one.owner, one.since, one.until) for one in nodes["gpu003"].holds] == [("operator", 1796036303, None)]


def _any_look(at: int, state: str, flag: str, works: bool) -> Heard:
    kept = bool(flag) or state == "DOWN"
    return look(at, state, *([flag] if flag else []), works=works if kept else None, reason=f"{flag}{state}")


def _any_entry(start: int, length: int, state: str) -> Heard:
    return listed(start, start + length if length else None, state, *(["DRAIN"] if state == "UP" else []))


LOOKS = st.builds(_any_look, st.integers(0, 2000), st.sampled_from(["UP", "UP", "DOWN", "UNKNOWN"]),
                  st.sampled_from(["", "DRAIN", "FAIL"]), st.booleans())  # fmt: skip
LISTED = st.builds(_any_entry, st.integers(0, 2000), st.integers(0, 500), st.sampled_from(["UP", "DOWN"]))


@given(st.lists(st.one_of(LOOKS, LISTED), min_size=1, max_size=10), st.randoms())
def test_any_order_and_no_hole(heard: list[Heard], order: Any) -> None:
    first = node(*heard)
    shuffled = [*heard, *heard[:2]]
    order.shuffle(shuffled)
    again = node(*shuffled)
    assert (again.spells, again.holds) == (first.spells, first.holds)
    assert first.spells[0].start == first.first_at
    assert all(
        one.end == two.start and one.state != two.state
        for one, two in zip(first.spells, first.spells[1:], strict=False)
    )
    assert first.spells[-1].end is None
    assert all(one.until is None or one.until >= one.since for one in first.holds)
