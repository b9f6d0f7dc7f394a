"""Every report as a document: its rows and total, page numbers, heads that repeat, paper, and what it refuses."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import pypdfium2
import pytest
from django.test import Client

from events import reports
from tests.web.books import book, declare, job, person, signed_in
from tests.web.test_pdf import pages, sizes
from web import reports as pages_of_reports

OCTOBER = "from=2026-10-01&to=2026-10-31"
A4, A4_ACROSS, LETTER = (595, 841), (841, 595), (612, 792)

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    """31 days of 16 GPU-hours of atlas, and one of 4 of vision: 500 in all, 1,000 EUR."""
    declare("atlas", "vision", rates={"h100": 2_000_000})
    book(*[job("atlas", f"2026-10-{day:02d} 08:00", 2, 8, user=f"user{day:02d}") for day in range(1, 32)])
    book(job("vision", "2026-10-06 08:00", 1, 4, user="dee"))


def test_every_report_has_a_document_with_the_total_and_numbered_pages(admin: Client) -> None:
    fill()
    for name in reports.names():
        answer = admin.get(f"/reports/{name}.pdf?{OCTOBER}")
        assert answer["Content-Type"] == "application/pdf", name
        read = pages(answer.content)
        definition = reports.definition(name)
        assert definition.title in read[0]
        assert definition.about in read[0]
        for number, text in enumerate(read, 1):
            assert f"{number} / {len(read)}" in text
            assert f"Hall 1 · {definition.title}, October 2026 (745 h), Europe/Berlin · as of position" in text


def test_a_document_holds_the_figures_and_the_total(admin: Client) -> None:
    fill()
    usage = admin.get(f"/reports/usage.pdf?{OCTOBER}")
    assert usage["Content-Disposition"] == 'inline; filename="usage-project-2026-10-01-2026-10-31.pdf"'
    whole = " ".join(pages(usage.content))
    # GPU-h, node-h, CPU-h, wall h, suspended h, attempts, started, jobs started, jobs ended
    assert "atlas 496.0 62.0 3968.0 62.0 0.0 31 31 31 31" in whole
    assert "Total 500.0 63.0 4000.0 63.0 0.0 32 32 32 32" in whole
    costs = " ".join(pages(admin.get(f"/reports/costs.pdf?{OCTOBER}&group_by=project").content))
    assert "atlas 992.00 496.0" in costs
    assert "Total 1000.00 500.0" in costs
    assert set(sizes(usage.content)) == {A4_ACROSS}, "ten columns lie across the paper"
    assert set(sizes(admin.get(f"/reports/costs.pdf?{OCTOBER}").content)) == {A4}
    assert set(sizes(admin.get(f"/reports/costs.pdf?{OCTOBER}&paper=letter").content)) == {LETTER}


def test_all_rows_are_there_heads_repeat_and_the_total_comes_once(admin: Client) -> None:
    declare("atlas", rates={"h100": 2_000_000})
    first = date(2026, 7, 1)
    book(*[job("atlas", f"{first + timedelta(days=n)} 08:00", 1, 8, user=f"w{n:03d}") for n in range(120)])
    read = pages(admin.get("/reports/costs.pdf?from=2026-07-01&to=2026-10-31&group_by=user,month&sort=user").content)
    assert len(read) > 1
    rows = [row for text in read for row in re.findall(r"(w\d{3}) (\w+ 2026) 16\.00 8\.0", text)]
    assert [user for user, _ in rows] == [f"w{n:03d}" for n in range(120)]
    holding = [text for text in read if re.search(r"w\d{3} \w+ 2026", text)]
    assert all("User Month Cost, EUR" in text for text in holding)
    assert sum(text.count("Total 1920.00 960.0") for text in read) == 1


def test_the_last_page_holds_more_than_the_total(admin: Client) -> None:
    """However the rows fall: three of them at least stand with their total, where there are as many."""
    declare("atlas", rates={"h100": 2_000_000})
    book(*[job("atlas", "2026-10-02 08:00", 2, 8, user=f"user{number:02d}") for number in range(1, 36)])
    last = []
    for number in (36, 37):  # the first that do not fit on two pages
        book(job("atlas", "2026-10-02 08:00", 2, 8, user=f"user{number:02d}"))
        read = pages(admin.get(f"/reports/usage.pdf?{OCTOBER}&group_by=user").content)
        last.append((len(read), len(re.findall(r"user\d\d", read[-1])), "Total" in read[-1]))
    assert last == [(3, 3, True), (3, 3, True)]


def test_the_chart_of_a_document_that_lies_is_on_its_first_page(admin: Client) -> None:
    declare("atlas", rates={"h100": 2_000_000})
    book(*[job("atlas", "2026-10-02 08:00", 2 + number, 8, user=f"user{number:02d}") for number in range(30)])
    answer = admin.get(f"/reports/usage.pdf?{OCTOBER}&group_by=user")
    assert sizes(answer.content)[0] == A4_ACROSS
    first = pages(answer.content)[0]
    assert "20 others" in first  # ten of thirty have bars of their own
    assert "user29" in first


def test_a_hyphen_is_as_wide_in_a_document_as_in_any_text(admin: Client) -> None:
    """Inter's hyphen for tables of figures takes a digit's width; a word such as GPU-time must not have it."""
    fill()
    document = pypdfium2.PdfDocument(admin.get(f"/reports/goodput.pdf?{OCTOBER}").content)
    words = document[0].get_textpage()
    at = words.get_text_range().index("GPU-time")
    hyphen, following = words.get_charbox(at + 3), words.get_charbox(at + 4)
    before = words.get_charbox(at + 2)
    around = (following[0] - hyphen[2]) + (hyphen[0] - before[2])
    assert around < hyphen[2] - hyphen[0]  # 1.16 of its width with the tabular one


def test_a_document_is_drawn_in_the_colours_of_the_look(admin: Client) -> None:
    fill()
    content = admin.get(f"/reports/usage.pdf?{OCTOBER}&group_by=day,project").content
    image = pypdfium2.PdfDocument(content)[0].render().to_pil()
    colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
    assert {(0x1F, 0x4F, 0x9C), (0xD2, 0x7B, 0x39)} <= colours  # the first two series, light


def test_what_is_too_long_or_asked_wrongly_is_told(admin: Client, monkeypatch: Any) -> None:
    fill()
    monkeypatch.setattr(pages_of_reports, "MOST_ROWS", 30)
    for query, word in (
        (f"{OCTOBER}&group_by=user", "at most 30 rows, and these are 32"), ("paper=a5", "Choose the paper"),
        (f"{OCTOBER}&group_by=colour", "is not a grouping"), ("from=x", "Write a day"),
    ):  # fmt: skip
        answer = admin.get(f"/reports/usage.pdf?{query}")
        assert answer.status_code == 400, query
        assert word in answer.content.decode(), query
    [text] = pages(admin.get("/reports/usage.pdf?from=2020-01-01&to=2020-01-31").content)
    assert "Nothing to show in these days." in text
