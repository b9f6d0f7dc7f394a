"""Read models of what ran. Disposable: a rebuild from the log makes the same rows; keys derive from streams."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Index, Q

from jobs.models_training import Checkpoint as Checkpoint  # noqa: PLC0414
from jobs.models_training import Goodput as Goodput  # noqa: PLC0414
from jobs.models_training import ScalingRecord as ScalingRecord  # noqa: PLC0414
from jobs.models_training import Speed as Speed  # noqa: PLC0414
from jobs.models_training import TrainingStream as TrainingStream  # noqa: PLC0414


class Project(models.Model):
    """A project, team or organisation as last declared; `parent` is its place now."""

    code = models.TextField(primary_key=True)
    title = models.TextField()
    kind = models.TextField()
    parent = models.TextField(null=True)  # noqa: DJ001 - a root has no parent

    class Meta:
        db_table = "jobs_project"


class ProjectPlace(models.Model):
    """Where a project hung in the tree from a day on; `path` are its ancestors from the root, itself last."""

    pk = models.CompositePrimaryKey("project", "from_day")
    project = models.TextField()
    from_day = models.DateField()
    to_day = models.DateField()
    path = ArrayField(models.TextField())

    class Meta:
        db_table = "jobs_projectplace"


class AccountPlace(models.Model):
    """Which project a scheduler's account belonged to, [from_day, to_day) at the site's midnights."""

    pk = models.CompositePrimaryKey("cluster", "account", "from_day")
    cluster = models.TextField()
    account = models.TextField()
    from_day = models.DateField()
    to_day = models.DateField()
    project = models.TextField()

    class Meta:
        db_table = "jobs_accountplace"


def called(name: str, generation: int) -> str:
    """What a named run is called: its name, with its number from the second run of that name on."""
    return f"{name} #{generation}" if generation > 1 else name


COMMON = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "RUNNING", "PENDING")
"""States of most rows; the others have an index of their own, so that looking for them reads no long list."""


class Job(models.Model):
    """One submission known to a scheduler; a reused id is another job. `seq` counts jobs of one raw id.

    run: the training effort it belongs to; its own id where run_name is empty, because nobody named one; generation:
    which run of that name it is. asked_*: what
    it asked for while it waited, as far as its scheduler was heard then; dependency: what it then waited for.
    """

    id = models.UUIDField(primary_key=True)
    stream = models.TextField(db_collation="C")
    cluster = models.TextField()
    job_id = models.TextField()
    seq = models.IntegerField()
    array_job_id = models.TextField(null=True)  # noqa: DJ001 - not an array
    array_task = models.TextField(null=True)  # noqa: DJ001
    het_job_id = models.TextField(null=True)  # noqa: DJ001
    het_offset = models.IntegerField(null=True)
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    qos = models.TextField()
    name = models.TextField()
    comment = models.TextField()
    submit = models.DateTimeField(null=True)
    eligible = models.DateTimeField(null=True)
    start = models.DateTimeField(null=True)
    end = models.DateTimeField(null=True)
    state = models.TextField()
    reason = models.TextField()
    limit_seconds = models.BigIntegerField(null=True)
    asked_nodes = models.IntegerField(null=True)
    asked_cpus = models.IntegerField(null=True)
    asked_gpus = models.IntegerField(null=True)
    dependency = models.TextField()
    attempts = models.IntegerField()
    run = models.UUIDField()
    run_name = models.TextField()
    generation = models.IntegerField(db_default=1)
    position = models.BigIntegerField()

    class Meta:
        db_table = "jobs_job"
        indexes = [
            Index(fields=["stream"], name="jobs_job_stream"),
            Index(fields=["run"], name="jobs_job_run", condition=~Q(run_name="")),
            Index(fields=["cluster", "job_id"], name="jobs_job_raw"),
            Index(fields=["array_job_id"], name="jobs_job_array", condition=Q(array_job_id__isnull=False)),
            Index(fields=["submit", "id"], name="jobs_job_submit"),
            Index(fields=["account", "submit"], name="jobs_job_account"),
            Index(fields=["user", "submit"], name="jobs_job_user"),
            Index(fields=["submit"], name="jobs_job_rare", condition=~Q(state__in=COMMON)),
            Index(fields=["submit"], name="jobs_job_open", condition=Q(end=None)),
            Index(fields=["het_job_id"], name="jobs_job_het", condition=Q(het_job_id__isnull=False)),
        ]

    @property
    def run_title(self) -> str:
        """What its run is called; empty where nobody named one."""
        return called(self.run_name, self.generation)


class Run(models.Model):
    """One training effort: the jobs of an account that carry the same run name, or one job without a name.

    generation: one more with each closing of the name. key of a named run: uuid5 of account, name and generation from
    the second on; of a job without one: the job's own id. start, end: of the
    first and the last attempt, `end` null while a job of it waits or runs. gpus: the most GPUs of any of its
    attempts. gpu_seconds, node_seconds: of its ended attempts; running ones are added when it is read.
    """

    id = models.UUIDField(primary_key=True)
    name = models.TextField()
    generation = models.IntegerField(db_default=1)
    named = models.BooleanField()
    cluster = models.TextField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    submit = models.DateTimeField(null=True)
    start = models.DateTimeField(null=True, db_column="start_at")
    end = models.DateTimeField(null=True, db_column="end_at")
    state = models.TextField()
    jobs = models.IntegerField()
    attempts = models.IntegerField()
    gpus = models.IntegerField()
    gpu_seconds = models.BigIntegerField()
    node_seconds = models.BigIntegerField()
    position = models.BigIntegerField()

    class Meta:
        db_table = "jobs_run"
        indexes = [
            Index(fields=["submit", "id"], name="jobs_run_submit"),
            Index(fields=["account", "submit"], name="jobs_run_account"),
            Index(fields=["user", "submit"], name="jobs_run_user"),
            Index(fields=["submit"], name="jobs_run_rare", condition=~Q(state__in=COMMON)),
            Index(fields=["name"], name="jobs_run_name", condition=Q(named=True)),
            Index(fields=["submit"], name="jobs_run_open", condition=Q(end=None)),
        ]

    @property
    def title(self) -> str:
        """What it is called; empty where nobody named it."""
        return called(self.name, self.generation)


class Closing(models.Model):
    """Somebody closed the generation-th run of an account's name; jobs submitted later are the next one."""

    pk = models.CompositePrimaryKey("account", "name", "generation")
    account = models.TextField()
    name = models.TextField()
    generation = models.IntegerField()
    closed = models.DateTimeField(db_column="closed_at")
    actor = models.TextField()

    class Meta:
        db_table = "jobs_closing"


class Attempt(models.Model):
    """One unbroken execution of a job: [start, end), running while end is null.

    cpus, gpus, nodes: size at the start (null: the source does not say); after a resize see the segments.
    gpu_seconds: over all its segments, null while it runs. gpu_indices: `node=0-3` per node, by blanks, as far as
    told. lost: it was charged to when it was last seen (`job.lost`); nobody told its end.
    """

    id = models.UUIDField(primary_key=True)
    stream = models.TextField(db_collation="C")
    job = models.UUIDField()
    cluster = models.TextField()
    job_id = models.TextField()
    number = models.IntegerField()
    record = models.BigIntegerField(null=True)
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    qos = models.TextField()
    submit = models.DateTimeField(null=True)
    eligible = models.DateTimeField(null=True)
    start = models.DateTimeField(db_column="start_at")
    end = models.DateTimeField(null=True, db_column="end_at")
    state = models.TextField()
    reason = models.TextField()
    exit_code = models.IntegerField(null=True)
    exit_signal = models.IntegerField(null=True)
    nodes = models.IntegerField(null=True)
    cpus = models.IntegerField(null=True)
    gpus = models.IntegerField(null=True)
    node_list = models.TextField()
    suspended_seconds = models.BigIntegerField()
    energy_j = models.BigIntegerField(null=True)
    confirmed = models.BooleanField()
    disagree = models.BooleanField()
    corrected = models.BooleanField()
    lost = models.BooleanField()
    run = models.UUIDField()
    gpu_seconds = models.BigIntegerField(null=True)
    gpu_indices = models.TextField()
    sources = models.TextField()
    position = models.BigIntegerField()

    class Meta:
        db_table = "jobs_attempt"
        indexes = [
            Index(fields=["stream"], name="jobs_attempt_stream"),
            Index(fields=["start", "id"], name="jobs_attempt_start"),
            Index(fields=["end"], name="jobs_attempt_end"),
            Index(fields=["job"], name="jobs_attempt_job"),
            Index(fields=["account", "start"], name="jobs_attempt_account"),
            Index(fields=["user", "start"], name="jobs_attempt_user"),
            Index(fields=["start"], name="jobs_attempt_rare", condition=~Q(state__in=COMMON)),
            Index(fields=["start"], name="jobs_attempt_running", condition=Q(end=None)),
            Index(fields=["start"], name="jobs_attempt_lost", condition=Q(lost=True)),
            Index(fields=["start"], name="jobs_attempt_disagree", condition=Q(disagree=True)),
            Index(fields=["run", "start"], name="jobs_attempt_run"),
        ]

    @property
    def source_list(self) -> list[str]:
        """The sources that speak of it."""
        return self.sources.split(",")

    @property
    def gpu_index_list(self) -> list[str]:
        """Which GPUs of which node, one entry per node that is told."""
        return self.gpu_indices.split()


class Look(models.Model):
    """What its scheduler said of a waiting job at `at`, until the next look. cause: one of jobs.waiting.CAUSES.

    expected: by when it expected the start, null where it said none. Only looks that say something new are kept.
    """

    pk = models.CompositePrimaryKey("stream", "at")
    stream = models.TextField(db_collation="C")
    at = models.DateTimeField()
    reason = models.TextField()
    cause = models.TextField()
    expected = models.DateTimeField(null=True)

    class Meta:
        db_table = "jobs_look"
        indexes = [Index(fields=["at"], name="jobs_look_expected", condition=Q(expected__isnull=False))]


class Wait(models.Model):
    """A stretch of waiting with one cause: [start, end), open while it waits. Only of jobs that were looked at.

    number: of the attempt that it waited for; attempt: null while it waits, or if it never started. The stretches of
    an attempt that are since_eligible add up to its wait_seconds, those since_submit to wait_from_submit_seconds.
    """

    pk = models.CompositePrimaryKey("job", "number", "seq")
    job = models.UUIDField()
    number = models.IntegerField()
    seq = models.IntegerField()
    attempt = models.UUIDField(null=True)
    run = models.UUIDField()
    stream = models.TextField(db_collation="C")
    cluster = models.TextField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    cause = models.TextField()
    reason = models.TextField()
    start = models.DateTimeField(db_column="start_at")
    end = models.DateTimeField(null=True, db_column="end_at")
    since_eligible = models.BooleanField()
    since_submit = models.BooleanField()

    class Meta:
        db_table = "jobs_wait"
        indexes = [
            Index(fields=["stream"], name="jobs_wait_stream"),
            Index(fields=["attempt"], name="jobs_wait_attempt"),
            Index(fields=["run"], name="jobs_wait_run"),
            Index(fields=["start"], name="jobs_wait_open", condition=Q(end=None)),
        ]


class Segment(models.Model):
    """A stretch of an attempt with one size: [start, end). One per attempt unless it was resized.

    Carries the dimensions of its attempt, so that roll-ups and reports read one table. `classes` and `units`
    say how many units of which resource class it holds: GPU types in lower case (`gpu` without a type), or
    `cpu` for an allocation without GPUs. opening, closing: the attempt starts, ends with this stretch;
    job_opening, job_closing: the job does.
    """

    pk = models.CompositePrimaryKey("attempt", "seq")
    attempt = models.UUIDField()
    seq = models.IntegerField()
    run = models.UUIDField()
    stream = models.TextField(db_collation="C")
    cluster = models.TextField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    start = models.DateTimeField(db_column="start_at")
    end = models.DateTimeField(null=True, db_column="end_at")
    nodes = models.IntegerField()
    cpus = models.IntegerField()
    gpus = models.IntegerField()
    classes = ArrayField(models.TextField())
    units = ArrayField(models.IntegerField())
    suspended_seconds = models.BigIntegerField()
    opening = models.BooleanField()
    closing = models.BooleanField()
    job_opening = models.BooleanField()
    job_closing = models.BooleanField()

    class Meta:
        db_table = "jobs_segment"
        indexes = [
            Index(fields=["stream"], name="jobs_segment_stream"),
            Index(fields=["account", "end"], name="jobs_segment_account"),
            Index(fields=["account", "user", "end"], name="jobs_segment_person"),
            Index(fields=["end"], name="jobs_segment_end"),
            Index(fields=["start"], name="jobs_segment_running", condition=Q(end=None)),
        ]


class UsageDay(models.Model):
    """What ended attempts used on one day of the site, per cluster, account, user and partition.

    `project` and `path` (its ancestors from the root, itself last) come from the dated mapping and tree. Waits
    are not here (they are read from attempts). suspended_seconds are booked on the day of the attempt's end,
    since sources tell their sum, not their hours. Running attempts are added when a report is read.
    """

    pk = models.CompositePrimaryKey("day", "cluster", "account", "user", "partition")
    day = models.DateField()
    cluster = models.TextField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    project = models.TextField()
    path = ArrayField(models.TextField())
    wall_seconds = models.BigIntegerField()
    cpu_seconds = models.BigIntegerField()
    gpu_seconds = models.BigIntegerField()
    node_seconds = models.BigIntegerField()
    suspended_seconds = models.BigIntegerField()
    attempts_carried = models.BigIntegerField()
    attempts_started = models.BigIntegerField()
    jobs_started = models.BigIntegerField()
    jobs_ended = models.BigIntegerField()

    class Meta:
        db_table = "jobs_usageday"
        indexes = [Index(fields=["project", "day"], name="jobs_usageday_project")]


class ClassDay(models.Model):
    """Seconds of each resource class that ended attempts used on one day: what prices apply to.

    resource_class: GPU type in lower case (`gpu` without a type; unit one GPU), or `cpu` for allocations
    without GPUs (unit one CPU).
    """

    pk = models.CompositePrimaryKey("day", "cluster", "account", "user", "partition", "resource_class")
    day = models.DateField()
    cluster = models.TextField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    resource_class = models.TextField()
    project = models.TextField()
    path = ArrayField(models.TextField())
    unit_seconds = models.BigIntegerField()

    class Meta:
        db_table = "jobs_classday"
        indexes = [Index(fields=["project", "day"], name="jobs_classday_project")]


class Grant(models.Model):
    """A person may see a project and what hangs below it. Not a read model: no rebuild touches it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    project = models.TextField()

    class Meta:
        db_table = "jobs_grant"
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="jobs_grant_once")]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.project}"


class Seen(models.Model):
    """An attempt that should be running, as the polls of its cluster show it. Not a read model.

    Written only when something changes: while `missing_from` is null the last poll showed it. last_seen: the last
    poll that did, known once it is missing. missing_from: the first poll that did not.
    """

    pk = models.CompositePrimaryKey("cluster", "job_id", "start")
    cluster = models.TextField()
    job_id = models.TextField()
    start = models.BigIntegerField(db_column="start_s")
    last_seen = models.DateTimeField(null=True)
    missing_from = models.DateTimeField(null=True)

    class Meta:
        db_table = "jobs_seen"


class Polled(models.Model):
    """What a pulled source said last of one record, as a digest, so that only what changes is kept. Not a read model.

    view: slurmctld or slurmdbd. ended: when the record ended, where it has; it is forgotten some time later.
    """

    pk = models.CompositePrimaryKey("source", "view", "key")
    source = models.TextField()
    view = models.TextField()
    key = models.TextField()
    digest = models.BinaryField()
    ended = models.DateTimeField(null=True)

    class Meta:
        db_table = "jobs_polled"


class Association(models.Model):
    """Shares of a scheduler's account, or of a user in it (in one partition), [from_s, to_s) in epoch seconds.

    user, partition: '' where it is of an account, of all partitions. shares: null where it takes its parent's.
    """

    pk = models.CompositePrimaryKey("cluster", "account", "user", "partition", "from_s")
    cluster = models.TextField()
    account = models.TextField()
    user = models.TextField(db_column="user_id")
    partition = models.TextField()
    from_s = models.BigIntegerField()
    to_s = models.BigIntegerField()
    parent = models.TextField()
    shares = models.BigIntegerField(null=True)

    class Meta:
        db_table = "jobs_association"


class Fairshare(models.Model):
    """How a cluster's fair share was computed on the days [from_day, to_day); `config` is the event's data."""

    pk = models.CompositePrimaryKey("cluster", "from_day")
    cluster = models.TextField()
    from_day = models.DateField()
    to_day = models.DateField()
    config = models.JSONField()

    class Meta:
        db_table = "jobs_fairshare"


class Balance(models.Model):
    """What ended attempts used of a cluster with fair share, per day, account, user and partition.

    In thousandths of billing-seconds at the edge with which the next day begins (jobs.shareclock). used, spent: of
    that day alone, decayed to the edge and as it was. balance, total: the same of all days up to it since a reset.
    """

    pk = models.CompositePrimaryKey("cluster", "account", "user", "partition", "day")
    cluster = models.TextField(db_collation="C")
    account = models.TextField(db_collation="C")
    user = models.TextField(db_column="user_id", db_collation="C")
    partition = models.TextField(db_collation="C")
    day = models.DateField()
    used = models.FloatField()
    spent = models.BigIntegerField()
    balance = models.FloatField()
    total = models.BigIntegerField()

    class Meta:
        db_table = "jobs_balance"
