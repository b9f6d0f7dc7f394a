"""Switching a kind of mail off by the link in it: without login, by one click of a mail reader (RFC 8058)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.signing import BadSignature, Signer
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from web import mailkinds
from web.mailkinds import Kind
from web.mailparts import at

__all__ = ["address", "off", "read_token", "token"]

_SIGNER: Final = Signer(salt="hallbook.mail.off")
MOST: Final = 400
"""Characters of a token."""


def token(user: Any, kind: Kind) -> str:
    """What the link carries: it can switch off this one kind for this one person, and nothing else. It does not end."""
    return _SIGNER.sign_object([user.pk, kind.name])


def read_token(text: str) -> tuple[Any, Kind]:
    """The person and the kind. Raises LookupError for a link that is not ours, or of a person who is gone."""
    try:
        key, name = _SIGNER.unsign_object(text)
    except (BadSignature, ValueError, TypeError):
        raise LookupError("this link is not one of ours") from None
    user = get_user_model().objects.filter(pk=key).first()
    if user is None:
        raise LookupError("this person is gone")
    return user, mailkinds.named(name)


def address(user: Any, kind: Kind) -> str:
    """The whole address of the link."""
    return at(reverse("mail-off", args=[token(user, kind)]))


@csrf_exempt  # the mail reader that posts has no session; the signature in the address is what counts
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def off(request: HttpRequest, given: str) -> HttpResponse:
    """GET shows a button, since programs that look at mails follow links; POST switches the kind off."""
    if len(given) > MOST:
        raise Http404
    try:
        user, kind = read_token(given)
    except LookupError:
        raise Http404 from None
    done = request.method == "POST"
    if done:
        mailkinds.choose(user, kind, datetime.now(UTC), wanted=False)
    is_on = mailkinds.choice_of(user, kind).wanted
    return render(request, "web/mailoff.html", {"kind": kind, "done": done, "is_on": is_on})
