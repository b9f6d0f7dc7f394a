"""Tokens and callers for the tests of the door for machines."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from django.test import Client

from api import bodies, tokens
from events import deliveries

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cached tokens or gauges of another test's database, and no worker to wake."""
    tokens.forget()
    monkeypatch.setattr(bodies, "wake", lambda: None)
    monkeypatch.setattr(deliveries, "_gauge", deliveries._Gauge())


@pytest.fixture
def caller() -> Callable[..., Client]:
    """Makes a client that sends a new token with the given scopes."""

    def make(*scopes: str, projects: tuple[str, ...] = ()) -> Client:
        _, secret = tokens.create(f"test-{next(_numbers)}", scopes, projects)
        return Client(HTTP_AUTHORIZATION=f"Bearer {secret}")

    return make
