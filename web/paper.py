"""HTML to PDF: the layout, our styles and fonts. Imported by what makes a document, for it needs Pango and time."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

from weasyprint import CSS, HTML
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import URLFetcher, URLFetcherResponse

__all__ = ["FONTS", "PAPERS", "lay_out"]

HERE: Final = Path(__file__).parent
FONTS: Final = HERE / "fonts"
PAPERS: Final = {"a4": "A4", "letter": "Letter"}
FACES: Final = {400: "Inter_400Regular.ttf", 500: "Inter_500Medium.ttf", 600: "Inter_600SemiBold.ttf"}
OURS: Final = "hallbook:"
"""Scheme of what a document may read: files of the folder of fonts."""
logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it warns of every property that is for screens only
_making = Lock()
"""One document at a time in a process: the layout works on one core anyway, and it shares its fonts."""


class OnlyOurs(URLFetcher):
    """Reads our fonts. Nothing else, least of all an address out of the books."""

    def fetch(self, url: str, headers: Any = None) -> URLFetcherResponse:  # noqa: ARG002
        """The file of a font. Raises ValueError for any other address."""
        name = url.removeprefix(OURS)
        if name == url or name not in FACES.values():
            raise ValueError(f"a document reads nothing but its own fonts, not {url[:80]!r}")
        return URLFetcherResponse(url, (FONTS / name).read_bytes(), {"Content-Type": "font/ttf"})


def lay_out(html: str, paper: str, address: str, *, across: bool = False) -> bytes:
    """A PDF of a document. paper: a key of PAPERS; address: what relative links in it lead from; across: lies."""
    with _making:
        styles, fonts = _styles()
        sheet = f"{PAPERS[paper]} landscape" if across else PAPERS[paper]
        size = CSS(string=f"@page {{ size: {sheet} }}", font_config=fonts)
        made: bytes = HTML(string=html, base_url=address, url_fetcher=OnlyOurs()).write_pdf(
            stylesheets=[*styles, size], font_config=fonts
        )
    return made


@cache
def _styles() -> tuple[list[CSS], FontConfiguration]:
    """Style sheets and fonts, read once per process."""
    fonts, fetcher = FontConfiguration(), OnlyOurs()
    faces = "".join(
        f"@font-face {{ font-family: Inter; font-weight: {weight}; src: url({OURS}{name}) }}"
        for weight, name in FACES.items()
    )
    sheets = [faces, *((HERE / "static" / name).read_text(encoding="utf-8") for name in ("tokens.css", "app.css"))]
    return [CSS(string=sheet, font_config=fonts, url_fetcher=fetcher, media_type="print") for sheet in sheets], fonts
