"""Cursor pages by key (events/paging.py) in the envelope of the read API."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils.http import urlencode
from rest_framework import exceptions
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from events import paging
from events.paging import COUNT_EXACT, BadPage, Order

__all__ = ["CursorPages", "in_order"]


class CursorPages(BasePagination):
    """Needs of the view: `key` (fields that are unique together), `orderings`, `default_ordering`."""

    page_size = 100
    most = 1000

    def paginate_queryset(  # type: ignore[override]
        self, queryset: QuerySet[Any], request: Request, view: Any = None
    ) -> list[Any]:
        """One page of rows. Raises ValidationError (400) for a bad limit, ordering or cursor."""
        self.request = request
        orders, limit = _orders(queryset, view, request), self._limit()
        try:
            page = paging.take(queryset, orders, limit, request.query_params.get("cursor", ""))
        except BadPage as bad:
            raise exceptions.ValidationError({bad.name: str(bad)}) from None
        self.count, self.exact = paging.count_of(queryset)
        self.next, self.previous = self._link(page.next), self._link(page.previous)
        return list(page.rows)

    def _limit(self) -> int:
        text = self.request.query_params.get("limit", str(self.page_size))
        if not (text.isdecimal() and text.isascii() and len(text) < 6 and 1 <= int(text) <= self.most):
            raise exceptions.ValidationError({"limit": f"{text[:20]!r} is not a whole number of 1 to {self.most}"})
        return int(text)

    def _link(self, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        asked = {name: self.request.query_params[name] for name in self.request.query_params}
        return str(self.request.build_absolute_uri(f"{self.request.path}?{urlencode({**asked, 'cursor': cursor})}"))

    def get_paginated_response(self, data: Any) -> Response:
        """The envelope of every list."""
        return Response(
            {
                "count": self.count,
                "count_exact": self.exact,
                "next": self.next,
                "previous": self.previous,
                "results": data,
            }
        )

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The envelope, for OpenAPI."""
        link = {"type": "string", "format": "uri", "nullable": True}
        return {
            "type": "object",
            "required": ["count", "count_exact", "next", "previous", "results", "as_of"],
            "properties": {
                "count": {"type": "integer"},
                "count_exact": {"type": "boolean", "description": f"False above {COUNT_EXACT}: an estimate."},
                "next": link,
                "previous": link,
                "results": schema,
                "as_of": {
                    "type": "object",
                    "required": ["position", "time"],
                    "properties": {
                        "position": {"type": "integer", "description": "The log up to here is in it."},
                        "time": {"type": "string", "format": "date-time"},
                    },
                },
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """The parameters of pages, for OpenAPI."""
        names = [name for field in view.orderings for name in (field, f"-{field}")]
        return [
            _parameter("limit", {"type": "integer", "minimum": 1, "maximum": self.most}, "Rows per page."),
            _parameter("cursor", {"type": "string"}, "Taken from `next` or `previous`."),
            _parameter("ordering", {"type": "string", "enum": names}, "Sort column; `-` for descending."),
        ]


def in_order(queryset: QuerySet[Any], view: Any, request: Request) -> QuerySet[Any]:
    """All rows in the order that is asked for. Raises ValidationError."""
    return paging.in_order(queryset, _orders(queryset, view, request))


def _orders(queryset: QuerySet[Any], view: Any, request: Request) -> list[Order]:
    asked = request.query_params.get("ordering", "") or view.default_ordering
    try:
        return paging.orders_of(queryset.model, asked, view.orderings, view.key)
    except BadPage as bad:
        raise exceptions.ValidationError({bad.name: str(bad)}) from None


def _parameter(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "required": False, "in": "query", "description": text, "schema": schema}
