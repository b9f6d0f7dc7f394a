"""Cursor pages by key: a page costs the same at the start and at the end of a long list.

A cursor holds the sort values of the row it stands at. Lists may be sorted by columns that are empty in some
rows; those come last. Counts are exact up to COUNT_EXACT, above that the planner's estimate.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import F, Model, Q, QuerySet
from django.utils.http import urlencode
from rest_framework import exceptions
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

__all__ = ["COUNT_EXACT", "CursorPages", "count_of", "in_order"]

COUNT_EXACT: Final = 10_000


class Order(NamedTuple):
    """One sort column. `nullable`: it is empty in some rows."""

    field: str
    descending: bool
    nullable: bool


class CursorPages(BasePagination):
    """Needs of the view: `key` (fields that are unique together), `orderings`, `default_ordering`."""

    page_size = 100
    most = 1000

    def paginate_queryset(  # type: ignore[override]
        self, queryset: QuerySet[Any], request: Request, view: Any = None
    ) -> list[Any]:
        """One page of rows. Raises ValidationError (400) for a bad limit, ordering or cursor."""
        self.request = request
        self.orders = _orders(queryset, view, request.query_params.get("ordering", ""))
        limit, backwards, values = self._limit(), *self._cursor()
        self.count, self.exact = count_of(queryset)
        rows = queryset.order_by(*[_expression(order, backwards) for order in self.orders])
        if values is not None:
            rows = rows.filter(_beyond(queryset, self.orders, values, backwards))
        found = list(rows[: limit + 1])
        more, page = len(found) > limit, found[:limit]
        if backwards:
            page.reverse()
        self.next = self._link(page[-1:], False) if page and (more or backwards) else None
        self.previous = self._link(page[:1], True) if page and (more if backwards else values is not None) else None
        return page

    def _limit(self) -> int:
        text = self.request.query_params.get("limit", str(self.page_size))
        if not (text.isdecimal() and text.isascii() and len(text) < 6 and 1 <= int(text) <= self.most):
            raise exceptions.ValidationError({"limit": f"{text[:20]!r} is not a whole number of 1 to {self.most}"})
        return int(text)

    def _cursor(self) -> tuple[bool, list[str | None] | None]:
        text = self.request.query_params.get("cursor", "")
        if not text:
            return False, None
        try:
            found = json.loads(base64.urlsafe_b64decode(text.encode()))
            backwards, values = bool(found["b"]), list(found["v"])
        except (ValueError, KeyError, TypeError):
            raise _bad_cursor() from None
        if len(values) != len(self.orders) or any(not isinstance(value, str | None) for value in values):
            raise _bad_cursor()
        return backwards, values

    def _link(self, at: list[Any], backwards: bool) -> str:
        values = [None if (value := getattr(at[0], order.field)) is None else _text(value) for order in self.orders]
        cursor = base64.urlsafe_b64encode(json.dumps({"b": int(backwards), "v": values}).encode()).decode()
        query = {
            **{name: self.request.query_params[name] for name in self.request.query_params},
            "cursor": cursor,
        }
        return str(self.request.build_absolute_uri(f"{self.request.path}?{urlencode(query)}"))

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


def count_of(queryset: QuerySet[Any]) -> tuple[int, bool]:
    """How many rows, and whether that is exact."""
    found = queryset.order_by()[: COUNT_EXACT + 1].count()
    if found <= COUNT_EXACT:
        return found, True
    plan = json.loads(queryset.order_by().explain(format="json"))
    return max(int(plan[0]["Plan"]["Plan Rows"]), found), False


def in_order(queryset: QuerySet[Any], view: Any, request: Request) -> QuerySet[Any]:
    """All rows in the order that is asked for. Raises ValidationError."""
    orders = _orders(queryset, view, request.query_params.get("ordering", ""))
    return queryset.order_by(*[_expression(order, backwards=False) for order in orders])


def _orders(queryset: QuerySet[Any], view: Any, asked: str) -> list[Order]:
    name = asked or view.default_ordering
    field = name.removeprefix("-")
    if field not in view.orderings:
        raise exceptions.ValidationError(
            {"ordering": f"{field[:80]!r} is not a sort column; there are {', '.join(view.orderings)}"}
        )
    descending = name.startswith("-")
    rest = [key for key in view.key if key != field]
    fields = [field] if view.key == (field,) else [field, *rest]
    return [Order(each, descending, _nullable(queryset.model, each)) for each in fields]


def _nullable(model: type[Model], name: str) -> bool:
    try:
        return bool(getattr(model._meta.get_field(name), "null", False))
    except FieldDoesNotExist:
        return True  # an annotation


def _expression(order: Order, backwards: bool) -> Any:
    descending = order.descending != backwards
    column = F(order.field)
    if not order.nullable:
        return column.desc() if descending else column.asc()
    nulls: dict[str, bool] = {"nulls_first": True} if backwards else {"nulls_last": True}
    return column.desc(**nulls) if descending else column.asc(**nulls)


def _beyond(queryset: QuerySet[Any], orders: list[Order], values: list[str | None], backwards: bool) -> Q:
    """Rows after (backwards: before) the cursor's row in the sort order."""
    parsed = [_parsed(queryset.model, order.field, value) for order, value in zip(orders, values, strict=True)]
    beyond, equal = Q(), Q()
    for order, value in zip(orders, parsed, strict=True):
        beyond |= equal & _past(order, value, backwards)
        equal &= Q(**{f"{order.field}__isnull": True}) if value is None else Q(**{order.field: value})
    return beyond


def _past(order: Order, value: Any, backwards: bool) -> Q:
    empty = Q(**{f"{order.field}__isnull": True})
    if value is None:
        return ~empty if backwards else Q(pk__in=[])
    after = "lt" if order.descending != backwards else "gt"
    past = Q(**{f"{order.field}__{after}": value})
    return past | empty if order.nullable and not backwards else past


def _parsed(model: type[Model], field: str, value: str | None) -> Any:
    if value is None:
        return None
    try:
        column: Any = model._meta.get_field(field)
        parsed = column.to_python(value)
        return parsed.astimezone(UTC) if isinstance(parsed, datetime) else parsed
    except FieldDoesNotExist:
        return value
    except (ValidationError, ValueError, OverflowError):
        raise _bad_cursor() from None


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _bad_cursor() -> exceptions.ValidationError:
    return exceptions.ValidationError({"cursor": "not a cursor of this list; start again without one"})


def _parameter(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "required": False, "in": "query", "description": text, "schema": schema}
