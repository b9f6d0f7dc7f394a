"""What waits now, why, and for whom."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from api.permissions import scope_of
from api.renderers import FORMS
from api.schema import BookSchema
from api.scopes import READ
from api.serializers.waiting import WaitingAnswer, WaitingRow
from api.tables import csv_chunks, file_chunks, xlsx_file
from events import queries as log
from events.reports import BadParameter
from jobs.queries_estimates import last_month
from jobs.queries_waiting import ORDERINGS, QUESTION, read_question, waiting_jobs
from jobs.waiting import CAUSES
from jobs.waiting_now import Waiting as Found

__all__ = ["Waiting"]

COLUMNS: Final = tuple(WaitingRow().fields)


class Waiting(APIView):
    """Every job that waits."""

    schema = BookSchema()
    needs = READ
    renderer_classes = FORMS

    @extend_schema(
        parameters=[
            OpenApiParameter("project", str, description="Only this project and what is below it."),
            OpenApiParameter("cause", str, enum=CAUSES),
            OpenApiParameter("cluster", str),
            OpenApiParameter("user", str, description="Name or id of the person."),
            OpenApiParameter("ordering", str, enum=ORDERINGS, description="The longest wait first by default."),
            OpenApiParameter("format", str, enum=["json", "csv", "xlsx"], description="A table holds the rows alone."),
        ],
        responses=WaitingAnswer,
    )
    def get(self, request: Request) -> HttpResponseBase:
        """What waits now in the caller's projects; what waits in others is counted."""
        known = (*QUESTION, "format")
        for unknown in sorted(set(request.query_params) - set(known)):
            raise BadParameter(unknown[:80], f"no such parameter; there are {', '.join(known)}")
        scope = scope_of(request)
        found = waiting_jobs(scope, read_question(request.query_params.dict()))
        form = request.accepted_renderer.format
        if form in ("csv", "xlsx"):
            return _table(found, form)
        as_of = log.as_of(found.cut)
        body = {
            "rows": found.rows, "totals": found.totals, "others": found.others, "partitions": found.partitions,
            "estimates": last_month(scope, found.cut), "as_of": {"position": as_of.position, "time": as_of.time},
        }  # fmt: skip
        return HttpResponse(msgspec.json.encode(body), content_type="application/json")


def _table(found: Found, form: str) -> HttpResponseBase:
    rows: list[dict[str, Any]] = [msgspec.to_builtins(row, builtin_types=(str,)) for row in found.rows]
    cells = [[row[column] for column in COLUMNS] for row in rows]
    if form == "csv":
        response = StreamingHttpResponse(csv_chunks(COLUMNS, cells), content_type="text/csv; charset=utf-8")
    else:
        book = xlsx_file("waiting", COLUMNS, cells)
        response = StreamingHttpResponse(file_chunks(book), content_type=FORMS[2].media_type)
    response["Content-Disposition"] = f'attachment; filename="waiting.{form}"'
    return response
