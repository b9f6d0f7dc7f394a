"""Light or dark: as the system has it, or as a person chose; kept in a cookie, so that it needs no script."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

__all__ = ["THEMES", "choose", "chosen"]

THEMES: Final = (("", "System"), ("light", "Light"), ("dark", "Dark"))
"""Value of the choice, and its word; the first follows the system."""
COOKIE: Final = "theme"
A_YEAR: Final = 365 * 24 * 3600


def chosen(request: HttpRequest) -> str:
    """`light`, `dark`, or '' for what the system says."""
    found = request.COOKIES.get(COOKIE, "")
    return found if found in dict(THEMES) else ""


@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """POST theme=light|dark|'' and back to the page it came from."""
    back, theme = request.POST.get("back", ""), request.POST.get("theme", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = reverse("home")
    response = HttpResponseRedirect(back)
    if theme in dict(THEMES) and theme:
        response.set_cookie(COOKIE, theme, max_age=A_YEAR, secure=request.is_secure(), httponly=True, samesite="Lax")
    else:
        response.delete_cookie(COOKIE, samesite="Lax")
    return response
