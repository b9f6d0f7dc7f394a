"""Finding jobs, runs, accounts and projects by what people type. Scope (what the caller may see) comes first.

Each look-up goes by an index or reads a bounded number of rows, so that a search costs the same in long books.
"""

from __future__ import annotations

import re
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Q

from events.access import Scope
from events.adapters.hostlist import expand
from jobs.models import AccountPlace, Attempt, Job, Project, Run
from jobs.queries import accounts, attempts, jobs, projects, runs

__all__ = ["accounts_like", "by_key", "jobs_numbered", "on_node", "projects_like", "runs_named", "uses_of"]

LATEST: Final = 2_000
"""Attempts whose nodes are looked through, the latest started first; and as many that run."""
_NUMBER: Final = re.compile(r"(\d{1,18})(?:_(\d{1,18}))?(?:\+(\d{1,9}))?(?:\.\w{1,40})?")
_NUMBERED: Final = re.compile(r"(.+) #(\d{1,9})")
_LETTERS: Final = re.compile(r"[^\d\[]*")
_CLUSTERS: Final = """
WITH RECURSIVE found AS (
    SELECT min(cluster) AS cluster FROM jobs_job
    UNION ALL SELECT (SELECT min(j.cluster) FROM jobs_job j WHERE j.cluster > f.cluster) FROM found f
    WHERE f.cluster IS NOT NULL)
SELECT cluster FROM found WHERE cluster IS NOT NULL"""


def jobs_numbered(scope: Scope, text: str, most: int) -> list[Job]:
    """Jobs of a number as Slurm prints it: raw (`412`), of an array (`412`, `412_4`), with or without a step."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return []
    number, task, _ = found.groups()
    with connection.cursor() as cursor:
        cursor.execute(_CLUSTERS)
        clusters = [row[0] for row in cursor.fetchall()]
    raw = Q(cluster__in=clusters, job_id=number)
    array = Q(array_job_id=number, array_task=task) if task else Q(array_job_id=number)
    ids: set[UUID] = set() if task else set(Job.objects.filter(raw).values_list("id", flat=True)[: most + 1])
    ids |= set(Job.objects.filter(array).values_list("id", flat=True)[: most + 1])
    return list(jobs(scope).filter(id__in=ids)[:most]) if ids else []


def runs_named(scope: Scope, text: str, most: int) -> list[Run]:
    """Runs whose name begins so, the exact one first (`big #2` too), then the latest."""
    if (numbered := _NUMBERED.fullmatch(text)) is not None:
        which = list(runs(scope).filter(named=True, name=numbered[1], generation=int(numbered[2]))[:most])
        if which:
            return which
    named = Run.objects.filter(named=True, name__gte=text, name__lt=text + "\U0010ffff", name__startswith=text)
    exact = Run.objects.filter(named=True, name=text)
    ids = {*exact.values_list("id", flat=True)[:500], *named.values_list("id", flat=True)[:500]}
    if not ids:
        return []
    return sorted(runs(scope).filter(id__in=ids)[: 5 * most], key=lambda run: run.name != text)[:most]


def by_key(scope: Scope, key: UUID) -> list[Any]:
    """The job, run or attempt that has this id in REST."""
    found: list[Any] = [*runs(scope).filter(id=key, named=True), *jobs(scope).filter(id=key)]
    return found or list(attempts(scope).filter(id=key))


def projects_like(scope: Scope, text: str, most: int) -> list[Project]:
    """Projects whose code or title holds the text, the exact code first."""
    found = projects(scope).filter(Q(code__icontains=text) | Q(title__icontains=text))[: 5 * most]
    return sorted(found, key=lambda one: one.code != text)[:most]


def accounts_like(scope: Scope, text: str, most: int) -> list[AccountPlace]:
    """Where accounts of a name that begins so belong, the latest place of each."""
    found: dict[tuple[str, str], AccountPlace] = {}
    for row in accounts(scope).filter(account__istartswith=text)[: 20 * most]:
        found[row.cluster, row.account] = row  # they come in order of days
    return sorted(found.values(), key=lambda one: (one.account != text, one.account))[:most]


def uses_of(scope: Scope, people: list[str]) -> set[str]:
    """Of some persons (surrogate ids) those of whom the caller may see any attempt."""
    if scope.projects is None:
        return set(people)
    return {person for person in people if attempts(scope).filter(user=person).order_by().exists()}


def on_node(scope: Scope, node: str, most: int) -> list[Attempt]:
    """Attempts on a node, running ones first: of all that run, and of the latest that started, LATEST of each."""
    rows = Attempt.objects.exclude(node_list="")
    looked = [*rows.filter(end=None).order_by("-start").values_list("id", "node_list")[:LATEST],
              *rows.order_by("-start", "-id").values_list("id", "node_list")[:LATEST]]  # fmt: skip
    ids = [id_ for id_, text in looked if _holds(text, node)]
    found = attempts(scope).filter(id__in=list(dict.fromkeys(ids))[: 5 * most])
    return sorted(found, key=lambda one: (one.end is not None, -one.start.timestamp()))[:most]


def _holds(text: str, node: str) -> bool:
    """Whether a list of nodes such as `gpu[001-004,7]` names one; most lists are told apart by their beginning."""
    if _LETTERS.match(node)[0] not in text:  # type: ignore[index]  # it matches also nothing
        return False
    try:
        return node in expand(text)
    except ValueError:
        return False
