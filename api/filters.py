"""What lists of this door can be filtered by; filters that pages use as well stand beside their queries."""

from __future__ import annotations

import django_filters as filters

from events.filters import DeliveryFilter, EventFilter, RejectionFilter, Words, YesNo
from jobs.filters import AccountFilter, AttemptFilter, JobFilter, ProjectFilter, RunFilter

__all__ = ["AccountFilter", "AttemptFilter", "ClusterFilter", "DeliveryFilter", "EventFilter", "JobFilter",
           "ProjectFilter", "RejectionFilter", "RunFilter", "TokenFilter"]  # fmt: skip


class ClusterFilter(filters.FilterSet):
    """Clusters."""

    scheduler = Words(lookup_expr="in")


class TokenFilter(filters.FilterSet):
    """Tokens."""

    revoked = YesNo(field_name="revoked_at", lookup_expr="isnull", exclude=True)
