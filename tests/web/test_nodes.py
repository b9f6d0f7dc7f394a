"""Pages of nodes: what stands where, why a node takes no work, and what a lead may read of that."""

from __future__ import annotations

import msgspec
import pytest
from django.test import Client

from api import tokens
from events import actions, projector
from events.adapters import Draft
from events.adapters.slurm_nodes import slurm_nodes
from events.intake import Intake
from events.types.jobs import JobReported
from events.types.nodes import NodeDeclared
from tests.fleet.slurmrestd import captured
from tests.web.books import book, declare, job, person, signed_in

pytestmark = pytest.mark.django_db
LOOKED = "1796036466"


@pytest.fixture
def hall_of_eight() -> None:
    """The captured nodes, one of them described by its owner, and a job on two of them."""
    declare("nlp", "vision")
    place = NodeDeclared("pod-a", "gpu003", rack="R08", unit=4, serial="SN-1003")
    actions.say(place, type_="node.declared", actor="test")
    headers = {"x-hallbook-cluster": "pod-a", "x-hallbook-changes": LOOKED}
    drafts = slurm_nodes("application/json", headers, captured("slurm_v0.0.38_nodes.json"))
    assert all(isinstance(one, Draft) for one in drafts)
    Intake(source="test", actor="test").take(drafts)
    book(
        _open(job("nlp", "2026-11-30 11:58", 1, 12, node_list="gpu[003-004]", gpu_indices=("gpu003=0-3,6",))),
        _open(job("vision", "2026-11-30 11:59", 1, 8, node_list="gpu005", nodes=1)),
    )


def _open(draft: Draft) -> Draft:
    """The same job while it runs: it was true at its start."""
    data = msgspec.structs.replace(draft.data, state="RUNNING", end=None)
    assert isinstance(data, JobReported)
    return Draft(draft.type, data, draft.native_key, (data.start or 0) * 1_000_000, draft.index)


def text_of(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


@pytest.mark.usefixtures("hall_of_eight")
def test_staff_read_why_a_node_takes_no_work() -> None:
    admin = signed_in(person("anna", admin=True))
    listed = text_of(admin, "/nodes/")
    assert listed.count("<tr>") >= 9
    assert "hot node: inlet 52C | coolant loop 2" in listed
    assert "does not answer" in listed
    page = text_of(admin, "/nodes/pod-a/gpu003/")
    assert "held by an operator: hot node: inlet 52C | coolant loop 2; jobs still run on it" in page
    assert "SN-1003" in page
    # 0 to 3 and 6 are five GPUs.
    assert '<td class="n">5</td>' in page
    assert text_of(admin, "/nodes/?held=true").count("/nodes/pod-a/") == 3
    assert text_of(admin, "/nodes/?name=SN-1003").count("/nodes/pod-a/") == 1
    text_of(admin, "/nodes/pod-a/gpu099/", 404)


@pytest.mark.usefixtures("hall_of_eight")
def test_a_lead_reads_the_state_but_neither_words_nor_foreign_jobs() -> None:
    lead = signed_in(person("ben", projects=("nlp",)))
    for path in ("/nodes/", "/nodes/pod-a/gpu003/", "/nodes/pod-a/gpu005/"):
        page = text_of(lead, path)
        assert "hot node" not in page
        assert "swap planned" not in page
        assert "root" not in page
    assert "draining" in text_of(lead, "/nodes/")
    own, foreign = text_of(lead, "/nodes/pod-a/gpu003/"), text_of(lead, "/nodes/pod-a/gpu005/")
    assert "/projects/nlp/" in own
    assert "a job of others" in foreign
    assert "vision" not in foreign


@pytest.mark.usefixtures("hall_of_eight")
def test_the_same_by_rest(client: Client) -> None:
    for projects, reason in (((), "hot node: inlet 52C | coolant loop 2"), (("nlp",), "")):
        _, secret = tokens.create(f"t{len(projects)}", ["read"] if projects else ["read", "log:read"], projects)
        found = client.get("/api/v1/nodes/pod-a/gpu003", headers={"Authorization": f"Bearer {secret}"}).json()
        assert (found["state"], found["works"], found["rack"], found["gpus"]) == ("draining", True, "R08", 8)
        assert found["reason"] == reason
        holds = client.get("/api/v1/holds?open=true", headers={"Authorization": f"Bearer {secret}"}).json()["results"]
        assert {hold["node"] for hold in holds} == {"gpu003", "gpu005", "gpu008"}
        assert {hold["reason"] == "" for hold in holds} == {reason == ""}


def test_no_node_yet() -> None:
    projector.catch_up()
    assert "import_nodes" in text_of(signed_in(person("anna", admin=True)), "/nodes/")


@pytest.mark.usefixtures("hall_of_eight")
def test_the_map_counts_gpus_and_shows_trouble() -> None:
    """12 GPUs on gpu003 and gpu004: five of gpu003 by index, of gpu004 an even half; 8 on gpu005, which is drained."""
    lead = signed_in(person("ben", projects=("nlp",)))
    page = text_of(lead, "/fleet/")
    assert 'aria-label="gpu004: 6 of 8 GPUs in use"' in page
    assert 'aria-label="gpu003: draining"' in page
    assert 'aria-label="gpu006: 0 of 8 GPUs in use, does not answer"' in page
    # gpu001, 002, 004, 006 and 007 take work: 40 GPUs, 6 of them held.
    assert '<span class="v">6<small>of 64</small></span>' in page
    assert page.count('<i class="gpu free">') == 34
    assert page.count('<i class="gpu draining">') == page.count('<i class="gpu down">') == 8
    assert "hot node" not in page


@pytest.mark.usefixtures("hall_of_eight")
def test_the_map_of_an_earlier_moment() -> None:
    admin = signed_in(person("anna", admin=True))
    # The nodes were looked at first at 11:01:06 UTC, 12:01:06 in Berlin: before, nothing is known of them.
    assert "gpu001" not in text_of(admin, "/fleet/?at=2026-11-30T12:01")
    assert 'aria-label="gpu003: draining"' in text_of(admin, "/fleet/?at=2026-11-30T12:02")
    assert "Write a time" in text_of(admin, "/fleet/?at=yesterday", 400)
    assert "has not come yet" in text_of(admin, "/fleet/?at=2099-01-01T00:00", 400)


@pytest.mark.usefixtures("hall_of_eight")
def test_a_node_is_found_by_name_and_by_serial() -> None:
    admin = signed_in(person("anna", admin=True))
    found = admin.get("/search?q=SN-1003")
    assert (found.status_code, found["Location"]) == (302, "/nodes/pod-a/gpu003/")
    listed = text_of(admin, "/search?q=gpu00&all=1")
    assert listed.count("/nodes/pod-a/") == 8
