"""Commands that may be sent again: under the same `Idempotency-Key` one caller says a thing once, for ever."""

from __future__ import annotations

from typing import Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions
from rest_framework.request import Request

from jobs.actions import NotDone

__all__ = ["HEADER", "errors_of", "key_of"]

MOST: Final = 200
HEADER: Final = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER,
    description=f"1 to {MOST} printable ASCII characters. The same command again under it changes nothing.",
)  # fmt: skip


def key_of(request: Request) -> str:
    """The key a command came with, '' without one. Raises ValidationError."""
    told = request.headers.get("Idempotency-Key")
    if told is None:
        return ""
    key: str = told.strip(" \t")
    # An empty one is none either: the server hands over so what is not ASCII on the wire.
    if not 1 <= len(key) <= MOST or not (key.isascii() and key.isprintable()):
        raise exceptions.ValidationError({"Idempotency-Key": f"expected 1 to {MOST} printable ASCII characters"})
    return key


def errors_of(fault: NotDone) -> list[dict[str, str]]:
    """The fields of a command that are wrong, as members of a problem."""
    return [{"pointer": f"/{name}", "text": fault.text} for name in fault.fields]
