"""Who calls: `Authorization: Bearer TOKEN`, HTTP Basic with the token as password, or a logged-in session."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from api import tokens
from api.tokens import Caller

__all__ = ["CHALLENGE", "TokenAuthentication", "secret_of"]

CHALLENGE: Final = 'Bearer realm="hallbook"'


def secret_of(request: HttpRequest) -> str | None:
    """The secret a request brings, None when it brings none. An unreadable header gives an empty secret."""
    kind, _, value = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if kind.lower() == "bearer":
        return str(value.strip())
    if kind.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return pair.partition(":")[2]


class TokenAuthentication(BaseAuthentication):
    """Tokens for DRF views; request.user is an api.tokens.Caller."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:  # type: ignore[override]
        """The caller, or None when the request brings no token. Raises AuthenticationFailed (401)."""
        secret = secret_of(request._request)
        if secret is None:
            return None
        caller = tokens.check(secret)
        if caller is None:
            raise AuthenticationFailed("the token is unknown, expired or revoked")
        return caller, None

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 - as DRF calls it
        """What a 401 asks for."""
        return CHALLENGE
