"""Reading what a fault did to runs: which attempts were on its nodes when it opened, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from events.access import Scope
from events.adapters.hostlist import expand
from events.adapters.sacct_values import Bad
from fleet.models import Fault
from jobs.queries import attempts, runs
from jobs.queries_interruptions import of_run

__all__ = ["AFTER", "Hurt", "hurt_by"]

AFTER: Final = timedelta(minutes=5)
"""An attempt that ended so soon after a fault opened on its node may have ended by it."""
MOST_RUNS: Final = 20
"""Runs whose losses are added up."""


@dataclass(frozen=True, slots=True)
class Hurt:
    """An attempt that was on a node of a fault. ended: it ended within AFTER of the opening.

    lost_gpu_seconds: what its end cost the run; None where no program told, or where its end cost nothing known.
    """

    attempt: Any
    ended: bool
    lost_gpu_seconds: int | None


def hurt_by(scope: Scope, fault: Fault) -> list[Hurt]:
    """Attempts that the caller may see, on the fault's nodes when it opened or within AFTER; those that ended first.

    Cost: the attempts of its cluster at that time, whose node lists are expanded, and the losses of MOST_RUNS runs.
    """
    if not fault.nodes:
        return []
    late = fault.opened + AFTER
    rows = attempts(scope).filter(cluster=fault.cluster, start__lte=late).exclude(node_list="")
    rows = rows.filter(Q(end=None) | Q(end__gte=fault.opened))
    nodes = frozenset(fault.nodes)
    here = [row for row in rows if not nodes.isdisjoint(_nodes(row.node_list))]
    ended = {row.id for row in here if row.end is not None and row.end <= late}
    lost = _lost(scope, [row for row in here if row.id in ended])
    found = [Hurt(row, row.id in ended, lost.get(row.id)) for row in here]
    return sorted(found, key=lambda one: (not one.ended, one.attempt.start, one.attempt.id))


def _nodes(text: str) -> frozenset[str]:
    try:
        return frozenset(expand(text))
    except Bad:
        return frozenset()


def _lost(scope: Scope, ended: Sequence[Any]) -> dict[UUID, int]:
    """Attempt -> GPU-seconds that its end cost, of those whose programs told."""
    found: dict[UUID, int] = {}
    wanted = {row.id for row in ended}
    for run in runs(scope).filter(id__in={row.run for row in ended})[:MOST_RUNS]:
        told = of_run(run)
        for row in told.rows if told else ():
            if row["attempt"] in wanted and row["lost_gpu_seconds"] is not None:
                found[row["attempt"]] = row["lost_gpu_seconds"]
    return found
