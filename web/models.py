"""What the door for people has to remember between requests."""

from __future__ import annotations

import uuid

from django.conf import settings
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


class MailChoice(models.Model):
    """Whether a person wants a kind of mail, and since when. Without a row: the kind's usual (web.mailkinds)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.TextField()
    wanted = models.BooleanField()
    since = models.DateTimeField()

    class Meta:
        db_table = "web_mailchoice"
        constraints = [models.UniqueConstraint(fields=["user", "kind"], name="web_mailchoice_once")]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.kind} {'on' if self.wanted else 'off'}"


class MailSent(models.Model):
    """The outbox: one row per mail, never two of one `ref`. Not a read model: no rebuild touches it.

    ref: what it is about (`2026-W48`, or a job and how often it was over before). state: due, sending, sent, failed,
    in_doubt (handed over, but nobody knows whether it was taken), dropped (no longer wanted or allowed when its turn
    came). job, ended: of a receipt, as known when it was noted.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.TextField()
    ref = models.TextField()
    state = models.TextField(default="due")
    job = models.UUIDField(null=True)
    ended = models.DateTimeField(null=True)
    subject = models.TextField(default="")
    created_at = models.DateTimeField()
    next_try = models.DateTimeField()
    tries = models.IntegerField(default=0)
    error = models.TextField(default="")
    done_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "web_mailsent"
        constraints = [models.UniqueConstraint(fields=["user", "kind", "ref"], name="web_mailsent_once")]
        indexes = [
            models.Index(fields=["state", "next_try"], name="web_mailsent_state"),
            models.Index(fields=["job"], name="web_mailsent_job", condition=models.Q(job__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.ref} to {self.user_id}: {self.state}"
