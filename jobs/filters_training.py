"""What lists of instrumented attempts, of their saves and of measured speeds can be filtered by."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import F, QuerySet

from events import queries as log
from events.filters import Words, YesNo, since, until
from jobs.places import inside

__all__ = ["CheckpointFilter", "GoodputFilter", "ScalingRecordFilter"]


class _Told(filters.FilterSet):
    """What both share."""

    project = Words(method="of_project", label="Project, with what hung below it on the day of the start.")
    user = filters.CharFilter(method="of_user", label="Name or id of the person.")
    account = Words(lookup_expr="in")
    cluster = Words(lookup_expr="in")
    job_id = filters.CharFilter()
    run = filters.UUIDFilter()
    attempt = filters.UUIDFilter()
    start_from = since("start")
    start_to = until("start")

    def of_user(self, rows: QuerySet[Any], _: str, value: str) -> QuerySet[Any]:
        """Rows of a person by surrogate id or by name."""
        return rows.filter(user__in=[value, *log.ids_of_person(value)])

    def of_project(self, rows: QuerySet[Any], _: str, value: list[str]) -> QuerySet[Any]:
        """Rows of projects and of what hung below them."""
        return inside(rows, F("start"), value)


class GoodputFilter(_Told):
    """Instrumented attempts."""

    partition = Words(lookup_expr="in")
    running = YesNo(field_name="end", lookup_expr="isnull")
    work_lost = YesNo()
    end_from = since("end")
    end_to = until("end")


class CheckpointFilter(_Told):
    """Saves and restores."""

    kind = Words(lookup_expr="in")
    state_from = since("state")
    state_to = until("state")


class ScalingRecordFilter(filters.FilterSet):
    """Records of measured speed."""

    cluster = Words(lookup_expr="in")
    model = Words(lookup_expr="in")
    kind = Words(lookup_expr="in")
    precision = Words(lookup_expr="in")
    gpus = filters.NumberFilter()
    counts = YesNo(field_name="replaced_by", lookup_expr="isnull", label="Whether no later record replaces it.")
    measured_from = since("measured")
    measured_to = until("measured")
