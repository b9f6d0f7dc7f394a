"""The client of slurmrestd against a server with the captured answers: versions, errors, bounds."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fleet.scheduler import (
    BadUrl,
    Missing,
    Scheduler,
    TooLarge,
    TooSlow,
    Trouble,
    Versions,
    check_url,
    cluster_of,
    read_document,
)
from tests.fleet.slurmrestd import TOKEN, Fake, captured, serving


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving() as found:
        yield found


def asking(fake: Fake, **more: float) -> Scheduler:
    return Scheduler(fake.url, TOKEN, "root", **more)  # type: ignore[arg-type]


def test_the_newest_version_is_read_from_the_captured_openapi(fake: Fake) -> None:
    assert asking(fake).versions() == Versions("v0.0.38", "v0.0.38")  # 22.05.8 offers 36, 37 and 38 of both
    assert fake.asked == ["/openapi/v3"]


def test_without_openapi_the_versions_are_tried_from_the_newest_down(fake: Fake) -> None:
    fake.openapi = None
    assert asking(fake).versions() == Versions("v0.0.38", "v0.0.38")
    assert fake.asked[1:3] == ["/slurm/v0.0.45/ping", "/slurm/v0.0.44/ping"]
    assert fake.asked[-1] == "/slurmdb/v0.0.38/diag"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [((36, 40, 41), "v0.0.41"), ((44, 45, 46), "v0.0.45"), ((46, 47), "v0.0.46"), ((35, 36), "")],
)
def test_versions_that_nobody_reads_are_left_alone(fake: Fake, offered: tuple[int, ...], chosen: str) -> None:
    paths = {f"/slurm/v0.0.{number}/jobs/": {} for number in offered}
    fake.openapi = json.dumps({"paths": {**paths, "/slurm/v0.0.99/nodes/": {}}}).encode()
    assert asking(fake).versions() == Versions(chosen, "")


def test_jobs_come_as_they_were_sent(fake: Fake) -> None:
    document = read_document(asking(fake).jobs("v0.0.38"))
    assert len(document.records) == 108  # counted in the capture by hand
    assert json.loads(bytes(document.records[0])) == fake.jobs[0]
    assert cluster_of(document) == "pod-a"


def test_the_accounting_is_asked_for_in_the_form_that_the_real_one_takes(fake: Fake) -> None:
    asking(fake).accounting("v0.0.38", "pod-a", 1_796_036_145, 1_796_036_530)
    asking(fake).accounting("v0.0.38", "pod-a", 1_796_036_145, None)
    assert fake.asked == [
        "/slurmdb/v0.0.38/jobs?cluster=pod-a&start_time=uts1796036145&end_time=uts1796036530",
        "/slurmdb/v0.0.38/jobs?cluster=pod-a&start_time=uts1796036145",
    ]


def test_a_bad_token_is_told_and_not_shown(fake: Fake) -> None:
    client = Scheduler(fake.url, "wrong-secret")
    with pytest.raises(Trouble, match=r"500: Failed while looking for jobs.*bad or expired token") as told:
        client.jobs("v0.0.38")
    assert "wrong-secret" not in str(told.value)


@pytest.mark.parametrize("token", ["secret\nX-Other: 1", "secr\u20act"])
def test_a_token_that_is_no_header_is_told_and_not_shown(fake: Fake, token: str) -> None:
    with pytest.raises(Trouble, match="no header takes") as told:
        Scheduler(fake.url, token).jobs("v0.0.38")
    assert "secr" not in str(told.value)
    assert fake.asked == []


def test_a_version_that_went_away_is_missing(fake: Fake) -> None:
    with pytest.raises(Missing, match="404"):
        asking(fake).jobs("v0.0.40")


def test_slurms_own_errors_are_told(fake: Fake) -> None:
    fake.answers["/slurmdb"] = (500, captured("slurmdb_v0.0.38_jobs_epoch_query.json"))
    with pytest.raises(Trouble, match="Unable to parse time format"):
        asking(fake).accounting("v0.0.38", "pod-a", 1, 2)
    with pytest.raises(Trouble, match="Unable to parse time format"):
        read_document(captured("slurmdb_v0.0.38_jobs_epoch_query.json"))


def test_nothing_found_is_an_empty_list(fake: Fake) -> None:
    nothing = {"errors": [{"error": "Nothing found", "error_number": 9003}], "jobs": []}
    fake.answers["/slurmdb"] = (500, json.dumps(nothing).encode())
    assert read_document(asking(fake).accounting("v0.0.38", "pod-a", 1, 2)).records == []
    assert read_document(json.dumps(nothing).encode()).records == []


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"jobs": 3}', b"[" * 5000, b'"\xff"'])
def test_what_is_no_document_is_told(body: bytes) -> None:
    with pytest.raises(Trouble, match="cannot be read"):
        read_document(body)


def test_an_answer_without_a_list_of_jobs_is_no_empty_list() -> None:
    """It would look as if every job had vanished."""
    with pytest.raises(Trouble, match="no list of jobs"):
        read_document(b"{}")


def test_a_record_that_is_none_does_not_hide_the_cluster_of_the_others() -> None:
    assert cluster_of(read_document(b'{"jobs": [1, null, "x", [], {"cluster": "pod-b"}]}')) == "pod-b"


def test_a_redirect_is_not_followed(fake: Fake) -> None:
    with serving() as other:
        fake.moved = f"{other.url}/slurm/v0.0.38/jobs"
        with pytest.raises(Trouble, match="leads elsewhere"):
            asking(fake).jobs("v0.0.38")
        assert other.asked == []


def test_an_answer_over_the_bound_is_given_up(fake: Fake) -> None:
    size = len(asking(fake).jobs("v0.0.38"))
    with pytest.raises(TooLarge):
        asking(fake, most=size - 1).jobs("v0.0.38")
    assert len(asking(fake, most=size).jobs("v0.0.38")) == size


@pytest.mark.parametrize("dribble", [False, True])
def test_a_hanging_or_dribbling_server_is_given_up_in_time(fake: Fake, dribble: bool) -> None:
    """Otherwise one hangs for 30 s, and the other takes as many minutes for its 361 kB."""
    fake.dribble = dribble
    if not dribble:
        fake.gate.clear()
    begun = time.monotonic()
    with pytest.raises(TooSlow):
        asking(fake, seconds=0.3).jobs("v0.0.38")
    assert time.monotonic() - begun < 10


def test_nobody_there_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Trouble, match="Connection refused"):
        Scheduler(f"http://127.0.0.1:{port}", TOKEN).jobs("v0.0.38")


def test_an_answer_that_breaks_off_is_no_answer(fake: Fake) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def half() -> None:
            there, _ = server.accept()
            there.recv(65536)
            there.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"jobs":[]}')
            there.close()

        thread = threading.Thread(target=half)
        thread.start()
        with pytest.raises(Trouble):
            Scheduler(f"http://127.0.0.1:{port}", TOKEN).jobs("v0.0.38")
        thread.join()


@pytest.mark.parametrize(
    "url",
    ["head:6820", "ftp://head", "http://", "http://u:p@head", "http://head:x", "http://[head", "http://head?token=1"],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(BadUrl):
        check_url(url)


def test_a_path_in_front_is_kept(fake: Fake) -> None:
    assert check_url("https://head/slurm-api/") == "https://head/slurm-api"
    with pytest.raises(Missing):
        Scheduler(f"{fake.url}/front", TOKEN).jobs("v0.0.38")
    assert fake.asked == ["/front/slurm/v0.0.38/jobs"]
