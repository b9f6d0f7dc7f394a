"""Nodes as the captured scheduler shows them, pulled and posted: states, holds, spells in the read models."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from api import tokens
from events import projector
from events.access import Scope
from events.deliveries import drain
from events.models import Event
from events.queries import as_of, head_position
from events.types.clusters import ClusterDeclared
from events.types.nodes import NodeDeclared, NodeListed, NodeRetired
from fleet import actions
from fleet.models import Hold, Node, NodeSpell
from fleet.queries_nodes import capacity
from jobs.pulls import pull
from tests.fleet.slurmrestd import TOKEN, Fake, captured, serving
from tests.hand import at, place, read_models, tell

pytestmark = pytest.mark.django_db
CAPTURED = 1_796_036_466


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving() as found:
        yield found


def pulled(fake: Fake, tmp_path: Path, *seconds: int) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    if not Event.objects.filter(type="cluster.declared").exists():
        actions.add_pulled("a", url=fake.url, token_file=str(token), cluster="pod-a", user="root", every=10,
                           since=when(CAPTURED), accounting=False, actor="test")  # fmt: skip
    for second in seconds:
        assert pull("a", clock=lambda second=second: when(CAPTURED + second)).troubles == []  # type: ignore[misc]
        settled()


def settled() -> None:
    while drain():
        pass
    projector.catch_up()


def when(epoch: int) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def test_what_a_pull_shows_of_nodes(fake: Fake, tmp_path: Path) -> None:
    pulled(fake, tmp_path, 0)
    states = dict(Node.objects.values_list("name", "state"))
    assert states == {
        "gpu001": "in_service", "gpu002": "in_service", "gpu003": "draining", "gpu004": "in_service",
        "gpu005": "drained", "gpu006": "in_service", "gpu007": "in_service", "gpu008": "down",
    }  # fmt: skip
    assert set(Node.objects.values_list("gpus", flat=True)) == {8}
    holds = Hold.objects.order_by("node").values_list("node", "owner", "flag", "since", "until")
    assert list(holds) == [
        ("gpu003", "operator", "DRAIN", when(1796036303), None),
        ("gpu005", "operator", "DRAIN", when(1796036403), None),
        ("gpu008", "operator", "DOWN", when(1796036420), None),
    ]  # fmt: skip
    # A second look at the same is no event.
    before = Event.objects.count()
    pulled(fake, tmp_path, 10)
    assert Event.objects.count() == before


def test_to_and_fro(fake: Fake, tmp_path: Path) -> None:
    pulled(fake, tmp_path, 0)
    node = fake.nodes[0]
    node.update(state="mixed", state_flags=["DRAIN"], reason="fan", reason_changed_at=CAPTURED + 90,
                reason_set_by_user="anna")  # fmt: skip
    pulled(fake, tmp_path, 100)
    node.update(state="idle")
    pulled(fake, tmp_path, 200)
    node.update(state="idle", state_flags=[], reason="", reason_changed_at=0, reason_set_by_user=None)
    pulled(fake, tmp_path, 300)
    node.update(state="mixed", state_flags=["DRAIN"], reason="fan", reason_changed_at=CAPTURED + 390,
                reason_set_by_user="anna")  # fmt: skip
    pulled(fake, tmp_path, 400)
    spells = NodeSpell.objects.filter(name="gpu001").order_by("seq").values_list("state", "start", "end", "gpus")
    assert list(spells) == [
        ("in_service", when(CAPTURED), when(CAPTURED + 100), 8),
        ("draining", when(CAPTURED + 100), when(CAPTURED + 200), 8),
        ("drained", when(CAPTURED + 200), when(CAPTURED + 300), 8),
        ("in_service", when(CAPTURED + 300), when(CAPTURED + 400), 8),
        ("draining", when(CAPTURED + 400), None, 8),
    ]
    holds = Hold.objects.filter(node="gpu001").order_by("since").values_list("since", "until")
    assert list(holds) == [(when(CAPTURED + 90), when(CAPTURED + 300)), (when(CAPTURED + 390), None)]
    assert Node.objects.get(name="gpu001").works is True


def test_the_same_by_post(client: Client) -> None:
    tell(place(), ClusterDeclared(cluster="pod-a", scheduler="slurm"))
    _, secret = tokens.create("hall", ["events:write"])
    answer = client.post(
        f"/api/v1/ingest/slurm/rest?cluster=pod-a&changes={CAPTURED}", captured("slurm_v0.0.38_nodes.json"),
        content_type="application/json", headers={"Authorization": f"Bearer {secret}"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["kind"]) == (202, "slurm-nodes")
    settled()
    assert Node.objects.filter(state="down").get().name == "gpu008"


def test_the_owner_says_where_it_stands_and_since_when() -> None:
    declared = NodeDeclared("pod-a", "gpu001", gpus=4, gpu_model="b200", rack="R07", unit=12, from_day="2026-03-01")
    tell(place("Europe/Berlin"), declared)
    node = Node.objects.get()
    assert (node.gpus, node.gpu_model, node.rack, node.unit, node.state) == (4, "b200", "R07", 12, "in_service")
    # Midnight in Berlin is 23:00 UTC in winter.
    assert NodeSpell.objects.get().start == when(at("2026-02-28 23:00"))
    tell(NodeRetired("pod-a", "gpu001", "2026-07-01"))
    assert list(NodeSpell.objects.order_by("seq").values_list("state", "end")) == [
        ("in_service", when(at("2026-06-30 22:00"))), ("retired", None)
    ]  # fmt: skip
    before = read_models()["fleet_nodespell"]
    tell(place("UTC"))  # days begin elsewhere now
    assert NodeSpell.objects.order_by("seq")[0].start == when(at("2026-03-01 00:00"))
    assert read_models()["fleet_nodespell"] != before


def test_a_file_of_nodes_is_a_statement_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell(place())
    table, topology = tmp_path / "nodes.csv", tmp_path / "topology.conf"
    table.write_text(
        "node,rack,unit,gpus,serial\ngpu001,R1,4,8,S-1\ngpu002,R1,12,8,S-2\n,R1,1,1,x\ngpu003,R1,high,8,y\n"
    )
    assert _imported(capsys, table) == "2 accepted, 0 duplicate, 2 rejected (bad_number 1, node_missing 1)"
    topology.write_text("# switches\nSwitchName=leaf1 Nodes=gpu[001-002]\nSwitchName=spine Switches=leaf1\n")
    assert _imported(capsys, topology) == "2 accepted, 0 duplicate, 0 rejected"
    assert list(Node.objects.order_by("name").values_list("name", "rack", "unit", "leaf", "serial")) == [
        ("gpu001", "R1", 4, "leaf1", "S-1"), ("gpu002", "R1", 12, "leaf1", "S-2"),
    ]  # fmt: skip
    assert _imported(capsys, table).startswith("0 accepted")
    # Moved to another rack and back: the last word counts, also when it was said before.
    for rack in ("R2", "R1", "R2"):
        table.write_text(f"node,rack\ngpu001,{rack}\n")
        assert _imported(capsys, table).startswith("1 accepted")
        assert Node.objects.get(name="gpu001").rack == rack
    assert Node.objects.get(name="gpu001").serial == "S-1"


def test_past_states_of_nodes_are_imported(capsys: pytest.CaptureFixture[str]) -> None:
    tell(place())
    path = Path(__file__).parents[1] / "payloads" / "slurm" / "sacctmgr" / "events_epoch.psv"
    assert _imported(capsys, path) == "12 accepted, 0 duplicate, 0 rejected"
    assert _imported(capsys, path) == "0 accepted, 12 duplicate, 0 rejected"
    assert set(Node.objects.filter(state="down").values_list("name", flat=True)) == {"gpu008"}
    assert Hold.objects.filter(node="gpu006").get().until == when(1796036330)


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("host,rack\ngpu001,R1\n")
    with pytest.raises(CommandError, match="a head with `node`"):
        call_command("import_nodes", str(path), cluster="pod-a")
    path.write_text("node,colour\ngpu001,red\n")
    with pytest.raises(CommandError, match="it has colour"):
        call_command("import_nodes", str(path), cluster="pod-a")


def _imported(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    call_command("import_nodes", str(path), cluster="pod-a")
    projector.catch_up()
    return capsys.readouterr().out.strip().partition(": ")[2]


def test_capacity_of_stretches() -> None:
    """Two nodes of 8 GPUs: one there for 24 h and drained for 6 of them, one retired at noon."""
    day = at("2026-03-10 00:00")
    drained = NodeListed("pod-a", "gpu001", day + 6 * 3600, "UP", day + 12 * 3600, ("DRAIN",), False, "operator", "fan")
    tell(
        place(),
        *(NodeDeclared("pod-a", f"gpu00{n}", gpus=8, gpu_model="h100", from_day="2026-03-01") for n in (1, 2)),
        drained,
        NodeRetired("pod-a", "gpu002", "2026-03-11"),
    )
    pieces = [(when(day), when(day + 86_400)), (when(day + 86_400), when(day + 2 * 86_400))]
    found = capacity(Scope.everything(), pieces, when(day + 10 * 86_400))
    assert [(one.piece, one.installed_gpu_seconds, one.available_gpu_seconds) for one in found] == [
        (0, 2 * 8 * 86_400, (24 + 18) * 3600 * 8),
        (1, 8 * 86_400, 8 * 86_400),
    ]
    # Cut in the middle of the second day.
    half = capacity(Scope.everything(), pieces, when(day + 86_400 + 43_200))
    assert [one.installed_gpu_seconds for one in half] == [2 * 8 * 86_400, 8 * 43_200]


def test_rebuilt_nodes_are_the_live_ones(fake: Fake, tmp_path: Path) -> None:
    pulled(fake, tmp_path, 0)
    fake.nodes[0].update(state="down", reason="psu", reason_changed_at=CAPTURED + 5, reason_set_by_user="anna")
    pulled(fake, tmp_path, 20)
    live = {name: rows for name, rows in read_models().items() if name.startswith("fleet_")}
    with connection.cursor() as cursor:
        for table in ("fleet_node", "fleet_nodespell", "fleet_hold"):
            cursor.execute(f"DELETE FROM {table}")
        cursor.execute("UPDATE events_progress SET position = 0 WHERE group_name = 'fleet'")
    projector.catch_up()
    again = {name: rows for name, rows in read_models().items() if name.startswith("fleet_")}
    assert again == live
    assert len(live["fleet_node"]) == 8


BROKEN = {
    "gpus,node\n8,n1\n8\n4,n2\n": "2 accepted, 0 duplicate, 1 rejected (field_count 1)",
    "node,gpus\nn1,8,9\n": "0 accepted, 0 duplicate, 1 rejected (field_count 1)",
    "node,gpus,from_day\nn1,8,2026-02-30\nn1,8,2026-03-01\n": "1 accepted, 0 duplicate, 1 rejected (invalid 1)",
    "node,gpus,from_day\nn1,8,0001-01-01\n": "0 accepted, 0 duplicate, 1 rejected (invalid 1)",
    "node,gpus\nn1,999999999\n": "0 accepted, 0 duplicate, 1 rejected (invalid 1)",
    f'node,rack\nn1,"{"x" * 200_000}"\n': "0 accepted, 0 duplicate, 1 rejected (field_count 1)",
    "SwitchName=leaf1 Nodes=gpu[001-004\nSwitchName=leaf2 Nodes=t[1-99999999]\nSwitchName=leaf3 Nodes=n[1-2]\n":
        "2 accepted, 0 duplicate, 2 rejected (bad_node_list 2)",
    "NodeName|TimeStart|TimeEnd|StateRaw|Reason\nn1|1795000000|1795000600|1|a \u2028 b\nn2|1795000000\n":
        "1 accepted, 0 duplicate, 1 rejected (field_count 1)",
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), BROKEN.items())
def test_broken_files_of_nodes_lose_only_what_is_broken(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(place())
    path = tmp_path / "file"
    path.write_text(text)
    assert _imported(capsys, path) == said
    assert as_of().position == head_position()


def test_a_head_that_names_a_column_twice_is_told(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("node,rack,rack\nn1,R1,R2\n")
    with pytest.raises(CommandError, match="names rack twice"):
        call_command("import_nodes", str(path), cluster="pod-a")
