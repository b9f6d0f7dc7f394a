"""What every list and detail of the read API does the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import Http404, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from api.pagination import in_order
from api.permissions import scope_of
from api.renderers import FORMS, XlsxRenderer
from api.schema import BookSchema
from api.scopes import READ
from api.serializers.base import RowSerializer
from api.tables import XLSX_MOST, csv_chunks, file_chunks, xlsx_file
from events import queries as log
from events.access import Scope
from fleet.queries import site

__all__ = ["DetailView", "ListView", "RowsView"]

CHUNK = 1000
PAGE_PARAMETERS = ("limit", "cursor", "ordering", "fields", "format")
FIELDS = OpenApiParameter("fields", str, description="Only these fields, separated by commas.")
FORMAT = OpenApiParameter("format", str, enum=["json", "csv", "xlsx"], description="Form; csv and xlsx give all rows.")


class RowsView(GenericAPIView[Any]):
    """Rows of one kind that a scope may see. Subclasses say which, and how names are put in."""

    schema = BookSchema()

    needs: ClassVar[str] = READ
    key: ClassVar[tuple[str, ...]] = ("id",)
    orderings: ClassVar[Sequence[str]] = ()
    default_ordering: ClassVar[str] = ""
    serializer_class: type[RowSerializer]
    people: ClassVar[Sequence[str]] = ()
    texts: ClassVar[Sequence[str]] = ()

    @cached_property
    def cut(self) -> datetime:
        """The instant until which running things are counted in this answer."""
        return datetime.now(UTC)

    def rows(self, scope: Scope) -> QuerySet[Any]:
        """The rows that the scope may see."""
        raise NotImplementedError

    def get_queryset(self) -> QuerySet[Any]:
        """The rows of this request's caller."""
        scope = Scope.everything() if getattr(self, "swagger_fake_view", False) else scope_of(self.request)
        return self.rows(scope)

    def shown(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """Rows as they are answered: with names of people and texts, and only the asked fields."""
        for fields, find in ((self.people, log.people), (self.texts, log.texts)):
            _put_in(rows, fields, find)
        return list(self.serializer_class(rows, many=True, context={"fields": self.fields()}).data)

    def fields(self) -> list[str]:
        """The fields asked for, all by default. Raises ValidationError."""
        known = list(self.serializer_class().fields)
        asked = [part.strip() for part in self.request.query_params.get("fields", "").split(",") if part.strip()]
        if unknown := sorted(set(asked) - set(known)):
            raise exceptions.ValidationError(
                {"fields": f"{', '.join(unknown)[:200]}: no such field; there are {', '.join(known)}"}
            )
        return [name for name in known if name in asked] if asked else known


def _put_in(rows: Sequence[Any], fields: Sequence[str], find: Callable[[Any], dict[str, str]]) -> None:
    if not fields:
        return
    names = find({getattr(row, field) for row in rows for field in fields})
    for row in rows:
        for field in fields:
            value = getattr(row, field)
            setattr(row, field, names.get(value, value))


class ListView(RowsView):
    """A list: filters, order, cursor pages, CSV and XLSX."""

    filterset_class: ClassVar[Any] = None

    renderer_classes = FORMS

    @extend_schema(parameters=[FIELDS, FORMAT])
    def get(self, request: Request, **_: Any) -> Response | HttpResponseBase:
        """One page, or all rows as CSV or XLSX."""
        self._check_parameters(request)
        with timezone.override(site().zone):  # days in filters are the site's
            rows = self.filter_queryset(self.get_queryset())
        form = request.accepted_renderer.format
        if form in ("csv", "xlsx"):
            return self._exported(rows, form)
        self.fields()
        response = self.get_paginated_response(self.shown(self.paginate_queryset(rows) or []))
        as_of = log.as_of(self.cut)
        response.data["as_of"] = {"position": as_of.position, "time": as_of.time}
        return response

    def _check_parameters(self, request: Request) -> None:
        """A misspelt filter must not look like an answer."""
        filters = getattr(self.filterset_class, "base_filters", {}) if self.filterset_class else {}
        known = [*filters, *PAGE_PARAMETERS]
        if unknown := sorted(set(request.query_params) - set(known)):
            raise exceptions.ValidationError(
                {name[:80]: f"no such parameter; there are {', '.join(known)}" for name in unknown}
            )

    def _exported(self, rows: QuerySet[Any], form: str) -> HttpResponseBase:
        rows = in_order(rows, self, self.request)
        name, columns = type(self).__name__.lower(), self.fields()
        cells = self._cells(rows, columns)
        if form == "csv":
            response: HttpResponseBase = StreamingHttpResponse(
                csv_chunks(columns, cells), content_type="text/csv; charset=utf-8"
            )
        else:
            if rows[XLSX_MOST : XLSX_MOST + 1].exists():
                raise exceptions.ValidationError({"format": f"more than {XLSX_MOST} rows; ask for csv or filter"})
            response = StreamingHttpResponse(
                file_chunks(xlsx_file(name, columns, cells)), content_type=XlsxRenderer.media_type
            )
        response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
        return response

    def _cells(self, rows: QuerySet[Any], columns: Sequence[str]) -> Iterator[list[Any]]:
        found = rows.iterator(chunk_size=CHUNK)
        while chunk := list(islice(found, CHUNK)):
            for row in self.shown(chunk):
                yield [row[column] for column in columns]


class DetailView(RowsView):
    """One row by its key in the address."""

    lookup: ClassVar[dict[str, str]] = {}
    """Name in the address -> field."""

    def row(self) -> Any:
        """The row that the address names. Raises Http404, also for what the caller may not see."""
        if any("\0" in str(value) for value in self.kwargs.values()):
            raise Http404
        found = self.get_queryset().filter(**{field: self.kwargs[name] for name, field in self.lookup.items()})
        row = found.first()
        if row is None:
            raise Http404
        return row

    @extend_schema(parameters=[FIELDS], filters=False)
    def get(self, _: Request, **__: Any) -> Response | HttpResponseBase:
        """The row."""
        return Response(self.shown([self.row()])[0])
