"""What templates of mails need: an element's class together with its style."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from web import maillook

__all__ = ["dark", "look", "register"]

register = template.Library()


@register.simple_tag
def look(name: str) -> SafeString:
    """`class` and `style` of an element."""
    return format_html('class="{}" style="{}"', name, mark_safe(maillook.style(name)))  # noqa: S308 - our own tokens


@register.simple_tag
def dark() -> SafeString:
    """The sheet of dark readers."""
    return mark_safe(maillook.sheet())  # noqa: S308 - our own tokens
