"""Real PostgreSQL always: one template database is migrated per run, tests work in clones of it.

Fixtures: `db` (pytest-django: each test is rolled back), `hall` (an own database: commits are real, other
processes and connections see them), `data` (folder of public test data, or a skip that names the variable).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from hypothesis import HealthCheck
from hypothesis import settings as examples

from bench.base import address as url
from tests import clones

# A busy machine says nothing about a test.
examples.register_profile("hallbook", deadline=None, suppress_health_check=[HealthCheck.too_slow])
examples.load_profile("hallbook")


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: Any) -> Iterator[None]:
    """The template database, migrated once by the owner."""
    with django_db_blocker.unblock(), clones.template():
        yield


@pytest.fixture
def hall(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """An own database for one test. Gives the environment with which other processes reach it."""
    with django_db_blocker.unblock(), clones.own_database():
        yield environment()


def environment() -> dict[str, str]:
    """Environment of a child process that shall use the present test database."""
    found = {**os.environ, "HALLBOOK_HOME": str(settings.HALLBOOK_HOME)}
    for alias, variable in (("default", "DATABASE_URL"), ("owner", "DATABASE_OWNER_URL")):
        found[variable] = url(alias)
    return found


@pytest.fixture
def data() -> Path:
    """Folder of the public test data, too big or not ours to be in the repository."""
    folder = os.environ.get("HALLBOOK_TEST_DATA")
    if not folder:
        pytest.skip("HALLBOOK_TEST_DATA is not set: the public reference data is not here")
    return Path(folder)


@pytest.fixture
def payloads() -> Path:
    """Captured bodies that live in the repository."""
    return Path(__file__).parent / "payloads"
