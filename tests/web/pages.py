"""Reading pages in tests: what a reader reads, and the rows of a table."""

from __future__ import annotations

import re
from html import unescape

from django.test import Client


def html_of(client: Client, path: str, status: int = 200) -> str:
    """The page's HTML; fails on another status."""
    response = client.get(path)
    assert response.status_code == status, (path, response.status_code)
    return str(response.content.decode())


def words(html: str) -> str:
    """What a reader reads, with single spaces and without the thin ones."""
    plain = re.sub(r"<script.*?</script>|<[^>]+>", " ", html, flags=re.S)
    return " ".join(unescape(plain).replace("\u202f", "").split())


def main_of(html: str) -> str:
    """What a reader reads in the main part."""
    return words(html.split("<main", 1)[1].split("</main>", 1)[0].split(">", 1)[1])


def table(html: str, caption: str) -> list[list[str]]:
    """Rows of the table with this caption, each as the words of its cells."""
    block = re.search(rf"<caption[^>]*>{re.escape(caption)}</caption>(.*?)</table>", html, flags=re.S)
    assert block, caption
    body = block[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, flags=re.S)
    return [[words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.S)] for row in rows]
