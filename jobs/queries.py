"""Reading what ran and who is charged. Scope (what the caller may see) is a required argument."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection
from django.db.models import F, Model, Q, QuerySet
from django.db.models.functions import Coalesce

from events.access import Scope
from events.answers import kept
from jobs.models import AccountPlace, Attempt, Grant, Job, Project, ProjectPlace, Run
from jobs.places import inside, with_project

PLACED: Final[dict[type[Model], Any]] = {
    Attempt: F("start"), Job: Coalesce(F("start"), F("submit")), Run: Coalesce(F("start"), F("submit")),
}  # fmt: skip
"""The instant whose day decides which project a row belongs to."""


def runs(scope: Scope) -> QuerySet[Run]:
    """Runs with `project`: where their account belonged on the day they started (or were submitted)."""
    return _placed(Run.objects.all(), PLACED[Run], scope).order_by("-submit", "id")


def jobs(scope: Scope) -> QuerySet[Job]:
    """Jobs with `project`: where their account belonged on the day they started (or were submitted)."""
    return _placed(Job.objects.all(), PLACED[Job], scope).order_by("-submit", "id")


def attempts(scope: Scope) -> QuerySet[Attempt]:
    """Attempts with `project`: where their account belonged on the day they started."""
    return _placed(Attempt.objects.all(), PLACED[Attempt], scope).order_by("-start", "id")


def in_projects(rows: QuerySet[Any], projects: Collection[str]) -> QuerySet[Any]:
    """Of runs, jobs or attempts (as above) those of some projects and of what hung below them on their day."""
    return inside(rows, PLACED[rows.model], projects)


def _placed(rows: QuerySet[Any], when: Any, scope: Scope) -> QuerySet[Any]:
    rows = with_project(rows, when)
    return rows if scope.projects is None else inside(rows, when, scope.projects)


def projects(scope: Scope) -> QuerySet[Project]:
    """Projects, teams and organisations: those of the scope and what hangs below them now or ever hung there."""
    rows = Project.objects.order_by("code")
    if scope.projects is None:
        return rows
    wanted = sorted(scope.projects)
    below = ProjectPlace.objects.filter(path__overlap=wanted).values("project")
    return rows.filter(Q(code__in=wanted) | Q(code__in=below))


@kept
def may_choose(scope: Scope, project: str) -> bool:
    """Whether there is a project, team or organisation of this code that the caller may see.

    `unmapped/<account>` is one as soon as something ran under the account.
    """
    account = project.removeprefix("unmapped/")
    if account == project:
        return projects(scope).filter(code=project).exists()
    inside = scope.projects is None or project in scope.projects
    return inside and Attempt.objects.filter(account=account).exists()


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
    return _granted(user.pk or 0)


@kept
def _granted(user_id: int) -> frozenset[str]:
    return frozenset(Grant.objects.filter(user_id=user_id).values_list("project", flat=True))


def scope_of(user: Any) -> Scope:
    """What a logged-in person may see: staff and superusers everything, others the projects granted to them."""
    if not user.is_authenticated:
        return Scope.only(frozenset(), money=False)
    if user.is_superuser or user.is_staff:
        return Scope.everything()
    return Scope.only(granted_projects(user))
