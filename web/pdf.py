"""Documents: the figures of the pages as PDF, from the same queries and parts of templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Semaphore
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from web import charts, figures, projecttables, usagecharts, usagetables
from web.asked import Wrong
from web.book import Book
from web.projects import read_book
from web.rights import page
from web.tables import Table
from web.usagefigs import costs_gaps, key_figures

__all__ = ["FONTS", "Paper", "answer", "plain", "project_pdf", "projects_pdf"]

PAPERS: Final = ("a4", "letter")
FONTS: Final = Path(__file__).parent / "fonts"
CHART_WIDTH: Final = 640
MOST_DAYS: Final = 1100
"""Days of a document: three years. Laying out twenty took nine seconds of a whole core."""
PATIENCE_SECONDS: Final = 1.0
_making: Final = Semaphore(1)
"""One document at a time in a process; whoever comes meanwhile is told so, and holds no thread."""
MISSING: Final = (ImportError, OSError)
"""What importing the layout raises where its system library is missing."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A document to lay out: its HTML, the name of its file without ending, whether it lies across the paper."""

    html: str
    name: str
    across: bool = False


@page
def projects_pdf(request: HttpRequest) -> HttpResponse:
    """The use of all projects as a document."""
    return answer(request, lambda: _usage(request, ""))


@page
def project_pdf(request: HttpRequest, code: str) -> HttpResponse:
    """The use of one project as a document."""
    return answer(request, lambda: _usage(request, code))


def answer(request: HttpRequest, make: Callable[[], Paper]) -> HttpResponse:
    """A document as a response, one at a time in a process. `make` may raise Wrong; what cannot be made is told."""
    try:
        paper = request.GET.get("paper", "a4").lower()
        if paper not in PAPERS:
            raise Wrong("paper", f"Choose the paper: {', '.join(PAPERS)}.")
        if not _making.acquire(timeout=PATIENCE_SECONDS):
            return _busy(request)
        try:
            return _document(request, make(), paper)
        finally:
            _making.release()
    except Wrong as wrong:
        return render(request, "web/refused.html", {"text": wrong.text}, status=400)


def _busy(request: HttpRequest) -> HttpResponse:
    text = "Another document is being made. Ask again in a few seconds."
    response = render(request, "web/refused.html", {"text": text}, status=503)
    response["Retry-After"] = "10"
    return response


def _usage(request: HttpRequest, code: str) -> Paper:
    found = read_book(request, code)
    days = found.asked.days
    if days.number > MOST_DAYS:
        raise Wrong("to", f"A document holds at most {MOST_DAYS} days; choose fewer, or take the CSV or XLSX.")
    html = render_to_string("pdf/usage.html", _context(found))
    return Paper(html, f"usage-{code or 'all'}-{days.first}-{days.last}")


def _document(request: HttpRequest, wanted: Paper, paper: str) -> HttpResponse:
    made = _made(wanted, paper, request.build_absolute_uri())
    if made is None:
        text = "This machine lacks Pango, which lays documents out. Install it (Debian: libpangoft2-1.0-0), then again."
        return render(request, "web/refused.html", {"text": text}, status=503)
    response = HttpResponse(made, content_type="application/pdf")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted.name)
    response["Content-Disposition"] = f'inline; filename="{name}.pdf"'
    return response


def _made(wanted: Paper, paper: str, address: str) -> bytes | None:
    """The document; None where the system library for it is missing."""
    try:
        from web.paper import lay_out
    except MISSING:
        return None
    return lay_out(wanted.html, paper, address, across=wanted.across)


def _context(found: Book) -> dict[str, Any]:
    whole = found.asked.days.params(found.shelf.zone, found.cut)
    hours = round((whole.end - whole.start).total_seconds() / 3600)
    context = {
        "site": found.shelf.site, "project": found.shelf.project, "range": found.asked.days.text,
        "hours": figures.thousands(hours), "empty": found.empty, "known": found.asked.known,
        "position": figures.thousands(found.stands_on.position),
        "time": figures.moment(found.stands_on.time, found.shelf.zone),
    }  # fmt: skip
    if found.empty:
        return context
    tables = [projecttables.runs(found)] if found.asked.project else []
    tables.append(projecttables.tree(found) if found.asked.group == "project" else usagetables.by_group(found))
    tables += [projecttables.waits(found)] if found.asked.project else []
    tables.append(usagetables.by_bucket(found))
    drawn = usagecharts.stack(found)
    spec = charts.stacked(drawn, width=CHART_WIDTH, height=200)
    return {
        **context, "figs": key_figures(found), "gaps": costs_gaps(found), "legend": usagecharts.legend(found),
        "tables": [plain(table) for table in tables], "chart": charts.svg(spec, fonts=FONTS),
        "chart_title": f"{drawn.unit} per {found.asked.days.bucket}, by {found.asked.group}",
    }  # fmt: skip


def plain(table: Table) -> Table:
    """A table as paper can hold it: without bars, titles and links to files."""
    kept = [n for n, head in enumerate(table.heads) if head.css not in ("viz", "title")]
    return replace(
        table,
        heads=[replace(table.heads[n], href="") for n in kept],
        rows=[[row[n] for n in kept] for row in table.rows],
        foot=[table.foot[n] for n in kept] if table.foot else (),
        tools=(),
        more=None,
    )
