"""What the door for people has to remember between requests."""

from __future__ import annotations

import uuid

from django.db import models


class LoginFailure(models.Model):
    """A login that failed, or that is being tried right now; gone after a quarter of an hour."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.TextField()
    address = models.TextField()
    at = models.DateTimeField()

    class Meta:
        db_table = "web_loginfailure"
        indexes = [
            models.Index(fields=["name", "address", "at"], name="web_loginfailure_pair"),
            models.Index(fields=["at"], name="web_loginfailure_at"),
        ]

    def __str__(self) -> str:
        return f"{self.name} from {self.address}"
