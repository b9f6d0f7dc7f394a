"""The short way to POST events answers as the long one does, and leaves everything else to it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest

from api import tokens
from api.door import PATH, Door
from tests.events.adapters.telemetry import V1, write_request

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction of a test stays open, which a request would take for something left behind."""
    monkeypatch.setattr("api.door.renew", lambda: None)


def rest(_environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("204 No Content", [("Server", "rest")])
    return [b""]


def ask(body: bytes = b"", **more: str) -> tuple[str, dict[str, str], bytes]:
    """Status, headers and body of one request to the door."""
    got: list[Any] = []
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": PATH, "SCRIPT_NAME": "", "QUERY_STRING": "", "SERVER_NAME": "x",
        "HTTP_HOST": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/x-ndjson",
        **more,
    }  # fmt: skip
    answer = b"".join(Door(rest)(environ, lambda status, headers: got.extend((status, dict(headers)))))
    return got[0], got[1], answer


def event() -> bytes:
    data = {"cluster": "pod-a", "job_id": "7", "state": "PENDING", "submit": 1_767_225_600}
    said = {"specversion": "1.0", "id": "e1", "source": "hook", "type": "job.reported",
            "time": "2026-01-01T00:00:00Z", "data": data}  # fmt: skip
    return json.dumps(said).encode()


def test_it_takes_events_and_sends_the_security_headers() -> None:
    _, secret = tokens.create("door", ["events:write"])
    status, headers, answer = ask(event(), HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert status == "200 OK"
    assert json.loads(answer)["accepted"] == 1
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["Content-Length"] == str(len(answer))


def test_it_takes_samples_with_the_headers_that_their_sender_asks_for() -> None:
    _, secret = tokens.create("door", ["events:write"])
    raw = write_request(({"__name__": "up"}, [(1.0, time.time_ns() // 1_000_000)]))
    told = {"CONTENT_TYPE": V1, "HTTP_CONTENT_ENCODING": "snappy", "HTTP_AUTHORIZATION": f"Bearer {secret}"}
    status, headers, answer = ask(raw, PATH_INFO="/api/v1/ingest/prometheus/write", **told)
    assert (status, answer) == ("204 No Content", b"")
    assert headers["X-Prometheus-Remote-Write-Samples-Written"] == "1"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_without_a_token_it_refuses_and_says_how() -> None:
    status, headers, _ = ask(event())
    assert status == "401 Unauthorized"
    assert headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "other", [{"REQUEST_METHOD": "GET"}, {"PATH_INFO": "/"}, {"PATH_INFO": PATH + "/1"}, {"HTTP_HOST": "evil.example"}]
)
def test_all_else_is_passed_on(other: dict[str, str]) -> None:
    assert ask(event(), **other)[0] == "204 No Content"


def test_plain_http_is_left_to_the_redirect(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert ask(event())[0] == "204 No Content"


def test_a_failure_is_answered_with_500(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_request: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("api.door.post_events", broken)
    assert ask(event())[0] == "500 Internal Server Error"
