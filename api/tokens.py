"""Making, checking and revoking tokens.

A secret is `hb_` and 40 random characters; it is shown once. The database keeps its sha256: with 240 bits of
randomness a slow hash would add nothing. A process trusts what it looked up for CACHE_SECONDS, so that a hot
sender costs no query; a revocation takes at most that long.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q
from django.utils import timezone

from api.models import Token
from api.scopes import ADMIN, LOG_READ, SCOPES, granted

__all__ = ["BadToken", "Caller", "check", "create", "forget", "retired", "revoke"]

CACHE_SECONDS: Final = 30
USED_EVERY: Final = timedelta(minutes=1)
_CACHED_MOST: Final = 1024


class BadToken(ValueError):
    """A token that cannot be made as asked; its text is one line for a person."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the actor that events name, what it may do, the projects it is limited to (None: all)."""

    actor: str
    scopes: frozenset[str]
    projects: frozenset[str] | None = None
    is_authenticated: bool = True

    @property
    def pk(self) -> str:
        """Key of the caller, as request.user has one."""
        return self.actor


@dataclass(frozen=True, slots=True)
class _Known:
    sha256: bytes
    caller: Caller
    expires_at: datetime | None
    looked_up: float


_cache: dict[bytes, _Known] = {}


def create(
    name: str, scopes: Sequence[str], projects: Sequence[str] = (), expires_days: int | None = None
) -> tuple[Token, str]:
    """Make a token; returns it and its secret, which is kept nowhere. Raises BadToken."""
    _check(name, scopes, projects, expires_days)
    secret = "hb_" + secrets.token_urlsafe(30)
    token, made = Token.objects.get_or_create(
        name=name,
        defaults={
            "sha256": _digest(secret),
            "scopes": sorted(set(scopes)),
            "projects": sorted(set(projects)) or None,
            "expires_at": timezone.now() + timedelta(days=expires_days) if expires_days else None,
        },
    )
    if not made:
        raise BadToken(f"a token named {name!r} exists already; names are never used again")
    return token, secret


def _check(name: str, scopes: Sequence[str], projects: Sequence[str], expires_days: int | None) -> None:
    if not name or len(name) > 100 or not name.isprintable():
        raise BadToken("a token's name has 1 to 100 printable characters")
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise BadToken(f"unknown scope {', '.join(unknown)}; there are {', '.join(SCOPES)}")
    if not scopes:
        raise BadToken(f"give at least one scope of {', '.join(SCOPES)}")
    if projects and (wide := sorted({ADMIN, LOG_READ} & set(scopes))):
        raise BadToken(f"{', '.join(wide)} cannot be limited to a project: the raw log names all of them")
    if expires_days is not None and not 1 <= expires_days <= 36_500:
        raise BadToken("a token lives 1 to 36500 days")


def revoke(name: str) -> bool:
    """Revoke a token by name; other processes follow within CACHE_SECONDS. False when there is none."""
    found = Token.objects.filter(name=name)
    found.filter(revoked_at=None).update(revoked_at=timezone.now())
    forget()
    return found.exists()


def check(secret: str) -> Caller | None:
    """Whose secret this is; None when it is unknown, expired or revoked."""
    digest = _digest(secret)
    known = _cache.get(digest)
    if known is None or time.monotonic() - known.looked_up > CACHE_SECONDS:
        known = _look_up(digest)
    # The hash was the look-up's key already; comparing in constant time keeps this right if that changes.
    if known is None or not hmac.compare_digest(known.sha256, digest):
        return None
    if known.expires_at is not None and known.expires_at <= timezone.now():
        return None
    return known.caller


def retired(secret: str) -> bool:
    """Whether this was a token once, and has expired or was revoked."""
    return check(secret) is None and Token.objects.filter(sha256=_digest(secret)).exists()


def forget() -> None:
    """Empty this process's cache."""
    _cache.clear()


def _look_up(digest: bytes) -> _Known | None:
    _cache.pop(digest, None)
    token = Token.objects.filter(sha256=digest, revoked_at=None).first()
    if token is None:
        return None
    _touch(token)
    projects = None if token.projects is None else frozenset(token.projects)
    caller = Caller(f"token:{token.name}", granted(token.scopes), projects)
    if len(_cache) >= _CACHED_MOST:
        _cache.clear()
    known = _Known(bytes(token.sha256), caller, token.expires_at, time.monotonic())
    _cache[digest] = known
    return known


def _touch(token: Token) -> None:
    """Note the use, at most once a minute; of several processes one writes."""
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        Token.objects.filter(stale, pk=token.pk).update(last_used_at=now)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
