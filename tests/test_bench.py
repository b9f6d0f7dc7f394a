"""The benchmarks run: small sizes, shape of the lines, no verdict on speed."""

from __future__ import annotations

import io
import json
import math
import socket
import threading
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from bench import books, data, imports, load
from bench.base import Measured
from events import projector
from events.adapters import Draft, cloudevents, jobcomp
from events.adapters.sacct import open_sacct
from events.rebuild import compare


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(
        CommandError, match="no benchmark fast; there are ingest, single, project, import, live, report, telemetry"
    ) as told:
        call_command("bench", "fast")
    assert told.value.returncode == 2


def test_without_a_name_it_asks_for_one() -> None:
    with pytest.raises(CommandError, match="name a benchmark"):
        call_command("bench")


def test_a_line_has_short_figures() -> None:
    line = Measured("x", 0.123456, {"rate": 12345.678, "count": 5, "text": "t"}, [0.123456]).line()
    assert line == {"name": "x", "ratio": 0.1235, "figures": {"rate": 12346, "count": 5, "text": "t"}, "runs": [0.1235]}


def test_events_are_taken_as_they_are() -> None:
    (body,) = data.bodies(50, 50, mixed=True)
    drafts = cloudevents.lines(body)
    assert len(drafts) == 50
    assert all(isinstance(draft, Draft) for draft in drafts)


def test_sacct_lines_are_read_as_they_are() -> None:
    from zoneinfo import ZoneInfo

    lines = list(imports.lines(50))
    reader = open_sacct(lines[0], cluster="pod-a", zone=ZoneInfo("UTC"))
    found = [reader.read(number, line) for number, line in enumerate(lines)]
    assert all(isinstance(draft, Draft) for draft in found)
    wanted = [(job["gpus"], job["start"], job["end"]) for job in data.jobs(50, seed=11)]
    assert [(draft.data.gpus, draft.data.start, draft.data.end) for draft in found] == wanted  # type: ignore[union-attr]


def test_jobcomp_posts_are_read_as_they_are() -> None:
    for job in data.jobs(50, seed=3):
        (draft,) = jobcomp.translate("application/json", {}, data.jobcomp(job))
        assert isinstance(draft, Draft)
        said = draft.data
        wanted = (job["job_id"], job["state"], job["start"], job["end"], job["gpus"], job["account"])
        assert (said.job_id, said.state, said.start, said.end, said.gpus, said.account) == wanted  # type: ignore[attr-defined]


def test_filled_books_are_what_the_projection_makes_of_the_same_log(hall: dict[str, str]) -> None:
    books.fill(books.Size(600, 40))
    compare(projector.groups())
    with connection.cursor() as cursor:
        assert [found for group in projector.groups() for found in group.check(cursor)] == []
        cursor.execute("SELECT count(*), count(*) FILTER (WHERE end_at IS NULL) FROM jobs_attempt")
        attempts, running = cursor.fetchone()
        cursor.execute("SELECT sum(attempts), max(jobs) FILTER (WHERE named) FROM jobs_run")
        of_runs, largest = cursor.fetchone()
        cursor.execute("SELECT count(DISTINCT (account, user_id)) FROM jobs_segment WHERE end_at IS NOT NULL")
        used = cursor.fetchone()
        cursor.execute("SELECT count(DISTINCT (account, user_id)) FROM jobs_balance")
        assert cursor.fetchone() == used != (0,)
    assert (attempts, of_runs, largest) == (600, 600, 60)  # a tenth of the jobs at most are of the great run
    assert running >= books.RUNNING - 1  # the last job may have had a second attempt


def test_requests_are_paced_and_each_is_answered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answering, args=(server,), daemon=True).start()
        told: list[int] = []
        found = load.paced(server.getsockname()[1], [b"GET / HTTP/1.1\r\n\r\n"] * 20, 100, told.append, clients=2)
    assert found.good
    assert sorted(told) == list(range(20)) == sorted(found.answered)
    assert found.sent[-1] - found.sent[0] >= 0.19  # 20 at 100 a second: the last goes 0.19 s after the first


def _answering(server: socket.socket) -> None:
    """A server with two connections that answers every request with an empty 200."""
    peers = [server.accept()[0] for _ in range(2)]
    for peer in peers:
        threading.Thread(target=_answer_all, args=(peer,), daemon=True).start()


def _answer_all(peer: socket.socket) -> None:
    with peer:
        while peer.recv(1000):
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def test_the_length_of_an_answer_is_known_once_its_head_is_here() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    assert load._length(head[:-1]) is None
    assert load._length(head + b"ab") == len(head) + 5


@pytest.mark.faults
@pytest.mark.parametrize("name", ["ingest", "single", "project", "import", "live", "report", "telemetry"])
def test_a_quick_run_gives_positive_ratios(name: str, django_db_setup: None, django_db_blocker: Any) -> None:
    out = io.StringIO()
    with django_db_blocker.unblock():
        call_command("bench", name, "--quick", "--json", stdout=out)
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert set(line) == {"name", "ratio", "figures", "runs"}
    assert line["name"] == name
    assert line["ratio"] > 0
    assert all(run > 0 for run in line["runs"])
    numbers = [value for value in line["figures"].values() if not isinstance(value, str)]
    assert numbers
    assert all(math.isfinite(value) and value >= 0 for value in numbers)
