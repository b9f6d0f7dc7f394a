"""Every page in a real browser: quiet, on-site, accessible, usable by keyboard, from phone to desk, in both themes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Hall

pytestmark = pytest.mark.browser

OCTOBER = "/projects/?from=2026-10-01&to=2026-10-31"
LOOKS = [(width, theme) for width in (390, 1440) for theme in ("light", "dark")]
SIDEWAYS = "document.documentElement.scrollWidth - window.innerWidth"
REFUSED = ("the server responded with a status of 40",)
"""What the console says of pages that are meant to be refused."""
REACHABLE = """() => {
  const kinds = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const folded = e => e.nodeName !== 'SUMMARY' && e.closest('details:not([open])');
  const seen = [...document.querySelectorAll(kinds)].filter(e => !e.disabled && e.checkVisibility() && !folded(e));
  seen.forEach((e, n) => e.dataset.n = n);
  return seen.length }"""
FOCUSED = "document.activeElement.dataset.n"


def axe_of(page: Any) -> list[str]:
    """Violations that axe-core finds, one line each."""
    package = find_spec("axe_playwright_python")
    if package is None or not package.submodule_search_locations:
        pytest.skip("axe-playwright-python is not installed")
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate((Path(package.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {[node['target'] for node in v['nodes']]}" for v in found["violations"]]


def unmeant(noise: list[str]) -> list[str]:
    """Noise but for the status of pages that are asked for something wrong on purpose."""
    return [line for line in noise if not any(text in line for text in REFUSED)]


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_is_quiet_on_site_accessible_and_no_wider_than_the_screen(
    visitor: Any, served: Hall, width: int, theme: str
) -> None:
    with visitor(width, theme) as one:
        one.go("/login/")
        wrong = {"/login/": axe_of(one.page)}
        one.sign_in()
        for path in served.staff:
            one.go(path)
            wrong[path] = axe_of(one.page)
            if (wider := one.page.evaluate(SIDEWAYS)) > 0:
                wrong[path].append(f"{wider} px wider than the screen")
        assert {path: found for path, found in wrong.items() if found} == {}
        assert unmeant(one.noise) == []


def test_pages_of_a_lead(visitor: Any, served: Hall) -> None:
    with visitor(390) as one:
        one.sign_in("lea")
        for path in served.lead:
            one.go(path)
            assert axe_of(one.page) == [], path
            assert one.page.evaluate(SIDEWAYS) <= 0, path
            assert "atlas" not in one.page.content(), path
        assert unmeant(one.noise) == []


@pytest.mark.parametrize("width", [320, 360, 700, 1000])
def test_no_width_between_makes_a_page_scroll_sideways(visitor: Any, served: Hall, width: int) -> None:
    with visitor(width) as one:
        one.sign_in()
        for path in served.staff:
            one.go(path)
            assert one.page.evaluate(SIDEWAYS) <= 0, path


def test_keyboard_reaches_everything_and_the_focus_is_seen(visitor: Any, served: Hall) -> None:
    with visitor() as one:
        one.sign_in()
        for path in served.staff:
            one.go(path)
            number = one.page.evaluate(REACHABLE)
            reached, unseen = set(), set()
            for _ in range(number + 10):
                one.page.keyboard.press("Tab")
                at = one.page.evaluate(FOCUSED)
                if at is not None and at not in reached:
                    reached.add(at)
                    style = one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                    unseen |= set() if style != "none" else {at}
            missing = {str(n) for n in range(number)} - reached
            names = [one.page.evaluate(f"document.querySelector('[data-n=\"{n}\"]').outerHTML.slice(0, 120)")
                     for n in missing | unseen]  # fmt: skip
            assert names == [], path


def test_pages_can_be_read_without_script(visitor: Any, served: Hall) -> None:
    with visitor(script=False) as one:
        one.sign_in()
        for path in served.staff:
            one.go(path)
            assert one.page.locator("h1").count() == 1, path
        one.go(OCTOBER)
        assert "JavaScript" in one.page.inner_text("figure")
        assert one.page.locator("main table tbody tr").count() >= 28


def test_the_chart_shows_what_the_table_says_in_the_themes_colours(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go(OCTOBER)
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
        assert one.noise == []


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
        for path in (OCTOBER, "/events/"):
            one.go(path)
            wider = one.page.eval_on_selector_all(".scroll", "all => all.map(e => e.scrollWidth > e.clientWidth)")
            assert any(wider), path


def test_search_from_any_page_by_keyboard(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.page.focus("#q")
        one.page.keyboard.type("90417")
        one.page.keyboard.press("Enter")
        one.page.wait_for_url("**/jobs/*/")
        assert "90417" in one.page.inner_text("h1")


def test_a_rejection_is_let_go_by_keyboard(visitor: Any, served: Hall) -> None:
    path = next(path for path in served.staff if path.startswith("/rejections/") and path.count("-") == 4)
    with visitor(390) as one:
        one.sign_in()
        one.go(path)
        assert one.page.locator("mark").inner_text().strip() == '"gpus": "x"'
        one.page.focus("#why")
        one.page.keyboard.type("a test of the pod's first week")
        one.page.keyboard.press("Tab")
        one.page.keyboard.press("Enter")
        one.page.wait_for_selector(".alert.ok")
        assert "let go by ada: a test of the pod's first week" in one.page.inner_text("main")
        assert unmeant(one.noise) == []


def test_sign_out(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in("lea")
        one.go(OCTOBER)
        assert "atlas" not in one.page.content()
        one.page.click("text=Sign out")
        one.page.wait_for_url("**/login/")
        assert one.noise == []
