"""Addresses of the door for machines."""

from __future__ import annotations

from django.urls import path, re_path

from api.errors import not_found
from api.ingest import post_events

urlpatterns = [
    path("api/v1/events", post_events),
    re_path(r"^api(?:/(?P<path>.*))?$", not_found),
]
