"""Read models of what training programs tell, and of what was recorded of a cluster's speed. Disposable as all are.

Part of `jobs.models`, which is where others take them from.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Index


class TrainingStream(models.Model):
    """A stream in which the training program of a job tells of itself, and the stream of that job."""

    stream = models.TextField(primary_key=True, db_collation="C")
    job_stream = models.TextField(db_collation="C")

    class Meta:
        db_table = "jobs_trainingstream"
        indexes = [Index(fields=["job_stream"], name="jobs_trainingstream_job")]


class Checkpoint(models.Model):
    """A save of an attempt that can be restored (`committed`) or was given up (`failed`), or that it restored.

    state: the instant whose state it holds. at: when it was told. blocking_ms: steps stood still for so long from
    `state` on. total_ms: until it was whole; of a restored one: until it was loaded. start: of its attempt.
    """

    position = models.BigIntegerField(primary_key=True)
    kind = models.TextField()
    attempt = models.UUIDField()
    run = models.UUIDField()
    stream = models.TextField(db_collation="C")
    cluster = models.TextField()
    job_id = models.TextField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    start = models.DateTimeField(db_column="start_at")
    step = models.BigIntegerField()
    state = models.DateTimeField(null=True)
    at = models.DateTimeField()
    blocking_ms = models.BigIntegerField(null=True)
    total_ms = models.BigIntegerField(null=True)
    bytes = models.BigIntegerField(null=True)
    path_class = models.TextField()

    class Meta:
        db_table = "jobs_checkpoint"
        indexes = [
            Index(fields=["stream"], name="jobs_checkpoint_stream"),
            Index(fields=["run", "state"], name="jobs_checkpoint_run"),
            Index(fields=["attempt"], name="jobs_checkpoint_attempt"),
        ]


class Goodput(models.Model):
    """Where the GPU-seconds of one instrumented attempt went; the ten parts add up to `allocated` exactly.

    until: its end; while it runs, the last instant its program told of, up to which the parts reach. What passes
    after it is `other` until the program tells more; `gpus` (held last) say how much that is. What ends in seconds is
    of time, not of GPUs. stopped_*: how its program told that it could not go on, '' where it did not; why: id of a
    free text. steps, tokens, period_ms, communication_ms: sums of its reports of progress, tokens null where none
    tells any.
    """

    attempt = models.UUIDField(primary_key=True)
    run = models.UUIDField()
    stream = models.TextField(db_collation="C")
    cluster = models.TextField()
    job_id = models.TextField()
    number = models.IntegerField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    start = models.DateTimeField(db_column="start_at")
    end = models.DateTimeField(null=True, db_column="end_at")
    until = models.DateTimeField(db_column="until_at")
    gpus = models.IntegerField()
    work_lost = models.BooleanField()
    productive = models.BigIntegerField()
    checkpoint_stall = models.BigIntegerField()
    rollback_replay = models.BigIntegerField()
    detect = models.BigIntegerField()
    teardown = models.BigIntegerField()
    init_restore = models.BigIntegerField()
    data_stall = models.BigIntegerField()
    partial_gang_wait = models.BigIntegerField()
    idle_held = models.BigIntegerField()
    other = models.BigIntegerField()
    allocated = models.BigIntegerField()
    productive_seconds = models.BigIntegerField()
    rolled_back_seconds = models.BigIntegerField()
    detect_seconds = models.BigIntegerField()
    teardown_seconds = models.BigIntegerField()
    init_restore_seconds = models.BigIntegerField()
    gang_wait_seconds = models.BigIntegerField()
    stopped_kind = models.TextField()
    stopped_why = models.TextField()
    last_step = models.BigIntegerField(null=True)
    steps = models.BigIntegerField()
    tokens = models.BigIntegerField(null=True)
    period_ms = models.BigIntegerField()
    communication_ms = models.BigIntegerField()

    class Meta:
        db_table = "jobs_goodput"
        indexes = [
            Index(fields=["stream"], name="jobs_goodput_stream"),
            Index(fields=["run", "start"], name="jobs_goodput_run"),
            Index(fields=["start", "attempt"], name="jobs_goodput_start"),
        ]


class Speed(models.Model):
    """How fast an attempt went at one number of GPUs, in sums over its reports of progress; by convention of its MFU.

    gpus: 0 for reports during which the number changed. convention: '' where none is stated. tokens, tokens_ms,
    tokens_gpu_ms: of the reports that tell tokens. flop, capacity (10^6 floating point operations that the GPUs could
    have done), mfu_ms: of those that tell what an MFU needs. communication_ns of told_communication_ms: of those
    that tell its share. steps, period_ms: of all.
    """

    pk = models.CompositePrimaryKey("attempt", "gpus", "convention")
    attempt = models.UUIDField()
    gpus = models.IntegerField()
    convention = models.TextField()
    run = models.UUIDField()
    stream = models.TextField(db_collation="C")
    cluster = models.TextField()
    job_id = models.TextField()
    number = models.IntegerField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    start = models.DateTimeField(db_column="start_at")
    steps = models.BigIntegerField()
    period_ms = models.BigIntegerField()
    tokens = models.DecimalField(max_digits=60, decimal_places=0)
    tokens_ms = models.BigIntegerField()
    tokens_gpu_ms = models.DecimalField(max_digits=60, decimal_places=0)
    flop = models.DecimalField(max_digits=60, decimal_places=0)
    capacity = models.DecimalField(max_digits=60, decimal_places=0)
    mfu_ms = models.BigIntegerField()
    communication_ns = models.DecimalField(max_digits=60, decimal_places=0)
    told_communication_ms = models.BigIntegerField()

    class Meta:
        db_table = "jobs_speed"
        indexes = [
            Index(fields=["stream"], name="jobs_speed_stream"),
            Index(fields=["run"], name="jobs_speed_run"),
            Index(fields=["start", "attempt"], name="jobs_speed_start"),
        ]


class ScalingRecord(models.Model):
    """So fast did a model run on so many GPUs of a cluster, measured and signed; see `scaling.recorded`.

    replaces: position of the record that this one corrects; replaced_by: of the one that corrects this one.
    """

    position = models.BigIntegerField(primary_key=True)
    cluster = models.TextField()
    model = models.TextField()
    kind = models.TextField()
    measured = models.DateTimeField()
    gpus = models.IntegerField()
    milli_tokens_per_second = models.BigIntegerField()
    step_us = models.BigIntegerField(null=True)
    steps = models.IntegerField(null=True)
    precision = models.TextField()
    flop_per_token = models.BigIntegerField(null=True)
    peak_gflops = models.BigIntegerField(null=True)
    convention = models.TextField()
    communication_ppm = models.IntegerField(null=True)
    signed_by = models.TextField()
    note = models.TextField()
    reference = models.TextField()
    replaces = models.BigIntegerField(null=True)
    replaced_by = models.BigIntegerField(null=True)

    class Meta:
        db_table = "jobs_scalingrecord"
