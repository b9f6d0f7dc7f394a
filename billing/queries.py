"""Reading prices and what they make of use."""

from __future__ import annotations

from django.db.models import QuerySet

from billing.models import Price
from billing.runs import Priced, RunCost, cost_of_job, cost_of_run
from events.access import Scope

__all__ = ["Priced", "RunCost", "cost_of_job", "cost_of_run", "prices"]


def prices(scope: Scope) -> QuerySet[Price]:
    """Dated prices of resource classes; nothing for a caller who may not see money."""
    rows = Price.objects.order_by("resource_class", "from_day")
    return rows if scope.money else rows.none()
