"""What waits now, for the schema; the view answers with the rows as the books have them."""

from __future__ import annotations

from rest_framework import serializers

from api.serializers.reports import AsOfAnswer
from jobs.waiting import CAUSES


class WaitingRow(serializers.Serializer[None]):
    """A job that waits; the waiting tasks of an array are one."""

    id = serializers.UUIDField()
    run = serializers.UUIDField()
    run_name = serializers.CharField(help_text="Empty where nobody named a run.")
    cluster = serializers.CharField()
    job_id = serializers.CharField()
    array_job_id = serializers.CharField(allow_null=True)
    array_task = serializers.CharField(allow_null=True)
    het_job_id = serializers.CharField(allow_null=True)
    het_offset = serializers.IntegerField(allow_null=True)
    project = serializers.CharField()
    account = serializers.CharField()
    user = serializers.CharField()
    partition = serializers.CharField()
    qos = serializers.CharField()
    nodes = serializers.IntegerField(allow_null=True, help_text="Asked for; null: nobody tells.")
    cpus = serializers.IntegerField(allow_null=True)
    gpus = serializers.IntegerField(allow_null=True)
    limit_seconds = serializers.IntegerField(allow_null=True)
    attempts = serializers.IntegerField(help_text="Attempts before this wait.")
    since = serializers.DateTimeField(allow_null=True, help_text="Its submission, or the end of its last attempt.")
    waited_seconds = serializers.IntegerField(allow_null=True)
    eligible = serializers.DateTimeField(allow_null=True)
    cause = serializers.ChoiceField(CAUSES)
    reason = serializers.CharField(help_text="The scheduler's own word.")
    cause_since = serializers.DateTimeField(allow_null=True)
    looked_at = serializers.DateTimeField(allow_null=True, help_text="When its scheduler last said something new.")
    expected = serializers.DateTimeField(allow_null=True, help_text="By when its scheduler expects the start.")
    waits_for = serializers.DictField(
        help_text="By `kind`: `held` (by, until), `dependency` (on), `limit` (of, running, attempts, gpus, cpus), "
        "`share` (told, jobs_before, gpus_before, jobs_beside, gpus_beside, free), `full` (unit, held, free, holders, "
        "enough_at), `nodes` (held, known), `unknown` (looked). A project of null is one that the caller may not see. "
        "`free`: GPUs of its partition that are free now, null where its nodes are not known. `enough_at`: from when "
        "on as much as it asks for is free at the latest, now where it is; null where limits do not tell."
    )


class WaitingTotal(serializers.Serializer[None]):
    """Jobs of a project that wait for one cause."""

    project = serializers.CharField()
    cause = serializers.ChoiceField(CAUSES)
    jobs = serializers.IntegerField()
    gpus = serializers.IntegerField()
    waited_seconds = serializers.IntegerField()


class WaitingOthers(serializers.Serializer[None]):
    """What waits in projects that the caller may not see."""

    jobs = serializers.IntegerField()
    gpus = serializers.IntegerField()


class WaitingPartition(serializers.Serializer[None]):
    """A partition for room in which somebody waits: who holds it, and when limits end."""

    cluster = serializers.CharField()
    name = serializers.CharField()
    unit = serializers.ChoiceField(("gpus", "cpus"))
    held = serializers.IntegerField()
    free = serializers.IntegerField(
        allow_null=True,
        help_text="GPUs of its nodes in service that nothing holds; null where its nodes are not known, and for CPUs.",
    )
    holders = serializers.ListField(child=serializers.DictField())
    ends = serializers.ListField(
        child=serializers.DictField(), help_text="Soonest first; `total`: given back by then, besides what is free now."
    )
    more = serializers.IntegerField(help_text="Further ends, not told.")
    without_limit = serializers.IntegerField(help_text="Held by what has no limit.")


class EstimateError(serializers.Serializer[None]):
    """How far starts lay from estimates of one class; seconds, below 0 where the start was earlier."""

    lead_from = serializers.IntegerField()
    lead_to = serializers.IntegerField(allow_null=True)
    count = serializers.IntegerField()
    median = serializers.IntegerField(allow_null=True)
    p90 = serializers.IntegerField(allow_null=True)
    half_within = serializers.IntegerField(allow_null=True)


class EstimateAnswer(serializers.Serializer[None]):
    """The past error of estimates, over the last 30 days."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    by_lead = EstimateError(many=True)
    total = EstimateError()


class WaitingAnswer(serializers.Serializer[None]):
    """What waits now, why, and for whom."""

    rows = WaitingRow(many=True)
    totals = WaitingTotal(many=True)
    others = WaitingOthers()
    partitions = WaitingPartition(many=True)
    estimates = EstimateAnswer()
    as_of = AsOfAnswer()
