"""Rows of where records come from."""

from __future__ import annotations

from rest_framework import serializers


class SourceRow(serializers.Serializer[None]):
    """A source that was set up, or one that has posted."""

    name = serializers.CharField(help_text="As it was set up; empty for one that only posts.")
    source = serializers.CharField(help_text="Who says it, as its deliveries are named.")  # type: ignore[assignment]
    kind = serializers.CharField()
    cluster = serializers.CharField()
    deliveries = serializers.IntegerField(help_text="Settled deliveries since the beginning.")
    refused = serializers.IntegerField(help_text="Those of which nothing was taken.")
    accepted = serializers.IntegerField(help_text="Records that became events.")
    duplicate = serializers.IntegerField(help_text="Records that were known.")
    rejected = serializers.IntegerField(help_text="Records that became rejections.")
    waiting = serializers.IntegerField(help_text="Deliveries that are kept and not yet taken in.")
    last_received = serializers.DateTimeField(allow_null=True)
    lag_seconds = serializers.FloatField(allow_null=True, help_text="Receipt to log of the newest delivery.")
    silent_seconds = serializers.IntegerField(allow_null=True, help_text="Since it was last heard of.")
    last_error = serializers.CharField()
    last_error_at = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField(help_text="Where it is pulled from; empty for one that posts.")
    paused = serializers.BooleanField()
    every_seconds = serializers.IntegerField(allow_null=True)
    last_try = serializers.DateTimeField(allow_null=True)
    last_success = serializers.DateTimeField(allow_null=True)
    failing = serializers.BooleanField(help_text="Its last pull failed.")
    watermark = serializers.DateTimeField(allow_null=True, help_text="Accounting up to here was pulled.")
    api_version = serializers.CharField()
    pulls = serializers.IntegerField()
    records = serializers.IntegerField(help_text="New or changed records that its pulls brought.")


class SourcesAnswer(serializers.Serializer[None]):
    """All sources."""

    count = serializers.IntegerField()
    results = SourceRow(many=True)
