"""Typed reading of the environment: one place that knows names, defaults and how a bad value is told."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

BASE = Path(__file__).resolve().parent.parent


def text(name: str, default: str = "") -> str:
    """The variable as text, or the default when unset or empty."""
    return os.environ.get(name) or default


def flag(name: str, *, default: bool = False) -> bool:
    """The variable as yes/no. Raises ImproperlyConfigured for any other word."""
    value = text(name).lower()
    if value in ("", "1", "true", "yes", "on", "0", "false", "no", "off"):
        return default if value == "" else value in ("1", "true", "yes", "on")
    raise ImproperlyConfigured(f"{name}={value!r}: expected yes or no")


def number(name: str, default: int) -> int:
    """The variable as a whole number. Raises ImproperlyConfigured otherwise."""
    value = text(name)
    try:
        return int(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r}: expected a whole number") from None


def words(name: str, default: list[str]) -> list[str]:
    """The variable as a comma-separated list."""
    value = text(name)
    return [word.strip() for word in value.split(",") if word.strip()] if value else default


def home() -> Path:
    """The state directory: embedded database, broker files, secret key, media. Made when missing, mode 0755."""
    path = Path(text("HALLBOOK_HOME", str(BASE / "var"))).expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"HALLBOOK_HOME={path}: cannot be made ({error.strerror})") from None
    return path


def secret(path: Path) -> str:
    """HALLBOOK_SECRET_KEY, else the key kept in a file (made once, readable by its owner only)."""
    if given := text("HALLBOOK_SECRET_KEY"):
        return given
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return _make_secret(path)


def _make_secret(path: Path) -> str:
    from django.core.management.utils import get_random_secret_key

    key = get_random_secret_key()
    scratch = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key)
    try:
        os.link(scratch, path)  # only the first of two concurrent commands wins
    except FileExistsError:
        pass
    finally:
        scratch.unlink()
    return path.read_text(encoding="ascii").strip()
