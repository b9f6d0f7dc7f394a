"""Addresses of the log, of what surrounds it, and of the search."""

from __future__ import annotations

from django.urls import path

from web import deliveries, eventlog, live, rejections, search, sources, streams

urlpatterns = [
    path("events/", eventlog.events, name="log"),
    path("events/<int:position>/", eventlog.event, name="event"),
    path("streams/<path:stream>/", streams.stream, name="stream"),
    path("sources/", sources.sources, name="sources"),
    path("deliveries/", deliveries.deliveries, name="deliveries"),
    path("deliveries/<uuid:id>/", deliveries.delivery, name="delivery"),
    path("deliveries/<uuid:id>/body", deliveries.delivery_body, name="delivery-body"),
    path("rejections/", rejections.rejections, name="rejections"),
    path("rejections/replay", rejections.all_again, name="rejections-replay"),
    path("rejections/waive", rejections.all_waived, name="rejections-waive"),
    path("rejections/<uuid:id>/", rejections.rejection, name="rejection"),
    path("rejections/<uuid:id>/replay", rejections.replay, name="rejection-replay"),
    path("rejections/<uuid:id>/waive", rejections.waive, name="rejection-waive"),
    path("search", search.search, name="search"),
    path("live/position", live.position, name="live"),
]
