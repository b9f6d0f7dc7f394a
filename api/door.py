"""The short way to `POST /api/v1/events`, webhooks and telemetry: past the middleware, which is for pages and sessions.

What the middleware does that matters here is done here: the host is checked, plain HTTP is left to the redirect,
the answer carries the security headers, and connections that are broken or too old are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.exception import response_for_exception
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpResponse

from api.ingest import post_events
from api.telemetry import door_of as telemetry_of
from api.telemetry import post_samples
from api.webhooks import door_of, post_webhook

__all__ = ["PATH", "Door"]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
PATH: Final = "/api/v1/events"
HOOKS: Final = "/api/v1/ingest/"


class Door:
    """A WSGI application in front of another one: takes events, webhooks and samples itself and passes on all else."""

    def __init__(self, rest: Application) -> None:
        self._rest = rest
        self._headers = _headers()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer, or pass on."""
        path = environ.get("PATH_INFO", "")
        if environ["REQUEST_METHOD"] != "POST" or not (path == PATH or path.startswith(HOOKS)):
            return self._rest(environ, start_response)
        taker = _taker(path)
        request = WSGIRequest(environ)
        if taker is None or not _welcome(request):
            return self._rest(environ, start_response)
        renew()
        try:
            response = taker(request)
        except Exception as error:  # noqa: BLE001 - logged and answered with 500, as Django's handler does
            response = response_for_exception(request, error)
        body = response.content
        headers = [*response.items(), *self._headers]
        if response.status_code != 204:  # which has no body and must not tell its length
            headers.append(("Content-Length", str(len(body))))
        start_response(f"{response.status_code} {response.reason_phrase}", headers)
        return [body]


def _taker(path: str) -> Callable[[WSGIRequest], HttpResponse] | None:
    """Who answers a POST to this address; None where the long way is the only one."""
    if path == PATH:
        return post_events
    if samples := telemetry_of(path):
        return partial(post_samples, door=samples)
    door = door_of(path)
    return partial(post_webhook, door=door) if door else None


def renew() -> None:
    """Close a connection that is broken or too old, as Django does before each request."""
    connection.close_if_unusable_or_obsolete()


def _welcome(request: WSGIRequest) -> bool:
    """Whether the middleware would let it through: an allowed host, and HTTPS where that is demanded."""
    try:
        request.get_host()
    except DisallowedHost:
        return False
    return not settings.SECURE_SSL_REDIRECT or request.is_secure()


def _headers() -> list[tuple[str, str]]:
    """Security headers of an answer that is never a page."""
    found = [
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ]
    if seconds := settings.SECURE_HSTS_SECONDS:
        value = f"max-age={seconds}; includeSubDomains; preload"
        found.append(("Strict-Transport-Security", value))
    return found
