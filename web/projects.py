"""The pages of use: all projects, and one of them. GET only, so that every view has an address."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect, QueryDict
from django.shortcuts import render

from jobs.queries import scope_of
from web import asked, book, figures, projecttables, ranges, usagecharts, usagetables, waste
from web.asked import Asked, Wrong
from web.book import Book, Branch, Shelf
from web.bundle import bundle_url
from web.fairshare import section
from web.frame import frame
from web.ranges import Days
from web.reportlinks import links_over
from web.rights import page
from web.tables import Link
from web.usagefigs import costs_gaps, key_figures

__all__ = ["moved", "project", "projects", "read_book"]

FIELDS = ("from", "to", "as_known_at", "group")
CODE_MOST = 200


@page
def projects(request: HttpRequest) -> HttpResponse:
    """What was used, by which project, when, how long it waited and what it cost."""
    return _show(request, "")


@page
def project(request: HttpRequest, code: str) -> HttpResponse:
    """The same of one project, team or organisation, with its runs."""
    return _show(request, code)


def _show(request: HttpRequest, code: str) -> HttpResponse:
    try:
        found = read_book(request, code)
    except Wrong as wrong:
        return _mend(request, code, wrong)
    around = frame(request, "projects", found.stands_on, found.shelf.site, known=bool(found.asked.known))
    return render(request, "web/use.html", {**around, **_page(found), "live": not found.asked.known})


def read_book(request: HttpRequest, code: str) -> Book:
    """The figures a request asks for. Raises Wrong, and Http404 for a project that the caller may not see."""
    if len(code) > CODE_MOST or "\0" in code:
        raise Http404
    given = request.GET
    try:
        return book.open_book(
            scope_of(request.user), code, given.get("as_known_at", ""), lambda there, cut: _ask(given, code, there, cut)
        )
    except LookupError:
        raise Http404 from None


def _ask(given: QueryDict, code: str, there: Shelf, cut: datetime) -> Asked:
    usual = ranges.default(there.span, cut.astimezone(there.zone).date())
    return asked.read(given.dict(), usual, code, there.groups)  # type: ignore[arg-type]


def _mend(request: HttpRequest, code: str, wrong: Wrong) -> HttpResponse:
    """The form with what is wrong beside its field; no figures, since nobody knows which."""
    try:
        there = book.shelf(scope_of(request.user), code)
    except LookupError:
        raise Http404 from None
    given = {name: request.GET.get(name, "")[:40] for name in FIELDS}
    context = {"given": given, "wrong": {"field": wrong.field, "text": wrong.text},
               "address": asked.project_address(code), **_place(there)}  # fmt: skip
    return render(request, "web/use.html", {**frame(request, "projects", None, there.site), **context}, status=400)


def _place(there: Shelf) -> dict[str, Any]:
    """What the page is about, and what stands above it."""
    here = there.project
    above: list[Branch] = []
    while here is not None and (parent := there.tree.get(here.parent or "")) and parent not in above:
        above.insert(0, parent)
        here = parent
    return {
        "project": there.project,
        "above": [Link(branch.title or branch.code, asked.project_address(branch.code)) for branch in above],
    }


def _page(found: Book) -> dict[str, Any]:
    view = found.asked
    given = {"from": view.days.first.isoformat(), "to": view.days.last.isoformat(), "group": view.group,
             "as_known_at": view.known}  # fmt: skip
    context = {
        "found": found, "given": given, "offers": _offers(found), "groups": _groups(found), "range": _range_text(found),
        "address": asked.project_address(view.project), **_place(found.shelf),
        "papers": [Link("PDF, A4", view.document("a4")), Link("PDF, Letter", view.document("letter"))],
    }  # fmt: skip
    if found.empty:
        return {**context, "nothing": _nothing(found)}
    return {
        **context, "figs": key_figures(found), "gaps": costs_gaps(found), **usagecharts.chart(found),
        "by_group": usagetables.by_group(found) if view.group != "project" else projecttables.tree(found),
        "by_bucket": usagetables.by_bucket(found),
        "reports": links_over(found.scope, view.days, view.project, view.known),
        "runs": projecttables.runs(found) if view.project else None,
        "waits": projecttables.waits(found) if view.project else None,
        "waste": waste.of_project(found),
        **(section(found.scope, view.project, found.cut) if view.project and not view.known else {}),
        "bundle_url": bundle_url(),
    }  # fmt: skip


def _groups(found: Book) -> list[Link]:
    view = found.asked
    return [Link(name, view.link(group=name, sort="", every=False), name == view.group) for name in found.shelf.groups]


def _offers(found: Book) -> list[Link]:
    """Ranges one click away."""
    today = found.cut.astimezone(found.shelf.zone).date()
    view = found.asked
    offers = [(text, days) for text, days in ranges.offers(found.shelf.span, today) if days.number <= ranges.MOST_DAYS]
    current = next((text for text, days in offers if days == view.days), "")
    return [Link(text, view.link(days=days, every=False), text == current) for text, days in offers]


def _range_text(found: Book) -> str:
    whole = found.asked.days.params(found.shelf.zone, found.cut)
    length = round((whole.end - whole.start).total_seconds() / 3600)
    return f"{found.asked.days.text} ({figures.thousands(length)} h)"


def _nothing(found: Book) -> dict[str, str]:
    """What to say and do where there is nothing to show."""
    shelf, view = found.shelf, found.asked
    if shelf.span is not None:
        last = shelf.span[1]
        month = Days(ranges.default(shelf.span, last).first, last)
        return {"why": "range", "last": figures.day(last, year=True), "href": view.link(days=month),
                "show": month.text}  # fmt: skip
    if view.project:
        return {"why": "project", "href": asked.project_address("")}
    return {"why": "books" if not found.used_days and found.scope.projects is None else "scope"}


def moved(request: HttpRequest) -> HttpResponse:
    """The page of use stood at another address; its parameters mean the same here."""
    query = request.GET.copy()
    code = query.pop("project", [""])[-1]
    target = asked.project_address(code if len(code) <= CODE_MOST and "\0" not in code else "")
    return HttpResponsePermanentRedirect(f"{target}?{query.urlencode()}" if query else target)
