"""What Slurm posts: kept before the answer, answered as each sender needs it, and never a token kept or told."""

from __future__ import annotations

import base64
import gzip
import io
import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from api import tokens, webhooks
from api.door import Door
from api.webhooks import door_of
from events import actions, deliveries, queries, rejections
from events.access import Scope
from events.deliveries import drain
from events.models import Delivery, Event, KeptBody, Rejection
from events.tasks import forget_deliveries
from fleet.queries import sources
from tests.api.clouds import NDJSON, cloud, lines
from tests.hand import instant

pytestmark = pytest.mark.django_db
EVERYTHING = Scope.everything()
Make = Callable[..., Client]
BASE = "/api/v1/ingest/slurm/"


def posts(payloads: Path, name: str) -> list[dict[str, Any]]:
    text = gzip.decompress((payloads / "slurm" / "http" / name).read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def jobcomp(payloads: Path) -> bytes:
    """The first post of the capture: job 1 of pod-a, 64 GPUs for 6 s."""
    return str(posts(payloads, "jobcomp_posts.jsonl.gz")[0]["body"]).encode()


@pytest.fixture
def secret() -> str:
    return tokens.create("hooks", ["events:write"])[1]


def kept() -> list[Delivery]:
    return list(Delivery.objects.order_by("received_at"))


def send(client: Client, path: str, body: bytes, kind: str = "application/json", **more: Any) -> Any:
    return client.generic("POST", BASE + path, body, content_type=kind, **more)


@pytest.mark.parametrize("tail", ["", "/", "/_doc", "/slurm/jobcomp", "/any/thing/at all"])
def test_jobcomp_is_answered_200_and_kept_as_sent_under_any_tail(caller: Make, jobcomp: bytes, tail: str) -> None:
    answer = send(caller("events:write"), "jobcomp" + tail, jobcomp)
    assert answer.status_code == 200  # 202 and 204 would be sent again for ever
    (row,) = kept()
    assert (bytes(row.body), row.kind, row.source, row.state) == (jobcomp, "jobcomp", "jobcomp:pod-a", "pending")
    assert answer.json() == {"delivery": str(row.id), "kind": "jobcomp"}


def test_the_whole_capture_of_jobcomp_and_hooks_is_taken_as_it_was_posted(caller: Make, payloads: Path) -> None:
    actions.declare_cluster("pod-a", actor="test")
    client = caller("events:write")
    for name, path in (("jobcomp_posts.jsonl.gz", "jobcomp/_doc"), ("hook_posts.jsonl.gz", "hook")):
        for post in posts(payloads, name):
            headers = {"X-Slurm-Hook": post["headers"].get("X-Slurm-Hook", "")}
            assert send(client, path, post["body"].encode(), headers=headers).status_code == 200
    assert drain() == 106 + 596  # as the README of the capture counts them
    assert not Rejection.objects.exists()
    jobs = Event.objects.filter(type="job.reported", source="jobcomp:pod-a").values_list("stream", flat=True)
    assert len(set(jobs)) == 102


def test_a_second_time_changes_nothing(caller: Make, jobcomp: bytes) -> None:
    actions.declare_cluster("pod-a", actor="test")
    client = caller("events:write")
    for _ in range(2):
        send(client, "jobcomp", jobcomp)
    drain()
    assert Event.objects.filter(type="job.reported").count() == 1


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_the_token_comes_as_bearer_password_or_query(jobcomp: bytes, secret: str) -> None:
    for client, path in (
        (Client(HTTP_AUTHORIZATION=f"Bearer {secret}"), "jobcomp"),
        (Client(HTTP_AUTHORIZATION=basic("slurm", secret)), "jobcomp"),
        (Client(), f"jobcomp?token={secret}"),
        (Client(), f"jobcomp?token={secret}/slurm/jobcomp"),  # plugins before 20.11 lengthen the whole URL
    ):
        assert send(client, path, jobcomp).status_code == 200
    for client, path in (
        (Client(), "jobcomp"),
        (Client(), "jobcomp?token=hb_wrong"),
        (Client(HTTP_AUTHORIZATION=basic(secret, "")), "jobcomp"),
        (Client(HTTP_AUTHORIZATION="Bearer hb_wrong"), f"jobcomp?token={secret}"),
    ):
        answer = send(client, path, jobcomp)
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="hallbook"')
    assert len(kept()) == 4


def test_a_token_of_another_scope_is_refused(caller: Make, jobcomp: bytes) -> None:
    assert send(caller("log:read"), "jobcomp", jobcomp).status_code == 403
    assert kept() == []


def test_no_token_is_kept_or_logged(
    secret: str, jobcomp: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    send(Client(), f"jobcomp?token={secret}&cluster=pod-a", jobcomp)
    with monkeypatch.context() as patch:
        patch.setattr(webhooks, "accept_delivery", lambda **_: 1 / 0)
        answers = [send(Client(), f"jobcomp?token={secret}", jobcomp)]
    with monkeypatch.context() as patch:
        patch.setattr(webhooks, "accept_delivery", _away)
        answers.append(send(Client(), f"jobcomp?token={secret}", jobcomp))
    answers.append(Client().get(f"{BASE}jobcomp?token={secret}"))
    assert [answer.status_code for answer in answers] == [500, 503, 401]
    assert not any(secret.encode() in answer.content for answer in answers)
    (row,) = kept()
    told = [row.headers, row.source, row.actor, row.content_type, row.error]
    assert secret not in json.dumps(told) + caplog.text
    assert row.headers == {"x-hallbook-cluster": "pod-a"}


def _away(**_: Any) -> None:
    raise OperationalError("the database is away")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"jobid": "x"}', b"x" * 100_000])
@pytest.mark.parametrize("path", ["jobcomp", "hook"])
def test_what_cannot_be_read_is_kept_and_becomes_a_rejection_that_is_seen(caller: Make, path: str, body: bytes) -> None:
    assert send(caller("events:write"), path, body).status_code == 200
    (row,) = kept()
    assert bytes(row.body) == body
    assert drain() == 1
    row.refresh_from_db(fields=["state"])
    assert row.state == "rejected"
    assert Rejection.objects.filter(delivery=row.id, state="open").count() == 1


def test_names_that_are_no_utf8_do_not_hide_the_cluster(caller: Make, jobcomp: bytes) -> None:
    assert send(caller("events:write"), "jobcomp", jobcomp.replace(b"gang64", b"gang\xff")).status_code == 200
    assert kept()[0].source == "jobcomp:pod-a"


def test_a_hook_as_a_form_names_its_cluster(caller: Make) -> None:
    body = b"SLURM_JOB_ID=5&SLURM_CLUSTER_NAME=pod-a&HALLBOOK_HOOK=prolog"
    assert send(caller("events:write"), "hook", body, "application/x-www-form-urlencoded").status_code == 200
    assert [row.source for row in kept()] == ["hook:pod-a"]


def captured(payloads: Path, name: str) -> bytes:
    return gzip.decompress((payloads / "slurm" / name).read_bytes())


@pytest.mark.parametrize(
    ("name", "kind", "source"),
    [
        ("rest/slurm_v0.0.38_jobs.json.gz", "slurmctld-jobs", "slurmctld:pod-a"),
        ("rest/slurm_v0.0.37_jobs.json.gz", "slurmctld-jobs", "slurmctld:pod-a"),
        ("rest/slurmdb_v0.0.38_jobs.json.gz", "slurmdb-jobs", "slurmdbd:pod-a"),
    ],
)
def test_documents_are_known_by_their_shape(caller: Make, payloads: Path, name: str, kind: str, source: str) -> None:
    answer = send(caller("events:write"), "rest", captured(payloads, name))
    assert (answer.status_code, answer.json()["kind"]) == (202, kind)
    assert [(row.kind, row.source) for row in kept()] == [(kind, source)]


def test_documents_without_jobs_are_known_by_what_made_them(caller: Make) -> None:
    client = caller("events:write")
    documents = [
        {"meta": {"plugin": {"type": "openapi/dbv0.0.38"}}, "jobs": []},
        {"meta": {"plugin": {"type": "openapi/v0.0.38"}}, "jobs": []},
        {"meta": {"command": ["squeue", "--json"]}, "jobs": []},
        {"jobs": []},
    ]
    kinds = [send(client, "rest", json.dumps(document).encode()).json()["kind"] for document in documents]
    assert kinds == ["slurmdb-jobs", "slurmctld-jobs", "squeue-json", "slurmctld-jobs"]
    assert send(client, "rest?kind=squeue-json", b'{"jobs":[]}').json()["kind"] == "squeue-json"


def test_the_accounting_of_the_capture_enters_whole(caller: Make, payloads: Path) -> None:
    actions.declare_cluster("pod-a", actor="test")
    send(caller("events:write"), "rest", captured(payloads, "rest/slurmdb_v0.0.38_jobs.json.gz"))
    assert drain() == 1
    assert Event.objects.filter(type="job.reported").count() == 110  # records, as the README counts them
    assert not Rejection.objects.exists()


def test_sacct_text_needs_a_cluster_and_a_zone(caller: Make, payloads: Path) -> None:
    body = (payloads / "slurm" / "sacct" / "allocations.psv").read_bytes()
    client = caller("events:write")
    for path, missing in (("sacct", "cluster"), ("sacct?cluster=pod-a", "timezone")):
        answer = send(client, path, body, "text/plain")
        assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (400, missing)
    answer = send(client, "sacct?cluster=pod-a&timezone=UTC", body, "text/plain")
    assert (answer.status_code, answer.json()["kind"]) == (202, "sacct-text")
    (row,) = kept()
    assert row.headers == {"x-hallbook-cluster": "pod-a", "x-hallbook-timezone": "UTC"}
    assert row.source == "sacct:pod-a"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("rest", b"{", 400),
        ("rest", b"", 400),
        ("rest", b"[1]", 422),
        ("rest", b'{"partitions": []}', 422),
        ("rest?cluster=pod-a&changes=yesterday", b'{"nodes": []}', 400),
        ("rest", b'{"jobs": 3}', 422),
        ("rest?kind=nodes", b'{"jobs": []}', 400),
        ("sacct", b'{"nodes": []}', 400),
        ("sacct", b"", 400),
        ("sacct?cluster=a%2Fb&timezone=UTC", b"x", 400),
        ("sacct?cluster=a&timezone=Mars/Base", b"x", 400),
        ("sacct?cluster=a&timezone=../etc/passwd", b"x", 400),
        ("jobcomp?cluster=%00", b"{}", 400),
    ],
)
def test_what_a_person_sends_wrongly_is_told_at_once(caller: Make, path: str, body: bytes, status: int) -> None:
    answer = send(caller("events:write"), path, body)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert kept() == []


def test_gzip_and_the_bound_on_bodies(caller: Make, jobcomp: bytes, settings: Any) -> None:
    client = caller("events:write")
    assert send(client, "jobcomp", gzip.compress(jobcomp), HTTP_CONTENT_ENCODING="gzip").status_code == 200
    assert bytes(kept()[0].body) == jobcomp
    settings.INGEST_MAX_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE = len(jobcomp) - 1
    assert send(client, "jobcomp", jobcomp).status_code == 413
    assert send(client, "jobcomp", gzip.compress(jobcomp), HTTP_CONTENT_ENCODING="gzip").status_code == 413
    assert len(kept()) == 1


def test_overload_and_a_database_that_is_away_are_503_so_that_the_sender_keeps_it(
    caller: Make, jobcomp: bytes, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = caller("events:write")
    with monkeypatch.context() as patch:
        patch.setattr(webhooks, "accept_delivery", _away)
        answer = send(client, "jobcomp", jobcomp)
        assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    settings.MAX_PENDING_DELIVERIES = 0
    monkeypatch.setattr(deliveries, "_gauge", deliveries._Gauge())  # it is looked up once a second
    answer = send(client, "jobcomp", jobcomp)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert kept() == []


def test_an_unknown_cluster_waits_as_a_rejection_until_it_is_declared(caller: Make, jobcomp: bytes) -> None:
    send(caller("events:write"), "jobcomp", jobcomp)
    drain()
    (refused,) = Rejection.objects.all()
    assert (refused.code, refused.pointer, refused.state) == ("unknown_cluster", "/cluster", "open")
    assert "manage.py source add webhook" in refused.text
    assert json.loads(refused.payload)["job_id"] == "1"
    assert not Event.objects.filter(type="job.reported").exists()
    fault = rejections.replay(refused.id, "user:1")
    assert fault is not None
    assert fault.code == "unknown_cluster"
    actions.declare_cluster("pod-a", actor="test")
    assert rejections.replay(refused.id, "user:1") is None
    (event,) = Event.objects.filter(type="job.reported")
    assert (event.stream, event.delivery, event.actor) == ("job/pod-a/1", refused.delivery, "user:1")
    assert (event.data["gpus"], event.data["end"] - event.data["start"]) == (64, 6)
    send(caller("events:write"), "jobcomp", jobcomp)
    drain()
    assert Event.objects.filter(type="job.reported").count() == 1  # sent again, it is the same fact


def test_one_replay_takes_all_of_a_delivery_also_after_its_retention(caller: Make, payloads: Path) -> None:
    send(caller("events:write"), "rest", captured(payloads, "rest/slurmdb_v0.0.38_jobs.json.gz"))
    drain()
    refused = list(Rejection.objects.filter(state="open"))
    assert {one.code for one in refused} == {"unknown_cluster"}
    assert len({one.index for one in refused}) == 110
    forget_deliveries(instant("2100-01-01 00:00"))
    assert (Delivery.objects.count(), KeptBody.objects.count()) == (0, 1)
    actions.declare_cluster("pod-a", actor="test")
    assert rejections.replay(refused[50].id, "user:1") is None
    assert Event.objects.filter(type="job.reported").count() == 110
    assert set(Rejection.objects.values_list("state", "settled_by")) == {("replayed", "user:1")}


def test_events_of_other_doors_may_name_any_cluster(caller: Make) -> None:
    answer = caller("events:write").post("/api/v1/events", lines(cloud("x")), content_type=NDJSON)
    assert answer.json()["accepted"] == 1


def test_sources_tell_what_came_when_and_what_was_wrong(caller: Make, payloads: Path, jobcomp: bytes) -> None:
    actions.declare_cluster("pod-a", actor="test")
    client = caller("events:write")
    for body in (jobcomp, jobcomp, b"{"):
        send(client, "jobcomp", body)
    send(client, "rest", captured(payloads, "rest/slurmdb_v0.0.38_jobs.json.gz"))
    waiting = {(one.source, one.kind): one.waiting for one in sources(EVERYTHING)}
    assert waiting == {
        ("jobcomp:pod-a", "jobcomp"): 2,
        ("jobcomp", "jobcomp"): 1,
        ("slurmdbd:pod-a", "slurmdb-jobs"): 1,
    }
    drain()
    found = {one.source: one for one in sources(EVERYTHING)}
    one = found["jobcomp:pod-a"]
    assert (one.deliveries, one.accepted, one.duplicate, one.rejected, one.waiting) == (2, 1, 1, 0, 0)
    assert one.last_received == max(row.received_at for row in kept() if row.source == "jobcomp:pod-a")
    assert one.lag_seconds is not None
    assert 0 <= one.lag_seconds < 60
    bad = found["jobcomp"]
    assert (bad.deliveries, bad.refused, bad.rejected) == (1, 1, 1)
    assert bad.last_error.startswith("malformed: ")
    assert sources(Scope.only({"nlp"})) == []


def test_sources_by_rest(caller: Make, jobcomp: bytes) -> None:
    send(caller("events:write"), "jobcomp", jobcomp)
    drain()
    answer = caller("log:read").get("/api/v1/sources").json()
    (row,) = answer["results"]
    assert (answer["count"], row["source"], row["deliveries"], row["rejected"]) == (1, "jobcomp:pod-a", 1, 1)
    assert "token" not in json.dumps(answer)


def test_which_addresses_are_doors() -> None:
    tails = ("jobcomp", "jobcomp/_doc", "hook", "sacct/", "rest", "jobcompx", "x", "")
    doors = ["jobcomp", "jobcomp", "hook", "sacct", "rest", None, None, None]
    assert [door_of(BASE + tail) for tail in tails] == doors
    assert door_of("/api/v1/events") is None


def test_the_short_way_answers_webhooks_too(secret: str, jobcomp: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.door.renew", lambda: None)

    def rest(_environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("204 No Content", [])
        return [b""]

    def ask(path: str, query: str) -> tuple[str, dict[str, str]]:
        got: list[Any] = []
        environ = {
            "REQUEST_METHOD": "POST", "PATH_INFO": path, "SCRIPT_NAME": "", "QUERY_STRING": query, "SERVER_NAME": "x",
            "HTTP_HOST": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(jobcomp), "CONTENT_LENGTH": str(len(jobcomp)), "CONTENT_TYPE": "application/json",
        }  # fmt: skip
        b"".join(Door(rest)(environ, lambda status, headers: got.extend((status, dict(headers)))))
        return got[0], got[1]

    status, headers = ask(BASE + "jobcomp/_doc", f"token={secret}")
    assert (status, headers["X-Content-Type-Options"]) == ("200 OK", "nosniff")
    assert ask(BASE + "nothing", "")[0] == "204 No Content"
    assert len(kept()) == 1


def test_other_methods_are_refused(caller: Make) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = caller("events:write", "read").generic(method, BASE + "jobcomp")
        assert answer.status_code in (403, 405)
    assert queries.deliveries(EVERYTHING).count() == 0
