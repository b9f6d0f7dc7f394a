"""What ran and who is charged."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from api import filters
from api.serializers.jobs import AccountRow, AttemptRow, JobRow, ProjectRow
from api.views.base import DetailView, ListView
from events.access import Scope
from jobs import queries


class Jobs(ListView):
    """Submissions known to a scheduler."""

    orderings = ("submit", "start", "end", "job_id", "position")
    default_ordering = "-submit"
    serializer_class = JobRow
    filterset_class = filters.JobFilter
    people = ("user",)
    texts = ("name", "comment")

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Jobs of the projects in scope."""
        return queries.jobs(scope)


class Job(DetailView):
    """One job."""

    serializer_class = JobRow
    lookup = {"id": "id"}
    people = ("user",)
    texts = ("name", "comment")

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return queries.jobs(scope)


class Attempts(ListView):
    """Unbroken executions of jobs."""

    orderings = ("start", "end", "submit", "position")
    default_ordering = "-start"
    serializer_class = AttemptRow
    filterset_class = filters.AttemptFilter
    people = ("user",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """Attempts of the projects in scope."""
        return queries.attempts(scope)


class Attempt(DetailView):
    """One attempt."""

    serializer_class = AttemptRow
    lookup = {"id": "id"}
    people = ("user",)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """As the list."""
        return queries.attempts(scope)


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
