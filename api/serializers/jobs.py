"""Rows of what ran and who is charged."""

from __future__ import annotations

from rest_framework import serializers

from api.serializers.base import RowSerializer


class JobRow(RowSerializer):
    """One submission known to a scheduler."""

    id = serializers.UUIDField()
    cluster = serializers.CharField()
    job_id = serializers.CharField()
    seq = serializers.IntegerField()
    array_job_id = serializers.CharField(allow_null=True)
    array_task = serializers.CharField(allow_null=True)
    het_job_id = serializers.CharField(allow_null=True)
    het_offset = serializers.IntegerField(allow_null=True)
    project = serializers.CharField(allow_null=True)
    account = serializers.CharField()
    user = serializers.CharField()
    partition = serializers.CharField()
    qos = serializers.CharField()
    name = serializers.CharField()
    comment = serializers.CharField()
    submit = serializers.DateTimeField(allow_null=True)
    eligible = serializers.DateTimeField(allow_null=True)
    start = serializers.DateTimeField(allow_null=True)
    end = serializers.DateTimeField(allow_null=True)
    state = serializers.CharField()
    reason = serializers.CharField()
    limit_seconds = serializers.IntegerField(allow_null=True)
    attempts = serializers.IntegerField()
    stream = serializers.CharField()
    position = serializers.IntegerField(help_text="Position of the last event that says something about it.")


class AttemptRow(RowSerializer):
    """One unbroken execution of a job, [start, end); running while end is null."""

    id = serializers.UUIDField()
    job = serializers.UUIDField()
    cluster = serializers.CharField()
    job_id = serializers.CharField()
    number = serializers.IntegerField()
    record = serializers.IntegerField(allow_null=True)
    project = serializers.CharField(allow_null=True)
    account = serializers.CharField()
    user = serializers.CharField()
    partition = serializers.CharField()
    qos = serializers.CharField()
    submit = serializers.DateTimeField(allow_null=True)
    eligible = serializers.DateTimeField(allow_null=True)
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True)
    state = serializers.CharField()
    reason = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    exit_signal = serializers.IntegerField(allow_null=True)
    nodes = serializers.IntegerField(allow_null=True)
    cpus = serializers.IntegerField(allow_null=True)
    gpus = serializers.IntegerField(allow_null=True)
    node_list = serializers.CharField()
    suspended_seconds = serializers.IntegerField()
    energy_j = serializers.IntegerField(allow_null=True)
    confirmed = serializers.BooleanField()
    disagree = serializers.BooleanField(help_text="Its sources contradict each other.")
    corrected = serializers.BooleanField()
    sources = serializers.ListField(child=serializers.CharField(), source="source_list")
    stream = serializers.CharField()
    position = serializers.IntegerField()


class ProjectRow(RowSerializer):
    """A project, team or organisation as last declared."""

    code = serializers.CharField()
    title = serializers.CharField()
    kind = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]


class AccountRow(RowSerializer):
    """To which project a scheduler's account belonged, [from_day, to_day)."""

    cluster = serializers.CharField()
    account = serializers.CharField()
    from_day = serializers.DateField()
    to_day = serializers.DateField()
    project = serializers.CharField()


class ClusterRow(RowSerializer):
    """A cluster under one scheduler."""

    name = serializers.CharField()
    scheduler = serializers.CharField()
    gpus = serializers.IntegerField(allow_null=True)


class SiteRow(serializers.Serializer[None]):
    """The site this instance keeps the books of."""

    name = serializers.CharField()
    timezone = serializers.CharField()
    currency = serializers.CharField()
