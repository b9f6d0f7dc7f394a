"""The schema and its page, from bundled files only; the page has no inline script."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.views import SpectacularAPIView

from api.permissions import Public

__all__ = ["Schema", "docs"]


class Schema(SpectacularAPIView):  # type: ignore[misc]
    """OpenAPI 3 of everything under /api/v1."""

    permission_classes = [Public]
    authentication_classes: list[type] = []


def docs(request: HttpRequest) -> HttpResponse:
    """The page that shows the schema."""
    return render(request, "api/docs.html")
