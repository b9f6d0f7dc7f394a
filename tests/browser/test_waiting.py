"""The page of what waits now in a real browser: on desk and phone, light and dark, quiet and accessible."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from events.access import Scope
from events.actions import say
from events.types.clusters import ClusterDeclared
from jobs.queries import jobs
from tests.browser.conftest import Hall
from tests.browser.test_pages import LOOKS, SIDEWAYS, axe_of
from tests.web.test_waiting import HOUR, look, running, told

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def queue(served: Hall, django_db_blocker: Any) -> Iterator[str]:
    """Jobs of two projects that wait for everything there is to wait for; the address of one of them."""
    now = int(datetime.now(UTC).timestamp())
    mine: dict[str, Any] = {"account": "vision", "user_name": "mdietz"}
    with django_db_blocker.unblock():
        say(ClusterDeclared(cluster="pod-a", scheduler="slurm"), type_="cluster.declared", actor="test")
        told(
            running(801, "vision", 96, 360, user_name="mdietz"), running(802, "atlas", 64, 180, user_name="jxu"),
            look(810, "Resources", start_time=now + 5 * HOUR, **mine), look(811, "Priority", **mine),
            look(812, "QOSMaxGRESPerUser", **mine), look(813, "Dependency", dependency="afterok:801", **mine),
            look(814, "ReqNodeNotAvail, UnavailableNodes:gpu[001-004]", **mine), look(815, "JobHeldAdmin", **mine),
            look(820, "Priority", account="atlas", user_name="jxu"),
        )  # fmt: skip
        key = jobs(Scope.everything()).get(job_id="810").id
        connections.close_all()
        yield f"/jobs/{key}/"


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_waiting_is_quiet_accessible_and_fits(visitor: Any, queue: str, width: int, theme: str) -> None:
    with visitor(width, theme) as one:
        one.sign_in()
        for path in ("/waiting/", "/waiting/?cause=reserved", queue):
            one.go(path)
            assert axe_of(one.page) == [], path
            assert one.page.evaluate(SIDEWAYS) <= 0, path
        assert one.noise == []


def test_a_click_leads_from_a_wait_to_what_it_waits_for(visitor: Any, queue: str) -> None:
    with visitor() as one:
        one.sign_in()
        one.go("/waiting/")
        one.page.get_by_role("link", name="room in train").click()
        assert one.page.url.endswith("#room-pod-a-train")
        assert one.page.locator("#room-pod-a-train tbody th").all_text_contents() == ["vision", "atlas"]
        one.page.locator("#dependencies").get_by_role("link", name="job 801 (afterok)").click()
        assert one.page.locator("h1").inner_text().startswith("Job 801")
        one.go("/waiting/")
        one.page.select_option("#cause", "own_share")
        one.page.get_by_role("button", name="Show").click()
        one.page.wait_for_url("**cause=own_share*")
        assert one.page.locator("#waiting tbody th").all_text_contents() == ["811", "820"]


def test_a_lead_on_a_phone_reads_counts_of_others(visitor: Any, queue: str) -> None:
    with visitor(390) as one:
        one.sign_in("lea")
        one.go("/waiting/")
        assert axe_of(one.page) == []
        assert one.page.evaluate(SIDEWAYS) <= 0
        assert "atlas" not in one.page.content()
        assert "1 job of other projects wait" in one.page.locator("main").inner_text()
