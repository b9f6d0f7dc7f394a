"""Pages and commands of faults: one row each, what it hurt, who may read and say what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from api import tokens
from events import actions, projector
from events.append import append
from events.models import Event
from events.types.faults import FaultSighted
from events.types.nodes import NodeDeclared
from fleet.models import Fault
from jobs.models import Attempt, Run
from jobs.queries_interruptions import of_run
from tests.hand import tell
from tests.jobs.test_training import heard, ms, save, steps
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import table

pytestmark = pytest.mark.django_db


def alert(name: str, at_s: int, *, over: int | None = None, **where: Any) -> FaultSighted:
    return FaultSighted("pod-a", "alert", name, "firing" if over is None else "resolved", at_s * 1000,
                        None if over is None else over * 1000, fingerprint=f"{name}{where}", **where)  # fmt: skip


@pytest.fixture
def broken() -> Fault:
    """XID 79 on gpu001 at 11:48:30, 30 s before a job of nlp on it ends; others end later, elsewhere, or go on."""
    declare("nlp", "vision")
    actions.declare_cluster("pod-a", actor="test")
    actions.say(NodeDeclared("pod-a", "gpu001", gpus=8, rack="R01"), type_="node.declared", actor="test")
    on = {"node_list": "gpu[001-002]", "nodes": 2}
    book(
        job("nlp", "2026-03-01 10:00", 1.8167, 16, job_id="1", state="NODE_FAIL", run="big", **on),
        job("nlp", "2026-03-01 12:30", 1, 16, job_id="1", record=2, run="big", **on),
        job("vision", "2026-03-01 11:00", 2, 4, job_id="2", node_list="gpu001", nodes=1),
        job("vision", "2026-03-01 11:00", 0.81, 8, job_id="3", node_list="gpu003", nodes=1),
    )
    tell(alert("GpuXid", at("2026-03-01 11:48") + 30, node="gpu001", gpu=5, xid=79))
    tell(alert("PsuFailed", at("2026-02-01 11:48"), over=at("2026-02-02 11:48"), node="gpu001"))
    projector.catch_up()
    return Fault.objects.get(kind="xid-79")


def text_of(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def test_the_list_has_one_row_per_fault_and_the_menu_counts_open_ones_for_staff(broken: Fault) -> None:
    staff, lead = signed_in(person("anna", admin=True)), signed_in(person("ben", projects=("nlp",)))
    page = text_of(staff, "/faults/")
    assert page.count(f"/faults/{broken.id}/") == 1
    assert "gpu001, GPU 5" in page
    assert "2 faults" in page
    assert "PsuFailed" not in text_of(staff, "/faults/?open=true")
    assert text_of(staff, "/faults/?node=gpu001&severity=fatal").count("/nodes/pod-a/gpu001/") == 1
    assert _count(page) == "1"
    assert _count(text_of(lead, "/faults/")) == ""


def _count(page: str) -> str:
    """What stands behind the word in the menu."""
    entry = page.split('href="/faults/"', 1)[1].split("</a>", 1)[0]
    return "".join(letter for letter in entry if letter.isdigit())


def test_a_fault_says_what_it_hurt_and_what_to_do(broken: Fault) -> None:
    page = text_of(signed_in(person("anna", admin=True)), f"/faults/{broken.id}/")
    assert "since 1 Mar 2026 11:48:30 CET; nobody looks after it yet" in page
    rows = table(page, "Runs it may have hurt")
    # 10:00 and 1.8167 h are 11:49:00; the second one runs on; the third is on another node.
    assert [(row[0], row[1], row[6]) for row in rows] == [("1", "nlp", "30 s"), ("2", "vision", "went on")]
    assert rows[0][7] == "no data"
    assert "Reboot the node" in page
    assert "GpuXid (XID 79) on gpu001, GPU 5 since 1 Mar 11:48:30" in page
    events = table(page, "The events that it is made of")
    assert len(events) == 1


def test_a_lead_sees_own_runs_only_and_no_words_of_people(broken: Fault) -> None:
    staff, lead = signed_in(person("anna", admin=True)), signed_in(person("ben", projects=("nlp",)))
    staff.post(f"/faults/{broken.id}/close/", {"closed_as": "replaced", "note": "serial 4711, by Carla"})
    projector.catch_up()
    page = text_of(lead, f"/faults/{broken.id}/")
    assert [row[1] for row in table(page, "Runs it may have hurt")] == ["nlp"]
    for word in ("vision", "4711", "Carla", "anna", "/log/"):
        assert word not in page
    assert "4711, by Carla" in text_of(staff, f"/faults/{broken.id}/")
    told = lead.get(f"/api/v1/faults/{broken.id}").json()
    assert (told["closed_as"], told["closed_note"], told["closed_by"]) == ("replaced", "", "")
    assert staff.get(f"/api/v1/faults/{broken.id}").json()["closed_note"] == "serial 4711, by Carla"
    for path in ("acknowledge", "close"):
        assert lead.post(f"/faults/{broken.id}/{path}/").status_code == 403


def test_staff_look_after_it_and_close_it_by_buttons(broken: Fault) -> None:
    staff = signed_in(person("anna", admin=True))
    assert "I look after it" in text_of(staff, f"/faults/{broken.id}/")
    page = staff.post(f"/faults/{broken.id}/acknowledge/", follow=True).content.decode()
    assert "You look after this fault now." in page
    projector.catch_up()
    page = text_of(staff, f"/faults/{broken.id}/")
    assert "anna has looked after it since" in page
    assert "I look after it" not in page
    page = staff.post(f"/faults/{broken.id}/close/", {"closed_as": "nonsense"}, follow=True).content.decode()
    assert "Nothing was changed." in page
    staff.post(f"/faults/{broken.id}/close/", {"closed_as": "repaired"})
    projector.catch_up()
    assert "repaired in place, says anna" in text_of(staff, f"/faults/{broken.id}/")
    page = staff.post(f"/faults/{broken.id}/close/", {"closed_as": "repaired"}, follow=True).content.decode()
    assert "It was closed already" in page
    assert Event.objects.filter(type="fault.closed").count() == 1
    # The alert goes on firing for years: the closing stands. What fires anew is a new fault.
    tell(alert("GpuXid", int(Fault.objects.get(id=broken.id).closed.timestamp()) + 60, node="gpu001", gpu=5, xid=79))
    projector.catch_up()
    ended = Fault.objects.filter(kind="xid-79").order_by("opened").values_list("closed", flat=True)
    assert [at is None for at in ended] == [False, True]


def test_commands_of_machines_take_a_key_once(broken: Fault) -> None:
    client = Client(HTTP_AUTHORIZATION=f"Bearer {tokens.create('desk', ['admin'])[1]}")

    def post(path: str, key: str, **body: Any) -> tuple[int, dict[str, Any]]:
        keyed = {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
        answer = client.post(f"/api/v1/faults{path}", json.dumps(body), content_type="application/json", **keyed)
        projector.catch_up()
        return answer.status_code, answer.json()

    told = {"cluster": "pod-a", "kind": "psu", "node": "gpu002", "note": "burnt smell", "since": "2026-03-01T10:00:00Z"}
    assert post("", "k1", **told)[0] == 201
    status, again = post("", "k1", **told)
    assert (status, again["again"]) == (200, True)
    assert post("", "k1", **{**told, "node": "gpu003"})[0] == 422
    assert Fault.objects.filter(kind="psu", node="gpu002", closed=None).count() == 1
    assert post("", "", **{**told, "kind": "nonsense"})[1]["code"] == "kind"
    assert post("", "", **{**told, "cluster": "pod-z"})[1]["code"] == "cluster"
    assert post("", "", **{**told, "unit": "cdu-1"})[1]["code"] == "invalid"
    assert post("", "", **{**told, "colour": "red"})[0] == 400
    assert post(f"/{broken.id}/acknowledge", "k2")[0] == 201
    assert post(f"/{broken.id}/acknowledge", "k2")[0] == 200
    assert post(f"/{broken.id}/acknowledge", "k3")[1]["code"] == "acknowledged"
    assert post(f"/{broken.id}/close", "k2", closed_as="repaired")[1]["code"] == "key_used"
    assert post(f"/{broken.id}/close", "k4", closed_as="repaired", note="x")[0] == 201
    assert post(f"/{broken.id}/close", "k4", closed_as="repaired", note="x") == (200, {"position": Event.objects.latest(
        "position").position, "again": True})  # fmt: skip
    assert post(f"/{broken.id}/close", "k5", closed_as="repaired")[0] == 409
    row = client.get("/api/v1/faults?kind=psu&open=true").json()["results"][0]
    assert (row["note"], row["times"], row["opened"]) == ("burnt smell", 1, "2026-03-01T10:00:00Z")


def test_the_node_and_the_map_show_it(broken: Fault) -> None:
    staff = signed_in(person("anna", admin=True))
    rows = table(text_of(staff, "/nodes/pod-a/gpu001/"), "Faults")
    assert [row[2] for row in rows] == ["GPU 5", ""]
    page = text_of(staff, "/fleet/")
    assert "1 open fault, the worst fatal" in page
    assert "1 open fault" not in text_of(staff, "/fleet/?at=2026-03-01T11:40")
    assert text_of(staff, "/faults/00000000-0000-0000-0000-000000000000/", 404)


def test_an_interruption_names_the_fault_before_it() -> None:
    """A fault of its node that opened 600 s before the end of a run may have ended it; one of 601 s not."""
    declare("nlp")
    many = {"run": "big", "nodes": 64, "job_id": "1", "node_list": "gpu[001-064]"}
    book(job("nlp", "2026-03-01 10:00", 1 + 49 / 60, 512, state="NODE_FAIL", record=1, **many),
         job("nlp", "2026-03-01 12:02", 2, 512, record=2, wait=780, **many))  # fmt: skip
    append([steps(-60, 0), save(0, 2, blocking=0), steps(0, 47.5),
            heard(49, "run.interrupted", kind="hang", last_ms=ms(47.5)),
            heard(65.5, "checkpoint.restored", step=0, state_ms=ms(0)), steps(65.5, 180)])  # fmt: skip
    projector.catch_up()
    end = int(Attempt.objects.get(number=1).end.timestamp())  # type: ignore[union-attr]
    run = Run.objects.get(name="big")
    for name, before, node in (("A", 601, "gpu007"), ("B", 10, "gpu065"), ("C", -1, "gpu007")):
        tell(alert(name, end - before, node=node))
    projector.catch_up()
    (row,) = of_run(run).rows  # type: ignore[union-attr]
    assert row["fault"] is None
    tell(alert("GpuTemperatureHigh", end - 5, node="gpu008", gpu=1),
         alert("GpuXid", end - 600, node="gpu064", gpu=2, xid=79))  # fmt: skip
    projector.catch_up()
    found = of_run(run)
    fatal = Fault.objects.get(kind="xid-79")
    assert found is not None
    assert (found.rows[0]["fault"], found.knows_faults) == (fatal.id, True)
    staff = signed_in(person("anna", admin=True))
    answer = staff.get(f"/api/v1/runs/{run.id}/interruptions").json()
    assert (answer["rows"][0]["fault"], answer["gaps"]) == (str(fatal.id), [])
    assert f"/faults/{fatal.id}/" in text_of(staff, f"/runs/{run.id}/")
    # 448.0 GPU-h by the vector of the research note: that much the end cost, says the page of the fault.
    row = table(text_of(staff, f"/faults/{fatal.id}/"), "Runs it may have hurt")[0]
    assert row[7] == "no data", "it ended ten minutes after the fault opened, so it is not counted as ended by it"
    near = Fault.objects.get(kind="thermal-throttle")
    assert table(text_of(staff, f"/faults/{near.id}/"), "Runs it may have hurt")[0][6:] == ["5 s", "448.0"]
