"""Real PostgreSQL always: one template database is migrated per run, tests clone it or roll back in a clone.

Fixtures: `db` (pytest-django: each test is rolled back), `hall` (an own database: commits are real, other
processes and connections see them), `data` (folder of public test data, or a skip that names the variable).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connections

from bench.base import address as url
from bench.base import as_admin as _admin
from bench.base import use_database as _use

TEMPLATE = f"test_hallbook_{os.getpid()}"


def _drop(name: str) -> None:
    """Drop a database. Without FORCE the server ends its own autovacuum worker there; with it, it may not."""
    try:
        _admin(f"DROP DATABASE {name}")
    except OperationalError:  # a process of the test is still connected
        _admin(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: Any) -> Iterator[None]:
    """The template database, migrated once by the owner."""
    original = connections["default"].settings_dict["NAME"]
    with django_db_blocker.unblock():
        _admin(f"CREATE DATABASE {TEMPLATE}")
        _use(TEMPLATE)
        call_command("migrate", verbosity=0, interactive=False)
        _use(f"{TEMPLATE}_shared")
        _admin(f"CREATE DATABASE {TEMPLATE}_shared TEMPLATE {TEMPLATE}")
    yield
    with django_db_blocker.unblock():
        _use(original)
        _drop(f"{TEMPLATE}_shared")
        _drop(TEMPLATE)


@pytest.fixture
def hall(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """An own database for one test. Gives the environment with which other processes reach it."""
    name = f"{TEMPLATE}_{uuid.uuid4().hex[:8]}"
    shared = connections["default"].settings_dict["NAME"]
    with django_db_blocker.unblock():
        _admin(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        _use(name)
        try:
            yield environment()
        finally:
            _use(shared)
            _drop(name)


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
