"""Pages in a real browser: quiet, on-site, accessible, usable by keyboard, at desk and phone width, in both themes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

OCTOBER = "/use/?from=2026-10-01&to=2026-10-31"
LOOKS = [(width, theme) for width in (390, 1440) for theme in ("light", "dark")]
SIDEWAYS = "document.documentElement.scrollWidth - window.innerWidth"
WHERE = """() => { const e = document.activeElement;
  return (e.getAttribute('href') || e.id || e.name || e.getAttribute('aria-label') || e.textContent.trim()) }"""


def axe_of(page: Any) -> list[str]:
    """Violations that axe-core finds, one line each."""
    package = find_spec("axe_playwright_python")
    if package is None or not package.submodule_search_locations:
        pytest.skip("axe-playwright-python is not installed")
    page.evaluate((Path(package.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {[node['target'] for node in v['nodes']]}" for v in found["violations"]]


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_quiet_on_site_and_no_wider_than_the_screen(visitor: Any, width: int, theme: str) -> None:
    with visitor(width, theme) as one:
        one.sign_in()
        for path in (OCTOBER, "/use/?from=2026-10-25&to=2026-10-25&group=user", "/use/?from=2020-01-01&to=2020-01-02"):
            one.go(path)
            if "2026" in path:
                one.drawn()
            assert one.page.evaluate(SIDEWAYS) <= 0
        assert one.noise == []


@pytest.mark.parametrize("width", [320, 700, 800, 1000, 1200])
def test_no_width_between_makes_the_page_scroll_sideways(visitor: Any, width: int) -> None:
    with visitor(width) as one:
        one.sign_in()
        one.go(OCTOBER)
        one.drawn()
        assert one.page.evaluate(SIDEWAYS) <= 0


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_axe_finds_nothing(visitor: Any, width: int, theme: str) -> None:
    with visitor(width, theme) as one:
        one.go("/login/")
        assert axe_of(one.page) == []
        one.sign_in()
        one.go(OCTOBER)
        one.drawn()
        assert axe_of(one.page) == []
        one.go("/use/?from=2026-10-05&to=2026-10-01")
        assert axe_of(one.page) == []


def test_the_chart_shows_what_the_table_says_in_the_themes_colours(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go(OCTOBER)
        one.drawn()
        bars = one.page.locator('.plot path[aria-roledescription="bar"]')
        assert bars.count() >= 3 * 28
        light = bars.first.get_attribute("fill")
        bars.nth(5).hover()
        tip = one.page.locator("#tip.visible")
        tip.wait_for()
        assert "GPU-hours" in tip.inner_text()
        one.page.emulate_media(color_scheme="dark")
        one.page.wait_for_function(
            "old => document.querySelector('.plot path[aria-roledescription=bar]')?.getAttribute('fill') !== old",
            arg=light,
        )
        assert one.page.locator(".plot svg").count() == 1
        assert one.noise == []


def test_the_page_can_be_read_without_script(visitor: Any) -> None:
    with visitor(script=False) as one:
        one.sign_in()
        one.go(OCTOBER)
        assert "The chart needs JavaScript." in one.page.inner_text("figure")
        assert one.page.locator("#by-time tbody tr").count() >= 28


def test_keyboard_reaches_everything(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go(OCTOBER)
        one.drawn()
        wanted = set(one.page.eval_on_selector_all("main a[href]", "all => all.map(e => e.getAttribute('href'))"))
        wanted |= {"from", "to", "project", "Show", "Chart", "Table: By project", "Table: By day", "#main", "Sign out"}
        reached = set()
        for _ in range(200):
            one.page.keyboard.press("Tab")
            reached.add(one.page.evaluate(WHERE))
            if wanted <= reached:
                break
        assert wanted - reached == set()


def test_skip_link_and_visible_focus(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go(OCTOBER)
        one.page.keyboard.press("Tab")
        assert one.page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        assert one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        one.page.keyboard.press("Enter")
        assert one.page.evaluate("document.activeElement.id") == "main"


def test_menu_on_a_phone_opens_and_closes_by_keyboard(visitor: Any) -> None:
    with visitor(390) as one:
        one.sign_in()
        one.go(OCTOBER)
        assert not one.page.is_visible("#nav")
        one.page.focus(".menu")
        one.page.keyboard.press("Enter")
        one.page.wait_for_selector("#nav", state="visible")
        assert axe_of(one.page) == []
        one.page.keyboard.press("Escape")
        one.page.wait_for_selector("#nav", state="hidden")


def test_wide_parts_scroll_sideways_inside_a_phone(visitor: Any) -> None:
    with visitor(390) as one:
        one.sign_in()
        one.go(OCTOBER)
        one.drawn()
        wider = one.page.eval_on_selector_all(".scroll", "all => all.map(e => e.scrollWidth > e.clientWidth)")
        assert wider[:2] == [True, True]


def test_sign_out(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in("lea")
        one.go(OCTOBER)
        assert "atlas" not in one.page.content()
        one.page.click("text=Sign out")
        one.page.wait_for_url("**/login/")
        assert one.noise == []
