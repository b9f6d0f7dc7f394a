"""Reports: the same names, parameters and figures as `manage.py report`."""

from __future__ import annotations

from typing import Any

import msgspec
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.permissions import scope_of
from api.renderers import FORMS, XlsxRenderer
from api.reportforms import about, columns_of, envelope, with_total
from api.schema import BookSchema
from api.scopes import READ
from api.serializers.reports import ReportAnswer, ReportDefinition
from api.tables import csv_chunks, file_chunks, flat, xlsx_file
from events import reports
from events.access import Forbidden
from events.reports import BadParameter, Report
from fleet import queries as fleet

PARAMETERS = ("from", "to", "timezone", "group_by", "project", "as_known_at", "view", "format",
              "total")  # fmt: skip


class Reports(APIView):
    """Which reports there are."""

    schema = BookSchema()
    needs = READ

    @extend_schema(responses=ReportDefinition(many=True))
    def get(self, _: Request) -> Response:
        """Name, title, groupings, views, and whether it needs money:read."""
        return Response([_described(name) for name in reports.names()])


def _described(name: str) -> dict[str, Any]:
    found = reports.definition(name)
    return {
        "name": found.name,
        "title": found.title,
        "group_by": list(found.groupings),
        "default_group_by": list(found.default),
        "views": list(found.views),
        "money": found.money,
    }


class ReportView(APIView):
    """One report."""

    schema = BookSchema()
    needs = READ
    renderer_classes = FORMS

    @extend_schema(
        parameters=[
            OpenApiParameter("from", str, required=True, description="Date (midnight of the zone) or RFC 3339 time."),
            OpenApiParameter("to", str, required=True, description="As `from`; exclusive."),
            OpenApiParameter("timezone", str, description="Zone of calendar buckets and of dates; the site's."),
            OpenApiParameter("group_by", str, description="Groupings separated by commas."),
            OpenApiParameter("project", str, description="Only this project, team or organisation and what is below."),
            OpenApiParameter("as_known_at", str, description="As the log knew it at this position."),
            OpenApiParameter("view", str, enum=["cost", "loaded", "price"]),
            OpenApiParameter("format", str, enum=["json", "csv", "xlsx"]),
            OpenApiParameter("total", str, enum=["0", "1"], description="1: CSV ends with the total as one more row."),
        ],
        responses=ReportAnswer,
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        """Rows, total, what they stand on, and what is missing."""
        if name not in reports.names():
            raise Http404
        found = reports.run(name, scope_of(request), self._parameters(request, name))
        form = request.accepted_renderer.format
        if form == "json":
            return HttpResponse(msgspec.json.encode(envelope(found)), content_type="application/json")
        return _table(found, form, total=request.query_params.get("total") == "1")

    def _parameters(self, request: Request, name: str) -> reports.Params:
        asked = request.query_params
        for unknown in sorted(set(asked) - set(PARAMETERS)):
            raise BadParameter(unknown[:80], f"no such parameter; there are {', '.join(PARAMETERS)}")
        if asked.get("total", "0") not in ("0", "1"):
            raise BadParameter("total", "0 or 1: whether the total is one more row of a CSV file")
        if reports.definition(name).money and not scope_of(request).money:
            raise Forbidden(f"the report {name} needs a token with the scope money:read")
        return reports.parse(
            name,
            zone=fleet.site().zone,
            start=asked.get("from", ""),
            end=asked.get("to", ""),
            timezone=asked.get("timezone", ""),
            group_by=asked.get("group_by", ""),
            project=asked.get("project", ""),
            as_known_at=asked.get("as_known_at", ""),
            view=asked.get("view", ""),
        )


def _table(report: Report, form: str, *, total: bool) -> HttpResponseBase:
    """Rows as a file. CSV holds nothing but rows unless the total is asked for; a workbook says what it stands on."""
    rows = [flat(row) for row in report.rows]
    columns = columns_of(report, rows)
    cells = [[row.get(column) for column in columns] for row in rows]
    if total or form == "xlsx":
        cells = with_total(report, columns, cells)
    if form == "csv":
        content = csv_chunks(columns, cells)
        response: HttpResponseBase = StreamingHttpResponse(content, content_type="text/csv; charset=utf-8")
    else:
        book = xlsx_file(report.name, columns, cells, about(report))
        response = StreamingHttpResponse(file_chunks(book), content_type=XlsxRenderer.media_type)
    response["Content-Disposition"] = f'attachment; filename="{report.name}.{form}"'
    response["X-Hallbook-Position"] = str(report.as_of.position)
    response["X-Hallbook-Time"] = report.as_of.time.isoformat(timespec="seconds")
    return response
