"""`manage.py demo`: a home of its own, one plan per home, the logins, and quiet when it is told to be."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command

from config.demo.loading import known_plan
from config.management.commands import demo
from events.queries import head_position
from fleet.queries import site
from jobs.models import Grant, Job
from tests.web.books import declare


def run(**options: Any) -> str:
    said = io.StringIO()
    call_command("demo", **{"serve": False, "stdout": said, "stderr": said} | options)
    return said.getvalue()


def test_it_loads_once_prints_logins_that_work_and_keeps_to_its_plan(hall: dict[str, str]) -> None:
    said = run(pod="small", days=2, seed=4)
    position = head_position()
    assert "simulated" in said
    assert site().name == "Vellmar hall"
    assert Job.objects.count() > 30
    for name in ("admin", "lead"):
        password = said.split(f"login '{name}', password '")[1].split("'")[0]
        assert authenticate(username=name, password=password)
    assert list(Grant.objects.values_list("project", flat=True)) == ["perception"]

    assert "simulated" not in run()
    assert head_position() == position
    plan = known_plan()
    assert plan is not None
    assert (plan.pod, plan.seed, plan.whole) == ("small", 4, True)
    for other in ({"pod": "hall"}, {"seed": 5}):
        with pytest.raises(CommandError, match="HALLBOOK_HOME=var/other") as refused:
            run(**other)
        assert refused.value.returncode == 2


@pytest.mark.parametrize("days", [0, -1, 1001])
def test_a_number_of_days_that_cannot_be(hall: dict[str, str], days: int) -> None:
    with pytest.raises(CommandError, match="expected 1 to 1000") as refused:
        run(days=days)
    assert refused.value.returncode == 2
    assert head_position() == 0


def test_books_of_a_real_site_are_refused(hall: dict[str, str]) -> None:
    declare("vision")
    position = head_position()
    with pytest.raises(CommandError, match="keeps the books of Hall 1 already"):
        run()
    assert head_position() == position


def test_serving_goes_on_in_real_time_unless_told_not_to(hall: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []

    @contextmanager
    def going_on(world: Any, since: int) -> Iterator[None]:
        began.append("live")
        yield
        began.append("over")

    def call(name: str, **options: Any) -> None:
        began.append(name) if name == "serve" else call_command(name, **options)

    monkeypatch.setattr(demo, "going_on", going_on)
    monkeypatch.setattr(demo, "call_command", call)
    run(pod="small", days=1, serve=True)
    assert began == ["live", "serve", "over"]
    began.clear()
    run(serve=True, live=False)
    run(serve=False, live=True)
    assert began == ["serve"]
