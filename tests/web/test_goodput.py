"""The page of an instrumented run: its parts, what it lost, its lanes and its advice, against figures by hand."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from events import projector
from events.append import append
from jobs.models import Run
from tests.jobs.test_other_ends import cancelled
from tests.jobs.test_training import BEGIN, FAULT, heard, save, steps
from tests.web.books import book, declare, job, person


def told(page: str, table: str) -> list[list[str]]:
    """The cells of a table of a page, as text."""
    body = page.partition(f'id="{table}"')[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.S)
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


@pytest.fixture
def page(hall: Any, client: Client) -> str:
    """Run `big` of job 1, 60 min on 16 GPUs, that met a fault (see tests/jobs), and job 2, whose program was silent."""
    declare("nlp")
    common = {"run": "big", "state": "NODE_FAIL", "nodes": 2}
    book(job("nlp", "2026-03-01 11:00", 1, 16, job_id="1", wait=300, **common),
         job("nlp", "2026-03-01 13:00", 0.5, 8, job_id="2", **common))  # fmt: skip
    append(list(FAULT))
    projector.catch_up()
    client.force_login(person("chief", admin=True))
    return client.get(f"/runs/{Run.objects.get().id}/").content.decode()


def test_the_parts_add_up_and_what_was_not_told_is_apart(page: str) -> None:
    rows = told(page, "goodput")[1:]
    assert [row[:4] for row in rows if row[1] != "0"] == [
        ["productive", "23\u202f360", "6.5", "40.556"], ["checkpoint stall", "480", "0.1", "0.833"],
        ["rollback and replay", "18\u202f720", "5.2", "32.500"], ["detect", "6\u202f720", "1.9", "11.667"],
        ["teardown", "2\u202f880", "0.8", "5.000"], ["init and restore", "3\u202f840", "1.1", "6.667"],
        ["data stall", "640", "0.2", "1.111"], ["partial gang wait", "960", "0.3", "1.667"],
        ["allocated and told of", "57\u202f600", "16.0", "100.000"],
    ]  # fmt: skip
    assert len(rows) == 11
    assert "4.0 GPU-h are not in it" in page
    widths = [tuple(map(float, pair)) for pair in re.findall(r'k-\w+" x="([\d.]+)" y="1" width="([\d.]+)"', page)]
    assert widths[0][0] == 0
    assert sum(widths[-1]) == pytest.approx(100, abs=0.02)


def test_what_the_attempt_lost(page: str) -> None:
    """19.5 min rolled back, 10 min until the nodes were free, 5 min of start; 40 s of data on 16 GPUs: 0.18 GPU-h."""
    figures = ["2", "19.5", "10.0", "5.0", "0.2", "40.56"]
    assert told(page, "lost")[1:] == [["1, 1", *figures], ["1 attempt", *figures]]


def test_lanes_of_saves_and_of_lost_work(page: str) -> None:
    spec = json.loads(page.partition('id="spec" type="application/json">')[2].partition("</script>")[0])
    values = [value for layer in spec["layer"] for value in layer["data"]["values"]]
    saves = [value["a"] for value in values if value.get("lane") == "Checkpoints"]
    assert saves == [BEGIN + 30 * 60, BEGIN + 45 * 60]
    (lost,) = [value for value in values if value.get("lane") == "Lost"]
    assert (lost["a"], lost["b"]) == (BEGIN + 30 * 60 + 30, BEGIN + 50 * 60)


def test_figures_and_advice(page: str) -> None:
    assert ">40.56<" in page.replace('<a href="#goodput">', "").replace("</a>", "")
    assert "The interval of 15 min is" in page
    assert "of wall" not in page, "a third of its GPU time is not told of: no share of wall time"


@pytest.mark.usefixtures("hall")
def test_a_run_whose_program_is_silent_shows_no_parts_and_says_how_to_get_them(client: Client) -> None:
    declare("nlp")
    book(job("nlp", "2026-03-01 11:00", 1, 16))
    client.force_login(person("chief", admin=True))
    page = client.get(f"/runs/{Run.objects.get().id}/").content.decode()
    assert 'id="goodput"' not in page
    assert "hallbook_run.py" in page


@pytest.mark.usefixtures("hall")
def test_where_nothing_can_be_advised_the_page_says_why(client: Client) -> None:
    declare("nlp")
    book(job("nlp", "2026-03-01 11:00", 1, 16, job_id="1"))
    append([heard(0, "gang.ready", ranks=16), steps(0, 59), save(30, 31)])
    projector.catch_up()
    client.force_login(person("chief", admin=True))
    page = client.get(f"/runs/{Run.objects.get().id}/").content.decode()
    assert "Fewer than two saves are known" in page
    assert told(page, "interval")[1] == ["no advice", "no data", "no data", "no data"]


@pytest.mark.usefixtures("hall")
def test_other_ends_that_lost_work_are_weighed_and_failures_shown_apart(client: Client) -> None:
    """One cancelled after which an older state was taken up, in 39,600 s: one in 11 h; failures one in 8,679,600 s, or
    2,411 h; together one in 39,420 s (tests/jobs/test_other_ends.py)."""
    cancelled()
    client.force_login(person("chief", admin=True))
    page = client.get(f"/runs/{Run.objects.get().id}/").content.decode()
    said = page.partition('id="interval"')[2].partition("</section>")[0]
    assert "0 failures in 0.9 node-days and one in 200 believed before: one in 2\u202f411 h for this run" in said
    assert "1 other end that lost work (1 cancelled) in 11 h of running: one in 11 h." in said
    assert "Together one in 11 h, which is weighed here." in said


@pytest.mark.usefixtures("page")
def test_the_project_shows_the_goodput_of_what_was_told(client: Client) -> None:
    """1,460 of 3,600 s on 16 GPUs; the silent attempt is not in it."""
    shown = client.get("/projects/nlp/?from=2026-03-01&to=2026-03-31").content.decode()
    figure = shown.partition("<dt>Goodput</dt>")[2].partition("</div>")[0]
    assert ">40.56<small>%</small>" in figure
    assert "of 16.0 instrumented GPU-h" in figure
    february = client.get("/projects/nlp/?from=2026-02-01&to=2026-02-28").content.decode()
    assert "<dt>Goodput</dt>" not in february
