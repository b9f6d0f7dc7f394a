"""Tables of the log. `shard` leads every key; there are no serial columns, so the tables can be distributed."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint


class Shard(models.Model):
    """Base: the shard column that leads every key."""

    shard = models.SmallIntegerField(default=0)

    class Meta:
        abstract = True


class Delivery(Shard):
    """A body that an outside system sent, as sent; committed before the 2xx. Partitioned by day of receipt."""

    pk = models.CompositePrimaryKey("shard", "received_at", "id")
    id = models.UUIDField()
    received_at = models.DateTimeField()
    source = models.TextField()
    kind = models.TextField()
    content_type = models.TextField()
    headers = models.JSONField(default=dict)
    body = models.BinaryField()
    sha256 = models.BinaryField()
    actor = models.TextField()
    state = models.TextField(default="pending")
    tries = models.SmallIntegerField(default=0)
    error = models.TextField(default="")

    class Meta:
        managed = False  # partitioned: made by SQL in the first migration
        db_table = "events_delivery"


class Head(models.Model):
    """The end of the log: last position and head hash. Its row lock is the order of the log."""

    shard = models.SmallIntegerField(primary_key=True)
    position = models.BigIntegerField()
    hash = models.BinaryField()

    class Meta:
        db_table = "events_head"


class Event(Shard):
    """One immutable fact. Refused by the database: UPDATE, DELETE, TRUNCATE."""

    pk = models.CompositePrimaryKey("shard", "position")
    position = models.BigIntegerField()
    id = models.UUIDField()
    source = models.TextField()
    source_key = models.TextField()
    type = models.TextField()
    version = models.SmallIntegerField()
    stream = models.TextField(db_collation="C")
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField()
    actor = models.TextField()
    delivery = models.UUIDField(null=True)
    data = models.JSONField()

    class Meta:
        db_table = "events_event"
        indexes = [Index(fields=["shard", "stream", "occurred_at", "position"], name="events_event_stream")]


class EventKey(Shard):
    """Key of a fact for ever: first 16 bytes of sha256(source, source_key), its position and digest."""

    pk = models.CompositePrimaryKey("shard", "key")
    key = models.UUIDField()
    position = models.BigIntegerField()
    digest = models.BinaryField()

    class Meta:
        db_table = "events_eventkey"


class Block(Shard):
    """One append: the last position it wrote, how many events, when, and the head hash after it."""

    pk = models.CompositePrimaryKey("shard", "upto")
    upto = models.BigIntegerField()
    count = models.IntegerField()
    recorded_at = models.DateTimeField()
    hash = models.BinaryField()

    class Meta:
        db_table = "events_block"


class Seal(Shard):
    """A head hash that was handed out of the house: position, hash, when and to whom."""

    pk = models.CompositePrimaryKey("shard", "position")
    position = models.BigIntegerField()
    hash = models.BinaryField()
    sealed_at = models.DateTimeField()
    note = models.TextField(default="")

    class Meta:
        db_table = "events_seal"


class Claim(Shard):
    """Something only one stream may hold: (kind, key) -> stream."""

    pk = models.CompositePrimaryKey("shard", "kind", "key")
    kind = models.TextField()
    key = models.TextField()
    stream = models.TextField(db_collation="C")
    position = models.BigIntegerField()

    class Meta:
        db_table = "events_claim"


class Progress(Shard):
    """How far a projection group has read the log, in which rule version, and whether it stands still."""

    pk = models.CompositePrimaryKey("shard", "group")
    group = models.TextField(db_column="group_name")
    position = models.BigIntegerField(default=0)
    version = models.IntegerField(default=0)
    state = models.TextField(default="live")
    error = models.TextField(default="")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "events_progress"


class Parked(Shard):
    """An event that a group could not apply; later events of its stream wait behind it."""

    pk = models.CompositePrimaryKey("shard", "group", "position")
    group = models.TextField(db_column="group_name")
    position = models.BigIntegerField()
    stream = models.TextField(db_collation="C")
    error = models.TextField()
    parked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "events_parked"


class Rejection(Shard):
    """A record that could not become an event: where it stood, why, and what became of it."""

    pk = models.CompositePrimaryKey("shard", "id")
    id = models.UUIDField()
    recorded_at = models.DateTimeField()
    source = models.TextField()
    origin = models.TextField()
    delivery = models.UUIDField(null=True)
    index = models.BigIntegerField(db_column="item")
    pointer = models.TextField()
    code = models.TextField()
    text = models.TextField()
    payload = models.TextField()
    state = models.TextField(default="open")
    settled_by = models.TextField(default="")
    settled_why = models.TextField(default="")

    class Meta:
        db_table = "events_rejection"
        indexes = [Index(fields=["shard", "state", "recorded_at"], name="events_rejection_state")]
        constraints = [
            CheckConstraint(condition=Q(state__in=["open", "replayed", "waived"]), name="events_rejection_states")
        ]


class KeptBody(Shard):
    """A delivery's body kept past retention because a rejection of it is still open."""

    pk = models.CompositePrimaryKey("shard", "delivery")
    delivery = models.UUIDField()
    received_at = models.DateTimeField()
    source = models.TextField(default="")
    kind = models.TextField(default="cloudevents")
    content_type = models.TextField()
    headers = models.JSONField(default=dict)
    body = models.BinaryField()

    class Meta:
        db_table = "events_keptbody"


class Person(Shard):
    """A person that sources name: surrogate id in events, name here and erasable."""

    pk = models.CompositePrimaryKey("shard", "id")
    id = models.TextField()
    name = models.TextField(null=True)  # noqa: DJ001 - NULL means erased, which is not an empty name

    class Meta:
        db_table = "events_person"
        constraints = [UniqueConstraint(fields=["shard", "name"], name="events_person_name")]


class Text(Shard):
    """Free text that users wrote in job names and comments: id in events, body here and erasable."""

    pk = models.CompositePrimaryKey("shard", "id")
    id = models.TextField()
    person = models.TextField(default="")
    digest = models.BinaryField(null=True)
    body = models.TextField(null=True)  # noqa: DJ001 - NULL means erased

    class Meta:
        db_table = "events_text"
        constraints = [UniqueConstraint(fields=["shard", "person", "digest"], name="events_text_digest")]


class Tally(Shard):
    """What came from one source by one kind of delivery: counted by the drain, so that a page need not count.

    deliveries: settled ones. accepted, duplicate, rejected: of their items. refused: deliveries of which nothing
    was taken. lag_us: receipt to log of the newest delivery of the last drain, in microseconds.
    """

    pk = models.CompositePrimaryKey("shard", "source", "kind")
    source = models.TextField()
    kind = models.TextField()
    deliveries = models.BigIntegerField()
    refused = models.BigIntegerField()
    accepted = models.BigIntegerField()
    duplicate = models.BigIntegerField()
    rejected = models.BigIntegerField()
    last_received = models.DateTimeField()
    lag_us = models.BigIntegerField()
    last_error = models.TextField(default="")
    last_error_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "events_tally"


class SampleSeries(Shard):
    """One label set of a metric that somebody sends samples of. Seen: receipt, by our clock, within the hour."""

    pk = models.CompositePrimaryKey("shard", "id")
    id = models.UUIDField()
    metric = models.TextField()
    labels = models.JSONField()
    source = models.TextField()
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()

    class Meta:
        db_table = "events_sampleseries"
        indexes = [Index(fields=["shard", "metric"], name="events_sampleseries_metric")]


class Sample(Shard):
    """One sample, for two days. t_ms: milliseconds since 1970 UTC; value null: the series ended (stale marker).

    start_ms: since when a counter counts, null where its source does not tell. Partitioned by day (events.sampledays).
    """

    pk = models.CompositePrimaryKey("shard", "series", "t_ms")
    series = models.UUIDField()
    t_ms = models.BigIntegerField()
    value = models.FloatField(null=True)
    start_ms = models.BigIntegerField(null=True)

    class Meta:
        managed = False  # partitioned: made by SQL in migration 0004
        db_table = "events_sample"
