"""Rows of tables as HTML. A page has hundreds of cells: a template for each would be most of its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape  # what Django's calls, without its look at each text whether it is lazy

from django import template
from django.utils.safestring import SafeString, mark_safe

from web.tables import Bar, Cell

__all__ = ["cells", "register"]

register = template.Library()


@register.filter
def cells(row: Sequence[Cell]) -> SafeString:
    """The cells of a row, the first one its head. Everything that is not ours is escaped."""
    parts: list[str] = []
    for at, cell in enumerate(row):
        head = not at and bool(cell.text)  # an empty head is none: a row that goes on from the one above
        name, scope = ("th", ' scope="row"') if head else ("td", "")
        anchor = f' id="{escape(cell.anchor)}"' if cell.anchor and not at else ""
        css = f' class="{escape(cell.css)}"' if cell.css else ""
        title = f' title="{escape(cell.title)}"' if cell.title else ""
        parts += [f"<{name}{scope}{anchor}{css}{title}>", *_inside(cell), f"</{name}>"]
    return mark_safe("".join(parts))  # noqa: S308 - every text went through escape


def _inside(cell: Cell) -> Iterator[str]:
    text = escape(cell.text) if cell.text else ""
    if cell.iso:
        text = f'<time datetime="{escape(cell.iso)}">{text}</time>'
    if cell.href:
        text = f'<a href="{escape(cell.href)}">{text}</a>'
    if cell.state:
        text = f'<span class="st {escape(cell.state)}">{text}</span>'
    yield f'<span class="key {escape(cell.key)}">{text}</span>' if cell.key else text
    if cell.tag:
        yield f' <span class="tag">{escape(cell.tag)}</span>'
    for mark in cell.marks:
        yield f' <span class="tag" title="{escape(mark.meaning)}">{escape(mark.word)}</span>'
    if cell.note:
        yield f' <span class="note">{escape(cell.note)}</span>'
    if cell.bar:
        yield _bar(cell.bar)


def _bar(bar: Bar) -> str:
    place = f' x="{escape(bar.at)}"' if bar.at else ""
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="f {escape(bar.key)}"{place} y="1" width="{escape(bar.width)}" height="8"/></svg>'
    )
