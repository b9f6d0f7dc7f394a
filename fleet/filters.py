"""What lists of nodes and holds can be filtered by, the same for pages and for REST."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import Q, QuerySet

from events.filters import Words, YesNo, since, until

__all__ = ["FaultFilter", "HoldFilter", "NodeFilter"]


class NodeFilter(filters.FilterSet):
    """Nodes."""

    cluster = Words(lookup_expr="in")
    name = filters.CharFilter(method="called", label="Part of its name.")
    state = Words(lookup_expr="in")
    gpu_model = Words(lookup_expr="in")
    partition = filters.CharFilter(field_name="partitions", lookup_expr="contains", method="in_partition")
    hall = Words(lookup_expr="in")
    pod = Words(lookup_expr="in")
    rack = Words(lookup_expr="in")
    leaf = Words(lookup_expr="in")
    held = YesNo(method="that_is_held", label="Takes no new work.")

    def called(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Nodes with a text in their name or serial number."""
        return rows.filter(Q(name__icontains=value) | Q(serial__iexact=value))

    def in_partition(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Nodes of a partition of their scheduler."""
        return rows.filter(partitions__contains=[value])

    def that_is_held(self, rows: QuerySet[Any], _: str, value: bool) -> QuerySet[Any]:
        """Nodes that take no new work, or those that do."""
        return rows.exclude(state="in_service") if value else rows.filter(state="in_service")


class HoldFilter(filters.FilterSet):
    """Holds."""

    cluster = Words(lookup_expr="in")
    node = Words(lookup_expr="in")
    owner = Words(lookup_expr="in")
    flag = Words(lookup_expr="in")
    open = YesNo(field_name="until", lookup_expr="isnull", label="It holds its node now.")
    since_from = since("since")
    since_to = until("since")


class FaultFilter(filters.FilterSet):
    """Faults."""

    cluster = Words(lookup_expr="in")
    node = filters.CharFilter(field_name="nodes", method="seen_by", label="A node that it was seen on.")
    unit = filters.CharFilter(field_name="units", method="seen_by", label="Another unit: CDU, PDU, switch.")
    kind = Words(lookup_expr="in", label="Class of the catalogue.")
    component = Words(lookup_expr="in")
    severity = Words(lookup_expr="in")
    xid = filters.NumberFilter()
    open = YesNo(field_name="closed", lookup_expr="isnull", label="It is not closed.")
    acknowledged = YesNo(field_name="acknowledged", lookup_expr="isnull", exclude=True, label="Looked after.")
    closed_as = Words(lookup_expr="in")
    opened_from = since("opened")
    opened_to = until("opened")

    def seen_by(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        """Faults that one node or unit took part in."""
        return rows.filter(**{f"{name}__contains": [value]})
