"""Rows of nodes and holds."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from api.serializers.base import RowSerializer

_HIDDEN = "Empty for callers that do not see the whole hall."


class Told(serializers.CharField):
    """What people wrote: not for those who see only their projects."""

    def get_attribute(self, instance: Any) -> Any:
        """The text, or nothing."""
        return "" if getattr(instance, "hidden", False) else super().get_attribute(instance)


class NodeRow(RowSerializer):
    """A node as it is now."""

    cluster = serializers.CharField()
    name = serializers.CharField()
    state = serializers.CharField(
        help_text="planned, burn_in, in_service, draining, drained, in_repair, maintenance, down or retired."
    )
    state_since = serializers.DateTimeField()
    flags = serializers.ListField(child=serializers.CharField(), help_text="What its scheduler marks it with.")
    works = serializers.BooleanField(
        allow_null=True, help_text="Jobs still hold something of a node that takes no new ones."
    )
    reason = Told(help_text=_HIDDEN)
    reason_by = Told(help_text=_HIDDEN)
    gpus = serializers.IntegerField(allow_null=True)
    gpu_model = serializers.CharField()
    cpus = serializers.IntegerField(allow_null=True)
    memory_mb = serializers.IntegerField(allow_null=True)
    partitions = serializers.ListField(child=serializers.CharField())
    features = serializers.ListField(child=serializers.CharField())
    site = serializers.CharField()
    hall = serializers.CharField()
    pod = serializers.CharField()
    rack = serializers.CharField()
    unit = serializers.IntegerField(allow_null=True, help_text="Rack unit of its lower edge, from below.")
    leaf = serializers.CharField(help_text="Leaf switch, or rail group where every GPU has a leaf of its own.")
    serial = serializers.CharField()
    guaranteed = serializers.BooleanField(help_text="Service levels and scaling count it.")
    declared = serializers.BooleanField(help_text="Its owner described it.")
    boot = serializers.DateTimeField(allow_null=True)
    first_at = serializers.DateTimeField(help_text="Since when it is there.")
    position = serializers.IntegerField(help_text="Position of the last event that says something about it.")


class HoldRow(RowSerializer):
    """Why a node took no work."""

    id = serializers.UUIDField()
    cluster = serializers.CharField()
    node = serializers.CharField()
    owner = serializers.CharField(help_text="operator, scheduler or policy.")
    flag = serializers.CharField(help_text="The word under which the scheduler kept it aside.")
    reason = Told(help_text=_HIDDEN)
    by = Told(help_text=_HIDDEN)
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(allow_null=True, help_text="Null while it holds.")
