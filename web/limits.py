"""How often a login may fail: kept in the database, so that it holds over all processes."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from web.models import LoginFailure

__all__ = ["MOST_FAILURES", "WINDOW", "address_of", "begin", "forget", "open_again"]

MOST_FAILURES: Final = 10
WINDOW: Final = timedelta(minutes=15)


def begin(name: str, address: str) -> bool:
    """Note a try before its password is checked; False when the name has failed too often from the address.

    Noting first and counting then keeps many tries at once from slipping through between count and note.
    """
    now = timezone.now()
    LoginFailure.objects.filter(at__lt=now - WINDOW).delete()
    noted = LoginFailure.objects.create(name=_key(name), address=address, at=now)
    if _recent(name, address).count() <= MOST_FAILURES:
        return True
    noted.delete()  # a refused try does not prolong the wait
    return False


def forget(name: str, address: str) -> None:
    """The right password was given: earlier failures no longer count."""
    LoginFailure.objects.filter(name=_key(name), address=address).delete()


def open_again(name: str, address: str) -> datetime:
    """When the next try is let through."""
    latest = _recent(name, address).order_by("-at").values_list("at", flat=True)[:MOST_FAILURES]
    return min(latest, default=timezone.now() - WINDOW) + WINDOW


def _recent(name: str, address: str) -> QuerySet[LoginFailure]:
    return LoginFailure.objects.filter(name=_key(name), address=address, at__gte=timezone.now() - WINDOW)


def _key(name: str) -> str:
    """One key for all spellings of a name, as long as a name may be."""
    return unicodedata.normalize("NFKC", name).casefold().replace("\x00", "")[:150]


def address_of(request: HttpRequest) -> str:
    """Where a request comes from. Behind a proxy: the address that the proxy itself saw and appended."""
    if settings.SECURE_PROXY_SSL_HEADER:
        return str(request.META.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()[:64]
    return str(request.META.get("REMOTE_ADDR", ""))[:64]
