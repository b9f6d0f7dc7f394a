"""How far the books are, for pages that move by themselves (web/static/live.js asks every few seconds).

A plain question and a short answer, not a stream: see docs/decisions/0008-live-pages-ask.md.
"""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from events import queries as log
from fleet.queries import site
from web.frame import as_of_words

__all__ = ["position"]


@never_cache
@require_safe
def position(request: HttpRequest) -> JsonResponse:
    """GET: the position that figures stand on now, as pages write it, and the lag. 401 for who is signed out."""
    if not request.user.is_authenticated:
        return JsonResponse({"error": "signed out"}, status=401)
    said = as_of_words(log.as_of(), site())
    return JsonResponse({name: said[name] for name in ("position", "time", "iso", "lag")})
