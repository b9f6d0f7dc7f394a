"""Reading which runs are closed. For rows that the caller may see already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection

from jobs.models import Closing, Run

__all__ = ["LONG_DAYS", "Gap", "closed_runs", "first_gap"]

LONG_DAYS: Final = 30
"""After so many days without a job a name may have been taken again for something else."""
_GAP: Final = """
    SELECT quiet, submit FROM (
        SELECT submit, max(coalesce("end", 'infinity')) OVER (
            ORDER BY submit, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS quiet
        FROM jobs_job WHERE run = %s AND run_name <> '' AND submit IS NOT NULL) x
    WHERE quiet < 'infinity' AND submit - quiet > make_interval(days => %s) ORDER BY submit LIMIT 1"""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which no job of a run waited or ran: from the last end to the next submission."""

    start: datetime
    end: datetime


def closed_runs(runs: Sequence[Run]) -> dict[UUID, datetime]:
    """When runs were closed, by run; those that nobody closed are left out."""
    named = {(run.account, run.name, run.generation): run.id for run in runs if run.named}
    if not named:
        return {}
    accounts, names, _ = (set(values) for values in zip(*named, strict=True))
    rows = Closing.objects.filter(account__in=accounts, name__in=names)
    return {named[key]: row.closed for row in rows if (key := (row.account, row.name, row.generation)) in named}


def first_gap(run: Run) -> Gap | None:
    """The first time of more than LONG_DAYS in which a run had no job."""
    if run.jobs < 2 or (run.end and run.submit and run.end - run.submit <= timedelta(days=LONG_DAYS)):
        return None
    with connection.cursor() as cursor:
        cursor.execute(_GAP, [run.id, LONG_DAYS])
        row = cursor.fetchone()
    return Gap(*row) if row else None
