"""Standing by shares and use, for the schema; the view answers with the rows as the books have them."""

from __future__ import annotations

from rest_framework import serializers

from api.serializers.reports import AsOfAnswer


class StandingRow(serializers.Serializer[None]):
    """An account, or a user in it (`user` not empty); `others` is all that the caller may not see, as one row."""

    project = serializers.CharField(allow_null=True)
    account = serializers.CharField()
    user = serializers.CharField()
    partition = serializers.CharField(help_text="Where shares are of one partition alone.")
    parent = serializers.CharField(  # type: ignore[assignment] # a field of that name; the class has none left
        help_text="The account above it; empty where it may not be seen."
    )
    shares = serializers.IntegerField(allow_null=True, help_text="Null: it takes its parent's.")
    norm_shares = serializers.FloatField(allow_null=True)
    usage = serializers.IntegerField(help_text="RawUsage: decayed billing-seconds, with all below, cut.")
    norm_usage = serializers.FloatField(allow_null=True)
    effective_usage = serializers.FloatField(allow_null=True)
    level_fs = serializers.FloatField(allow_null=True, help_text="Null: its parent's, or no limit as it used nothing.")
    factor = serializers.FloatField(allow_null=True, help_text="FairShare, of users only.")
    rank = serializers.IntegerField(allow_null=True, help_text="1 is served first.")
    decayed_seconds = serializers.FloatField(help_text="What priority counts, in billing-seconds.")
    undecayed_seconds = serializers.IntegerField(help_text="What budgets count, since a reset, in billing-seconds.")


class WhatIfAnswer(serializers.Serializer[None]):
    """What more use would do: per account and user the figures now, and at the end without and with it."""

    told = serializers.CharField()
    at = serializers.DateTimeField()
    then = serializers.DateTimeField()
    rows = serializers.ListField(child=serializers.DictField())


class ClusterStanding(serializers.Serializer[None]):
    """The standing of one cluster at an instant."""

    cluster = serializers.CharField()
    at = serializers.DateTimeField()
    rule = serializers.CharField(help_text="How it is computed, in words.")
    rows = StandingRow(many=True)
    total = serializers.DictField(help_text="Of the whole cluster.")
    gaps = serializers.ListField(child=serializers.DictField())
    what_if = WhatIfAnswer(required=False)


class FairshareAnswer(serializers.Serializer[None]):
    """Standing per cluster."""

    results = ClusterStanding(many=True)
    as_of = AsOfAnswer()
