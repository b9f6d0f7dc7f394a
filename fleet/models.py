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
