"""Reading prices."""

from __future__ import annotations

from django.db.models import QuerySet

from billing.models import Price
from events.access import Scope


def prices(scope: Scope) -> QuerySet[Price]:
    """Dated prices of resource classes; nothing for a caller who may not see money."""
    rows = Price.objects.order_by("resource_class", "from_day")
    return rows if scope.money else rows.none()
