"""Halls that the fault tests may break: one on a database of the test server, one with a server of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.faults.rig import Hall, folder


@pytest.fixture(autouse=True)
def linux_only() -> None:
    """Processes are found in /proc."""
    if sys.platform != "linux":
        pytest.skip("processes are found in /proc, which only Linux has")


@pytest.fixture
def house(hall: dict[str, str]) -> Iterator[Hall]:
    """Web, worker and broker folder of its own; the database is a clone on the server of the tests."""
    with folder() as top, Hall(top / "home", hall) as made:
        made.home.mkdir()
        yield made


@pytest.fixture
def own() -> Iterator[Hall]:
    """A hall with an embedded server of its own, which may be killed."""
    with folder() as top, Hall(top / "home") as made:
        made.did("migrate", "--verbosity", "0")
        yield made


def make_token(hall: Hall) -> str:
    """A token that may send events."""
    return hall.did("token", "faults", "--scope", "events:write")
