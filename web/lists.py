"""Lists: one declaration gives a page with filters, sorting, pages, counts and exports.

A list is declared once, beside its page, and shown by `show`::

    EVENTS = List(
        name="log",                                   # name of the page's address, and of its section in the menu
        title="Event log",
        noun=("event", "events"),                     # for the count
        rows=log.events,                              # scope -> QuerySet; scope is what the caller may see
        filters=EventFilter,                          # the FilterSet that the REST list uses, so that links agree
        fields=(
            Field("type", "Type", options=lambda scope: [(name, name) for name in names]),
            Field("stream", "Stream", hint="job/pod-a/412"),
            Field("occurred_from", "From", kind="day"),
            Field("delivery", "Delivery", more=True),  # behind "More filters", open when it is used
        ),
        columns=(                                     # the first is the row's head and stays in sight on a phone
            Column("Position", lambda row, seen: number(thousands(row.position)), sort="position", css="n"),
            Column("Happened", lambda row, seen: seen.moment(row.occurred_at), sort="occurred_at"),
            Column("Actor", lambda row, seen: label(seen.person(row.actor))),
        ),
        order="-position",
        key=("position",),                            # fields that are unique together
        api="api-events",                             # name of the REST list: CSV, XLSX and API take the same filters
        empty=Empty("No event yet", "They come as soon as a source sends something."),
        views=(View("All", ""), View("Refused", "state=open")),   # one click; '' is the list without filters
        people=("actor",), texts=(),                  # fields whose ids are shown as names and texts
    )

    @login_required
    @never_cache
    @require_safe
    def events(request: HttpRequest) -> HttpResponse:
        return lists.show(request, EVENTS)

`show(request, declared, "web/other.html", extra={...})` draws another template, which may extend "web/list.html" and
fill its blocks `above` and `below`. Parameters are those of REST: the filters' names, `ordering`, `cursor`. Days
stand for midnights of the site. What cannot be used is said beside its field with status 400, and no row is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from events import queries as log
from events.access import Scope
from events.paging import BadPage, Order, Slice, count_upto, orders_of, take
from fleet.queries import Site, site
from jobs.queries import scope_of
from web import figures
from web.frame import frame
from web.state import one_state
from web.tables import Cell, Head, Link

__all__ = ["PAGE", "Column", "Empty", "Field", "List", "Seen", "View", "show"]

PAGE: Final = 50
"""Rows of a page."""
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
Options = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Seen:
    """What a cell may need besides its row: who looks, where, at what instant, and the names on this page."""

    scope: Scope
    site: Site
    cut: datetime
    names: Mapping[str, str] = field(default_factory=dict)
    bodies: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """What the list's `prepare` found."""

    def person(self, id_: str) -> str:
        """The name of a person, or the id where nobody has it."""
        return self.names.get(id_, id_)

    def text(self, id_: str) -> str:
        """A free text; '' where it was erased."""
        return self.bodies.get(id_, "") if id_ else ""

    def moment(self, when: datetime | None, unknown: str = figures.NO_DATA) -> Cell:
        """An instant in the site's zone, without its year when that is this year."""
        if when is None:
            return Cell(unknown, "w nodata")
        local, now = when.astimezone(self.site.zone), self.cut.astimezone(self.site.zone)
        text = f"{figures.day(local.date(), year=local.year != now.year)} {local:%H:%M:%S}"
        return Cell(text, "w", iso=when.astimezone(UTC).isoformat(timespec="seconds"))

    def minute(self, when: datetime | None, unknown: str = figures.NO_DATA) -> Cell:
        """The same without seconds, for columns in which they are noise; `<time>` still holds them."""
        cell = self.moment(when, unknown)
        return replace(cell, text=cell.text[: -len(":00")]) if when is not None else cell


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, what stands in a row, the field to sort by ('' if none). css: `n`, `w`, `viz`."""

    head: str
    cell: Callable[[Any, Seen], Cell]
    sort: str = ""
    css: str = ""
    down: bool = False
    """The first click sorts downwards, as people expect of times and sizes."""


@dataclass(frozen=True, slots=True)
class Field:
    """A filter as people see it. name: the FilterSet's. options: value and text of each choice."""

    name: str
    label: str
    kind: Literal["text", "day", "number", "yes"] = "text"
    options: Callable[[Scope], Options] | None = None
    hint: str = ""
    more: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A choice of filters one click away, as a query."""

    text: str
    query: str


@dataclass(frozen=True, slots=True)
class Empty:
    """What to say where there is no row at all, and what to do about it."""

    title: str
    text: str
    link: Link | None = None
    code: str = ""


@dataclass(frozen=True)
class List:
    """A list as declared; see the top of this file."""

    name: str
    title: str
    noun: tuple[str, str]
    rows: Callable[[Scope], QuerySet[Any]]
    filters: Any
    fields: Sequence[Field]
    columns: Sequence[Column]
    order: str
    api: str
    empty: Empty
    key: Sequence[str] = ("id",)
    views: Sequence[View] = ()
    people: Sequence[str] = ()
    texts: Sequence[str] = ()
    prepare: Callable[[Sequence[Any], Seen], Mapping[str, Any]] | None = None
    """Reads what the cells of a page need together, such as sums: rows, seen -> `seen.more`."""
    lead: str = ""
    """A sentence under the title."""
    section: str = ""
    """The section of the menu that it belongs to, where it has none of its own."""

    @cached_property
    def sorts(self) -> list[str]:
        """Fields that the list can be sorted by."""
        return [column.sort for column in self.columns if column.sort]


@dataclass(frozen=True, slots=True)
class Input:
    """One filter as the form draws it. error: what is wrong with its value."""

    name: str
    label: str
    type: str
    value: str
    options: Options | None
    hint: str
    error: str


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter in use, and the address without it."""

    label: str
    text: str
    href: str


@dataclass(frozen=True)
class Asked:
    """What a request asks of a list: the filters that are set and the order."""

    declared: List
    given: Mapping[str, str]
    ordering: str

    def query(self, **changes: str) -> str:
        """Query of the same view with something changed; a change to '' leaves it out. The page starts anew."""
        asked = {**self.given, "ordering": self.ordering if self.ordering != self.declared.order else "", **changes}
        return urlencode({name: value for name, value in asked.items() if value})

    def link(self, **changes: str) -> str:
        """Address of the same view with something changed."""
        return f"?{self.query(**changes)}"


def show(
    request: HttpRequest,
    declared: List,
    template: str = "web/list.html",
    *,
    extra: Mapping[str, Any] | None = None,
    rows: Callable[[Scope], QuerySet[Any]] | None = None,
) -> HttpResponse:
    """The page of a list. rows: in place of the declared ones, such as those of one thing."""
    scope, cut = scope_of(request.user), datetime.now(UTC)
    given = {name: str(value).strip() for name, value in request.GET.items()}
    filters = getattr(declared.filters, "base_filters", {})
    used = {name: value for name, value in given.items() if name in filters and value}
    view = Asked(declared, used, given.get("ordering", "") or declared.order)
    wrong = _unknown(given, filters)
    with one_state(), timezone.override((place := site()).zone):
        found = declared.filters(used, queryset=(rows or declared.rows)(scope))
        wrong |= {name: " ".join(texts) for name, texts in found.errors.items()}
        page, count = (None, None) if wrong else _page(found.qs, view, given.get("cursor", ""), wrong)
        context = _context(view, scope, wrong)
        if page is not None:
            context |= _shown(declared, view, page, count, Seen(scope, place, cut))
        as_of = log.as_of(cut)
        context |= frame(request, declared.section or declared.name, None if wrong else as_of, place)
        context["live"] = page is not None and not given.get("cursor")
    return render(request, template, {**context, **(extra or {})}, status=400 if wrong else 200)


def _unknown(given: Iterable[str], filters: Iterable[str]) -> dict[str, str]:
    """A misspelt filter must not look like an answer."""
    known = {*filters, "ordering", "cursor"}
    return {name[:80]: "There is no such filter here." for name in given if name not in known}


def _page(
    rows: QuerySet[Any], view: Asked, cursor: str, wrong: dict[str, str]
) -> tuple[Slice | None, tuple[int, bool] | None]:
    """The rows of the page and how many there are on all pages; what is wrong is added to `wrong`."""
    declared = view.declared
    try:
        orders: list[Order] = orders_of(rows.model, view.ordering, declared.sorts, declared.key)
        page = take(rows, orders, PAGE, cursor)
    except BadPage as bad:
        wrong[bad.name] = f"{str(bad)[:1].upper()}{str(bad)[1:]}."
        return None, None
    alone = page.next is None and page.previous is None
    return page, (len(page.rows), True) if alone else count_upto(rows)


def _context(view: Asked, scope: Scope, wrong: Mapping[str, str]) -> dict[str, Any]:
    """The form and the ways out of it."""
    declared = view.declared
    inputs = [_input(one, view, scope, wrong) for one in declared.fields]
    more = [one.more for one in declared.fields]
    folded = [each for each, behind in zip(inputs, more, strict=True) if behind]
    shown = {one.name for one in declared.fields}
    return {
        "list": declared,
        "inputs": [each for each, behind in zip(inputs, more, strict=True) if not behind],
        "more_inputs": folded,
        "more_open": any(each.value or each.error for each in folded),
        "hidden": [(name, view.given[name]) for name in view.given if name not in shown],
        "ordering": view.ordering if view.ordering != declared.order else "",
        "chips": _chips(view, inputs),
        "choices": _views(view),
        "wrong": [(name, text) for name, text in wrong.items() if name not in shown],
        "wrong_fields": [each for each in inputs if each.error],
        "clear": "?" + urlencode({"ordering": view.ordering}) if view.ordering != declared.order else "?",
    }


def _input(one: Field, view: Asked, scope: Scope, wrong: Mapping[str, str]) -> Input:
    value = view.given.get(one.name, "")[:400]
    options = list(one.options(scope)) if one.options else None
    if one.kind == "yes":
        options = [("true", "yes"), ("false", "no")]
    if options is not None and value and value not in [known for known, _ in options]:
        options.append((value, _words(value, options)))  # several words, or one that is no longer offered
    as_day = one.kind == "day" and (not value or _DAY.fullmatch(value))
    kind = "date" if as_day else "text"
    return Input(one.name, one.label, kind, value, options, one.hint, wrong.get(one.name, ""))


def _words(value: str, options: Options) -> str:
    """Several values, parted by commas, in the words of the choices."""
    texts = dict(options)
    return ", ".join(texts.get(part, part) for part in value.split(","))


def _chips(view: Asked, inputs: Sequence[Input]) -> list[Chip]:
    """The filters in use, also those that no field shows."""
    labels = {each.name: each for each in inputs}
    found = []
    for name, value in view.given.items():
        each = labels.get(name)
        text = dict(each.options or ()).get(value, value) if each else value
        found.append(Chip(each.label if each else name, text[:80], view.link(**{name: ""})))
    return found


def _views(view: Asked) -> list[Link]:
    found = []
    for each in view.declared.views:
        query = dict(parse_qsl(each.query))
        found.append(Link(each.text, "?" + urlencode(query), query == dict(view.given)))
    return found


def _shown(declared: List, view: Asked, page: Slice, count: tuple[int, bool] | None, seen: Seen) -> dict[str, Any]:
    """The table, its count and the ways to its neighbours and to files of it."""
    seen = _named(declared, page.rows, seen)
    return {
        "heads": [_head(column, view) for column in declared.columns],
        "rows": [[column.cell(row, seen) for column in declared.columns] for row in page.rows],
        "count": _count(declared, count),
        "next": view.link(cursor=page.next) if page.next else "",
        "previous": view.link(cursor=page.previous) if page.previous else "",
        "tools": _tools(declared, view) if page.rows else (),
        "filtered": bool(view.given),
        "zone": seen.site.timezone,
    }


def _named(declared: List, rows: Sequence[Any], seen: Seen) -> Seen:
    names = log.people(_ids(rows, declared.people)) if declared.people else {}
    bodies = log.texts(_ids(rows, declared.texts)) if declared.texts else {}
    named = replace(seen, names=names, bodies=bodies)
    return named if declared.prepare is None else replace(named, more=declared.prepare(rows, named))


def _ids(rows: Sequence[Any], fields: Sequence[str]) -> set[str]:
    return {str(value) for row in rows for name in fields if (value := getattr(row, name))}


def _head(column: Column, view: Asked) -> Head:
    if not column.sort:
        return Head(column.head, column.css)
    up, down = column.sort, f"-{column.sort}"
    first, second = (down, up) if column.down else (up, down)
    other = second if view.ordering == first else first
    order = {up: "ascending", down: "descending"}.get(view.ordering, "")
    return Head(column.head, column.css, view.link(ordering="" if other == view.declared.order else other), order)


def _count(declared: List, count: tuple[int, bool] | None) -> str:
    number, exact = count or (0, True)
    word = declared.noun[0] if number == 1 and exact else declared.noun[1]
    return f"{'' if exact else 'more than '}{figures.thousands(number)} {word}"


def _tools(declared: List, view: Asked) -> list[Link]:
    """The same rows as files and for programs."""
    address, query = reverse(declared.api), view.query()
    forms = [("CSV", "format=csv"), ("XLSX", "format=xlsx"), ("API", "")]
    found = []
    for text, form in forms:
        asked = "&".join(part for part in (query, form) if part)
        found.append(Link(text, f"{address}?{asked}" if asked else address))
    return found
