"""The answer of POST events, for the schema; the view encodes it by itself."""

from __future__ import annotations

from rest_framework import serializers


class TakenItem(serializers.Serializer[None]):
    """What became of one event."""

    index = serializers.IntegerField(help_text="Its place in the request, from 0; blank lines do not count.")
    status = serializers.ChoiceField(choices=["accepted", "duplicate", "rejected"])
    position = serializers.IntegerField(required=False, help_text="Its place in the log.")
    delivery = serializers.UUIDField(required=False, help_text="Kept body of a single event.")
    code = serializers.CharField(required=False)
    pointer = serializers.CharField(required=False, help_text="JSON pointer into the item.")
    text = serializers.CharField(required=False)
    rejection = serializers.UUIDField(required=False)


class TakenAnswer(serializers.Serializer[None]):
    """What became of all of them."""

    accepted = serializers.IntegerField()
    duplicate = serializers.IntegerField()
    rejected = serializers.IntegerField()
    results = TakenItem(many=True)


class KeptAnswer(serializers.Serializer[None]):
    """A body was kept and will be translated; GET /api/v1/deliveries/ID says what became of it."""

    delivery = serializers.UUIDField()
    kind = serializers.CharField()
