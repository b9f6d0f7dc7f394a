"""A real server on loopback over an own database, and Chromium in front of it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from events import deliveries, projector, queries
from events.access import Scope
from events.adapters import Draft, Refusal
from events.intake import Intake
from events.types.accounts import AssociationReported
from events.types.jobs import JobReported
from events.types.shares import FairshareConfigured
from jobs.queries import attempts, jobs, runs
from tests.api.clouds import STRUCTURED, cloud
from tests.conftest import environment
from tests.hand import own_database, tell
from tests.web.books import PASSWORD, at, book, declare, job, person

ROOT = Path(__file__).parent.parent.parent
CHROMIUM = os.environ.get("HALLBOOK_TEST_CHROMIUM") or shutil.which("chromium") or ""
DRAWN = """() => [...document.querySelectorAll('[data-chart]')]
  .every(e => e.dataset.state === 'drawn' && e.querySelector('svg'))"""
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--no-first-run", "--disable-quic", "--disable-gpu"]  # fmt: skip


@dataclass(frozen=True)
class Hall:
    """A served hall: its address, the pages that staff may open, and those of a lead."""

    base: str
    staff: tuple[str, ...]
    lead: tuple[str, ...]


@dataclass
class Visitor:
    """A browser at one size and in one theme; notes what it must not see."""

    page: Any
    base: str
    scripted: bool = True
    noise: list[str] = field(default_factory=list)
    """Console warnings and errors, script errors, and requests that leave the site."""

    def go(self, path: str) -> None:
        """Open a page and wait until it is still."""
        self.page.goto(self.base + path)
        self.page.wait_for_load_state("load")
        if self.page.locator("[data-chart]").count() and self.scripted:
            self.drawn()

    def sign_in(self, name: str = "ada") -> None:
        """Through the form, as people do."""
        self.go("/login/")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", PASSWORD)
        self.page.click("main button[type=submit]")
        self.page.wait_for_url(lambda url: "/login" not in url)

    def drawn(self) -> None:
        """Wait for every chart."""
        self.page.wait_for_function(DRAWN, timeout=30_000)


@pytest.fixture(scope="module")
def served(django_db_setup: None, django_db_blocker: Any) -> Iterator[Hall]:
    """A server over hand-made books: three projects in October, some use without a price, one job that runs."""
    with own_database(django_db_blocker):
        yield from _serving(environment())


def _serving(env: dict[str, str]) -> Iterator[Hall]:
    _fill()
    staff, lead = _paths()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port),
               "config.wsgi:application"]  # fmt: skip
    server = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        base = f"http://127.0.0.1:{port}"
        _wait(base)
        yield Hall(base, staff, lead)
    finally:
        server.terminate()
        server.wait(timeout=20)


def _fill() -> None:
    declare("atlas", "vision", "speech", rates={"h100": 1_848_500})
    jobs = [job(name, f"2026-10-{day:02d} 08:00", 9.5 + day / 7, gpus, user=f"u{day % 4}")
            for day in range(2, 30) for name, gpus in (("atlas", 64), ("vision", 16), ("speech", 8))]  # fmt: skip
    book(*jobs, job("a-long-account-name-without-any-project", "2026-10-04 12:00", 2, 2, gpu_types=("h200=2",)))
    _sightings()
    person("ada", admin=True)
    person("lea", projects=("vision",))


def _sightings() -> None:
    """One job of several sources that waited, ran twice and runs on; a delivery; a rejection of each kind."""
    first = {"start": at("2026-10-20 08:00"), "nodes": 2, "gpus": 16, "node_list": "gpu[001-002]"}
    said = [
        ("slurmctld:pod-a", "PENDING", "2026-10-20 07:00", {"reason": "Priority"}),
        ("hook:pod-a", "RUNNING", "2026-10-20 08:00", first),
        ("jobcomp:pod-a", "PREEMPTED", "2026-10-20 11:00", {**first, "end": at("2026-10-20 11:00")}),
        ("hook:pod-a", "RUNNING", "2026-10-20 12:00", {**first, "start": at("2026-10-20 12:00")}),
    ]
    for source, state, when, fields in said:
        told = {"submit": at("2026-10-20 07:00"), "account": "vision", "user": "u1", "run": "vit-22b", **fields}
        data = JobReported(cluster="pod-a", job_id="90417", state=state, **told)  # type: ignore[arg-type]
        Intake(source, "token:t").take([Draft("job.reported", data, "90417", at(when) * 1_000_000, 0)])
    tell(
        AssociationReported("pod-a", "vision", parent="root", shares=60),
        AssociationReported("pod-a", "speech", parent="root", shares=40),
        FairshareConfigured("pod-a", "2026-01-01", 604_800, mode="continuous", weights=("*=gpu:1000",)),
    )
    refused = Refusal(0, "/data/gpus", "invalid", "expected an integer", '{"data": {"gpus": "x"}}', "jobcomp:pod-a")
    Intake("jobcomp:pod-a", "token:t").reject([refused])
    for number in range(4):
        deliveries.accept_delivery(
            source="jobcomp:pod-a", kind="cloudevents", content_type=STRUCTURED, actor="token:t",
            headers={"x-hallbook-cluster": "pod-a"}, body=json.dumps(cloud(f"e{number}")).encode(),
        )  # fmt: skip
    while deliveries.drain():
        pass
    projector.catch_up()


def _paths() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Every page once, with data and without, also those that refuse what is asked."""
    everything = Scope.everything()
    one = jobs(everything).get(job_id="90417")
    run, attempt = runs(everything).get(id=one.run), attempts(everything).filter(job=one.id).first()
    refused, kept = queries.rejections(everything)[0], queries.deliveries(everything)[0]
    both = (
        "/", "/projects/", "/projects/vision/", "/fairshare/", "/runs/", "/runs/?state=none", f"/runs/{run.id}/",
        "/jobs/", f"/jobs/{one.id}/", "/attempts/", f"/attempts/{attempt.id}/", "/jobs/?colour=red", "/nowhere/",
        f"/streams/{one.stream}/", "/search", "/search?q=vi&all=1", "/search?q=nothing", "/mail/",
    )  # fmt: skip
    staff = (
        "/projects/?from=2026-10-01&to=2026-10-31", "/projects/?from=2026-10-05&to=2026-10-01", "/events/",
        "/events/6/", "/events/?type=rate.withdrawn", "/events/?from=x", "/streams/site/", "/sources/", "/deliveries/",
        f"/deliveries/{kept.id}/", "/rejections/", "/rejections/?state=waived", f"/rejections/{refused.id}/",
    )  # fmt: skip
    connections.close_all()
    return both + staff, (*both, "/events/", "/sources/")


def _wait(base: str) -> None:
    for _ in range(150):
        try:
            urllib.request.urlopen(f"{base}/login/", timeout=5).close()  # noqa: S310 - loopback
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"no answer from {base}")


@pytest.fixture
def visitor(served: Hall) -> Iterator[Any]:
    """Opens visitors: visitor(width=390, theme="dark", script=True, calm=True: prefers reduced motion)."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)

        @contextmanager
        def opened(
            width: int = 1440, theme: str = "light", *, script: bool = True, calm: bool = False
        ) -> Iterator[Visitor]:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=script,
                reduced_motion="reduce" if calm else "no-preference",
            )  # fmt: skip
            found = Visitor(context.new_page(), served.base, script)
            _listen(found)
            yield found
            context.close()

        yield opened
        browser.close()


def _listen(visitor: Visitor) -> None:
    page, noise = visitor.page, visitor.noise
    page.on("console", lambda said: said.type in ("error", "warning") and noise.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: noise.append(f"script: {error}"))
    page.on("request", lambda asked: not asked.url.startswith(visitor.base) and noise.append(f"off-site: {asked.url}"))
