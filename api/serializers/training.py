"""Rows of what training programs tell."""

from __future__ import annotations

from rest_framework import serializers

from api.serializers.base import RowSerializer

_PARTS = "GPU-seconds; the ten parts add up to `allocated` exactly."


class GoodputRow(RowSerializer):
    """Where the GPU-seconds of one instrumented attempt went."""

    attempt = serializers.UUIDField()
    run = serializers.UUIDField()
    cluster = serializers.CharField()
    job_id = serializers.CharField()
    number = serializers.IntegerField()
    project = serializers.CharField(allow_null=True)
    account = serializers.CharField()
    user = serializers.CharField()
    partition = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(help_text="Its end, or the last instant of which its program told.")
    work_lost = serializers.BooleanField(help_text="Steps that it did had to be done again.")
    productive = serializers.IntegerField(help_text=_PARTS)
    checkpoint_stall = serializers.IntegerField(help_text=_PARTS)
    rollback_replay = serializers.IntegerField(help_text=_PARTS)
    detect = serializers.IntegerField(help_text=_PARTS)
    teardown = serializers.IntegerField(help_text=_PARTS)
    init_restore = serializers.IntegerField(help_text=_PARTS)
    data_stall = serializers.IntegerField(help_text=_PARTS)
    partial_gang_wait = serializers.IntegerField(help_text=_PARTS)
    idle_held = serializers.IntegerField(help_text=_PARTS)
    other = serializers.IntegerField(help_text=f"{_PARTS} Of a running attempt also what was not told yet.")
    allocated = serializers.IntegerField(help_text="Until its end, or until `as_of.time` where it still runs.")
    productive_seconds = serializers.IntegerField(help_text="Of time, not of GPUs.")
    rolled_back_seconds = serializers.IntegerField(help_text="Of time, not of GPUs.")
    last_step = serializers.IntegerField(allow_null=True)
    steps = serializers.IntegerField()
    tokens = serializers.IntegerField(allow_null=True)
    tokens_per_second = serializers.FloatField(
        source="speed.tokens_per_second", allow_null=True, help_text="While it stepped, of all its GPUs."
    )
    tokens_per_gpu_second = serializers.FloatField(source="speed.tokens_per_gpu_second", allow_null=True)
    mfu = serializers.FloatField(
        source="speed.mfu", allow_null=True, help_text="Null: its inputs are not told, or by several conventions."
    )
    mfu_convention = serializers.CharField(source="speed.convention", allow_null=True)
    communication = serializers.FloatField(
        source="speed.communication", allow_null=True, help_text="Share of the time, where it is told."
    )


class CheckpointRow(RowSerializer):
    """A save that can be restored or was given up, or a state that an attempt went on from."""

    position = serializers.IntegerField(help_text="Position of the event that told of it.")
    kind = serializers.ChoiceField(choices=["committed", "failed", "restored"])
    attempt = serializers.UUIDField()
    run = serializers.UUIDField()
    cluster = serializers.CharField()
    job_id = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    account = serializers.CharField()
    user = serializers.CharField()
    step = serializers.IntegerField()
    state = serializers.DateTimeField(allow_null=True, help_text="The instant whose state it holds.")
    at = serializers.DateTimeField(help_text="When it was whole, given up or restored.")
    blocking_ms = serializers.IntegerField(allow_null=True, help_text="Steps stood still for so long.")
    total_ms = serializers.IntegerField(allow_null=True, help_text="Until it was whole, or restored.")
    bytes = serializers.IntegerField(allow_null=True)
    path_class = serializers.CharField()
