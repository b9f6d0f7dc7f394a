"""Every error under /api/ is a problem+json (RFC 9457): what is wrong, where, and what was expected."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Final

import msgspec
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions

from events.access import Forbidden
from events.intake import LogBusy
from events.reports import BadParameter

__all__ = ["PROBLEM", "RETRY_SECONDS", "not_found", "problem", "respond", "unavailable", "unforeseen"]

PROBLEM: Final = "application/problem+json"
RETRY_SECONDS: Final = 2
logger = logging.getLogger(__name__)


def respond(status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> HttpResponse:
    """A problem document. `more`: further members, such as `errors` or `pointer`."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **more,
    }
    return HttpResponse(msgspec.json.encode(body), status=status, content_type=PROBLEM, headers=headers)


def problem(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """DRF's exception handler. None (a 500) for what nobody foresaw."""
    if isinstance(error, BadParameter):
        return respond(400, str(error), errors=[{"parameter": error.name, "text": error.text}])
    if isinstance(error, (Forbidden, PermissionDenied)):
        return respond(403, str(error) or "the caller's scope does not reach this")
    if isinstance(error, Http404):
        return respond(404, "there is nothing here that the caller may see")
    if isinstance(error, exceptions.APIException):
        return _of_api(error)
    if isinstance(error, (OperationalError, InterfaceError, LogBusy)):
        return unavailable(error)
    return unforeseen(error, type(context.get("view")).__name__)


def _of_api(error: exceptions.APIException) -> HttpResponse:
    headers = {"WWW-Authenticate": value} if (value := getattr(error, "auth_header", "")) else {}
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    if isinstance(error, exceptions.ValidationError):
        errors = list(_fields(error.detail))
        return respond(error.status_code, "; ".join(e["text"] for e in errors), headers=headers, errors=errors)
    return respond(error.status_code, str(error.detail), headers=headers)


def _fields(detail: Any, name: str = "") -> Any:
    if isinstance(detail, dict):
        for key, value in detail.items():
            yield from _fields(value, f"{name}.{key}" if name else str(key))
    elif isinstance(detail, list):
        for value in detail:
            yield from _fields(value, name)
    else:
        yield {"parameter": name, "text": str(detail)}


def unavailable(error: Exception, wait: int = RETRY_SECONDS) -> HttpResponse:
    """503 with Retry-After: the log is busy or the database is not there; nothing was kept."""
    logger.warning("refused for now: %s", type(error).__name__)
    return respond(503, "nothing was kept; send it again after the given seconds", headers={"Retry-After": str(wait)})


def unforeseen(error: Exception, view: str) -> HttpResponse:
    """500; the error goes to the server's log."""
    logger.error("unforeseen error in %s", view, exc_info=error)
    return respond(500, "an error that nobody foresaw; it is in the server's log")


@csrf_exempt
def not_found(request: HttpRequest, **_: str) -> HttpResponse:
    """404 for every address under /api/ that leads nowhere, whatever the method: it changes nothing."""
    return respond(404, f"there is no {request.path}")
