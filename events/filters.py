"""What lists of the log can be filtered by, the same for pages and for REST.

Times are RFC 3339 or a day, which starts at midnight in the zone that is active (the site's); `..._from` is
inclusive, `..._to` exclusive.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import django_filters as filters
from django import forms
from django.db.models import QuerySet
from django_filters.fields import IsoDateTimeField
from django_filters.widgets import BooleanWidget

from events.queries import ids_of_person
from events.queries_log import names_any

__all__ = ["DeliveryFilter", "EventFilter", "Instant", "RejectionFilter", "Words", "YesNo", "since", "until"]

HOW_TO_WRITE: Final = "Write a day as 2026-11-30 or a time as 2026-11-30T10:00:00Z."


class Words(filters.BaseInFilter, filters.CharFilter):
    """One of several words, separated by commas."""


class YesNo(filters.BooleanFilter):
    """true or false."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("widget", BooleanWidget)
        super().__init__(*args, **kwargs)


class InstantField(IsoDateTimeField):
    """A day or a time, as UTC: the database knows no offsets beyond 16 hours."""

    default_error_messages = {"invalid": HOW_TO_WRITE}

    def to_python(self, value: Any) -> datetime | None:
        """Raises ValidationError, also where the instant lies outside the years 1 to 9999."""
        try:
            found = super().to_python(value)
            return found.astimezone(UTC) if isinstance(found, datetime) else found
        except OverflowError:
            raise forms.ValidationError("This time is out of range.") from None


class Instant(filters.IsoDateTimeFilter):
    """A time, or a day."""

    field_class = InstantField


def since(field: str) -> Instant:
    """From an instant on."""
    return Instant(field_name=field, lookup_expr="gte")


def until(field: str) -> Instant:
    """Before an instant."""
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
    occurred_from = since("occurred_at")
    occurred_to = until("occurred_at")
    stream_prefix = filters.CharFilter(method="of_streams", label="Beginning of the stream's name.")
    user = filters.CharFilter(method="of_user", label="Name or id of a person that the event names.")

    def of_streams(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Events of all streams whose name begins so."""
        return rows.filter(stream__gte=value, stream__lt=value + "\U0010ffff")

    def of_user(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Events whose data names a person, by surrogate id or by name."""
        return rows.filter(names_any({value, *ids_of_person(value)}))


class RejectionFilter(filters.FilterSet):
    """Rejections."""

    state = Words(lookup_expr="in")
    code = Words(lookup_expr="in")
    source = filters.CharFilter()
    delivery = filters.UUIDFilter()
    recorded_from = since("recorded_at")
    recorded_to = until("recorded_at")


class DeliveryFilter(filters.FilterSet):
    """Deliveries."""

    state = Words(lookup_expr="in")
    kind = Words(lookup_expr="in")
    source = filters.CharFilter()
    actor = filters.CharFilter()
    received_from = since("received_at")
    received_to = until("received_at")
