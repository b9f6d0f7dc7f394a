"""Pages that move by themselves: without a reload, without taking anything out of somebody's hand, and to be paused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from tests.browser.conftest import Hall
from tests.browser.test_pages import axe_of
from tests.web.books import book, job

pytestmark = pytest.mark.browser

TOP = "document.querySelector('main tbody th').textContent.replace(/\\D/g, '')"


def say(number: str, user: str = "u1") -> None:
    """Something new happens: one more job. In a thread, since Playwright's loop runs in this one."""

    def told() -> None:
        try:
            book(job("vision", "2026-10-29 08:00", 1, 8, job_id=number, user=user))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(told).result()


def position(one: Any) -> int:
    """What the page stands on."""
    return int(one.page.inner_text(".asof b").replace("\u202f", ""))


def moved(one: Any, before: int) -> None:
    """Wait until the page stands on a later position."""
    one.page.wait_for_function(
        "old => Number(document.querySelector('.asof b').textContent.replace(/\\D/g, '')) > old",
        arg=before, timeout=15_000,
    )  # fmt: skip


def test_a_page_moves_without_a_reload_and_keeps_what_one_had_open(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go("/events/")
        one.page.evaluate("window.sameDocument = true")
        one.page.evaluate("document.querySelector('details').open = true")
        before = position(one)
        link = one.page.locator("main tbody tr a").first
        link.focus()
        held = link.get_attribute("href")
        say("7001")
        moved(one, before)
        assert one.page.evaluate(TOP) == str(before + 1)
        assert one.page.evaluate("window.sameDocument")
        assert one.page.evaluate("document.querySelector('details').open")
        assert one.page.evaluate("document.activeElement.getAttribute('href')") == held
        assert axe_of(one.page) == []
        assert one.noise == []


def test_nothing_moves_under_a_hand_that_writes(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go("/events/")
        before = position(one)
        one.page.focus("#e-source")
        one.page.keyboard.type("hoo")
        say("7002")
        one.page.wait_for_function(
            "() => document.querySelector('.moved').textContent.includes('now at')", timeout=15_000
        )
        assert position(one) == before
        assert one.page.input_value("#e-source") == "hoo"
        one.page.fill("#e-source", "")
        one.page.focus("#main")
        moved(one, before)


def test_it_is_paused_and_followed_again_by_keyboard(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go("/sources/")
        before = position(one)
        one.page.focus(".asof .live")
        one.page.keyboard.press("Enter")
        assert one.page.inner_text(".asof .live") == "Follow"
        say("7003")
        one.page.wait_for_function(
            "() => document.querySelector('.moved').textContent.includes('now at')", timeout=15_000
        )
        assert position(one) == before
        assert axe_of(one.page) == []
        one.go("/events/")
        assert one.page.inner_text(".asof .live") == "Follow"  # for the whole tab
        before = position(one)
        one.page.focus(".asof .live")
        one.page.keyboard.press("Enter")
        say("7004")
        moved(one, before)


def test_who_prefers_less_motion_starts_paused(visitor: Any) -> None:
    with visitor(calm=True) as one:
        one.sign_in()
        one.go("/events/")
        assert one.page.inner_text(".asof .live") == "Follow"
        assert one.page.get_attribute("#main", "data-state") == "paused"


def test_who_is_signed_out_elsewhere_is_told(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go("/events/")
        one.page.context.clear_cookies()
        one.page.wait_for_function(
            "() => document.querySelector('.moved').textContent.includes('signed out')", timeout=15_000
        )


def test_pages_of_the_past_hold_still(visitor: Any, served: Hall) -> None:
    with visitor() as one:
        one.sign_in()
        stream = next(path for path in served.staff if path.startswith("/streams/job/"))
        for path in (f"{stream}?as_of=200", "/events/?before=50", "/events/?type=job.reported"):
            one.go(path)
            assert one.page.locator(".asof .live").count() == 0, path
        one.go(stream)
        assert one.page.locator(".asof .live").count() == 1


def test_charts_are_drawn_again_when_their_figures_moved(visitor: Any) -> None:
    with visitor() as one:
        one.sign_in()
        one.go("/projects/vision/?from=2026-10-01&to=2026-10-31")
        if not one.page.locator(".asof .live").count():
            pytest.fail("the page of a project does not follow")
        before = position(one)
        bars = one.page.locator('.plot path[aria-roledescription="bar"]').count()
        say("7005", "u9")  # somebody who has not used anything so far
        moved(one, before)
        one.page.wait_for_function(
            "old => document.querySelectorAll('.plot path[aria-roledescription=bar]').length > old", arg=bars,
            timeout=15_000,
        )  # fmt: skip
        assert one.page.locator("[data-chart] svg").count() == one.page.locator("[data-chart]").count()
        assert one.noise == []
