"""Hooks bring the next pull forward, but never one onto the heels of another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from jobs import tasks


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """When pulls of one source begin, each 0.1 s long, instead of pulls."""
    begun: list[float] = []

    def pull(_name: str) -> None:
        begun.append(time.monotonic())
        time.sleep(0.1)

    monkeypatch.setattr(tasks, "_pull", pull)
    for known in (tasks._running, tasks._again, tasks._last):
        known.clear()
    yield begun
    _rest("a")
    for known in (tasks._running, tasks._again, tasks._last):
        known.clear()


def _rest(name: str) -> None:
    thread: threading.Thread = tasks._running[name]
    thread.join(10)
    assert not thread.is_alive()


def test_a_hook_is_followed_at_once(pulled: list[float]) -> None:
    told = time.monotonic()
    tasks._start("a", soon=True)
    _rest("a")
    assert len(pulled) == 1
    assert pulled[0] - told < 0.25


def test_hooks_during_a_pull_bring_one_more_and_it_keeps_its_distance(pulled: list[float]) -> None:
    tasks._start("a", soon=False)
    while not pulled:
        time.sleep(0.01)
    for _ in range(5):
        tasks._start("a", soon=True)
    _rest("a")
    first, second = pulled
    assert second - first >= 0.1 + tasks.EAGER_SECONDS  # the first took 0.1 s; twice that is less than the least


def test_a_tick_during_a_pull_brings_none(pulled: list[float]) -> None:
    tasks._start("a", soon=False)
    while not pulled:
        time.sleep(0.01)
    tasks._start("a", soon=False)
    _rest("a")
    assert len(pulled) == 1


def test_a_long_pull_is_followed_later(pulled: list[float]) -> None:
    tasks._last["a"] = (time.monotonic(), 0.4)
    told = time.monotonic()
    tasks._start("a", soon=True)
    _rest("a")
    assert pulled[0] - told >= 0.75  # twice 0.4 s after the last one ended
