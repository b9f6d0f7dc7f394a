"""Pages of long lists by key: a page costs the same at the start and at the end of a list.

A cursor holds the sort values of the row it stands at. Rows without an instant (not started, not ended yet) sort
as later than every instant, as the database's indexes have it; rows without another value come last in both
directions. Counts are exact up to COUNT_EXACT, above that the planner's estimate.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import DateTimeField, F, Model, Q, QuerySet

__all__ = ["COUNT_EXACT", "BadPage", "Order", "Slice", "count_of", "count_upto", "in_order", "orders_of", "take"]

COUNT_EXACT: Final = 10_000


class BadPage(ValueError):
    """A sort column or a cursor that this list does not have: the parameter, and what to do."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name, self.text = name, text


class Order(NamedTuple):
    """One sort column. `nullable`: it is empty in some rows; `last`: those come last in both directions."""

    field: str
    descending: bool
    nullable: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of one page, and the cursors of its neighbours (None: there is none)."""

    rows: Sequence[Any]
    next: str | None
    previous: str | None


def orders_of(model: type[Model], asked: str, offered: Sequence[str], key: Sequence[str]) -> list[Order]:
    """The sort columns for `asked` (`-` for descending), made unique by `key`. Raises BadPage."""
    field = asked.removeprefix("-")
    if field not in offered:
        raise BadPage("ordering", f"{field[:80]!r} is not a sort column; there are {', '.join(offered)}")
    rest = [] if tuple(key) == (field,) else [name for name in key if name != field]
    return [_order(model, name, descending=asked.startswith("-")) for name in (field, *rest)]


def _order(model: type[Model], name: str, *, descending: bool) -> Order:
    try:
        column: Any = model._meta.get_field(name)
    except FieldDoesNotExist:
        return Order(name, descending, nullable=True, last=True)  # an annotation
    nullable = bool(getattr(column, "null", False))
    last = not isinstance(column, DateTimeField) or not descending
    return Order(name, descending, nullable, last)


def in_order(rows: QuerySet[Any], orders: Sequence[Order], *, backwards: bool = False) -> QuerySet[Any]:
    """All rows in that order, or in the opposite one."""
    return rows.order_by(*[_expression(order, backwards) for order in orders])


def take(rows: QuerySet[Any], orders: Sequence[Order], limit: int, cursor: str = "") -> Slice:
    """One page of at most `limit` rows after (or before) the cursor. Raises BadPage."""
    backwards, values = _read(cursor, len(orders))
    found = in_order(rows, orders, backwards=backwards)
    if values is not None:
        found = found.filter(_beyond(rows.model, orders, values, backwards))
    seen = list(found[: limit + 1])
    more, page = len(seen) > limit, seen[:limit]
    if backwards:
        page.reverse()
    following = page and (more or backwards)
    before = page and (more if backwards else values is not None)
    return Slice(
        page,
        _write(orders, page[-1], False) if following else None,
        _write(orders, page[0], True) if before else None,
    )


def count_upto(rows: QuerySet[Any]) -> tuple[int, bool]:
    """How many rows, and whether that is all of them: counting stops at COUNT_EXACT."""
    found = rows.order_by().values("pk")[: COUNT_EXACT + 1].count()  # without what is only shown
    return min(found, COUNT_EXACT), found <= COUNT_EXACT


def count_of(rows: QuerySet[Any]) -> tuple[int, bool]:
    """How many rows, and whether that is exact; above COUNT_EXACT the planner's estimate."""
    found, exact = count_upto(rows)
    if exact:
        return found, True
    plan = json.loads(rows.order_by().values("pk").explain(format="json"))
    return max(int(plan[0]["Plan"]["Plan Rows"]), found + 1), False


def _read(text: str, number: int) -> tuple[bool, list[str | None] | None]:
    """Direction and sort values of a cursor."""
    if not text:
        return False, None
    try:
        found = json.loads(base64.urlsafe_b64decode(text.encode()))
        backwards, values = bool(found["b"]), list(found["v"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _bad_cursor() from None
    if len(values) != number or any(not isinstance(value, str | None) for value in values):
        raise _bad_cursor()
    return backwards, values


def _write(orders: Sequence[Order], row: Any, backwards: bool) -> str:
    values = [None if (value := getattr(row, order.field)) is None else _text(value) for order in orders]
    return base64.urlsafe_b64encode(json.dumps({"b": int(backwards), "v": values}).encode()).decode()


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _expression(order: Order, backwards: bool) -> Any:
    descending, column = order.descending != backwards, F(order.field)
    if not order.nullable:
        return column.desc() if descending else column.asc()
    last = order.last != backwards
    nulls: dict[str, bool] = {"nulls_last": True} if last else {"nulls_first": True}
    return column.desc(**nulls) if descending else column.asc(**nulls)


def _beyond(model: type[Model], orders: Sequence[Order], values: Sequence[str | None], backwards: bool) -> Q:
    """Rows after (backwards: before) the cursor's row in the sort order."""
    parsed = [_parsed(model, order.field, value) for order, value in zip(orders, values, strict=True)]
    beyond, equal = Q(), Q()
    for order, value in zip(orders, parsed, strict=True):
        beyond |= equal & _past(order, value, backwards)
        equal &= Q(**{f"{order.field}__isnull": True}) if value is None else Q(**{order.field: value})
    return beyond


def _past(order: Order, value: Any, backwards: bool) -> Q:
    """Rows whose value of one column lies past the cursor's."""
    empty, empty_ahead = Q(**{f"{order.field}__isnull": True}), order.last != backwards
    if value is None:
        return Q(pk__in=[]) if empty_ahead else ~empty
    after = "lt" if order.descending != backwards else "gt"
    past = Q(**{f"{order.field}__{after}": value})
    return past | empty if order.nullable and empty_ahead else past


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


def _bad_cursor() -> BadPage:
    return BadPage("cursor", "not a cursor of this list; start again without one")
