"""What lists can be filtered by. Times are RFC 3339; `..._from` is inclusive, `..._to` exclusive."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from rest_framework.exceptions import ValidationError

from events import queries as log

__all__ = ["AccountFilter", "AttemptFilter", "ClusterFilter", "DeliveryFilter", "EventFilter", "JobFilter",
           "ProjectFilter", "RejectionFilter", "TokenFilter"]  # fmt: skip


class Words(filters.BaseInFilter, filters.CharFilter):
    """One of several words, separated by commas."""


class Instant(filters.IsoDateTimeFilter):
    """A time; given to the database in UTC, since it knows no offsets beyond 16 hours."""

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        """Raises ValidationError where the instant lies outside the years 1 to 9999."""
        try:
            value = value.astimezone(UTC) if isinstance(value, datetime) else value
        except OverflowError:
            raise ValidationError({self.extra.get("label") or self.field_name: "out of range"}) from None
        found: QuerySet[Any] = super().filter(qs, value)
        return found


def _from(field: str) -> Instant:
    return Instant(field_name=field, lookup_expr="gte")


def _to(field: str) -> Instant:
    return Instant(field_name=field, lookup_expr="lt")


class EventFilter(filters.FilterSet):
    """Events: what, about what, by whom, where in the log and when."""

    type = Words(lookup_expr="in")
    stream = filters.CharFilter()
    source = filters.CharFilter()
    actor = filters.CharFilter()
    delivery = filters.UUIDFilter()
    after = filters.NumberFilter(field_name="position", lookup_expr="gt")
    upto = filters.NumberFilter(field_name="position", lookup_expr="lte")
    occurred_from = _from("occurred_at")
    occurred_to = _to("occurred_at")


class RejectionFilter(filters.FilterSet):
    """Rejections."""

    state = Words(lookup_expr="in")
    code = Words(lookup_expr="in")
    source = filters.CharFilter()
    delivery = filters.UUIDFilter()
    recorded_from = _from("recorded_at")
    recorded_to = _to("recorded_at")


class DeliveryFilter(filters.FilterSet):
    """Deliveries."""

    state = Words(lookup_expr="in")
    kind = Words(lookup_expr="in")
    source = filters.CharFilter()
    actor = filters.CharFilter()
    received_from = _from("received_at")
    received_to = _to("received_at")


class _Ran(filters.FilterSet):
    """What jobs and attempts share."""

    cluster = Words(lookup_expr="in")
    job_id = filters.CharFilter()
    account = Words(lookup_expr="in")
    project = Words(lookup_expr="in")
    partition = Words(lookup_expr="in")
    state = Words(lookup_expr="in")
    user = filters.CharFilter(method="of_user", label="Name or id of the person.")
    submit_from = _from("submit")
    submit_to = _to("submit")
    start_from = _from("start")
    start_to = _to("start")
    end_from = _from("end")
    end_to = _to("end")

    def of_user(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Rows of a person by surrogate id or by name."""
        return rows.filter(Q(user=value) | Q(user__in=log.ids_of_person(value)))


class JobFilter(_Ran):
    """Jobs."""

    array_job_id = filters.CharFilter()


class AttemptFilter(_Ran):
    """Attempts."""

    job = filters.UUIDFilter()
    running = filters.BooleanFilter(field_name="end", lookup_expr="isnull")
    disagree = filters.BooleanFilter()


class ProjectFilter(filters.FilterSet):
    """Projects."""

    kind = Words(lookup_expr="in")
    parent = filters.CharFilter()


class AccountFilter(filters.FilterSet):
    """Accounts and where they belonged."""

    cluster = Words(lookup_expr="in")
    account = Words(lookup_expr="in")
    project = Words(lookup_expr="in")


class ClusterFilter(filters.FilterSet):
    """Clusters."""

    scheduler = Words(lookup_expr="in")


class TokenFilter(filters.FilterSet):
    """Tokens."""

    revoked = filters.BooleanFilter(field_name="revoked_at", lookup_expr="isnull", exclude=True)
