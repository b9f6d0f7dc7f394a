"""Rows of the log and what surrounds it."""

from __future__ import annotations

from rest_framework import serializers

from api.serializers.base import RowSerializer


class EventRow(RowSerializer):
    """One event of the log."""

    position = serializers.IntegerField()
    id = serializers.UUIDField()
    type = serializers.CharField()
    version = serializers.IntegerField()
    source = serializers.CharField()  # type: ignore[assignment]
    source_key = serializers.CharField()
    stream = serializers.CharField()
    occurred_at = serializers.DateTimeField()
    recorded_at = serializers.DateTimeField()
    actor = serializers.CharField()
    delivery = serializers.UUIDField(allow_null=True)
    data = serializers.JSONField()  # type: ignore[assignment]


class RejectionRow(RowSerializer):
    """A record that could not become an event."""

    id = serializers.UUIDField()
    recorded_at = serializers.DateTimeField()
    source = serializers.CharField()  # type: ignore[assignment]
    origin = serializers.CharField()
    delivery = serializers.UUIDField(allow_null=True)
    index = serializers.IntegerField()
    pointer = serializers.CharField()
    code = serializers.CharField()
    text = serializers.CharField()
    payload = serializers.CharField()
    state = serializers.ChoiceField(choices=["open", "replayed", "waived"])
    settled_by = serializers.CharField()
    settled_why = serializers.CharField()


class WaiveRequest(serializers.Serializer[None]):
    """Why a rejection is let go."""

    why = serializers.CharField(min_length=3, max_length=1000)


class DeliveryRow(RowSerializer):
    """A body that an outside system sent; the body itself is not shown."""

    id = serializers.UUIDField()
    received_at = serializers.DateTimeField()
    source = serializers.CharField()  # type: ignore[assignment]
    kind = serializers.CharField()
    content_type = serializers.CharField()
    actor = serializers.CharField()
    state = serializers.CharField(help_text="pending, done or rejected")
    tries = serializers.IntegerField()
    error = serializers.CharField()


class DeliveryFate(DeliveryRow):
    """A delivery and what became of it."""

    events = serializers.ListField(child=serializers.IntegerField(), help_text="Positions of its events.")
    rejections = serializers.ListField(child=serializers.UUIDField())


class TokenRow(RowSerializer):
    """A token, without its secret."""

    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    projects = serializers.ListField(child=serializers.CharField(), allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
