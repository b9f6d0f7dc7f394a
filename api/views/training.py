"""What training programs tell: where GPU-time went, and what was saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from api.serializers.training import CheckpointRow, GoodputRow
from api.views.base import ListView
from events.access import Scope
from jobs import queries_goodput, queries_scaling
from jobs.filters_training import CheckpointFilter, GoodputFilter

__all__ = ["Checkpoints", "Goodput"]


class Goodput(ListView):
    """Instrumented attempts, with running ones counted until now."""

    key = ("attempt",)
    orderings = ("start", "end", "allocated", "productive", "rollback_replay", "other")
    default_ordering = "-start"
    serializer_class = GoodputRow
    filterset_class = GoodputFilter
    people = ("user",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Instrumented attempts of the projects in scope."""
        return queries_goodput.goodput(scope)

    def shown(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """With running attempts cut at this answer's instant, and how fast each went."""
        queries_goodput.tails(rows, self.cut)
        speeds = queries_scaling.by_attempt([row.attempt for row in rows])
        for row in rows:
            row.speed = speeds.get(row.attempt, queries_scaling.UNTOLD)
        return super().shown(rows)


class Checkpoints(ListView):
    """Saves and restores of training programs."""

    key = ("position",)
    orderings = ("position", "state", "at", "step", "bytes")
    default_ordering = "-position"
    serializer_class = CheckpointRow
    filterset_class = CheckpointFilter
    people = ("user",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Saves of the projects in scope."""
        return queries_goodput.checkpoints(scope)
