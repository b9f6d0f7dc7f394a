"""Credentials of machines."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Token(models.Model):
    """A bearer token: only the sha256 of its secret is kept. `projects` null: not limited to projects."""

    name = models.CharField(max_length=100, unique=True)
    sha256 = models.BinaryField(max_length=32, unique=True)
    scopes = ArrayField(models.TextField())
    projects = ArrayField(models.TextField(), null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "api_token"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
