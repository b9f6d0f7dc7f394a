"""The page of what waits now, and why on the pages of a job and of a run: every word and figure worked out here."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from events import projector
from events.actions import say
from events.deliveries import accept_delivery, drain
from events.types.clusters import ClusterDeclared
from events.types.nodes import NodeReported
from events.types.shares import FairshareConfigured
from jobs.models import Job
from tests.hand import job, tell
from tests.web.books import declare, person, signed_in
from tests.web.pages import html_of, main_of, table, words

pytestmark = pytest.mark.django_db
NOW = int(datetime.now(UTC).timestamp())
HOUR = 3600


def look(job: int, reason: str, *, ago: int = 2 * HOUR, **more: Any) -> dict[str, Any]:
    """A waiting job of nlp as slurmrestd shows it now, submitted `ago` seconds ago."""
    return {
        "job_id": job, "job_state": ["PENDING"], "state_reason": reason, "submit_time": NOW - ago,
        "eligible_time": NOW - ago, "last_sched_evaluation": NOW - ago + 20, "account": "nlp", "user_name": "mdietz",
        "partition": "train", "qos": "normal", "tres_req_str": "cpu=512,node=8,gres/gpu=64", "time_limit": 1440, **more,
    }  # fmt: skip


def running(job: int, account: str, gpus: int, limit_minutes: int, **more: Any) -> dict[str, Any]:
    """A job that began an hour ago."""
    return {
        "job_id": job, "job_state": ["RUNNING"], "submit_time": NOW - HOUR, "eligible_time": NOW - HOUR,
        "start_time": NOW - HOUR, "account": account, "user_name": "mdietz", "partition": "train", "qos": "normal",
        "tres_alloc_str": f"cpu={gpus},node=1,gres/gpu={gpus}", "time_limit": limit_minutes, "nodes": "gpu001",
        "node_count": 1, **more,
    }  # fmt: skip


def told(*jobs: dict[str, Any]) -> None:
    accept_delivery(
        source="slurmctld:pod-a", kind="slurmctld-jobs", content_type="application/json", actor="test",
        headers={"x-hallbook-cluster": "pod-a", "x-hallbook-changes": "0"}, body=json.dumps({"jobs": jobs}).encode(),
    )  # fmt: skip
    while drain():
        pass
    projector.catch_up()


@pytest.fixture
def books() -> None:
    """nlp waits for room, its turn, a limit and a job; vision holds most of the partition and waits too."""
    declare("nlp", "vision")
    say(ClusterDeclared(cluster="pod-a", scheduler="slurm"), type_="cluster.declared", actor="test")
    told(
        running(1, "nlp", 16, 180), running(2, "vision", 96, 360, user_name="jxu"),
        look(10, "Resources", start_time=NOW + 5 * HOUR), look(11, "Priority", ago=HOUR), look(12, "QOSMaxGRESPerUser"),
        look(13, "Dependency", dependency="afterok:1(unfulfilled)", eligible_time=0),
        look(20, "Priority", account="vision", user_name="jxu"),
    )  # fmt: skip


@pytest.fixture
def admin(books: None) -> Client:
    return signed_in(person("ada", admin=True))


def rows_of(html: str, caption: str) -> list[list[str]]:
    return table(html, caption)


def test_who_waits_for_whom(admin: Client) -> None:
    html = html_of(admin, "/waiting/")
    rows = {row[0]: row for row in rows_of(html, "Who waits for whom")}
    assert set(rows) == {"10", "11", "12", "13", "20"}
    assert [rows["10"][2], *rows["10"][5:]] == ["full Resources", "64 GPUs", "nlp", "mdietz"]
    assert [rows[name][1][:5] for name in ("10", "11")] == ["2 h 0", "1 h 0"]
    assert rows["10"][3].startswith("room in train: 112 GPUs held by vision 96, nlp 16; limits give back enough by")
    assert rows["11"][2] == "own share Priority"
    # Beside job 11 wait 10, 12, 13 and 20 for train, 64 GPUs each.
    assert rows["11"][3] == "its turn: its place is not told; 4 other jobs wait for train, 256 GPUs"
    assert rows["12"][3] == "an end of a running job of its user, 16 GPUs"
    assert rows["13"][3] == "job 1 (afterok)"
    assert [row[:2] for row in rows_of(html, "Jobs that are waited for")] == [["13", "nlp"]]
    assert rows_of(html, "Limits that are used up")[0][3:] == ["1", "16"]
    assert [row[:3] for row in rows_of(html, "Who holds train on pod-a")] == [["vision", "96", "1"], ["nlp", "16", "1"]]
    ends = rows_of(html, "When limits end in train on pod-a")
    assert [row[1:] for row in ends] == [["nlp", "16", "16"], ["vision", "96", "112"]]
    totals = rows_of(html, "By project and cause")
    assert [row[:4] for row in totals] == [
        ["nlp", "dependency or hold", "1", "64"], ["nlp", "own limit", "1", "64"], ["nlp", "own share", "1", "64"],
        ["nlp", "full", "1", "64"], ["vision", "own share", "1", "64"],
    ]  # fmt: skip
    assert words(html).split("Jobs that wait")[1].split()[0] == "5"
    assert main_of(html).count("320") == 2, "GPUs asked for, as a key figure and as a sum"


def nodes(*names: str) -> None:
    """Nodes of train with 8 GPUs each."""
    tell(*(NodeReported("pod-a", name, "UP", works=False, gpus=8, partitions=("train",)) for name in names))


def test_what_is_free_is_told_where_nodes_are_known(admin: Client) -> None:
    page = html_of(admin, "/waiting/")
    assert "how many GPUs are free: no data" in main_of(page)
    nodes("gpu001", "gpu002", "gpu003", "gpu004", "gpu005")
    # Everything runs on gpu001, so 4 x 8 GPUs are free. Job 10 asks for 64: 32 are missing, and vision gives them back.
    page = html_of(admin, "/waiting/")
    rows = {row[0]: row[3] for row in rows_of(page, "Who waits for whom")}
    end = datetime.fromtimestamp(NOW - HOUR + 6 * HOUR, UTC)
    assert "held by vision 96, nlp 16; 32 GPUs are free now; limits give back enough by" in rows["10"]
    assert f"{end:%M}" == rows["10"][-2:]
    assert rows["11"] == (
        "its turn: its place is not told; 4 other jobs wait for train, 256 GPUs; 32 GPUs of train are free; "
        "a larger job may be keeping them"
    )
    assert "What runs there now, by project; 32 GPUs of nodes in service are free." in main_of(page)
    ends = rows_of(page, "When limits end in train on pod-a")
    assert [row[1:] for row in ends] == [["free", "32", "32"], ["nlp", "16", "48"], ["vision", "96", "144"]]
    nodes("gpu006", "gpu007", "gpu008", "gpu009")
    rows = {row[0]: row[3] for row in rows_of(html_of(admin, "/waiting/"), "Who waits for whom")}
    assert rows["10"].endswith("nlp 16; 64 GPUs are free now, not where it needs them, or kept for others")


def test_what_waits_for_its_turn_leads_to_the_fair_share_of_its_project(admin: Client) -> None:
    found = Job.objects.get(job_id="11")
    for path in ("/waiting/", f"/jobs/{found.id}/"):
        assert "#fairshare" not in html_of(admin, path), "nobody has configured one"
    tell(FairshareConfigured("pod-a", "2026-01-01", 604_800, weights=("*=gpu:1000",)))
    assert re.search(r'href="/projects/nlp/#fairshare">its turn', html_of(admin, "/waiting/"))
    html = html_of(admin, f"/jobs/{found.id}/")
    text = main_of(html)
    assert "It waits for its turn: its place is not told; 4 other jobs wait for train, 256 GPUs." in text
    assert 'href="/projects/nlp/#fairshare">fair share of nlp</a>' in html
    assert "GPUs asked for 64 on 8 nodes" in text
    assert "Start expected no data its scheduler gives no estimate" in text
    for zero in ("GPU-hours", "Node-hours", "Elapsed", "Attempts 0"):
        assert zero not in text


def test_a_place_is_told_in_the_same_words(admin: Client) -> None:
    told(look(21, "Priority", account="vision", user_name="jxu", partition="debug", start_time=NOW + 9 * HOUR))
    told(look(22, "Priority", partition="debug", start_time=NOW + 4 * HOUR, tres_req_str="cpu=8,node=1,gres/gpu=1"))
    rows = {row[0]: row[3] for row in rows_of(html_of(admin, "/waiting/"), "Who waits for whom")}
    assert rows["21"] == "its turn: 1 job expected earlier, 1 GPU; 1 other job waits for debug, 1 GPU"
    assert rows["22"] == "its turn: no job is expected earlier; 1 other job waits for debug, 64 GPUs"
    told(look(23, "Priority", partition="lone"))
    rows = {row[0]: row[3] for row in rows_of(html_of(admin, "/waiting/"), "Who waits for whom")}
    assert rows["23"] == "its turn: its place is not told; no other job waits for lone"


def test_none_of_what_waits_has_an_estimate(db: None) -> None:
    declare("nlp", "vision")
    say(ClusterDeclared(cluster="pod-a", scheduler="slurm"), type_="cluster.declared", actor="test")
    ada, lea = signed_in(person("ada", admin=True)), signed_in(person("lea", projects=("nlp",)))
    assert "Next start expected no data nothing waits" in main_of(html_of(ada, "/waiting/"))
    told(look(11, "Priority"), look(20, "Priority", account="vision", start_time=NOW + HOUR))
    assert "Next start expected no data none of your waiting jobs has an estimate" in main_of(html_of(lea, "/waiting/"))
    asked = html_of(ada, "/waiting/?project=nlp")
    assert "Next start expected no data none of these jobs has an estimate" in main_of(asked)


def test_the_filter_offers_causes_that_can_occur(admin: Client) -> None:
    offered = re.findall(r'<option value="([a-z_]+)"', html_of(admin, "/waiting/"))
    assert offered == ["dependency_or_hold", "own_limit", "own_share", "full", "nodes_held", "reserved", "unknown"]


def test_a_lead_reads_no_name_of_another_project(books: None) -> None:
    html = html_of(signed_in(person("lea", projects=("nlp",))), "/waiting/")
    assert "vision" not in html
    assert "jxu" not in html
    assert "Besides these, 1 job of other projects wait" in main_of(html)
    held = rows_of(html, "Who holds train on pod-a")
    assert [row[:3] for row in held] == [["nlp", "16", "1"], ["other projects", "96", "1"]]
    assert {row[0] for row in rows_of(html, "Who waits for whom")} == {"10", "11", "12", "13"}


def test_the_page_is_what_rest_tells(admin: Client) -> None:
    for query in ("", "?project=vision", "?cause=own_share&ordering=waited"):
        told = admin.get(f"/api/v1/waiting{query}").json()
        rows = rows_of(html_of(admin, f"/waiting/{query}"), "Who waits for whom")
        assert [row[0] for row in rows] == [row["job_id"] for row in told["rows"]]
        assert [row[5].split()[0] for row in rows] == [str(row["gpus"]) for row in told["rows"]]
    csv = admin.get("/api/v1/waiting?format=csv")
    assert csv.headers["Content-Type"].startswith("text/csv")


def test_heads_sort_and_questions_that_cannot_be_answered(admin: Client) -> None:
    html = html_of(admin, "/waiting/?cause=own_share")
    assert 'href="/waiting/?cause=own_share&amp;ordering=-gpus"' in html
    assert re.search(r'aria-sort="descending"><a href="[^"]*ordering=waited">Waited', html)
    assert "none of dependency_or_hold" in main_of(html_of(admin, "/waiting/?cause=moon", 400))
    assert "none of -waited" in main_of(html_of(admin, "/waiting/?ordering=moon", 400))
    assert "Nothing of this waits now" in main_of(html_of(admin, "/waiting/?cause=reserved"))


def test_nothing_waits_and_nobody_tells_why(db: None) -> None:
    declare("nlp")
    client = signed_in(person("ada", admin=True))
    assert "Nothing waits now" in main_of(html_of(client, "/waiting/"))
    tell(job("9", None, None, submit=NOW - 60, eligible=NOW - 60, account="nlp"))
    text = main_of(html_of(client, "/waiting/"))
    assert "Nobody tells why these jobs wait" in text
    assert "no data: nobody asked its scheduler" in text


def test_a_waiting_job_says_why_until_when_and_what_it_asks_for(admin: Client) -> None:
    html = html_of(admin, f"/jobs/{Job.objects.get(job_id='10').id}/")
    text = main_of(html)
    assert "now because there is no room for it (its scheduler says Resources)." in text
    assert "Its scheduler expects it to start by" in text
    assert "It asks for 64 GPUs on 8 nodes for up to 24 h 00 min." in text
    (stretch,) = rows_of(html, "Why it waited")
    assert stretch[:3] == ["first wait", "full", "Resources"]
    assert stretch[4] == "goes on"
    assert int(stretch[5].replace(" ", "")) == pytest.approx(2 * HOUR, abs=600)
    assert "waits: full 2 h 0" in text
    assert '"c": "held"' in html, "drawn in the colour of its cause"


def test_attempts_that_nobody_looked_at_are_on_the_pages_too(books: None) -> None:
    told(look(30, "Priority", ago=3000, comment="run=alpha"))
    began = {"submit": NOW - 3000, "eligible": NOW - 3000}
    same = {"account": "nlp", "user": "mdietz", "comment": "run=alpha", "gpus": 8}
    tell(job("30", NOW - 2000, NOW - 1500, state="PREEMPTED", record=1, **began, **same))
    tell(job("30", NOW - 1497, NOW - 1000, record=2, submit=NOW - 1500, eligible=NOW - 1499, **same))
    admin = signed_in(person("ada", admin=True))
    found = Job.objects.get(job_id="30")
    for path in (f"/jobs/{found.id}/", f"/runs/{found.run}/"):
        html = html_of(admin, path)
        # The second attempt: not eligible for the first of its three seconds.
        assert [(row[0], row[1], row[5], row[6]) for row in rows_of(html, "Why it waited")] == [
            ("1", "own share", "1000", "1000"), ("2", "dependency or hold", "0", "1"), ("2", "unknown", "2", "2")
        ]  # fmt: skip
        foot = html.split('id="waits"')[1].split("<tfoot>")[1].split("</tfoot>")[0]
        assert words(foot) == "3 stretches 1002 1003"


def test_a_wait_after_an_attempt_is_called_so(books: None) -> None:
    told(look(31, "Priority", ago=3000))
    tell(job("31", NOW - 2000, NOW - 1500, state="PREEMPTED", record=1, submit=NOW - 3000, eligible=NOW - 3000,
             account="nlp", user="mdietz"))  # fmt: skip
    told(look(31, "Resources", ago=1500, restart_cnt=1))
    html = html_of(signed_in(person("ada", admin=True)), f"/jobs/{Job.objects.get(job_id='31').id}/")
    assert [row[0] for row in rows_of(html, "Why it waited")] == ["1", "wait after 1"]
    assert "It waits for room in train: 112 GPUs held by vision 96, nlp 16" in main_of(html)


def test_stretches_of_an_attempt_add_up_on_the_pages_of_job_and_run(books: None) -> None:
    told(look(30, "Priority", ago=3000, comment="run=alpha"))
    told(look(30, "Resources", ago=3000, last_sched_evaluation=NOW - 2000, comment="run=alpha"))
    began = {"submit_time": NOW - 3000, "eligible_time": NOW - 3000, "start_time": NOW - 1400}
    told(running(30, "nlp", 8, 60, comment="run=alpha", **began))
    admin = signed_in(person("ada", admin=True))
    found = Job.objects.get(job_id="30")
    for path in (f"/jobs/{found.id}/", f"/runs/{found.run}/"):
        html = html_of(admin, path)
        rows = rows_of(html, "Why it waited")
        # Looked at after 20 s, which speaks of the time before it too, and again after 1000 s; it started after 1600.
        assert [(row[0], row[1], row[2], row[5], row[6]) for row in rows] == [
            ("1", "own share", "Priority", "1000", "1000"), ("1", "full", "Resources", "600", "600")
        ]  # fmt: skip
        foot = html.split('id="waits"')[1].split("<tfoot>")[1].split("</tfoot>")[0]
        assert words(foot) == "2 stretches 1600 1600"
        assert "waits: own share 16 min waits: full 10 min" in main_of(html)
