"""Hand-made books for the tests of pages: a site, projects, accounts, people and jobs with known figures."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from events import actions, projector
from events.adapters import Draft
from events.intake import Intake
from events.types.clusters import SiteDeclared
from events.types.jobs import JobReported
from events.types.projects import AccountMapped, ProjectDeclared
from events.types.rates import RatePublished

BERLIN = ZoneInfo("Europe/Berlin")
PASSWORD = "a long enough word"
_numbers = itertools.count(1)


def declare(*projects: str, zone: str = "Europe/Berlin", rates: dict[str, int] | None = None) -> None:
    """A site, projects with an account of the same name each, and prices in micro-units an hour."""
    actions.declare_site(SiteDeclared(name="Hall 1", timezone=zone, currency="EUR"), actor="test")
    for project in projects:
        actions.say(ProjectDeclared(project=project), type_="project.declared", actor="test")
        mapped = AccountMapped(cluster="pod-a", account=project, from_day="2020-01-01", project=project)
        actions.say(mapped, type_="account.mapped", actor="test")
    for name, price in (rates or {}).items():
        rate = RatePublished(resource_class=name, currency="EUR", micro_per_hour=price, from_day="2020-01-01")
        actions.say(rate, type_="rate.published", actor="test")
    projector.catch_up()


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    """Epoch seconds of a local time such as 2026-10-25 01:00."""
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())


def job(account: str, start: str, hours: float, gpus: int, *, user: str = "u1", wait: int = 60, **more: Any) -> Draft:
    """A finished job: hours x gpus, waited for `wait` seconds."""
    number, began = next(_numbers), at(start)
    given: dict[str, Any] = {
        "cluster": "pod-a", "job_id": str(number), "state": "COMPLETED", "submit": began - wait,
        "eligible": began - wait, "start": began, "end": began + int(hours * 3600), "account": account,
        "user": user, "partition": "train", "nodes": max(1, gpus // 8), "cpus": 8 * max(1, gpus), "gpus": gpus,
        "gpu_types": (f"h100={gpus}",) if gpus else (),
    } | more  # fmt: skip
    return Draft("job.reported", JobReported(**given), str(number), given["end"] * 1_000_000, number)


def book(*jobs: Draft) -> None:
    """Take jobs in and project them."""
    results = Intake(source="test", actor="test").take(jobs)
    assert {result.status for result in results} <= {"accepted"}
    projector.catch_up()


def person(name: str, *, admin: bool = False, projects: tuple[str, ...] = ()) -> User:
    """Somebody who may log in; an admin sees everything, others the projects granted."""
    make = User.objects.create_superuser if admin else User.objects.create_user
    user = make(name, password=PASSWORD)
    if projects:
        call_command("grant", name, *[f"--project={project}" for project in projects], verbosity=0)
    return user


def signed_in(user: User) -> Client:
    """A client with that person's session."""
    client = Client()
    client.force_login(user)
    return client
