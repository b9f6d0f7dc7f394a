"""POST /api/v1/events: media types, results per item, duplicates, conflicts, limits."""

from __future__ import annotations

import gzip
import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from api import ingest
from events import queries
from events.access import Scope
from events.intake import LogBusy
from tests.api.clouds import BATCH, NDJSON, STRUCTURED, cloud, lines

URL = "/api/v1/events"
Make = Callable[..., Client]


def said(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.content)
    return found


def log() -> list[tuple[Any, ...]]:
    rows = queries.events(Scope.everything()).values_list("position", "source", "source_key", "stream")
    return list(rows)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (lines(cloud("a"), "", cloud("b")), NDJSON),
        (json.dumps([cloud("a"), cloud("b")]).encode(), BATCH),
        (json.dumps([cloud("a"), cloud("b")]).encode(), "application/json"),
    ],
)
def test_batches_of_each_media_type_give_positions_in_order(caller: Make, body: bytes, kind: str) -> None:
    start = queries.head_position()
    answer = caller("events:write").post(URL, body, content_type=kind)
    assert answer.status_code == 200
    assert said(answer) == {
        "accepted": 2, "duplicate": 0, "rejected": 0,
        "results": [
            {"index": 0, "status": "accepted", "position": start + 1},
            {"index": 1, "status": "accepted", "position": start + 2},
        ],
    }  # fmt: skip
    assert log()[-2:] == [
        (start + 1, "slurm/pod-a", "a", "job/pod-a/412"), (start + 2, "slurm/pod-a", "b", "job/pod-a/412")
    ]  # fmt: skip
    stored = queries.events(Scope.everything()).get(position=start + 1)
    assert stored.occurred_at.isoformat() == "2025-11-30T11:01:00+00:00"
    assert stored.data == cloud("a")["data"]


@pytest.mark.django_db
def test_gzip_several_sources_and_versions(caller: Make) -> None:
    body = lines(
        cloud("a"),
        cloud("a", source="slurm/pod-b"),
        cloud("v", type="job.reported.v1"),
        cloud("s", dataschema="https://hall.example/job.reported/v1", datacontenttype="application/json"),
    )
    answer = caller("events:write").post(
        URL, gzip.compress(body), content_type=NDJSON, headers={"Content-Encoding": "gzip"}
    )
    assert (answer.status_code, said(answer)["accepted"]) == (200, 4)
    assert {(row[1], row[2]) for row in log()} >= {
        ("slurm/pod-a", "a"), ("slurm/pod-b", "a"), ("slurm/pod-a", "v"), ("slurm/pod-a", "s")
    }  # fmt: skip


@pytest.mark.django_db
def test_one_bad_line_is_refused_by_line_and_field_and_the_rest_is_kept(caller: Make) -> None:
    body = lines(
        cloud("ok"),
        cloud("end", data={"end": "never"}),
        "{not json",
        cloud("type", type="job.guessed"),
        cloud("v9", type="job.reported.v9"),
        cloud("time", time=None),
        cloud("zone", time="2025-11-30T11:01:00"),
        cloud("more", data={"color": "red"}),
        cloud("less", data=None),
        cloud("xml", datacontenttype="application/xml"),
        cloud("early", time="2199-01-01T00:00:00Z"),
        cloud("nul", data={"account": "a\0b"}),
        cloud("fine"),
    )
    answer = caller("events:write").post(URL, body, content_type=NDJSON)
    found = said(answer)
    assert answer.status_code == 200
    assert (found["accepted"], found["duplicate"], found["rejected"]) == (2, 0, 11)
    assert [item["index"] for item in found["results"]] == list(range(13))
    assert {item["index"]: (item["code"], item["pointer"]) for item in found["results"] if "code" in item} == {
        1: ("invalid", "/data/end"),
        2: ("malformed", ""),
        3: ("unknown_type", "/type"),
        4: ("unknown_type", "/type"),
        5: ("invalid", "/time"),
        6: ("invalid", "/time"),
        7: ("invalid", "/data/color"),
        8: ("invalid", "/data"),  # missing
        9: ("invalid", "/datacontenttype"),
        10: ("clock_ahead", "/time"),
        11: ("nul", "/data"),
    }
    shown = queries.rejections(Scope.everything()).get(id=found["results"][1]["rejection"])
    assert (shown.source, shown.index, shown.code, shown.state) == ("slurm/pod-a", 1, "invalid", "open")
    assert json.loads(shown.payload)["data"]["end"] == "never"


@pytest.mark.django_db
def test_rejected_only_answers_are_short(caller: Make) -> None:
    body = lines(cloud("ok"), cloud("bad", data={"gpus": -1}))
    found = said(caller("events:write").post(URL + "?results=rejected", body, content_type=NDJSON))
    assert (found["accepted"], found["rejected"]) == (1, 1)
    assert [item["index"] for item in found["results"]] == [1]


@pytest.mark.django_db
def test_the_same_again_is_a_duplicate_and_another_fact_a_conflict(caller: Make) -> None:
    client = caller("events:write")
    first = said(client.post(URL, lines(cloud("a")), content_type=NDJSON))["results"][0]["position"]
    again = said(caller("events:write").post(URL, lines(cloud("a"), cloud("a")), content_type=NDJSON))
    assert again["results"] == [
        {"index": 0, "status": "duplicate", "position": first},
        {"index": 1, "status": "duplicate", "position": first},
    ]
    answer = client.post(URL, lines(cloud("a", data={"gpus": 4}), cloud("b")), content_type=NDJSON)
    assert answer.status_code == 200
    conflict, accepted = said(answer)["results"]
    assert (conflict["status"], conflict["code"], conflict["pointer"]) == ("rejected", "conflict", "/id")
    assert accepted == {"index": 1, "status": "accepted", "position": first + 1}
    assert queries.events(Scope.everything()).get(position=first).data["gpus"] == 8


@pytest.mark.django_db
def test_atomic_keeps_nothing_when_one_is_refused_or_conflicts(caller: Make) -> None:
    client = caller("events:write")
    client.post(URL, lines(cloud("a")), content_type=NDJSON)
    start = queries.head_position()
    for wrong in (cloud("w", data={"gpus": -1}), cloud("a", data={"gpus": 4})):
        answer = client.post(URL + "?atomic=1", lines(cloud("n"), wrong), content_type=NDJSON)
        assert answer.status_code == 422
        assert (said(answer)["accepted"], said(answer)["rejected"]) == (0, 1)
        assert said(answer)["results"][0]["index"] == 1
        assert queries.head_position() == start
    answer = client.post(URL + "?atomic=1", lines(cloud("n"), cloud("m")), content_type=NDJSON)
    assert (answer.status_code, queries.head_position()) == (200, start + 2)


@pytest.mark.django_db
def test_all_refused_is_422_and_a_rejection_is_one_row_however_often_it_is_sent(caller: Make) -> None:
    client = caller("events:write")
    body = lines(cloud("w", data={"gpus": -1}))
    answers = [client.post(URL, body, content_type=NDJSON) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert said(answers[0])["results"] == said(answers[1])["results"]
    assert queries.rejections(Scope.everything()).count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"   \n", NDJSON, 400),
        (b"[{", BATCH, 400),
        (b'{"a":1}', BATCH, 400),
        (b"{", STRUCTURED, 400),
        (b"\xff\xfe", "application/json", 400),
        (b"x", "text/plain", 415),
        (b"<a/>", "application/xml", 415),
        (lines(*[{}] * 5001), NDJSON, 413),
        (json.dumps([{}] * 5001).encode(), BATCH, 413),
    ],
)
def test_what_cannot_be_read_as_a_whole(caller: Make, body: bytes, kind: str, status: int) -> None:
    answer = caller("events:write").post(URL, body, content_type=kind)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    problem = said(answer)
    assert (problem["status"], problem["type"]) == (status, "about:blank")
    assert problem["detail"]
    assert queries.rejections(Scope.everything()).count() == 0


@pytest.mark.django_db
def test_sizes_are_capped_before_and_after_unzipping(caller: Make, settings: Any) -> None:
    settings.INGEST_MAX_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10_000
    client = caller("events:write")
    zipped = {"Content-Encoding": "gzip"}
    assert client.post(URL, b" " * 10_001, content_type=NDJSON).status_code == 413
    bomb = gzip.compress(b" " * 50_000_000)
    bombs = gzip.compress(b" " * 6_000) + gzip.compress(b" " * 6_000)
    assert len(bombs) < 10_000
    assert client.post(URL, bombs, content_type=NDJSON, headers=zipped).status_code == 413
    settings.INGEST_MAX_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100_000
    assert len(bomb) < 100_000
    assert client.post(URL, bomb, content_type=NDJSON, headers=zipped).status_code == 413
    cut = gzip.compress(lines(cloud("a")))[:-9]
    assert client.post(URL, cut, content_type=NDJSON, headers=zipped).status_code == 400
    assert client.post(URL, b"plain", content_type=NDJSON, headers=zipped).status_code == 400
    assert client.post(URL, b"x", content_type=NDJSON, headers={"Content-Encoding": "br"}).status_code == 415


@pytest.mark.django_db
@pytest.mark.parametrize("error", [LogBusy("busy"), OperationalError("could not extend file: no space left")])
def test_busy_or_broken_is_503_with_retry_after(
    caller: Make, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(ingest.Intake, "take", broken)
    answer = caller("events:write").post(URL, lines(cloud("a")), content_type=NDJSON)
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert "space" not in answer.content.decode()


@pytest.mark.django_db
def test_single_events_are_kept_as_deliveries(caller: Make) -> None:
    client = caller("events:write")
    event = cloud("one")
    answers = [
        client.post(URL, json.dumps(event), content_type=STRUCTURED),
        client.post(URL, json.dumps(event), content_type="application/json"),
        client.post(
            URL,
            json.dumps(event["data"]),
            content_type="application/json",
            headers={f"ce-{name}": event[name] for name in ("specversion", "id", "source", "type", "time")},
        ),
    ]
    for answer in answers:
        assert answer.status_code == 200
        found = said(answer)
        assert (found["accepted"], found["duplicate"], found["rejected"]) == (1, 0, 0)
        uuid.UUID(found["results"][0].pop("delivery"))
        assert found["results"] == [{"index": 0, "status": "accepted"}]
    kept = queries.deliveries(Scope.everything())
    assert [(row.state, row.kind, row.source) for row in kept] == [("pending", "cloudevents", "slurm/pod-a")] * 3
    assert "authorization" not in json.dumps([row.headers for row in kept]).lower()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "pointer"),
    [({"data": {"end": "x"}}, "/data/end"), ({"id": None}, "/id"), ({"specversion": "0.3"}, "/specversion"),
     ({"source": ""}, "/source")],
)  # fmt: skip
def test_a_refused_single_event_is_422_and_visible(caller: Make, changes: dict[str, Any], pointer: str) -> None:
    answer = caller("events:write").post(URL, json.dumps(cloud("x", **changes)), content_type=STRUCTURED)
    assert answer.status_code == 422
    assert said(answer)["results"][0]["pointer"] == pointer
    assert queries.rejections(Scope.everything()).count() == 1
    assert queries.deliveries(Scope.everything()).count() == 0


@pytest.mark.django_db
def test_too_many_pending_deliveries_are_503(caller: Make, settings: Any) -> None:
    settings.MAX_PENDING_DELIVERIES = 0
    client = caller("events:write")
    answer = client.post(URL, json.dumps(cloud("x")), content_type=STRUCTURED)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert client.post(URL, lines(cloud("x")), content_type=NDJSON).status_code == 200


def test_two_identical_batches_at_once_give_each_event_once(hall: Any, caller: Make) -> None:
    client = caller("events:write")
    secret = client.defaults["HTTP_AUTHORIZATION"]
    body = lines(*[cloud(f"e{number}", data={"job_id": str(number)}) for number in range(500)])
    answers: list[dict[str, Any]] = []
    barrier = threading.Barrier(2)

    def send() -> None:
        barrier.wait()
        try:
            answers.append(said(Client(HTTP_AUTHORIZATION=secret).post(URL, body, content_type=NDJSON)))
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((answer["accepted"], answer["duplicate"]) for answer in answers) == [(0, 500), (500, 0)]
    positions = [[item["position"] for item in answer["results"]] for answer in answers]
    assert positions[0] == positions[1] == list(range(1, 501))
    assert queries.head_position() == 500
