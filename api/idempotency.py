"""Commands that may be sent again: under the same `Idempotency-Key` one caller says a thing once, for ever."""

from __future__ import annotations

from typing import Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions
from rest_framework.request import Request

__all__ = ["HEADER", "key_of"]

MOST: Final = 200
HEADER: Final = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER,
    description=f"1 to {MOST} printable ASCII characters. The same command again under it changes nothing.",
)  # fmt: skip


def key_of(request: Request) -> str:
    """The key a command came with, '' without one. Raises ValidationError."""
    key: str = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > MOST or not (key.isascii() and (key.isprintable() or not key)):
        raise exceptions.ValidationError({"Idempotency-Key": f"expected 1 to {MOST} printable ASCII characters"})
    return key
