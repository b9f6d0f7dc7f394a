"""A real server on loopback over an own database, and Chromium in front of it."""

from __future__ import annotations

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

from tests.web.books import PASSWORD, book, declare, job, person

ROOT = Path(__file__).parent.parent.parent
CHROMIUM = os.environ.get("HALLBOOK_TEST_CHROMIUM") or shutil.which("chromium") or ""
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--no-first-run", "--disable-quic", "--disable-gpu"]  # fmt: skip


@dataclass
class Visitor:
    """A browser at one size and in one theme; notes what it must not see."""

    page: Any
    base: str
    noise: list[str] = field(default_factory=list)
    """Console warnings and errors, script errors, and requests that leave the site."""

    def go(self, path: str) -> None:
        """Open a page and wait until it is still."""
        self.page.goto(self.base + path)
        self.page.wait_for_load_state("networkidle")

    def sign_in(self, name: str = "ada") -> None:
        """Through the form, as people do."""
        self.go("/login/")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", PASSWORD)
        self.page.click("button[type=submit]")
        self.page.wait_for_load_state("networkidle")

    def drawn(self) -> None:
        """Wait for the chart."""
        self.page.wait_for_selector('[data-state="drawn"] svg', timeout=30_000)


@pytest.fixture
def live(hall: dict[str, str]) -> Iterator[str]:
    """Address of a server over hand-made books: three projects in October, some use without a price."""
    _fill()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port),
               "config.wsgi:application"]  # fmt: skip
    server = subprocess.Popen(command, cwd=ROOT, env=hall, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        base = f"http://127.0.0.1:{port}"
        _wait(base)
        yield base
    finally:
        server.terminate()
        server.wait(timeout=20)


def _fill() -> None:
    declare("atlas", "vision", "speech", rates={"h100": 1_848_500})
    jobs = [job(name, f"2026-10-{day:02d} 08:00", 9.5 + day / 7, gpus, user=f"u{day % 4}")
            for day in range(2, 30) for name, gpus in (("atlas", 64), ("vision", 16), ("speech", 8))]  # fmt: skip
    book(*jobs, job("a-long-account-name-without-any-project", "2026-10-04 12:00", 2, 2, gpu_types=("h200=2",)))
    person("ada", admin=True)
    person("lea", projects=("vision",))
    connections.close_all()


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
def visitor(live: str) -> Iterator[Any]:
    """Opens visitors: visitor(width=390, theme="dark", script=True)."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)

        @contextmanager
        def opened(width: int = 1440, theme: str = "light", *, script: bool = True) -> Iterator[Visitor]:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=script
            )
            found = Visitor(context.new_page(), live)
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
