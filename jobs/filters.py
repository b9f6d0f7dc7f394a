"""What lists of runs, jobs and attempts can be filtered by, the same for pages and for REST."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import django_filters as filters
from django.db.models import Q, QuerySet

from events import queries as log
from events.filters import Instant, Words, YesNo, since, until
from jobs.models import Attempt
from jobs.queries import in_projects

__all__ = ["WAITING", "AccountFilter", "AttemptFilter", "JobFilter", "ProjectFilter", "RunFilter"]

WAITING: Final = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
"""States of what is open and holds nothing."""


class _Ran(filters.FilterSet):
    """What runs, jobs and attempts share."""

    project = Words(method="of_project", label="Project, with what hung below it on the day of the start.")
    user = filters.CharFilter(method="of_user", label="Name or id of the person.")
    account = Words(lookup_expr="in")
    cluster = Words(lookup_expr="in")
    state = Words(lookup_expr="in")
    submit_from = since("submit")
    submit_to = until("submit")
    start_from = since("start")
    start_to = until("start")
    end_from = since("end")
    end_to = until("end")

    def of_user(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Rows of a person by surrogate id or by name."""
        return rows.filter(user__in=[value, *log.ids_of_person(value)])

    def of_project(self, rows: QuerySet[Any], _: str, value: list[str]) -> QuerySet[Any]:
        """Rows of projects and of what hung below them."""
        return in_projects(rows, value)


class _Open(_Ran):
    """What runs and jobs share: both wait before they run."""

    running = YesNo(method="that_run", label="Has begun and is not over.")
    waiting = YesNo(method="that_wait", label="Waits to start, or to start again.")

    def that_run(self, rows: QuerySet[Any], _: str, value: bool) -> QuerySet[Any]:
        """Rows that hold something now, or all others."""
        running = Q(end=None) & ~Q(state__in=WAITING)
        return rows.filter(running if value else ~running)

    def that_wait(self, rows: QuerySet[Any], _: str, value: bool) -> QuerySet[Any]:
        """Rows that wait now, or all others."""
        waiting = Q(end=None, state__in=WAITING)
        return rows.filter(waiting if value else ~waiting)


class RunFilter(_Open):
    """Runs."""

    name = filters.CharFilter(method="called", label="Part of the name that its user gave it.")
    named = YesNo()
    gpus_from = filters.NumberFilter(field_name="gpus", lookup_expr="gte", label="At least so many GPUs at once.")
    lost = YesNo(method="with_lost", label="Nobody told the end of an attempt.")
    disagree = YesNo(method="with_dispute", label="Sources contradict each other about an attempt.")

    def called(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Named runs with a text in their name."""
        return rows.filter(named=True, name__icontains=value)

    def with_lost(self, rows: QuerySet[Any], _: str, value: bool) -> QuerySet[Any]:
        """Runs with a lost attempt, or without one."""
        found = Attempt.objects.filter(lost=True)
        return rows.filter(id__in=found.values("run")) if value else rows.exclude(id__in=found.values("run"))

    def with_dispute(self, rows: QuerySet[Any], _: str, value: bool) -> QuerySet[Any]:
        """Runs with an attempt about which sources disagree, or without one."""
        found = Attempt.objects.filter(disagree=True)
        return rows.filter(id__in=found.values("run")) if value else rows.exclude(id__in=found.values("run"))


class JobFilter(_Open):
    """Jobs."""

    job_id = filters.CharFilter()
    partition = Words(lookup_expr="in")
    run = filters.UUIDFilter(method="of_run")
    array_job_id = filters.CharFilter()
    het_job_id = filters.CharFilter()
    lost = YesNo(method="with_lost", label="Nobody told the end of an attempt.")
    disagree = YesNo(method="with_dispute", label="Sources contradict each other about an attempt.")

    def of_run(self, rows: QuerySet[Any], _: str, value: Any) -> QuerySet[Any]:
        """The jobs of a run; where nobody named it, the job whose key it has."""
        return rows.filter(Q(id=value, run=value) | (Q(run=value) & ~Q(run_name="")))

    def with_lost(self, rows: QuerySet[Any], _: str, value: bool) -> QuerySet[Any]:
        """Jobs with a lost attempt, or without one."""
        found = Attempt.objects.filter(lost=True)
        return rows.filter(id__in=found.values("job")) if value else rows.exclude(id__in=found.values("job"))

    def with_dispute(self, rows: QuerySet[Any], _: str, value: bool) -> QuerySet[Any]:
        """Jobs with an attempt about which sources disagree, or without one."""
        found = Attempt.objects.filter(disagree=True)
        return rows.filter(id__in=found.values("job")) if value else rows.exclude(id__in=found.values("job"))


class AttemptFilter(_Ran):
    """Attempts."""

    job_id = filters.CharFilter()
    partition = Words(lookup_expr="in")
    job = filters.UUIDFilter()
    run = filters.UUIDFilter()
    running = YesNo(field_name="end", lookup_expr="isnull")
    ran_from = Instant(method="that_ran", label="Ended later than this instant, or runs now.")
    gpus_from = filters.NumberFilter(field_name="gpus", lookup_expr="gte", label="At least so many GPUs at the start.")
    lost = YesNo()
    disagree = YesNo()
    confirmed = YesNo()
    corrected = YesNo()

    def that_ran(self, rows: QuerySet[Any], _: str, value: datetime) -> QuerySet[Any]:
        """Attempts that held something at an instant or later."""
        return rows.filter(Q(end__gt=value) | Q(end=None))


class ProjectFilter(filters.FilterSet):
    """Projects."""

    kind = Words(lookup_expr="in")
    parent = filters.CharFilter()


class AccountFilter(filters.FilterSet):
    """Accounts and where they belonged."""

    cluster = Words(lookup_expr="in")
    account = Words(lookup_expr="in")
    project = Words(lookup_expr="in")
