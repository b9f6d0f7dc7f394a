"""Reports, for the schema; the view encodes them by itself."""

from __future__ import annotations

from rest_framework import serializers


class ReportDefinition(serializers.Serializer[None]):
    """A report that exists."""

    name = serializers.CharField()
    title = serializers.CharField()
    group_by = serializers.ListField(child=serializers.CharField())
    default_group_by = serializers.ListField(child=serializers.CharField())
    views = serializers.ListField(child=serializers.CharField())
    money = serializers.BooleanField(help_text="Needs money:read.")


class AsOfAnswer(serializers.Serializer[None]):
    """What figures stand on."""

    position = serializers.IntegerField()
    time = serializers.DateTimeField()


class ColumnAnswer(serializers.Serializer[None]):
    """One column."""

    name = serializers.CharField()
    head = serializers.CharField()
    kind = serializers.ChoiceField(choices=["label", "time", "integer", "seconds", "number", "money"])
    unit = serializers.CharField()


class ReportAnswer(serializers.Serializer[None]):
    """A report."""

    name = serializers.CharField()
    rows = serializers.ListField(child=serializers.DictField())
    total = serializers.DictField()
    as_of = AsOfAnswer()
    columns = ColumnAnswer(many=True)
    gaps = serializers.ListField(child=serializers.DictField())
