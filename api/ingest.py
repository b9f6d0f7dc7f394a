"""`POST /api/v1/events`: CloudEvents 1.0 one by one, in batches and as lines.

A batch goes straight into the log in one transaction and keeps no body. One event is kept as a delivery,
which many senders at once can do without waiting for the log's lock; the drain appends it within a second.
A plain view: at tens of thousands of events a second every layer shows.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

import msgspec
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from api import bodies
from api.auth import secret_of
from api.bodies import Refuse, admitted
from api.errors import respond, unavailable, unforeseen
from api.scopes import EVENTS_WRITE
from api.tokens import Caller
from events.adapters import Refusal, cloudevents
from events.deliveries import accept_delivery, overloaded
from events.intake import Intake, LogBusy, Result, now_us, record, sift

__all__ = ["MOST_ITEMS", "post_events"]

MOST_ITEMS: Final = 5000
MEDIA_TYPES: Final = (
    "application/json",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/x-ndjson",
)
BINARY_HEADERS: Final = ("specversion", "id", "source", "type", "time", "dataschema")


class Answer(msgspec.Struct):
    """What became of all of them."""

    accepted: int
    duplicate: int
    rejected: int
    results: list[Result]


class Body(NamedTuple):
    """A body read and what it claims to be. `single`: one event, which is kept as a delivery."""

    content_type: str
    headers: dict[str, str]
    raw: bytes
    single: bool


_answer: Final = msgspec.json.Encoder()
_one_batch: Final = threading.Lock()
"""A worker process works on one batch at a time: two would fight for the interpreter, and then for the log's head."""


@csrf_exempt
def post_events(request: HttpRequest) -> HttpResponse:
    """Take events; 200 with a result per item, 422 when none was taken."""
    try:
        caller = admitted(secret_of(request), EVENTS_WRITE)
        body = _body(request)
        return _single(caller, body) if body.single else _batch(request, caller, body)
    except Refuse as refused:
        return refused.response
    except cloudevents.Malformed as error:
        return respond(400, str(error), pointer="")
    except (LogBusy, OperationalError, InterfaceError) as error:
        return unavailable(error)
    except Exception as error:  # noqa: BLE001 - also what nobody foresaw is answered by a problem document
        return unforeseen(error, "post_events")


def _body(request: HttpRequest) -> Body:
    content_type = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    headers = _binary_headers(request)
    if content_type not in MEDIA_TYPES and not (headers and content_type.endswith("+json")):
        raise Refuse(415, f"{content_type or 'no content type'} is not taken; expected {', '.join(MEDIA_TYPES)}")
    raw = bodies.unpacked(request)
    if not raw.strip():
        raise Refuse(400, "the body is empty", pointer="")
    listed = content_type in MEDIA_TYPES[2:] or (not headers and raw.lstrip()[:1] == b"[")
    return Body(content_type, headers, raw, single=not listed)


def _binary_headers(request: HttpRequest) -> dict[str, str]:
    """The CloudEvents attributes among the headers; empty unless the mode is binary."""
    meta = request.META
    if "HTTP_CE_SPECVERSION" not in meta and "HTTP_CE_ID" not in meta:
        return {}
    found = {name: meta.get(f"HTTP_CE_{name.upper()}") for name in BINARY_HEADERS}
    return {"ce-id": "", **{f"ce-{name}": value for name, value in found.items() if value is not None}}


def _batch(request: HttpRequest, caller: Caller, body: Body) -> HttpResponse:
    lines = body.content_type == "application/x-ndjson"
    atomic = request.GET.get("atomic", "") in ("1", "true")
    with _one_batch:
        items = cloudevents.lines(body.raw) if lines else cloudevents.batch(body.raw)
        if len(items) > MOST_ITEMS:
            raise Refuse(413, f"{len(items)} events; at most {MOST_ITEMS} are taken at a time")
        results = _intake(caller).take(items, atomic=atomic)
    if any(result.position is not None for result in results):
        bodies.wake()
    refused = [result for result in results if result.status == "rejected"]
    status = 422 if refused and (atomic or len(refused) == len(results)) else 200
    shown = refused if request.GET.get("results") == "rejected" else results
    duplicate = sum(result.status == "duplicate" for result in results)
    accepted = len(results) - len(refused) - duplicate
    return _respond(status, Answer(accepted, duplicate, len(refused), shown))


def _single(caller: Caller, body: Body) -> HttpResponse:
    """One event: checked, then kept as sent; it is answered when the body is durable."""
    if overloaded():
        return unavailable(LogBusy("too many deliveries wait"), wait=5)
    (item,) = cloudevents.translate(body.content_type, body.headers, body.raw)
    if isinstance(item, Refusal) and item.code == "malformed":
        raise Refuse(400, item.text, pointer=item.pointer)
    _, refused = sift([item], _intake(caller).voice, now_us())
    if refused:
        return _respond(422, Answer(0, 0, 1, [result for _, result in record(refused)]))
    kept = accept_delivery(
        source=item.source,
        kind="cloudevents",
        content_type=body.content_type,
        headers=body.headers,
        body=body.raw,
        actor=caller.actor,
    )
    bodies.wake()
    return _respond(200, Answer(1, 0, 0, [Result(0, "accepted", delivery=kept)]))


def _intake(caller: Caller) -> Intake:
    return Intake(source=caller.actor, actor=caller.actor, origin="POST /api/v1/events")


def _respond(status: int, answer: Answer) -> HttpResponse:
    return HttpResponse(_answer.encode(answer), status=status, content_type="application/json")
