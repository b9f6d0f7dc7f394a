"""The search box: each kind of thing is found by what people type, and only by those who may see it."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from events import queries
from events.access import Scope
from events.adapters import Draft, Refusal
from events.intake import Intake
from events.types.jobs import JobReported
from tests.web.books import at, book, declare, job, person, signed_in
from tests.web.pages import html_of, main_of

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    """A named run of two jobs, an array of two tasks, a job that runs on nodes, in two projects."""
    declare("atlas", "vision")
    book(
        job("atlas", "2026-10-02 08:00", 10, 8, user="ben", job_id="412", run="atlas-70b"),
        job("atlas", "2026-10-03 08:00", 10, 8, user="ben", job_id="413", run="atlas-70b"),
        job("vision", "2026-10-03 09:30", 1, 1, user="cy", job_id="501", array_job_id="500", array_task="4"),
        job("vision", "2026-10-03 09:30", 1, 1, user="cy", job_id="502", array_job_id="500", array_task="5"),
        job("vision", "2026-10-04 09:30", 2, 16, user="cy", job_id="600", node_list="gpu[001-003,007]"),
    )


def found(client: Client, text: str) -> dict[str, list[str]]:
    """Title of each group -> its hits, as links."""
    html = html_of(client, f"/search?all=1&q={text}").split("<main", 1)[1]
    groups: dict[str, list[str]] = {}
    for title, hits in re.findall(r"<h2[^>]*>([^<]*)</h2>.*?<ul class=\"hits\">(.*?)</ul>", html, flags=re.S):
        groups[title] = [unescape(text) for text in re.findall(r"<li>(?:<a[^>]*>)?([^<]*)", hits)]
    return groups


def leads_to(client: Client, text: str) -> str:
    response = client.get("/search", {"q": text})
    assert response.status_code == 302, response.status_code
    return str(response["Location"])


def key_of(number: str) -> str:
    from jobs.queries import jobs

    return str(jobs(Scope.everything()).get(job_id=number).id)


def test_each_kind_is_found(admin: Client) -> None:
    fill()
    assert found(admin, "atlas-7") == {"Runs": ["atlas-70b"]}
    assert found(admin, "412")["Jobs"] == ["job 412 on pod-a"]
    assert found(admin, "500_4") == {"Jobs": ["job 501 (500_4) on pod-a"]}
    assert sorted(found(admin, "500")["Jobs"]) == ["job 501 (500_4) on pod-a", "job 502 (500_5) on pod-a"]
    assert found(admin, "412.batch")["Jobs"] == ["job 412 on pod-a"]
    assert found(admin, "gpu002") == {"On this node": ["job 600 on pod-a"]}
    assert found(admin, "gpu004") == {}
    assert found(admin, "cy") == {"People": ["cy"]}
    assert found(admin, "visio") == {"Projects": ["vision"], "Accounts": ["vision"]}
    assert found(admin, "%237") == {"Event log": ["position 7"]}
    assert found(admin, "job/pod-a/412") == {"Streams": ["job/pod-a/412"]}


def test_a_single_exact_hit_is_opened(admin: Client) -> None:
    fill()
    key = key_of("412")
    assert leads_to(admin, "412") == f"/jobs/{key}/"
    assert leads_to(admin, "  500_5 ") == f"/jobs/{key_of('502')}/"
    assert leads_to(admin, "vision") == "/projects/vision/"
    assert leads_to(admin, "#7") == "/events/7/"
    assert leads_to(admin, "site") == "/streams/site/"
    assert leads_to(admin, key) == f"/jobs/{key}/"
    assert leads_to(admin, "atlas-70b").startswith("/runs/")
    assert admin.get("/search", {"q": "atlas-"}).status_code == 200  # only a beginning
    assert admin.get("/search", {"q": "500"}).status_code == 200  # two tasks


def test_a_number_used_again_is_a_choice(admin: Client) -> None:
    fill()
    book(job("vision", "2026-11-20 08:00", 1, 2, job_id="412"))
    assert len(found(admin, "412")["Jobs"]) == 2
    assert admin.get("/search", {"q": "412"}).status_code == 200


def test_rejections_and_deliveries_by_the_beginning_of_their_id(admin: Client) -> None:
    from tests.web.test_sources_page import keep

    fill()
    refused = Intake("s", "t").reject([Refusal(0, "", "invalid", "is wrong", "x", "s")])[0].rejection
    delivery = keep({"x": 1})
    assert leads_to(admin, str(refused)[:13]) == f"/rejections/{refused}/"
    assert found(admin, str(refused)[:4])["Rejections"] == [str(refused)]
    assert leads_to(admin, str(delivery)) == f"/deliveries/{delivery}/"
    assert queries.deliveries(Scope.everything()).count() == 1


def test_a_lead_finds_only_what_is_granted() -> None:
    fill()
    lead = signed_in(person("lea", projects=("vision",)))
    assert found(lead, "412") == {}
    assert found(lead, "atlas") == {}
    assert found(lead, "ben") == {}
    assert found(lead, "job/pod-a/412") == {}
    assert found(lead, "%237") == {}
    assert found(lead, key_of("412")) == {}
    assert found(lead, "gpu002") == {"On this node": ["job 600 on pod-a"]}
    assert found(lead, "cy") == {"People": ["cy"]}
    assert leads_to(lead, "501") == f"/jobs/{key_of('501')}/"
    read = main_of(html_of(lead, "/search?q=412"))
    assert "Nothing found for “412”" in read
    assert "You see what belongs to the projects that were granted to you." in read
    assert found(signed_in(person("nobody")), "501") == {}


def test_running_jobs_are_found_on_their_node_first(admin: Client) -> None:
    fill()
    start = at("2026-10-01 08:00")
    data = JobReported("pod-a", "700", "RUNNING", submit=start, start=start, account="atlas", node_list="gpu002")
    book(Draft("job.reported", data, "700", start * 1_000_000, 0))
    assert found(admin, "gpu002")["On this node"] == ["job 700 on pod-a", "job 600 on pod-a"]


@pytest.mark.parametrize("text", ["", "%00", "%25", "'", "<script>alert(1)</script>", "9" * 300, "(", "_", "job/", "-"])
def test_odd_text_finds_nothing_and_breaks_nothing(admin: Client, text: str) -> None:
    fill()
    html = admin.get(f"/search?q={text}").content.decode()
    assert "<script>alert" not in html
    assert "Hallbook" in html


def test_a_search_asks_few_questions(admin: Client, django_assert_max_num_queries: Any) -> None:
    fill()
    admin.get("/search?q=atlas-")
    with django_assert_max_num_queries(30):
        admin.get("/search?q=gpu002")


def test_who_is_signed_out_signs_in_first() -> None:
    assert Client().get("/search?q=412")["Location"] == "/login/?next=/search%3Fq%3D412"
