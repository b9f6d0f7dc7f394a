"""The question that live pages ask: cheap, the same words as the page, and nothing for who is signed out."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.web.books import book, declare, job, person, signed_in
from tests.web.pages import html_of

pytestmark = pytest.mark.usefixtures("hall")


def test_it_answers_in_the_words_of_the_page() -> None:
    declare("atlas")
    lead = signed_in(person("lea", projects=("atlas",)))
    html = html_of(lead, "/jobs/")
    shown = re.search(r"As of position <b>([^<]*)</b>.*?<span data-lag>([^<]*)</span>", html)
    said = lead.get("/live/position").json()
    assert (said["position"], said["lag"]) == (shown[1], shown[2]) == ("3", "0 s")
    book(job("atlas", "2026-10-02 08:00", 1, 8))
    assert lead.get("/live/position").json()["position"] == "4"
    assert "no-store" in lead.get("/live/position")["Cache-Control"]


def test_who_is_signed_out_gets_no_answer_and_no_login_page() -> None:
    answer = Client().get("/live/position")
    assert (answer.status_code, answer.json()) == (401, {"error": "signed out"})


def test_it_costs_five_short_queries(django_assert_max_num_queries: Any) -> None:
    declare("atlas")
    lead = signed_in(person("lea", projects=("atlas",)))
    with django_assert_max_num_queries(5):  # session, person, progress, what the figures lack, site
        assert lead.get("/live/position").status_code == 200


@pytest.mark.parametrize("path", ["/", "/projects/", "/projects/atlas/", "/runs/", "/jobs/", "/events/", "/sources/"])
def test_pages_that_follow_say_where_to_ask(path: str) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8))
    html = html_of(signed_in(person("ada", admin=True)), path)
    assert 'data-live="/live/position"' in html
    assert "live.js" in html


@pytest.mark.parametrize("path", ["/rejections/", "/search?q=x", "/events/?type=job.lost", "/jobs/?colour=1"])
def test_pages_that_hold_still_do_not(path: str) -> None:
    declare("atlas")
    client = signed_in(person("ada", admin=True))
    assert "data-live" not in client.get(path).content.decode()
