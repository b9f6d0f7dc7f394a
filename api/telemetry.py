"""`POST /api/v1/ingest/prometheus/write` and `.../otlp/v1/metrics`: samples, staged before the answer.

A sender of remote write drops a batch for good on any 4xx, 429 too, and sends it again on 5xx; OTLP sends again on
503 only. So 4xx is for what can never be taken: a body that cannot be read (400, 413, 415), a token that never was one
(401) or lacks the scope (403). All that passes is 503: overload, a database that is away, a token that has expired or
was revoked (two are valid at once while one replaces another; until the sender has the new one, nothing is lost),
and what nobody foresaw. The bodies are not kept as deliveries: their samples are.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from django.db import DataError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from api import bodies, tokens
from api.auth import secret_of
from api.bodies import Refuse, admitted
from api.errors import respond, unavailable, unforeseen
from api.scopes import EVENTS_WRITE
from api.tokens import Caller
from events.adapters import otlp, remote_write
from events.adapters.samples import Samples, Unreadable
from events.intake import LogBusy, Voice, now_us
from events.staging import refuse, stage

__all__ = ["DOORS", "door_of", "post_samples"]

AT_ONCE: Final = 2
"""Bodies that one process works on at a time: unpacked they may have 32 MB each."""
WAIT_SECONDS: Final = 3.0
"""How long others wait for their turn: they hold threads that pages want, too."""
_PATH: Final = re.compile(r"^/api/v1/ingest/(prometheus/write|otlp/v1/metrics)/?$")
_HEADERS: Final = ("content-encoding", "x-prometheus-remote-write-version")
_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,160}\Z")
_turns: Final = threading.BoundedSemaphore(AT_ONCE)


class _Protocol(NamedTuple):
    """One door. source: first part of whom its samples are from; kind: of what is counted."""

    source: str
    kind: str
    decode: Callable[[str, Mapping[str, str], bytes], Samples]
    answer: Callable[[str, Samples], HttpResponse]


@csrf_exempt
def post_samples(request: HttpRequest, door: str) -> HttpResponse:
    """Stage the samples of one body. `door`: one of DOORS. 204 or 200 when they are durable."""
    try:
        caller = _admitted(request)
        raw = bodies.sent(request)
        with _turn():
            return _taken(request, DOORS[door], caller, raw)
    except Refuse as refused:
        return refused.response
    except (LogBusy, OperationalError, InterfaceError) as error:
        return unavailable(error)
    except Exception as error:  # noqa: BLE001 - OTLP would drop it on 500
        unforeseen(error, "post_samples")
        return unavailable(error, wait=60)


def door_of(path: str) -> str | None:
    """The door that an address leads to."""
    found = _PATH.match(path)
    return found[1] if found else None


def _admitted(request: HttpRequest) -> Caller:
    """Who calls. Raises Refuse: 401 only where the token never was one, 503 where it was."""
    secret = secret_of(request)
    try:
        return admitted(secret, EVENTS_WRITE)
    except Refuse as refused:
        if refused.response.status_code == 401 and secret and tokens.retired(secret):
            text = "the token has expired or was revoked; nothing was kept: send it again with its successor"
            raise Refuse(503, text, headers={"Retry-After": "60"}) from None
        raise


@contextmanager
def _turn() -> Iterator[None]:
    """One of AT_ONCE places. Raises LogBusy when none is free in time."""
    if not _turns.acquire(timeout=WAIT_SECONDS):
        raise LogBusy("too many bodies of samples at once")
    try:
        yield
    finally:
        _turns.release()


def _taken(request: HttpRequest, protocol: _Protocol, caller: Caller, raw: bytes) -> HttpResponse:
    received_us = now_us()
    content_type = str(request.META.get("CONTENT_TYPE", ""))
    headers = {name: value for name in _HEADERS if (value := request.headers.get(name)) is not None}
    voice = Voice(protocol.source, caller.actor, f"POST {request.path}")
    try:
        found = protocol.decode(content_type, headers, raw)
        stage(found, voice._replace(source=_source(protocol, found)), protocol.kind, received_us)
    except Unreadable as error:
        return _unreadable(error, voice, protocol.kind, received_us)
    except DataError as error:
        wrong = Unreadable(400, "bad_data", f"the database cannot hold it: {type(error.__cause__).__name__}")
        return _unreadable(wrong, voice, protocol.kind, received_us)
    return protocol.answer(content_type, found)


def _unreadable(error: Unreadable, voice: Voice, kind: str, received_us: int) -> HttpResponse:
    refuse(error, voice, kind, received_us)
    return respond(error.status, str(error), code=error.code, pointer=error.place)


def _source(protocol: _Protocol, found: Samples) -> str:
    """Named by the cluster that its first labelled series names, as sources of other doors are."""
    for series in found.distinct().values():
        labels = series.named()
        if _NAME.match(cluster := labels.get("cluster") or labels.get("k8s.cluster.name", "")):
            return f"{protocol.source}:{cluster}"
    return protocol.source


def _written(_content_type: str, found: Samples) -> HttpResponse:
    """204, or 400 that names what was refused while the others are kept; with the headers that 2.0 asks for."""
    headers = remote_write.written(found)
    status = remote_write.status(found)
    if status < 400:
        return HttpResponse(status=status, headers=headers)
    shown = [{"pointer": one.pointer, "code": one.code, "text": one.text} for one in found.refused[:10]]
    text = f"{found.refused_count} samples cannot be kept, {len(found)} are; do not send them again"
    return respond(status, text, headers=headers, errors=shown)


def _exported(content_type: str, found: Samples) -> HttpResponse:
    media = content_type.partition(";")[0].strip().lower()
    return HttpResponse(otlp.answer(content_type, found), content_type=media)


DOORS: Final[dict[str, _Protocol]] = {
    "prometheus/write": _Protocol("prometheus", "remote-write", remote_write.decode, _written),
    "otlp/v1/metrics": _Protocol("otlp", "otlp-metrics", otlp.decode, _exported),
}
"""End of an address -> what its bodies are."""
