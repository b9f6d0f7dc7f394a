"""The captured Slurm cluster as pages of jobs and runs: attempts and seconds by hand from the raw accounting.

Every source of the capture is taken in. The table below is worked out from the raw text alone: `psv` are lines of
tests/payloads/slurm/sacct/allocations.psv (header is line 1; times as printed there, UTC), `tsv` lines of db/job.tsv
(epoch seconds; 1796036400 is 11:00:00). wall = End - Start (ElapsedRaw leaves out suspended time), GPU-s = wall x
gres/gpu of AllocTRES, node-s = wall x node, wait = Start - Eligible.
The capture has no OUT_OF_MEMORY, DEADLINE or BOOT_FAIL and no node that slurmctld itself timed out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any, Final, NamedTuple

import pytest
from django.test import Client

from api import bodies, tokens
from tests.hand import own_database
from tests.web.books import person, signed_in
from tests.web.captures import take_in
from tests.web.pages import main_of, words


class Run(NamedTuple):
    """One attempt: state as the page says it, start and end on 30 November 2026, size, seconds."""

    state: str
    start: str
    end: str
    gpus: str
    wall: int
    gpu_s: int
    wait: int
    suspended: int = 0


class Hand(NamedTuple):
    """One job: its attempts, GPU- and node-seconds in all; since when it waits again: the end, or the next Submit."""

    attempts: tuple[Run, ...]
    gpu_s: int
    node_s: int
    waits: str = ""


def one(state: str, start: str, end: str, gpus: int, wall: int, wait: int, nodes: int = 1) -> Hand:
    """A job of a single attempt of one size."""
    return Hand((Run(state, start, end, str(gpus), wall, wall * gpus, wait),), wall * gpus, wall * nodes)


BY_HAND: Final = {
    # preempted and run again: psv 3 and 82; the second was eligible at 10:59:00
    "2": Hand((Run("preempted", "10:57:54", "10:58:39", "4", 45, 180, 0),
               Run("completed", "11:00:54", "11:01:05", "4", 11, 44, 114)), 224, 56),
    # its node failed and it was requeued, to begin later: psv 8 and 105 (2 nodes of 8 GPUs)
    "7": Hand((Run("node failed", "10:57:54", "10:59:29", "16", 95, 1520, 0),), 1520, 190, "10:59:29"),
    # its node failed, no requeue: psv 9
    "8": one("node failed", "10:57:54", "10:58:23", 8, 29, 0),
    # suspended: psv 12; 52 s, of which ElapsedRaw leaves 25
    "11": Hand((Run("completed", "10:57:57", "10:58:49", "1", 52, 52, 2, 27),), 52, 52),
    # requeued by itself: psv 13 and 77; eligible again at 10:58:26
    "12": Hand((Run("requeued", "10:57:59", "10:58:05", "1", 6, 6, 4),
                Run("completed", "10:59:53", "10:59:58", "1", 5, 5, 87)), 11, 11),
    # requeued by an operator: psv 14 and 79
    "13": Hand((Run("requeued", "10:57:57", "10:58:22", "1", 25, 25, 2),
                Run("completed", "10:58:44", "10:58:51", "1", 7, 7, 0)), 32, 32),
    # requeued into a hold: psv 15 and 80
    "14": Hand((Run("requeued", "10:57:57", "10:58:22", "1", 25, 25, 2),), 25, 25, "10:58:2[23]"),
    # shrunk from 2 nodes to 1: psv 16 and 78; 25 s x 4 + 16 s x 2 GPUs, 25 s x 2 + 16 s x 1 node
    "15": Hand((Run("completed", "10:57:57", "10:58:38", "4 → 2", 41, 132, 2),), 132, 66),
    # requeued as its node lost power: tsv 106 (1796036404 to 1796036472; 2 GPUs) and 117
    "99": Hand((Run("requeued", "11:00:04", "11:01:12", "2", 68, 136, 1),), 136, 68, "11:01:12"),
    # the two parts of one heterogeneous job: psv 30 and 31
    "35+0": one("completed", "10:58:59", "10:59:06", 1, 7, 61),
    "35+1": one("completed", "10:58:59", "10:59:06", 16, 7, 61, nodes=2),
    # an array: psv 50 to 57; eligible 10:57:59
    "32_0": one("completed", "10:58:04", "10:58:08", 1, 4, 5),
    "32_1": one("completed", "10:58:04", "10:58:09", 1, 5, 5),
    "32_2": one("completed", "10:58:09", "10:58:14", 1, 5, 10),
    "32_3": one("failed", "10:58:09", "10:58:12", 1, 3, 10),
    "32_4": one("completed", "10:58:09", "10:58:13", 1, 4, 10),
    "32_5": one("completed", "10:58:14", "10:58:19", 1, 5, 15),
    "32_6": one("completed", "10:58:14", "10:58:17", 1, 3, 15),
    "32_7": one("completed", "10:58:14", "10:58:18", 1, 4, 15),
    # an array of which two run at a time: psv 58 to 67; tsv 113 and 114
    "33_1": one("completed", "10:58:19", "10:58:33", 1, 14, 20),
    "33_2": one("completed", "10:58:19", "10:58:33", 1, 14, 20),
    "33_3": one("completed", "10:58:34", "10:58:48", 1, 14, 1),
    "33_4": one("completed", "10:58:34", "10:58:48", 1, 14, 1),
    "33_5": one("completed", "11:00:09", "11:00:24", 1, 15, 81),
    "33_6": one("completed", "11:00:14", "11:00:29", 1, 15, 86),
    "33_7": one("completed", "11:00:24", "11:00:38", 1, 14, 0),
    "33_8": one("completed", "11:00:29", "11:00:44", 1, 15, 0),
    "33_9": one("completed", "11:00:38", "11:00:53", 1, 15, 0),
    "33_10": one("completed", "11:00:44", "11:00:58", 1, 14, 0),
    "33_11": one("completed", "11:00:53", "11:01:07", 1, 14, 0),
    "33_12": one("completed", "11:00:58", "11:01:13", 1, 15, 0),
    # an array with a step of ten, one task cancelled: psv 70 to 72
    "34_10": one("completed", "10:58:19", "10:58:29", 1, 10, 20),
    "34_20": one("cancelled", "10:58:19", "10:58:22", 1, 3, 20),
    "34_30": one("completed", "10:58:19", "10:58:28", 1, 9, 20),
}  # fmt: skip
RECORDS: Final = 116
"""Rows of db/job.tsv; 109 of them with different job ids (cut -f22 | sort -u | wc -l)."""


@pytest.fixture(scope="module")
def admin(django_db_setup: None, django_db_blocker: Any) -> Iterator[Client]:
    """Somebody who sees the captured hall."""
    with own_database(django_db_blocker), pytest.MonkeyPatch.context() as patch:
        for door in ("wake", "ask"):
            patch.setattr(bodies, door, lambda: None)
        tokens.forget()
        take_in()
        yield signed_in(person("ada", admin=True))
        tokens.forget()


@pytest.fixture(autouse=True)
def _open(admin: Client, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


def rest(admin: Client, path: str) -> Any:
    answer = admin.get(f"/api/v1/{path}")
    assert answer.status_code == 200, (path, answer.content)
    return answer.json()


def job_of(admin: Client, name: str) -> dict[str, Any]:
    """The job that its scheduler calls so, by REST."""
    key = admin.get(f"/go/job/pod-a/{name}")["Location"].rstrip("/").rpartition("/")[2]
    found: dict[str, Any] = rest(admin, f"jobs/{key}")
    return found


def html_of(admin: Client, path: str) -> str:
    answer = admin.get(path)
    assert answer.status_code == 200, path
    return str(answer.content.decode())


def rows_of(html: str, title: str = "Attempts") -> list[list[tuple[str, str]]]:
    """Words and exact value below the pointer of each cell of a table, its total last."""
    block = re.search(rf'<caption class="vh">{re.escape(title)}[<:].*?<tbody>(.*?)</table>', html, flags=re.S)
    if block is None:
        return []
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", block[1], flags=re.S)
    return [[(words(text), exact(attributes)) for attributes, text in
             re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", row, flags=re.S)] for row in rows]  # fmt: skip


def exact(attributes: str) -> str:
    found = re.search(r'title="([^"]*)"', attributes)
    return unescape(found[1]).replace("\u202f", "") if found else ""


def seconds(cell: tuple[str, str]) -> int:
    """A duration or an amount on the page, exact: from below the pointer, else as it is written."""
    text = cell[1] or cell[0]
    found = re.fullmatch(r"(\d+) (?:s|GPU-s)", text)
    assert found, cell
    return int(found[1])


def shown(html: str) -> list[Run]:
    """The attempts as a page shows them; suspended seconds as it says them."""
    found = []
    for row in rows_of(html)[:-1]:
        _, state, start, end, wait, wall, gpus, gpu_s, ended, *_ = row
        paused = re.search(r"Suspended for (\d+) s of it", ended[0])
        found.append(Run(state[0], start[0].removeprefix("30 Nov "), end[0].removeprefix("30 Nov "), gpus[0],
                         seconds(wall), seconds(gpu_s), seconds(wait), int(paused[1]) if paused else 0))  # fmt: skip
    return found


@pytest.mark.parametrize("name", BY_HAND)
def test_job_run_and_rest_are_as_worked_out_by_hand(admin: Client, name: str) -> None:
    hand, job = BY_HAND[name], job_of(admin, name)
    pages = [html_of(admin, f"/jobs/{job['id']}/"), html_of(admin, f"/runs/{job['run']}/")]
    for html in pages:
        assert shown(html) == list(hand.attempts)
        foot = rows_of(html)[-1]
        assert (seconds(foot[5]), seconds(foot[7])) == (sum(run.wall for run in hand.attempts), hand.gpu_s)
        read = main_of(html)
        assert f"{hand.gpu_s} GPU-s, " in read.replace("\u202f", "")
        assert f"{hand.node_s} node-s, " in read
        waits = re.search(r"(?:Waiting|Requeued) since 30 Nov 2026 ([\d:]+) UTC", read)
        assert re.fullmatch(hand.waits, waits[1] if waits else "")
    run = rest(admin, f"runs/{job['run']}")
    assert (job["attempts"], job["gpu_seconds"]) == (len(hand.attempts), hand.gpu_s)
    assert (run["attempts"], run["gpu_seconds"], run["node_seconds"]) == (len(hand.attempts), hand.gpu_s, hand.node_s)
    assert (run["end"] is None, run["state"] in ("PENDING", "REQUEUED")) == (bool(hand.waits), bool(hand.waits))
    rows = rest(admin, f"attempts?job={job['id']}&ordering=start")["results"]
    assert [row["suspended_seconds"] for row in rows] == [one.suspended for one in hand.attempts]
    assert [row["gpu_seconds"] for row in rows] == [one.gpu_s for one in hand.attempts]
    assert [row["start"] for row in rows] == [f"2026-11-30T{one.start}Z" for one in hand.attempts]
    assert [row["end"] for row in rows] == [f"2026-11-30T{one.end}Z" for one in hand.attempts]


def test_the_requeues_are_told_in_the_chart(admin: Client) -> None:
    def labels(name: str) -> str:
        html = html_of(admin, f"/jobs/{job_of(admin, name)['id']}/")
        return unescape(re.search(r'<script id="spec"[^>]*>(.*?)</script>', html, flags=re.S)[1])  # type: ignore[index]

    assert '"1 \\u00b7 4 GPUs \\u00b7 preempted"' in labels("2")
    assert '"1 \\u00b7 1 GPU \\u00b7 requeued"' in labels("13")
    assert '"1 GPU \\u00b7 27 s suspended"' in labels("11")
    assert '"completed, suspended for 27 s of it"' in labels("11")
    assert '"s": "node failed"' in labels("7")
    assert '"Priority"' in labels("7"), "what squeue said of its wait"


def test_array_tasks_and_parts_lead_to_each_other(admin: Client) -> None:
    """Array 32 has eight tasks, job 35 two parts; a job and its run lead to all of them."""
    for name, fact, title, others in (
        ("32_3", "task 3 of array 32", "Other tasks of array 32", {f"32_{n}" for n in range(8) if n != 3}),
        ("35+1", "part 1 of job 35", "Other parts of job 35", {"35+0"}),
    ):
        job = job_of(admin, name)
        page = html_of(admin, f"/jobs/{job['id']}/")
        assert {row[0][0] for row in rows_of(page, title)} == others
        for html in (page, html_of(admin, f"/runs/{job['run']}/")):
            href = unescape(re.search(rf'<a href="([^"]*)">{fact}</a>', html)[1])  # type: ignore[index]
            listed = html_of(admin, href)
            assert {name, *others} <= {row[0][0] for row in rows_of(listed, "Jobs")}


def test_every_page_equals_rest(admin: Client) -> None:
    """Each job of the capture: every attempt on the page of its run, and their total, against REST."""
    jobs = rest(admin, "jobs?limit=500")["results"]
    runs = {run["id"]: run for run in rest(admin, "runs?limit=500")["results"]}
    attempts = rest(admin, "attempts?limit=500&ordering=start")["results"]
    assert len(jobs) == RECORDS - 7
    ended = 0
    for job in jobs:
        run, rows = runs[job["run"]], [row for row in attempts if row["job"] == job["id"]]
        found = rows_of(html_of(admin, f"/runs/{job['run']}/"))
        assert len(found[:-1]) == len(rows) == run["attempts"] == job["attempts"]
        for cells, row in zip(found[:-1], rows, strict=True):
            assert cells[2][0] == f"30 Nov {row['start'][11:19]}"
            assert cells[3][0] == (f"30 Nov {row['end'][11:19]}" if row["end"] else "runs")
            if row["end"]:
                assert seconds(cells[7]) == row["gpu_seconds"]
                ended += 1
        if rows and all(row["end"] for row in rows):
            assert seconds(found[-1][7]) == run["gpu_seconds"] == job["gpu_seconds"]
    assert ended > 90


def test_what_waiting_jobs_ask_for(admin: Client) -> None:
    """squeue.json, jobs 74 and 96: tres_req_str holds gres/gpu=32 on 4 nodes, and gres/gpu=64 on 8; nothing is held."""
    listed = {row[0][0]: row for row in rows_of(html_of(admin, "/jobs/?waiting=true"), "Jobs")}
    for name, gpus, nodes in (("74", 32, 4), ("96", 64, 8)):
        job = job_of(admin, name)
        assert (job["asked_gpus"], job["asked_nodes"], job["gpus"], job["gpu_seconds"]) == (gpus, nodes, 0, 0)
        assert f"{gpus} asked" in [cell[0] for cell in listed[name]]
        read = main_of(html_of(admin, f"/jobs/{job['id']}/"))
        assert f"Asked for {gpus} GPUs, " in read
        assert f"{nodes} nodes" in read
