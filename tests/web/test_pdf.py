"""The usage report as a document: the page's figures, whole on paper, with its own fonts and nothing from outside."""

from __future__ import annotations

import sys
from typing import Any

import pypdfium2
import pytest
from django.test import Client

from tests.web.books import book, declare, job, person, signed_in
from web import pdf
from web.paper import OnlyOurs, lay_out

OCTOBER = "from=2026-10-01&to=2026-10-31"
A4, LETTER = (595, 841), (612, 792)
"""Width and height in points, cut to whole ones."""

pytestmark = pytest.mark.usefixtures("hall")


@pytest.fixture
def admin() -> Client:
    return signed_in(person("ada", admin=True))


def fill() -> None:
    declare("atlas", "vision", rates={"h100": 2_000_000})
    book(*[job("atlas", f"2026-10-{day:02d} 08:00", 2, 8, user=f"user{day}") for day in range(1, 32)])
    book(job("vision", "2026-10-06 08:00", 1, 4, user="dee"))


def pages(content: bytes) -> list[str]:
    """What a reader reads on each page, with single blanks."""
    assert content.startswith(b"%PDF-")
    found = pypdfium2.PdfDocument(content)
    return [" ".join(page.get_textpage().get_text_range().replace("\u202f", "").split()) for page in found]


def sizes(content: bytes) -> list[tuple[int, int]]:
    return [(int(page.get_width()), int(page.get_height())) for page in pypdfium2.PdfDocument(content)]


def test_a_projects_document_holds_the_figures_of_its_page(admin: Client) -> None:
    fill()
    answer = admin.get(f"/projects/atlas/usage.pdf?{OCTOBER}")
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"] == 'inline; filename="usage-atlas-2026-10-01-2026-10-31.pdf"'
    assert set(sizes(answer.content)) == {A4}
    read = pages(answer.content)
    whole = " ".join(read)
    assert "Use of atlas" in read[0]
    assert "496.0" in read[0]  # 31 days x 2 h x 8 GPUs
    assert "992" in read[0]  # EUR, at 2 a GPU-hour
    assert "31 runs 31 496.0 100.00 62.0" in whole
    assert "31 users 496.0 100.00 62.0 3968.0 31 31 992.00" in whole
    assert "31 days 496.0 62.0 3968.0 31 31" in whole
    for number, text in enumerate(read, 1):
        assert f"{number} / {len(read)}" in text
        assert "Hall 1 · Use of atlas, October 2026 · as of position" in text


def test_heads_repeat_and_the_total_comes_once(admin: Client) -> None:
    fill()
    read = pages(admin.get(f"/projects/atlas/usage.pdf?{OCTOBER}").content)
    heads = sum(text.count("Day GPU-h Node-h CPU-h Attempts started Jobs ended") for text in read)
    parts = sum(any(f"{day} Oct 16.0 2.0 128.0 1 1" in text for day in range(1, 32)) for text in read)
    assert heads == parts >= 1
    assert sum(text.count("31 days 496.0") for text in read) == 1


def test_all_projects_on_letter(admin: Client) -> None:
    fill()
    answer = admin.get(f"/projects/usage.pdf?{OCTOBER}&paper=letter")
    assert set(sizes(answer.content)) == {LETTER}
    whole = " ".join(pages(answer.content))
    assert "Use of all projects" in whole
    assert "2 projects 500.0 100.00 63.0 32 32 1000.00" in whole


def test_the_chart_is_drawn_in_its_colours(admin: Client) -> None:
    fill()
    first = pypdfium2.PdfDocument(admin.get(f"/projects/usage.pdf?{OCTOBER}").content)[0].render().to_pil()
    colours = {colour for _, colour in first.convert("RGB").getcolors(1 << 24)}
    assert (0x1F, 0x4F, 0x9C) in colours  # the first series of the look, light


def test_fonts_are_ours_and_embedded(admin: Client) -> None:
    fill()
    content = admin.get(f"/projects/atlas/usage.pdf?{OCTOBER}").content
    found = pypdfium2.PdfDocument(content)
    objects = [one for one in found[0].get_objects() if isinstance(one, pypdfium2.PdfTextObj)]
    names = {one.get_font().get_base_name() for one in objects}
    assert any("Inter" in name for name in names)
    assert all(one.get_font().is_embedded for one in objects)


def test_only_the_own_fonts_can_be_read(monkeypatch: Any) -> None:
    asked: list[str] = []
    fetch = OnlyOurs.fetch
    monkeypatch.setattr(OnlyOurs, "fetch", lambda self, url, headers=None: (asked.append(url), fetch(self, url))[1])
    for address in ("file:///etc/hostname", "http://127.0.0.1/x.png", "hallbook:../../config/settings.py"):
        with pytest.raises(ValueError, match="nothing but its own fonts"):
            OnlyOurs().fetch(address)
        made = lay_out(f'<p>before<img src="{address}">after</p>', "a4", "http://testserver/")
        assert pages(made) == ["beforeafter 1 / 1"]
    assert "file:///etc/hostname" in asked


def test_names_from_outside_stay_text(admin: Client) -> None:
    declare("atlas")
    book(job("atlas", "2026-10-02 08:00", 1, 8, user='<img src="file:///etc/hostname">'))
    whole = " ".join(pages(admin.get(f"/projects/atlas/usage.pdf?{OCTOBER}").content))
    assert '<img src="file:///etc/hostname">' in whole


def test_an_empty_range_is_a_document_too(admin: Client) -> None:
    fill()
    [text] = pages(admin.get("/projects/atlas/usage.pdf?from=2020-01-01&to=2020-01-31").content)
    assert "Nothing ran in these days." in text


def test_what_is_asked_wrongly_is_told(admin: Client) -> None:
    fill()
    for query, word in (("paper=a5", "Choose the paper"), ("from=x", "Write a day")):
        answer = admin.get(f"/projects/atlas/usage.pdf?{query}")
        assert answer.status_code == 400
        assert word in answer.content.decode()
    assert admin.get("/projects/nobody/usage.pdf").status_code == 404


def test_a_document_is_bounded_in_days_and_one_at_a_time(admin: Client, monkeypatch: Any) -> None:
    fill()
    long = admin.get("/projects/atlas/usage.pdf?from=2006-11-30&to=2026-11-29")
    assert long.status_code == 400
    assert "at most 1100 days" in long.content.decode()
    monkeypatch.setattr(pdf, "PATIENCE_SECONDS", 0.01)
    assert pdf._making.acquire()
    try:
        busy = admin.get(f"/projects/atlas/usage.pdf?{OCTOBER}")
    finally:
        pdf._making.release()
    assert (busy.status_code, busy["Retry-After"]) == (503, "10")
    assert admin.get(f"/projects/atlas/usage.pdf?{OCTOBER}").status_code == 200


def test_without_pango_it_is_said_what_to_install(admin: Client, monkeypatch: Any) -> None:
    fill()
    monkeypatch.setitem(sys.modules, "web.paper", None)
    answer = admin.get(f"/projects/atlas/usage.pdf?{OCTOBER}")
    assert answer.status_code == 503
    assert "libpangoft2-1.0-0" in answer.content.decode()
