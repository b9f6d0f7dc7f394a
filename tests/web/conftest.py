"""Fast passwords for the tests of pages."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def fast_passwords(settings: Any) -> None:
    """Argon2 is slow on purpose; here only the flow matters."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
