"""What ran and who is charged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from api import filters
from api.serializers.jobs import AccountRow, AttemptRow, JobRow, ProjectRow, RunRow
from api.views.base import DetailView, ListView, RowsView
from events.access import Scope
from jobs import queries, queries_runs
from jobs.queries_closing import closed_runs
from jobs.queries_runs import Held

NOTHING = Held(0, 0, 0, 0)


class _Runs(RowsView):
    """Training efforts, with what their running attempts held until now."""

    serializer_class = RunRow
    people = ("user",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Runs of the projects in scope."""
        return queries.runs(scope)

    def shown(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """With running attempts cut at this answer's instant."""
        held = queries_runs.held_by_runs([row.id for row in rows if row.end is None], self.cut)
        closed = closed_runs(rows)
        for row in rows:
            row.closed = closed.get(row.id)
            now = held.get(row.id, NOTHING)
            row.gpu_seconds += now.gpu_seconds
            row.node_seconds += now.node_seconds
        return super().shown(rows)


class _Jobs(RowsView):
    """Submissions known to a scheduler, with what their attempts held until now."""

    serializer_class = JobRow
    people = ("user",)
    texts = ("name", "comment")

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Jobs of the projects in scope."""
        return queries.jobs(scope)

    def shown(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """With running attempts cut at this answer's instant."""
        held = queries_runs.held_by_jobs([row.id for row in rows if row.attempts], self.cut)
        for row in rows:
            now = held.get(row.id, NOTHING)
            row.gpus, row.gpu_seconds = now.gpus, now.gpu_seconds
        return super().shown(rows)


class _Attempts(RowsView):
    """Unbroken executions of jobs, with what they held until now."""

    serializer_class = AttemptRow
    people = ("user",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Attempts of the projects in scope."""
        return queries.attempts(scope)

    def shown(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """With running attempts cut at this answer's instant."""
        held = queries_runs.held_by_attempts([row.id for row in rows if row.end is None], self.cut)
        for row in rows:
            if row.end is None:
                row.gpu_seconds = held.get(row.id, NOTHING).gpu_seconds
        return super().shown(rows)


class Runs(_Runs, ListView):
    """Training efforts."""

    orderings = ("submit", "start", "end", "gpus", "gpu_seconds", "attempts", "position")
    default_ordering = "-submit"
    filterset_class = filters.RunFilter


class Run(_Runs, DetailView):
    """One run."""

    lookup = {"id": "id"}


class Jobs(_Jobs, ListView):
    """Submissions known to a scheduler."""

    orderings = ("submit", "start", "end", "job_id", "position")
    default_ordering = "-submit"
    filterset_class = filters.JobFilter


class Job(_Jobs, DetailView):
    """One job."""

    lookup = {"id": "id"}


class Attempts(_Attempts, ListView):
    """Unbroken executions of jobs."""

    orderings = ("start", "end", "submit", "gpus", "gpu_seconds", "position")
    default_ordering = "-start"
    filterset_class = filters.AttemptFilter


class Attempt(_Attempts, DetailView):
    """One attempt."""

    lookup = {"id": "id"}


class Projects(ListView):
    """Projects, teams and organisations."""

    key = ("code",)
    orderings = ("code", "title")
    default_ordering = "code"
    serializer_class = ProjectRow
    filterset_class = filters.ProjectFilter

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Projects in scope."""
        return queries.projects(scope)


class Project(DetailView):
    """One project."""

    serializer_class = ProjectRow
    lookup = {"code": "code"}

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return queries.projects(scope)


class Accounts(ListView):
    """Accounts of schedulers and the projects they belonged to, one row per stretch of time."""

    key = ("cluster", "account", "from_day")
    orderings = ("account", "cluster", "project", "from_day")
    default_ordering = "account"
    serializer_class = AccountRow
    filterset_class = filters.AccountFilter

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Accounts of the projects in scope."""
        return queries.accounts(scope)


class Account(DetailView):
    """Where one account belongs now: its latest stretch."""

    serializer_class = AccountRow
    lookup = {"cluster": "cluster", "account": "account"}

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list, latest first."""
        return queries.accounts(scope).order_by("-from_day")
