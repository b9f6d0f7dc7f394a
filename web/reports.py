"""The pages of reports: which there are, and each of them by one driver, as a page and as a document.

A report is declared once (`events.reports.Definition`); nothing here knows one of them by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse

from events import queries as log
from events import reports
from events.access import Forbidden, Scope
from events.known import reading
from events.reports import AsOf, BadParameter, Definition, Report, Row
from fleet.queries import Site, site
from jobs.queries import projects, scope_of
from jobs.queries_now import use_span
from web import charts, figures, pdf, ranges, reportasked
from web.asked import Wrong
from web.bundle import bundle_url
from web.frame import frame
from web.ranges import Days, Span
from web.reportasked import Question
from web.reportcells import raw
from web.reportcharts import Drawn, drawn
from web.reportlinks import Links
from web.reporttable import gap_texts, in_order, pager, table
from web.rights import page
from web.state import one_state
from web.tables import Cell, Head, Link, Table

__all__ = ["document", "index", "one"]

PAPERS: Final = (("a4", "PDF, A4"), ("letter", "PDF, Letter"))
MOST_ROWS: Final = 2_000
"""Rows of a document."""
LANDSCAPE: Final = 8
"""More columns than this lie across the paper."""
CHART_WIDTH: Final = {False: 640, True: 980}
"""Pixels of a chart on paper that stands, and on paper that lies."""
CHART_NAMES: Final = {False: 20, True: 10}
"""Bars for names, so that the chart has room below the head of the first page."""
MONEY: Final = "It shows money, which you may not see. If you need it, ask whoever runs this Hallbook."


@dataclass(frozen=True)
class Answer:
    """A computed view of a report: what was asked, what came out, and where things lead."""

    question: Question
    site: Site
    cut: datetime
    span: Span
    report: Report
    links: Links
    codes: Sequence[str]
    rows: Sequence[Row]

    @property
    def empty(self) -> bool:
        """Nothing but zeros and unknowns."""
        measures = [one.name for one in self.report.columns if one.kind not in ("label", "time")]
        return not any(_told(row.get(name)) for row in (*self.report.rows, self.report.total) for name in measures)


def _told(value: Any) -> bool:
    return bool(raw(value))


# --- which there are ---------------------------------------------------------------------------------------------


@page
def index(request: HttpRequest) -> HttpResponse:
    """GET /reports/."""
    scope, here = scope_of(request.user), site()
    with one_state():
        as_of = log.as_of(datetime.now(UTC))
        context = frame(request, "reports", as_of, here)
    return render(request, "reports/index.html", {**context, "table": _there_is(scope)})


def _there_is(scope: Scope) -> Table:
    rows = [_entry(reports.definition(name), scope) for name in reports.names()]
    sight = "all projects" if scope.projects is None else "the projects granted to you, and what hangs below them"
    caption = f"You see {sight}. Each can be grouped, narrowed, asked as known earlier and taken as a file."
    return Table("there-is", "What there is", caption, [Head("Report"), Head("Answers"), Head("Grouped by")], rows, ())


def _entry(found: Definition, scope: Scope) -> list[Cell]:
    groups = ", ".join(name.replace("_", " ") for name in found.groupings)
    if found.money and not scope.money:
        return [Cell(found.title, tag="money"), Cell(MONEY), Cell(groups)]
    return [Cell(found.title, href=reverse("report", args=[found.name]), tag="money" if found.money else ""),
            Cell(found.about or found.title), Cell(groups)]  # fmt: skip


# --- one of them -------------------------------------------------------------------------------------------------


@page
def one(request: HttpRequest, name: str) -> HttpResponse:
    """GET /reports/<name>/."""
    found, scope = _definition(name), scope_of(request.user)
    _allow(found, scope)
    try:
        with one_state():
            answer = _answer(request, found, scope)
            context = _page(answer, scope)
            around = frame(request, "reports", answer.report.as_of, answer.site, known=bool(answer.question.known))
    except Wrong as wrong:
        return _mend(request, found, scope, wrong)
    return render(request, "reports/report.html", {**around, **context})


def _definition(name: str) -> Definition:
    try:
        return reports.definition(name)
    except BadParameter:
        raise Http404 from None


def _allow(found: Definition, scope: Scope) -> None:
    if found.money and not scope.money:
        raise PermissionDenied(MONEY)


def _answer(request: HttpRequest, found: Definition, scope: Scope) -> Answer:
    """Raises Wrong for what cannot be shown, PermissionDenied for what the caller may not see."""
    here, cut = site(), datetime.now(UTC)
    span = use_span(scope)
    usual = ranges.default(span, cut.astimezone(here.zone).date())
    question = reportasked.read(request.GET, found, usual)
    params = question.params(here.zone, cut)
    try:
        report = _computed(found, scope, params)
    except BadParameter as bad:
        raise reportasked.refused(bad) from None
    except Forbidden as forbidden:
        raise PermissionDenied(f"{str(forbidden)[:1].upper()}{str(forbidden)[1:]}.") from None
    codes = list(projects(scope).values_list("code", flat=True))
    links = Links.of(question, params, here.zone, codes, everything=scope.projects is None)
    return Answer(question, here, cut, span, report, links, codes, in_order(question, report))


def _computed(found: Definition, scope: Scope, params: reports.Params) -> Report:
    """The report now, or as the log knew it: read anew, where that takes no longer than somebody waits."""
    if params.as_known_at is None:
        return found.compute(scope, params)
    with reading(params.as_known_at):
        report = found.compute(scope, replace(params, as_known_at=None))
    return replace(report, params=params, as_of=AsOf(params.as_known_at, report.as_of.time))


def _page(answer: Answer, scope: Scope) -> dict[str, Any]:
    question, currency = answer.question, answer.site.currency
    chart = None if answer.empty else drawn(question, answer.report, answer.links, currency)
    return {
        **_form(question, answer.site, answer.codes), "report": question.report, "offers": _offers(answer),
        "range": _range_text(answer), "gaps": gap_texts(answer.report), "empty": answer.empty,
        "now": question.link(known=""), "papers": [Link(text, question.document(paper)) for paper, text in PAPERS],
        "table": table(question, answer.report, answer.rows, answer.links, currency),
        "pager": pager(question, len(answer.rows)), "nothing": _nothing(answer, scope) if answer.empty else None,
        **(_drawn(chart) if chart else {}),
    }  # fmt: skip


def _drawn(chart: Drawn) -> dict[str, Any]:
    return {"chart_title": chart.title, "stack": chart.stack, "spec": chart.spec(), "legend": chart.legend,
            "across": chart.across, "bundle_url": bundle_url()}  # fmt: skip


def _form(question: Question, here: Site, codes: Sequence[str]) -> dict[str, Any]:
    """What the form shows: choices in the order of the report, one more select than groupings in use, at most three."""
    given = {"from": question.days.first.isoformat(), "to": question.days.last.isoformat(),
             "timezone": question.zone or here.timezone, "as_known_at": question.known, "sort": question.sort,
             "view": question.view or question.report.views[0], "project": question.project}  # fmt: skip
    return _fields(question.report, given, question.groups, codes)


def _fields(found: Definition, given: dict[str, str], groups: Sequence[str], codes: Sequence[str]) -> dict[str, Any]:
    heads = ("Group by", "and by", "and then by")
    chosen = [*groups, "", "", ""][: reportasked.MOST_GROUPS]
    extra = [given["project"]] if given["project"] and given["project"] not in codes else []
    words = {name: name.replace("_", " ") for name in found.groupings}
    return {
        "report": found, "given": given, "codes": [*codes, *extra], "address": reverse("report", args=[found.name]),
        "groupings": [(f"g{n}", head, one) for n, (head, one) in enumerate(zip(heads, chosen, strict=True), 1)],
        "words": words.items(), "views": found.views if len(found.views) > 1 else (),
    }  # fmt: skip


def _offers(answer: Answer) -> list[Link]:
    """Ranges one click away."""
    today = answer.cut.astimezone(answer.site.zone).date()
    found = [(text, days) for text, days in ranges.offers(answer.span, today) if days.number <= ranges.MOST_DAYS]
    current = next((text for text, days in found if days == answer.question.days), "")
    return [Link(text, answer.question.link(days=days), text == current) for text, days in found]


def _range_text(answer: Answer) -> str:
    params = answer.report.params
    hours = round((params.end - params.start).total_seconds() / 3600)
    return f"{answer.question.days.text} ({figures.thousands(hours)} h), {params.zone.key}"


def _nothing(answer: Answer, scope: Scope) -> dict[str, str]:
    """What to say and do where there is nothing to show."""
    if answer.report.gaps and answer.span is not None:
        return {"why": "gaps"}
    if answer.span is not None:
        last = answer.span[1]
        days = Days(ranges.default(answer.span, last).first, last)
        if answer.question.project or days == answer.question.days:
            return {"why": "question", "href": answer.question.link(project="", groups=answer.question.report.default)}
        return {"why": "range", "last": figures.day(last, year=True), "href": answer.question.link(days=days),
                "show": days.text}  # fmt: skip
    return {"why": "books" if scope.projects is None else "scope"}


def _mend(request: HttpRequest, found: Definition, scope: Scope, wrong: Wrong) -> HttpResponse:
    """The form with what is wrong beside its field; no figures, since nobody knows which."""
    here = site()
    names = ("from", "to", "timezone", "as_known_at", "sort", "view", "project")
    given = {name: request.GET.get(name, "")[:60].replace("\0", "") for name in names}
    asked = [part for text in request.GET.getlist("group_by") for part in text.split(",")]
    groups = [part for part in dict.fromkeys(asked) if part in found.groupings]
    context = {**frame(request, "reports", None, here), **_fields(found, given, groups, list(_codes(scope))),
               "wrong": {"field": wrong.field, "text": wrong.text}}  # fmt: skip
    return render(request, "reports/report.html", context, status=400)


def _codes(scope: Scope) -> Sequence[str]:
    return list(projects(scope).values_list("code", flat=True))


# --- as a document -----------------------------------------------------------------------------------------------


@page
def document(request: HttpRequest, name: str) -> HttpResponse:
    """GET /reports/<name>.pdf: the same rows, all of them, on paper."""
    found, scope = _definition(name), scope_of(request.user)
    _allow(found, scope)
    return pdf.answer(request, lambda: _paper(request, found, scope))


def _paper(request: HttpRequest, found: Definition, scope: Scope) -> pdf.Paper:
    with one_state():
        answer = _answer(request, found, scope)
    if len(answer.rows) > MOST_ROWS:
        text = f"A document holds at most {figures.thousands(MOST_ROWS)} rows, and these are "
        raise Wrong("group_by", f"{text}{figures.thousands(len(answer.rows))}; group by less, or take the CSV or XLSX.")
    return pdf.Paper(render_to_string("pdf/report.html", _context(answer)), _file_name(answer), _wide(answer))


def _wide(answer: Answer) -> bool:
    return len(answer.report.columns) > LANDSCAPE


def _file_name(answer: Answer) -> str:
    question = answer.question
    parts = [question.report.name, question.project, *question.groups, question.days.first, question.days.last]
    return "-".join(str(part) for part in parts if part)


def _context(answer: Answer) -> dict[str, Any]:
    question, report, currency = answer.question, answer.report, answer.site.currency
    whole = table(replace(question, page=1), report, answer.rows, answer.links, currency, most=MOST_ROWS)
    most, width = CHART_NAMES[_wide(answer)], CHART_WIDTH[_wide(answer)]
    chart = None if answer.empty else drawn(question, report, answer.links, currency, most=most)
    return {
        "site": answer.site, "report": question.report, "range": _range_text(answer), "project": question.project,
        "view": question.view if len(question.report.views) > 1 else "", "known": question.known,
        "position": figures.thousands(report.as_of.position),
        "time": figures.moment(report.as_of.time, answer.site.zone), "gaps": gap_texts(report),
        "empty": answer.empty, "table": pdf.plain(whole), "wide": _wide(answer),
        "legend": chart.legend if chart else (), "chart_title": chart.title if chart else "",
        "chart": charts.svg(chart.spec(width), fonts=pdf.FONTS) if chart else "",
    }  # fmt: skip
