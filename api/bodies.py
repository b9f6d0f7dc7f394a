"""What every door for machines does first: who calls, and the body, unzipped and within bounds.

A request that goes no further is a Refuse: the problem document that answers it.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, UnreadablePostError

from api import tokens
from api.auth import CHALLENGE
from api.errors import respond
from api.permissions import lacking
from api.tokens import Caller

__all__ = ["MOST_MEMBERS", "Refuse", "admitted", "sent", "unpacked", "wake"]

MOST_MEMBERS: Final = 100
"""Each member of a gzip body costs a copy of what follows it."""


class Refuse(Exception):
    """The request as a whole is answered by a problem document."""

    def __init__(self, status: int, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.response = respond(status, detail, **more)


def admitted(secret: str | None, scope: str, *, challenge: str = CHALLENGE) -> Caller:
    """Who brings this secret, if they hold the scope. Raises Refuse (401, 403)."""
    caller = tokens.check(secret) if secret else None
    if caller is None:
        detail = "send a token as `Authorization: Bearer`" if secret is None else "the token is not valid"
        raise Refuse(401, detail, headers={"WWW-Authenticate": challenge})
    if scope not in caller.scopes:
        raise Refuse(403, lacking(scope))
    return caller


def sent(request: HttpRequest) -> bytes:
    """The body as sent. Raises Refuse (400, 413)."""
    most = int(settings.INGEST_MAX_BYTES)
    try:
        if int(request.META.get("CONTENT_LENGTH") or 0) > most:
            raise RequestDataTooBig
        return bytes(request.body)
    except (RequestDataTooBig, ValueError):
        raise Refuse(413, f"a body has at most {most} bytes; send less at a time") from None
    except UnreadablePostError:
        raise Refuse(400, "the body ended before its announced length", pointer="") from None


def unpacked(request: HttpRequest) -> bytes:
    """The body, unzipped. Neither form may be larger than INGEST_MAX_BYTES."""
    raw = sent(request)
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding in ("", "identity"):
        return raw
    if encoding not in ("gzip", "x-gzip"):
        raise Refuse(415, f"content encoding {encoding} is not taken; expected gzip")
    return _gunzip(raw, int(settings.INGEST_MAX_BYTES))


def _gunzip(raw: bytes, most: int) -> bytes:
    """Unzip one or more members, never holding more than one byte over `most`."""
    out = bytearray()
    members = 0
    try:
        while raw:
            members += 1
            if members > MOST_MEMBERS:
                raise Refuse(400, f"the gzip body has over {MOST_MEMBERS} members; send it as one", pointer="")
            member = zlib.decompressobj(wbits=31)
            out += member.decompress(raw, most + 1 - len(out))
            if len(out) > most:
                raise Refuse(413, f"unzipped the body has more than {most} bytes; send less at a time")
            if not member.eof:
                raise Refuse(400, "the gzip body is cut short", pointer="")
            raw = member.unused_data
    except zlib.error as error:
        raise Refuse(400, f"the body is not gzip: {error}", pointer="") from None
    return bytes(out)


def wake() -> None:
    """Wake the drain and the projections. It only saves waiting: a tick catches up without it."""
    try:
        from events.tasks import nudge
    except ImportError:
        return
    nudge()


def ask() -> None:
    """Bring the next pull forward: a job began or ended. It only saves waiting, too."""
    from jobs.tasks import ask_soon

    ask_soon()
