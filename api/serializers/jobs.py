"""Rows of what ran and who is charged."""

from __future__ import annotations

from rest_framework import serializers

from api.serializers.asked import Asked, Instant
from api.serializers.base import RowSerializer

_UNTIL = "Until its end, or until `as_of.time` where it still runs."


class RunRow(RowSerializer):
    """One training effort: the jobs of an account under one name, or one job without a name."""

    id = serializers.UUIDField()
    name = serializers.CharField(help_text="As its user gave it; empty where nobody named it.")
    generation = serializers.IntegerField(
        help_text="Which run of that name in its account it is: one more with each closing of the name."
    )
    title = serializers.CharField(help_text="What it is called: `big`, after a closing `big #2`; empty without a name.")
    named = serializers.BooleanField()
    cluster = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    account = serializers.CharField()
    user = serializers.CharField()
    submit = serializers.DateTimeField(allow_null=True)
    start = serializers.DateTimeField(allow_null=True)
    end = serializers.DateTimeField(allow_null=True, help_text="Null while a job of it waits or runs.")
    closed = serializers.DateTimeField(
        allow_null=True, default=None, help_text="When somebody closed it, so that its name could be used again."
    )
    state = serializers.CharField()
    jobs = serializers.IntegerField()
    attempts = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="The most GPUs of any attempt.")
    gpu_seconds = serializers.IntegerField(help_text=_UNTIL)
    node_seconds = serializers.IntegerField(help_text=_UNTIL)
    position = serializers.IntegerField(help_text="Position of the last event that says something about it.")


class CloseRequest(Asked):
    """As of when a run is closed."""

    at = Instant(required=False, help_text="RFC 3339 with its zone, not in the future; now without it.")


class ClosingAnswer(serializers.Serializer[None]):
    """A run that was closed, or of which that was taken back."""

    run = serializers.UUIDField()
    closed = serializers.DateTimeField(
        allow_null=True, help_text="Jobs submitted later than this are another run. Null: it is open."
    )
    taken_back = serializers.DateTimeField(allow_null=True, help_text="The closing that was taken back; null for none.")
    actor = serializers.CharField(help_text="Who closed it, or took it back.")


class JobRow(RowSerializer):
    """One submission known to a scheduler."""

    id = serializers.UUIDField()
    run = serializers.UUIDField()
    run_name = serializers.CharField(help_text="Empty where nobody named a run.")
    generation = serializers.IntegerField(help_text="Which run of that name it belongs to.")
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
    asked_nodes = serializers.IntegerField(allow_null=True, help_text="While it waited; null where no source told.")
    asked_cpus = serializers.IntegerField(allow_null=True)
    asked_gpus = serializers.IntegerField(allow_null=True)
    dependency = serializers.CharField(help_text="What it had to wait for, as its scheduler wrote it.")
    attempts = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="The most GPUs of any attempt.")
    gpu_seconds = serializers.IntegerField(help_text=_UNTIL)
    stream = serializers.CharField()
    position = serializers.IntegerField(help_text="Position of the last event that says something about it.")


class AttemptRow(RowSerializer):
    """One unbroken execution of a job, [start, end); running while end is null."""

    id = serializers.UUIDField()
    job = serializers.UUIDField()
    run = serializers.UUIDField()
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
    gpu_seconds = serializers.IntegerField(help_text=_UNTIL)
    node_list = serializers.CharField()
    gpu_indices = serializers.ListField(
        child=serializers.CharField(), source="gpu_index_list", help_text="`node=0-3,6` of each node that is told."
    )
    suspended_seconds = serializers.IntegerField()
    energy_j = serializers.IntegerField(allow_null=True)
    confirmed = serializers.BooleanField()
    disagree = serializers.BooleanField(help_text="Its sources contradict each other.")
    corrected = serializers.BooleanField()
    lost = serializers.BooleanField(help_text="Nobody told its end: it is charged until it was last seen.")
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
