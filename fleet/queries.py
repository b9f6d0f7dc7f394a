"""Reading what we own."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from events.access import Scope
from fleet.models import Cluster
from fleet.models import Site as SiteRow


@dataclass(frozen=True, slots=True)
class Site:
    """The site of this instance. Before it is declared: no name, UTC, EUR."""

    name: str
    timezone: str
    currency: str
    declared: bool = True

    @property
    def zone(self) -> ZoneInfo:
        """The time zone that decides when the site's days start."""
        return ZoneInfo(self.timezone)


def site() -> Site:
    """The site as last declared."""
    row = SiteRow.objects.first()
    return Site(row.name, row.timezone, row.currency) if row else Site("", "UTC", "EUR", declared=False)


def clusters(_scope: Scope) -> QuerySet[Cluster]:
    """Every cluster; their names are no secret to any caller."""
    return Cluster.objects.order_by("name")
