"""Reports in a real browser: quiet, accessible, no wider than the screen, drawn, usable by keyboard."""

from __future__ import annotations

from typing import Any

import pytest

from events import reports
from tests.browser.test_pages import SIDEWAYS, axe_of, unmeant

pytestmark = pytest.mark.browser

OCTOBER = "from=2026-10-01&to=2026-10-31"


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_every_report_is_quiet_accessible_and_fits(visitor: Any, width: int, theme: str) -> None:
    paths = ["/reports/", "/reports/usage/?group_by=colour", "/reports/usage/?from=2020-01-01&to=2020-01-02"]
    for name in reports.names():
        paths += [f"/reports/{name}/?{OCTOBER}", f"/reports/{name}/?{OCTOBER}&group_by=day,project"]
    with visitor(width, theme) as one:
        one.sign_in()
        for path in paths:
            one.go(path)
            assert one.page.locator("h1").count() == 1, path
            assert axe_of(one.page) == [], path
            assert one.page.evaluate(SIDEWAYS) <= 0, path
        assert unmeant(one.noise) == []


def test_bars_that_lie_fit_a_phone_and_show_what_the_table_says(visitor: Any) -> None:
    with visitor(390) as one:
        one.sign_in()
        one.go(f"/reports/usage/?{OCTOBER}&group_by=project,user")
        frame = one.page.locator(".chart .scroll")
        assert frame.evaluate("e => e.scrollWidth <= e.clientWidth")
        bars = one.page.locator('.plot path[aria-roledescription="bar"]')
        assert bars.count() >= 3 * 4
        assert one.page.locator(".plot").evaluate("e => e.firstElementChild.getBoundingClientRect().height > 80")


def test_a_report_is_asked_for_by_its_form(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go(f"/reports/usage/?{OCTOBER}")
        one.page.select_option("#g2", "month")
        one.page.select_option("#project", "vision")
        one.page.focus("#timezone")
        one.page.keyboard.press("Enter")
        one.page.wait_for_load_state("load")
        one.drawn()
        assert one.page.inner_text("#h-rows") == "By project, month"
        assert one.page.locator("#rows tbody tr").count() == 1
        assert one.page.inner_text("#rows tbody th") == "vision"
        assert unmeant(one.noise) == []
