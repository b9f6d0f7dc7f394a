"""The page Scaling and the blocks Speed and Interruptions of a run, against the vectors of the research note."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from events import projector
from events.actions import declare_cluster
from events.append import append
from jobs.models import Run
from tests.jobs.test_training import BEGIN, heard, ms, save, steps
from tests.web.books import book, declare, job, person
from tests.web.pages import html_of, main_of, table

SMALL = {"cluster": "pod-a", "model": "gpt-8b", "kind": "acceptance", "measured": "2024-03-01T10:00:00+01:00",
         "gpus": 8, "tokens_per_second": 100_000, "signed_by": "Ada Lovelace", "reference": "ACC-2024-1"}  # fmt: skip
BIG = {**SMALL, "gpus": 64, "tokens_per_second": 736_000, "flop_per_token": 30_000_000_000, "peak_gflops": 989_000,
       "convention": "6N, dense BF16", "step_seconds": "5.7", "communication": "0.061"}  # fmt: skip


@pytest.fixture
def chief(hall: Any, client: Client) -> Client:
    declare("nlp")
    declare_cluster("pod-a", actor="test")
    projector.catch_up()
    client.force_login(person("chief", admin=True))
    return client


def test_the_page_says_how_to_record_while_there_is_nothing(chief: Client) -> None:
    said = main_of(html_of(chief, "/scaling/"))
    assert "Nothing was recorded yet" in said
    assert "curl" in said
    assert "above 90 % up to 64 GPUs" in said


def test_records_with_the_vector(chief: Client) -> None:
    """736,000 on 64 against 100,000 on 8: 92.00 %. MFU 736,000 x 30e9 / (64 x 989e12) = 34.88 %: below 40."""
    for body in (SMALL, BIG):
        assert chief.post("/api/v1/scaling-records", body, content_type="application/json").status_code == 201
    projector.catch_up()
    html = html_of(chief, "/scaling/")
    small, big = table(html, "Records")
    assert small == ["gpt-8b on pod-a", "8", "1 Mar 2024 acceptance", "100000", "12500.0", "no data", "100.00",
                     "no data", "no data", "no data", "Ada Lovelace ACC-2024-1"]  # fmt: skip
    assert big[3:7] == ["736000", "11500.0", "5.700", "92.00"]
    assert big[7].split(" ", 1) == ["34.88", "below target"]
    assert big[8:10] == ["6N, dense BF16", "6.10"]
    spec = json.loads(html.partition('id="spec" type="application/json">')[2].partition("</script>")[0])
    line, aim = (layer["data"]["values"] for layer in spec["layer"])
    assert [(value["g"], value["e"]) for value in line] == [(8, 100.0), (64, 92.0)]
    assert aim == [{"g": 8, "to": 64, "e": 90.0}]


def test_a_lead_sees_the_records_too(chief: Client, client: Client) -> None:
    chief.post("/api/v1/scaling-records", SMALL, content_type="application/json")
    projector.catch_up()
    client.force_login(person("lead", projects=("nlp",)))
    assert table(html_of(client, "/scaling/"), "Records")[0][0] == "gpt-8b on pod-a"
    assert client.post("/api/v1/scaling-records", SMALL, content_type="application/json").status_code == 403


@pytest.fixture
def run(chief: Client) -> str:
    """512 GPUs: the vector of lost work, with nodes given back, and how fast it went."""
    many = {"run": "big", "nodes": 64, "job_id": "1"}
    book(job("nlp", "2026-03-01 10:00", 1 + 49 / 60, 512, state="NODE_FAIL", record=1, **many),
         job("nlp", "2026-03-01 12:02", 2, 512, record=2, wait=780, **many))  # fmt: skip
    told = {"flop_per_token": 48_000_000_000, "peak_gflops": 989_000, "convention": "6N, dense BF16"}
    fast = heard(180, "run.progressed", day="2026-03-01", step=1, steps=1000, period_ms=114 * 60_000 + 30_000,
                 tokens=4_747_200 * 6870, communication_ppm=61_000, **told)  # fmt: skip
    append([steps(-60, 0), save(0, 2, blocking=0), steps(0, 47.5),
            heard(49, "run.interrupted", kind="hang", last_ms=ms(47.5)),
            heard(65.5, "checkpoint.restored", step=0, state_ms=ms(0)), fast])  # fmt: skip
    projector.catch_up()
    assert ms(0) == BEGIN * 1000
    return html_of(chief, f"/runs/{Run.objects.get(name='big').id}/")


def test_interruptions_of_a_run(run: str) -> None:
    """Rolled back 47.5 min, detected in 1.5, 13.0 of waiting, 3.5 until the first step; 405.3 and 448.0 GPU-h."""
    (row,) = table(run, "Interruptions")
    assert row[0] == "1 Mar 2026 11:47:30 CET"
    assert row[2:] == ["47.5", "1.5", "13.0", "3.5", "65.5", "405.3", "448.0"]
    assert "its program told a hang" in row[1]
    assert "Each lost second is charged to the end that opened it, once" in run
    assert "Faults: no data." in run


def test_speed_of_a_run(run: str) -> None:
    """4,747,200 tokens/s on 512 GPUs: 9,271.875 per GPU, an MFU of 45.00 %; the early reports tell tokens only."""
    rows = table(run, "Speed")
    assert [row[0] for row in rows] == ["512", "512"]
    assert rows[1][3:] == ["4747200", "9271.9", "one size", "45.00", "6N, dense BF16", "6.10"]
    assert rows[0][6:] == ["no data", "no data", "no data"]
    assert run.count("the topology of the cluster is not known") == 1


@pytest.mark.usefixtures("hall")
def test_a_silent_run_has_neither_block(client: Client) -> None:
    declare("nlp")
    book(job("nlp", "2026-03-01 11:00", 1, 16))
    client.force_login(person("chief", admin=True))
    html = html_of(client, f"/runs/{Run.objects.get().id}/")
    assert 'id="speed"' not in html
    assert 'id="interruptions"' not in html
