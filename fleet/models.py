"""Read models of what we own. Disposable: a rebuild from the log makes the same rows."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Index, Q


class Site(models.Model):
    """The site of this instance: one row. `timezone` decides when its days start."""

    name = models.TextField(primary_key=True)
    timezone = models.TextField()
    currency = models.TextField()

    class Meta:
        db_table = "fleet_site"


class Cluster(models.Model):
    """A cluster under one scheduler."""

    name = models.TextField(primary_key=True)
    scheduler = models.TextField()
    gpus = models.IntegerField(null=True)

    class Meta:
        db_table = "fleet_cluster"


class Node(models.Model):
    """A node as it is now: what its scheduler shows, where its owner says that it stands, and its state.

    gpus, gpu_model: as declared, else as the scheduler is set up. state: one of events.types.nodes.Lifecycle, since
    `state_since`. flags, reason, reason_by: the scheduler's last word. works: jobs still hold something of a node that
    takes no new ones. first_at: since when it is there.
    """

    pk = models.CompositePrimaryKey("cluster", "name")
    cluster = models.TextField()
    name = models.TextField()
    stream = models.TextField(db_collation="C")
    state = models.TextField()
    state_since = models.DateTimeField()
    flags = ArrayField(models.TextField())
    works = models.BooleanField(null=True)
    reason = models.TextField()
    reason_by = models.TextField()
    gpus = models.IntegerField(null=True)
    gpu_model = models.TextField()
    cpus = models.IntegerField(null=True)
    memory_mb = models.BigIntegerField(null=True)
    partitions = ArrayField(models.TextField())
    features = ArrayField(models.TextField())
    site = models.TextField()
    hall = models.TextField()
    pod = models.TextField()
    rack = models.TextField()
    unit = models.IntegerField(null=True)
    leaf = models.TextField()
    serial = models.TextField()
    guaranteed = models.BooleanField()
    declared = models.BooleanField()
    boot = models.DateTimeField(null=True)
    first_at = models.DateTimeField()
    position = models.BigIntegerField()

    class Meta:
        db_table = "fleet_node"
        indexes = [Index(fields=["stream"], name="fleet_node_stream")]


class NodeSpell(models.Model):
    """In which state a node was: [start, end), open now. Without gap or overlap from when it was there first.

    gpus: those it has now; installed are those of every state but `planned` and `retired`, available those of
    `in_service`.
    """

    pk = models.CompositePrimaryKey("cluster", "name", "seq")
    cluster = models.TextField()
    name = models.TextField()
    seq = models.IntegerField()
    stream = models.TextField(db_collation="C")
    state = models.TextField()
    start = models.DateTimeField(db_column="start_at")
    end = models.DateTimeField(null=True, db_column="end_at")
    gpus = models.IntegerField(null=True)
    gpu_model = models.TextField()

    class Meta:
        db_table = "fleet_nodespell"
        indexes = [Index(fields=["stream"], name="fleet_nodespell_stream"),
                   Index(fields=["end"], name="fleet_nodespell_end")]  # fmt: skip


class Hold(models.Model):
    """Why a node takes no work: [since, until), open while it holds.

    owner: operator, scheduler or policy. flag: the word under which the scheduler keeps it aside. by: who set it.
    """

    id = models.UUIDField(primary_key=True)
    cluster = models.TextField()
    node = models.TextField()
    stream = models.TextField(db_collation="C")
    owner = models.TextField()
    flag = models.TextField()
    reason = models.TextField()
    by = models.TextField(db_column="by_whom")
    since = models.DateTimeField()
    until = models.DateTimeField(null=True, db_column="until_at")

    class Meta:
        db_table = "fleet_hold"
        indexes = [
            Index(fields=["stream"], name="fleet_hold_stream"),
            Index(fields=["since", "id"], name="fleet_hold_since"),
            Index(fields=["since"], name="fleet_hold_open", condition=Q(until=None)),
        ]


class Fault(models.Model):
    """One fault: [opened, closed), open while `closed` is null.

    kind, title, component, scope, severity: of its class in the catalogue. node, unit: where it was seen first, the
    other one ''; nodes, units, streams: all that saw it. times: how often sources began to report it. closed_by: the
    actor, '' where its sources closed it; closed_as: events.types.faults.ClosedAs. note, closed_note: ids of texts.
    positions: the events it is made of; position: the last of them.
    """

    id = models.UUIDField(primary_key=True)
    cluster = models.TextField()
    node = models.TextField()
    unit = models.TextField()
    nodes = ArrayField(models.TextField())
    units = ArrayField(models.TextField())
    streams = ArrayField(models.TextField(db_collation="C"))
    kind = models.TextField()
    title = models.TextField()
    component = models.TextField()
    scope = models.TextField()
    severity = models.TextField()
    xid = models.IntegerField(null=True)
    gpu = models.IntegerField(null=True)
    part = models.TextField()
    wide = models.BooleanField()
    opened = models.DateTimeField()
    last_seen = models.DateTimeField()
    closed = models.DateTimeField(null=True)
    closed_by = models.TextField()
    closed_as = models.TextField()
    closed_note = models.TextField()
    acknowledged = models.DateTimeField(null=True)
    acknowledged_by = models.TextField()
    times = models.IntegerField()
    sources = ArrayField(models.TextField())
    names = ArrayField(models.TextField())
    note = models.TextField()
    positions = ArrayField(models.BigIntegerField())
    position = models.BigIntegerField()

    class Meta:
        db_table = "fleet_fault"
        indexes = [
            GinIndex(fields=["streams"], name="fleet_fault_streams"),
            Index(fields=["opened", "id"], name="fleet_fault_opened"),
            Index(fields=["cluster", "opened"], name="fleet_fault_place"),
            Index(fields=["opened"], name="fleet_fault_open", condition=Q(closed=None)),
            Index(fields=["cluster", "kind"], name="fleet_fault_wide", condition=Q(wide=True)),
        ]  # fmt: skip


class Source(models.Model):
    """Where records come from, as somebody set it up: a scheduler that is asked, or one that posts.

    Not a read model: no rebuild touches it. The token itself is never kept, only the path of its file.
    polled_at: its last whole list of present jobs. watermark: accounting up to here was fetched and kept. trail,
    trail_next, trail_at: where the wider look back begins, where it will begin next, and when that was noted; deep_at,
    deep_from: when the last one was done, and how far one under way has come (jobs/pulls.py).
    """

    name = models.TextField(primary_key=True)
    kind = models.TextField()
    cluster = models.TextField()
    url = models.TextField(default="")
    token_file = models.TextField(default="")
    user = models.TextField(default="", db_column="user_name")
    every_seconds = models.IntegerField(default=10)
    paused = models.BooleanField(default=False)
    accounting = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    watermark = models.DateTimeField(null=True)
    trail = models.DateTimeField(null=True)
    trail_next = models.DateTimeField(null=True)
    trail_at = models.DateTimeField(null=True)
    deep_at = models.DateTimeField(null=True)
    deep_from = models.DateTimeField(null=True)
    slice_seconds = models.IntegerField(default=86_400)
    polled_at = models.DateTimeField(null=True)
    last_try = models.DateTimeField(null=True)
    last_success = models.DateTimeField(null=True)
    last_error = models.TextField(default="")
    last_error_at = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0)
    api_version = models.TextField(default="")
    db_version = models.TextField(default="")
    pulls = models.BigIntegerField(default=0)
    records = models.BigIntegerField(default=0)

    class Meta:
        db_table = "fleet_source"
