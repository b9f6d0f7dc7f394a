"""Read models of what we own. Disposable: a rebuild from the log makes the same rows."""

from __future__ import annotations

from django.db import models


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
