"""Rows of faults, and what people say of them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from api.serializers.base import RowSerializer
from api.serializers.nodes import Told
from fleet.actions_faults import CLOSED_AS

_HIDDEN = "Empty for callers that do not see the whole hall."


class FaultRow(RowSerializer):
    """One fault."""

    id = serializers.UUIDField()
    cluster = serializers.CharField()
    node = serializers.CharField(help_text="Where it was seen first; empty for another unit.")
    unit = serializers.CharField(help_text="CDU, PDU, switch, sensor or filesystem; empty for a node.")
    nodes = serializers.ListField(child=serializers.CharField(), help_text="All nodes that it was seen on.")
    units = serializers.ListField(child=serializers.CharField())
    gpu = serializers.IntegerField(allow_null=True, help_text="Index of the GPU on its node.")
    part = serializers.CharField()
    kind = serializers.CharField(help_text="Class of the catalogue.")
    title = serializers.CharField()
    component = serializers.CharField()
    scope = serializers.CharField(help_text="How far it reaches: gpu, port, node, rack, cdu, group or hall.")
    severity = serializers.CharField(help_text="fatal, degraded, warn, app or info.")
    xid = serializers.IntegerField(allow_null=True)
    opened = serializers.DateTimeField()
    last_seen = serializers.DateTimeField(help_text="The latest instant of which anything was said.")
    closed = serializers.DateTimeField(allow_null=True, help_text="Null while it is open.")
    closed_as = serializers.CharField(help_text="As a person closed it; empty where its sources did.")
    closed_by = Told(help_text=_HIDDEN)
    closed_note = Told(help_text=_HIDDEN)
    acknowledged = serializers.DateTimeField(allow_null=True)
    acknowledged_by = Told(help_text=_HIDDEN)
    times = serializers.IntegerField(help_text="How often sources began to report it.")
    sources = serializers.ListField(child=serializers.CharField())
    names = serializers.ListField(child=serializers.CharField(), help_text="What its sources call it.")
    note = Told(help_text=_HIDDEN)
    position = serializers.IntegerField(help_text="Position of the last event that says something about it.")


class _Command(serializers.Serializer[Any]):
    note = serializers.CharField(required=False, allow_blank=True, max_length=2000)

    def to_internal_value(self, data: Any) -> Any:
        """The fields. Raises ValidationError for a field that there is not."""
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError({str(name)[:80]: "there is no such field" for name in unknown})
        return super().to_internal_value(data)


class OpenRequest(_Command):
    """A fault as a person reports it."""

    cluster = serializers.CharField(max_length=160)
    kind = serializers.CharField(max_length=160, help_text="Class of the catalogue, such as `psu` or `xid-79`.")
    node = serializers.CharField(max_length=160, required=False, help_text="This or `unit`.")
    unit = serializers.CharField(max_length=160, required=False)
    gpu = serializers.IntegerField(required=False, min_value=0, max_value=1023)
    part = serializers.CharField(max_length=160, required=False)
    since = serializers.DateTimeField(required=False, help_text="Now without it.")


class AcknowledgeRequest(_Command):
    """Somebody looks after it."""


class FaultCloseRequest(_Command):
    """It is over."""

    closed_as = serializers.ChoiceField(choices=CLOSED_AS)


class SaidAnswer(serializers.Serializer[None]):
    """Where the word stands in the log."""

    position = serializers.IntegerField()
    again = serializers.BooleanField(help_text="It was said before under the same Idempotency-Key.")
