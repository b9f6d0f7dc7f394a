"""Pages of use in a real browser: how a chart fits a phone, and a theme that is chosen without script."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.browser

OCTOBER = "/projects/?from=2026-10-01&to=2026-10-31"
PAPER = "getComputedStyle(document.body).backgroundColor"


def test_a_chart_fits_a_phone_with_its_axis(visitor: Any) -> None:
    with visitor(390) as one:
        one.sign_in()
        one.go(OCTOBER)
        chart = one.page.locator(".chart .scroll")
        assert chart.evaluate("e => e.scrollWidth <= e.clientWidth")
        assert chart.evaluate("e => e.firstElementChild.getBoundingClientRect().width") > 250


def test_a_theme_is_chosen_and_given_back(visitor: Any) -> None:
    with visitor(1440, "light") as one:
        one.sign_in()
        one.page.click("text=Dark")
        one.page.wait_for_load_state("networkidle")
        assert one.page.evaluate(PAPER) == "rgb(19, 21, 25)"  # --paper of the dark tokens
        one.go(OCTOBER)
        assert one.page.evaluate(PAPER) == "rgb(19, 21, 25)"
        one.page.click("text=System")
        one.page.wait_for_load_state("networkidle")
        assert one.page.evaluate(PAPER) == "rgb(252, 252, 250)"
