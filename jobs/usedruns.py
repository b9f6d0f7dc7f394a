"""The runs that used the most of a report's window, and what all of them used: one pass, no row per run kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connection

from events import queries as log
from events.access import Scope
from events.reports import Params
from events.sqlfiles import statements
from fleet.queries import site
from jobs import windows

__all__ = ["UsedRun", "UsedRuns", "run_days", "used_runs"]

_BY_BUCKET: Final = """
    SELECT run, bucket, sum(seconds * gpus) FROM (
        SELECT c.*, coalesce(a.project, 'unmapped/' || c.account) AS project,
               coalesce(t.path, ARRAY[coalesce(a.project, 'unmapped/' || c.account)]) AS path
        FROM ({pieces}) c
        LEFT JOIN jobs_accountplace a ON a.cluster = c.cluster AND a.account = c.account
            AND c.day >= a.from_day AND c.day < a.to_day
        LEFT JOIN jobs_projectplace t ON t.project = a.project AND c.day >= t.from_day AND c.day < t.to_day
    ) f WHERE {condition} GROUP BY run, bucket"""


@dataclass(frozen=True, slots=True)
class UsedRun:
    """What one run used inside a window. gpus: the most it held at once there by one attempt."""

    id: UUID
    name: str
    user: str
    state: str
    gpus: int
    attempts: int
    gpu_seconds: int
    node_seconds: int


@dataclass(frozen=True, slots=True)
class UsedRuns:
    """The runs with the most GPU-seconds, and the sums over all runs of the window."""

    rows: Sequence[UsedRun]
    number: int = 0
    attempts: int = 0
    gpu_seconds: int = 0
    node_seconds: int = 0


def used_runs(scope: Scope, params: Params, most: int) -> UsedRuns:
    """The `most` runs of `params.project` that used the most GPU-seconds inside a window.

    The sums are those of the report `usage`. Stretches are met by the stays of accounts at the project instead of
    day by day: a window of a year costs what ran in it, and no more.
    """
    stays, sums = statements("jobs", "used_runs")
    within = "true" if scope.projects is None else "d.path && %(projects)s::text[]"
    arguments: dict[str, Any] = {
        "start": params.start, "end": params.end, "cut": min(params.cut_at, params.end), "project": params.project,
        "projects": sorted(scope.projects or ()), "zone": site().timezone, "most": most,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(sums.format(stays=stays.format(scope=within)), arguments)
        found = cursor.fetchall()
    if not found:
        return UsedRuns(())
    people = log.people(row[2] for row in found)
    rows = []
    for id_, name, user, state, *numbers in found:
        gpus, attempts, gpu_seconds, node_seconds = map(int, numbers[:4])
        rows.append(UsedRun(id_, name, people.get(user, user), state, gpus, attempts, gpu_seconds, node_seconds))
    return UsedRuns(rows, *map(int, found[0][8:]))


def run_days(scope: Scope, params: Params, runs: Collection[UUID]) -> dict[str, dict[str, int]]:
    """GPU-seconds of some runs by bucket: key of the run -> label of the bucket -> GPU-seconds."""
    window = windows.window(params, site().zone)
    pieces = windows.run_pieces(window, "x.run = ANY(%(runs)s)")
    arguments = {**window.arguments, "runs": list(runs)}
    condition = windows.scoped(scope, params, arguments)
    with connection.cursor() as cursor:
        cursor.execute(_BY_BUCKET.format(pieces=pieces, condition=condition), arguments)
        found = cursor.fetchall()
    values: dict[str, dict[str, int]] = {}
    for run, bucket, gpu_seconds in found:
        if gpu_seconds:
            values.setdefault(str(run), {})[window.labels[bucket]] = int(gpu_seconds)
    return values
