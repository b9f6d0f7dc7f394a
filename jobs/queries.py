"""Reading what ran and who is charged. Scope (what the caller may see) is a required argument."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce, Concat, TruncDate

from events.access import Scope
from fleet.queries import site
from jobs.models import AccountPlace, Attempt, Grant, Job, Project, ProjectPlace


def jobs(scope: Scope) -> QuerySet[Job]:
    """Jobs with `project`: where their account belonged on the day they started (or were submitted)."""
    return _placed(Job.objects.all(), Coalesce(F("start"), F("submit")), scope).order_by("-submit", "id")


def attempts(scope: Scope) -> QuerySet[Attempt]:
    """Attempts with `project`: where their account belonged on the day they started."""
    return _placed(Attempt.objects.all(), F("start"), scope).order_by("-start", "id")


def _placed(rows: QuerySet[Any], when: Any, scope: Scope) -> QuerySet[Any]:
    rows = rows.annotate(site_day=TruncDate(when, tzinfo=site().zone))
    place = AccountPlace.objects.filter(
        cluster=OuterRef("cluster"),
        account=OuterRef("account"),
        from_day__lte=OuterRef("site_day"),
        to_day__gt=OuterRef("site_day"),
    )
    unmapped = Concat(Value("unmapped/"), F("account"), output_field=TextField())
    rows = rows.annotate(project=Coalesce(Subquery(place.values("project")[:1]), unmapped))
    if scope.projects is None:
        return rows
    return rows.filter(_inside(scope))


def _inside(scope: Scope) -> Q:
    """Rows whose project on their day is one of the scope's or hangs below one."""
    places = ProjectPlace.objects.filter(
        project=OuterRef("project"),
        from_day__lte=OuterRef("site_day"),
        to_day__gt=OuterRef("site_day"),
        path__overlap=sorted(scope.projects or ()),
    )
    return Q(Exists(places)) | Q(project__in=sorted(scope.projects or ()))


def projects(scope: Scope) -> QuerySet[Project]:
    """Projects, teams and organisations: those of the scope and what hangs below them now or ever hung there."""
    rows = Project.objects.order_by("code")
    if scope.projects is None:
        return rows
    wanted = sorted(scope.projects)
    below = ProjectPlace.objects.filter(path__overlap=wanted).values("project")
    return rows.filter(Q(code__in=wanted) | Q(code__in=below))


def accounts(scope: Scope) -> QuerySet[AccountPlace]:
    """The dated mapping of schedulers' accounts to projects."""
    rows = AccountPlace.objects.order_by("cluster", "account", "from_day")
    return rows if scope.projects is None else rows.filter(project__in=projects(scope).values("code"))


def unmapped_accounts(scope: Scope) -> list[tuple[str, str]]:
    """(cluster, account) of every account that was used on a day on which it belonged to no project."""
    if scope.projects is not None:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT DISTINCT cluster, account FROM jobs_usageday WHERE project = 'unmapped/' || account
               ORDER BY 1, 2"""
        )
        return [(str(cluster), str(account)) for cluster, account in cursor.fetchall()]


def span(scope: Scope) -> tuple[datetime, datetime] | None:
    """First start and last end (now, where one still runs) of the attempts in scope; None without any."""
    rows = attempts(scope)
    first = rows.order_by("start", "id").values_list("start", flat=True).first()
    if first is None:
        return None
    if rows.filter(end=None).order_by().exists():
        return first, datetime.now(UTC)
    last = rows.exclude(end=None).order_by("-end", "id").values_list("end", flat=True).first()
    return first, last or datetime.now(UTC)


def granted_projects(user: AbstractBaseUser | AnonymousUser) -> frozenset[str]:
    """Codes of the projects that a user was granted."""
    return frozenset(Grant.objects.filter(user_id=user.pk or 0).values_list("project", flat=True))


def scope_of(user: Any) -> Scope:
    """What a logged-in person may see: staff and superusers everything, others the projects granted to them."""
    if not user.is_authenticated:
        return Scope.only(frozenset(), money=False)
    if user.is_superuser or user.is_staff:
        return Scope.everything()
    return Scope.only(granted_projects(user))
