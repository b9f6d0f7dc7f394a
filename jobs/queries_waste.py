"""Reading what a run held in vain, by the rules of the report `waste`."""

from __future__ import annotations

from typing import Any, Final

from django.db import connection

from events.reports import Row
from jobs import report_waste
from jobs.models import Run
from jobs.waste import CAUSES, HEADS, UNSEEN

__all__ = ["CAUSES", "HEADS", "UNSEEN", "of_run"]

_SUMS: Final = "SELECT {sums} FROM (SELECT t.*, {wasted} AS wasted FROM ({judged}) t) AS f"


def of_run(run: Run) -> Row | None:
    """Sums over the ended attempts of a run that the caller may see; None where none ended.

    Seconds and attempts by cause, and the columns that the report `waste` makes its own of.
    """
    judged = report_waste.judged("x.run = %(run)s", limit="NULL::bigint")
    with connection.cursor() as cursor:
        cursor.execute(_SUMS.format(sums=report_waste.SUMS, wasted=report_waste.WASTED, judged=judged), {"run": run.id})
        values: tuple[Any, ...] = cursor.fetchone()
    found = {column.name: int(value or 0) for column, value in zip(report_waste.COMPUTED, values, strict=True)}
    return found if found["attempts_ended"] else None
