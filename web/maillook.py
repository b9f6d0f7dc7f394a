"""The look of mails: the product's tokens as literal values, since mail readers know no variables.

Each element carries its style, which every reader follows; readers that know dark mode take the second set of
colours from the sheet in the head. Colours and sizes are decided in `static/tokens.css` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["RULES", "sheet", "style"]

TOKENS: Final = Path(__file__).parent / "static" / "tokens.css"
_TOKEN: Final = re.compile(r"--([\w-]+):\s*([^;]+);")
_BLOCK: Final = re.compile(r"(:root|\[data-theme=\"dark\"\])\s*\{(.*?)\n\s*\}", re.DOTALL)
_USED: Final = re.compile(r"var\(--([\w-]+)\)")
_REM: Final = re.compile(r"(\d*\.?\d+)rem")
_COLOURED: Final = re.compile(r"color|border")
_FIGURES: Final = "font-variant-numeric: tabular-nums"
RULES: Final[Mapping[str, str]] = {
    "page": "margin: 0; padding: 0; background-color: var(--paper)",
    "sheet": "font-family: var(--font); font-size: var(--fs-base); line-height: 1.45; color: var(--ink); "
             "max-width: 40rem; margin: 0 auto; padding: 1.5rem 1rem",
    "mark": "font-size: var(--fs-small); color: var(--ink-2); margin: 0 0 1rem; font-weight: 600",
    "h1": "font-size: var(--fs-h1); line-height: 1.2; margin: 0 0 .25rem; font-weight: 600; color: var(--ink)",
    "h2": "font-size: var(--fs-h2); line-height: 1.2; margin: 0 0 .5rem; font-weight: 600; color: var(--ink)",
    "h3": "font-size: var(--fs-small); line-height: 1.2; margin: 1rem 0 .25rem; font-weight: 600; color: var(--ink-2)",
    "block": "border-top: 1px solid var(--rule); padding-top: .75rem; margin-top: 2rem",
    "sub": "color: var(--ink-2); margin: 0 0 .75rem; font-size: var(--fs-small)",
    "p": "margin: 0 0 .75rem; color: var(--ink)",
    "figure": "font-size: var(--fs-figure); line-height: 1.2; margin: .75rem 0 0; font-weight: 600; "
              f"color: var(--ink); {_FIGURES}",
    "unit": "font-size: var(--fs-base); font-weight: 400; color: var(--ink-2)",
    "table": "border-collapse: collapse; width: 100%; font-size: var(--fs-small)",
    "head": "text-align: left; font-weight: 400; font-size: var(--fs-note); color: var(--ink-2); "
            "padding: .25rem .5rem .25rem 0; border-bottom: 1px solid var(--rule); vertical-align: bottom",
    "headn": "text-align: right; font-weight: 400; font-size: var(--fs-note); color: var(--ink-2); "
             "padding: .25rem 0 .25rem .5rem; border-bottom: 1px solid var(--rule); vertical-align: bottom",
    "cell": "text-align: left; font-weight: 400; color: var(--ink); padding: .25rem .5rem .25rem 0; "
            "border-bottom: 1px solid var(--hair); vertical-align: top",
    "celln": "text-align: right; color: var(--ink); padding: .25rem 0 .25rem .5rem; white-space: nowrap; "
             f"border-bottom: 1px solid var(--hair); vertical-align: top; {_FIGURES}",
    "none": "text-align: right; color: var(--ink-3); padding: .25rem 0 .25rem .5rem; white-space: nowrap; "
            "border-bottom: 1px solid var(--hair); vertical-align: top; font-style: italic",
    "sum": "text-align: left; font-weight: 600; color: var(--ink); padding: .25rem .5rem .25rem 0; "
           "border-bottom: 3px double var(--rule)",
    "sumn": "text-align: right; font-weight: 600; color: var(--ink); padding: .25rem 0 .25rem .5rem; "
            f"border-bottom: 3px double var(--rule); {_FIGURES}",
    "note": "color: var(--ink-3); font-size: var(--fs-note)",
    "foot": "color: var(--ink-3); font-size: var(--fs-note); margin: 0 0 .5rem",
    "more": "color: var(--t-more)",
    "less": "color: var(--t-less)",
    "fault": "color: var(--t-fault); font-weight: 600",
    "a": "color: var(--accent)",
}  # fmt: skip
"""Class -> declarations in terms of tokens."""


@cache
def style(name: str) -> str:
    """The declarations of a class with literal values, light. Raises KeyError for a class that there is not."""
    return _literal(RULES[name], _tokens()["light"])


@cache
def sheet() -> str:
    """The sheet for dark readers: the colours of every class."""
    dark = {**_tokens()["light"], **_tokens()["dark"]}
    rules = [f".{name} {{ {declared} }}" for name, rule in RULES.items() if (declared := _colours(rule, dark))]
    return "@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}"


def _colours(rule: str, tokens: Mapping[str, str]) -> str:
    parts = [part.strip() for part in rule.split(";")]
    coloured = [part for part in parts if _COLOURED.search(part) and "var(" in part]
    return "; ".join(f"{_literal(part, tokens)} !important" for part in coloured)


def _literal(rule: str, tokens: Mapping[str, str]) -> str:
    """Tokens by their values, sizes in pixels of a 16-pixel reader; quotes that may stand in an attribute."""
    found = _USED.sub(lambda match: tokens[match[1]], rule)
    return _REM.sub(lambda match: f"{float(match[1]) * 16:g}px", found).replace('"', "'")


@cache
def _tokens() -> dict[str, dict[str, str]]:
    """Tokens of light and of dark."""
    text = re.sub(r"/\*.*?\*/", "", TOKENS.read_text(encoding="utf-8"), flags=re.DOTALL)
    blocks = {name: dict(_TOKEN.findall(body)) for name, body in _BLOCK.findall(text)}
    return {"light": blocks[":root"], "dark": blocks['[data-theme="dark"]']}
