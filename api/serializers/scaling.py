"""Records of measured speed, how fast runs went, and what interrupted them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rest_framework import serializers

from api.serializers.asked import Asked, Instant
from api.serializers.base import RowSerializer
from api.serializers.reports import AsOfAnswer

_TARGET = "`met`, `missed` or `above` the design target; empty where none applies or nothing is known."
_MFU = "Model FLOPs utilisation, worked out from `flop_per_token`, `peak_gflops` and the throughput."


class ScalingRecordRow(RowSerializer):
    """So fast was a model measured on so many GPUs of a cluster."""

    position = serializers.IntegerField(help_text="Of its event; what `replaces` names.")
    cluster = serializers.CharField()
    model = serializers.CharField()
    precision = serializers.CharField()
    kind = serializers.ChoiceField(choices=["acceptance", "growth", "yearly"])
    measured = serializers.DateTimeField()
    gpus = serializers.IntegerField()
    tokens_per_second = serializers.FloatField(help_text="Of all GPUs.")
    tokens_per_gpu_second = serializers.FloatField()
    step_seconds = serializers.FloatField(allow_null=True)
    steps = serializers.IntegerField(allow_null=True, help_text="Over which it is a mean.")
    scaling_efficiency = serializers.FloatField(help_text="Throughput per GPU against that of the base.")
    base = serializers.IntegerField(help_text="Position of the base: fewest GPUs, measured nearest in time.")
    base_gpus = serializers.IntegerField()
    scaling_target = serializers.CharField(help_text=_TARGET)
    mfu = serializers.FloatField(allow_null=True, help_text=f"{_MFU} Comparable within one `convention` only.")
    flop_per_token = serializers.IntegerField(allow_null=True)
    peak_gflops = serializers.IntegerField(allow_null=True, help_text="Of one GPU.")
    convention = serializers.CharField()
    mfu_target = serializers.CharField(help_text=_TARGET)
    communication = serializers.FloatField(allow_null=True, help_text="Share of the time between ranks.")
    communication_target = serializers.CharField(help_text=_TARGET)
    signed_by = serializers.CharField()
    note = serializers.CharField()
    reference = serializers.CharField()
    replaces = serializers.IntegerField(allow_null=True)
    replaced_by = serializers.IntegerField(allow_null=True, help_text="Position of the record that counts instead.")


class RecordRequest(Asked):
    """A measurement to record."""

    cluster = serializers.CharField(max_length=160)
    model = serializers.CharField(max_length=160, help_text="What was run, so that it can be run again.")
    kind = serializers.ChoiceField(choices=["acceptance", "growth", "yearly"])
    measured = Instant(help_text="When it was measured, RFC 3339 with its zone.")
    gpus = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    tokens_per_second = serializers.DecimalField(16, 3, help_text="Of all GPUs together.")
    signed_by = serializers.CharField(max_length=160)
    step_seconds = serializers.DecimalField(12, 6, required=False, allow_null=True, min_value=Decimal("0.000001"))
    steps = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=2**31 - 1)
    precision = serializers.CharField(required=False, allow_blank=True, max_length=40, help_text="`bf16`, `fp8`")
    flop_per_token = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=2**53)
    peak_gflops = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=2**53)
    convention = serializers.CharField(required=False, allow_null=True, max_length=160, help_text="How FLOP count.")
    communication = serializers.DecimalField(7, 6, required=False, allow_null=True, min_value=0, max_value=1)
    note = serializers.CharField(required=False, allow_null=True, max_length=2000)
    reference = serializers.CharField(required=False, allow_blank=True, max_length=400, help_text="Of what was signed.")
    replaces = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=2**53)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Every field is known, and something was done in the time."""
        super().validate(attrs)
        if attrs["tokens_per_second"] <= 0:
            raise serializers.ValidationError({"tokens_per_second": "give more than 0"})
        return attrs


class RecordAnswer(serializers.Serializer[None]):
    """Where the record stands in the log."""

    position = serializers.IntegerField()
    again = serializers.BooleanField(help_text="It was said before under the same Idempotency-Key.")


class TargetAnswer(serializers.Serializer[None]):
    """What the hall was designed for."""

    measure = serializers.CharField()
    words = serializers.CharField()
    low = serializers.FloatField()
    high = serializers.FloatField()
    most_gpus = serializers.IntegerField(allow_null=True)
    source = serializers.CharField()  # type: ignore[assignment] # a field of that name


class SpeedLine(serializers.Serializer[None]):
    """How fast a run went at one number of GPUs and by one convention; each figure over the reports that tell it."""

    gpus = serializers.IntegerField(allow_null=True, help_text="Null: of reports during which it changed.")
    convention = serializers.CharField(help_text="Of the MFU; empty where none is stated.")
    steps = serializers.IntegerField()
    step_seconds = serializers.FloatField(allow_null=True)
    tokens_per_second = serializers.FloatField(allow_null=True)
    tokens_per_gpu_second = serializers.FloatField(allow_null=True)
    scaling_efficiency = serializers.FloatField(allow_null=True, help_text="Against the fewest GPUs of the run.")
    mfu = serializers.FloatField(allow_null=True)
    communication = serializers.FloatField(allow_null=True)
    scaling_target = serializers.CharField(help_text=_TARGET)
    mfu_target = serializers.CharField(help_text=_TARGET)
    communication_target = serializers.CharField(help_text=_TARGET)


class SpeedAnswer(serializers.Serializer[None]):
    """How fast a run went. `whole`: of all lines, without an MFU, which is of one convention."""

    run = serializers.UUIDField()
    lines = SpeedLine(many=True)
    whole = serializers.DictField(allow_null=True)
    targets = TargetAnswer(many=True)
    gaps = serializers.ListField(child=serializers.CharField())
    as_of = AsOfAnswer()


class BandAnswer(serializers.Serializer[None]):
    """Intervals between saves that are as good as the best, in seconds."""

    low = serializers.FloatField()
    best = serializers.FloatField()
    high = serializers.FloatField()
    best_efficiency = serializers.FloatField(help_text="Part of the time that is productive at the best.")
    floor = serializers.FloatField(help_text="What storage takes to hold a save.")
    limited = serializers.BooleanField(help_text="The floor lies above the best, so that storage decides.")


class LossAnswer(serializers.Serializer[None]):
    """What an interval is expected to cost, as shares of the time."""

    interval = serializers.FloatField()
    word = serializers.CharField(help_text="`best`, `now` (the run's own) or `twice the best`.")
    saving = serializers.FloatField()
    interrupted = serializers.FloatField()


class AdviceAnswer(serializers.Serializer[None]):
    """How often a run should save; seconds of time. Where none can be given, `refused` says why."""

    run = serializers.UUIDField()
    instrumented = serializers.BooleanField()
    refused = serializers.CharField(help_text="Empty where there is advice.")
    failures = serializers.IntegerField(help_text="Of machines and programs, in `node_days`.")
    node_days = serializers.FloatField()
    mttf = serializers.FloatField(
        allow_null=True, help_text="To a failure of the whole run, one in 200 believed before."
    )
    mttf_low = serializers.FloatField(allow_null=True, help_text="Lower end of its 90 % interval.")
    mttf_high = serializers.FloatField(allow_null=True)
    others = serializers.DictField(child=serializers.IntegerField(), help_text="State: other ends that lost work.")
    ran = serializers.IntegerField(help_text="Time in which they came.")
    mtto = serializers.FloatField(allow_null=True, help_text="To one of them; null where there was none.")
    mtti = serializers.FloatField(allow_null=True, help_text="To a failure or one of them: what is weighed.")
    blocking = serializers.FloatField(allow_null=True, help_text="How long a save stops its steps.")
    restart = serializers.FloatField()
    interval = serializers.FloatField(allow_null=True, help_text="The run's own, as a median.")
    young = serializers.FloatField(allow_null=True)
    daly = serializers.FloatField(allow_null=True)
    band = BandAnswer(allow_null=True)
    saving_gpu_seconds = serializers.IntegerField(help_text="What the best would have saved, where now is outside.")
    losses = LossAnswer(many=True)
    as_of = AsOfAnswer()


class InterruptionsAnswer(serializers.Serializer[None]):
    """What interrupted a run. `total` + `uncharged` = `parts` for each part, in GPU-seconds."""

    run = serializers.UUIDField()
    instrumented = serializers.BooleanField()
    rows = serializers.ListField(child=serializers.DictField())
    total = serializers.DictField(allow_null=True)
    uncharged = serializers.DictField(allow_null=True, help_text="First starts, and ends without lost work.")
    parts = serializers.DictField(allow_null=True, help_text="Of the run's partition.")
    gaps = serializers.ListField(child=serializers.CharField())
    as_of = AsOfAnswer()
