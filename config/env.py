"""Typed reading of the environment: one place that knows names, defaults and how a bad value is told."""

from __future__ import annotations

import os
from datetime import time
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

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


class MailServer(NamedTuple):
    """Where mail is handed over. tls: STARTTLS; ssl: encrypted from the first byte."""

    host: str
    port: int
    user: str
    password: str
    tls: bool
    ssl: bool


MAIL_SCHEMES: Final = {
    "smtp": (25, False, False), "smtp+tls": (587, True, False), "submission": (587, True, False),
    "smtps": (465, False, True), "smtp+ssl": (465, False, True),
}  # fmt: skip
"""Scheme -> usual port, STARTTLS, TLS from the start."""


def mail_server(name: str) -> MailServer | None:
    """The variable as the address of a mail server, `smtp+tls://user:password@host:587`; None when unset.

    Characters that mean something in an address are written as %40 and the like. The message never shows the value,
    which holds a password.
    """
    value = text(name)
    if not value:
        return None
    try:
        found = urlsplit(value)
        port = found.port
    except ValueError:
        raise ImproperlyConfigured(f"{name}: this is no address; expected smtp+tls://user:password@host:587") from None
    if found.scheme not in MAIL_SCHEMES or not found.hostname:
        known = ", ".join(f"{scheme}://" for scheme in MAIL_SCHEMES)
        raise ImproperlyConfigured(f"{name}: expected {known} with a host, such as smtp+tls://user:password@host:587")
    usual, tls, ssl = MAIL_SCHEMES[found.scheme]
    return MailServer(
        found.hostname, port or usual, unquote(found.username or ""), unquote(found.password or ""), tls, ssl
    )


def clock(name: str, default: str) -> time:
    """The variable as hour and minute of a day, `07:00`. Raises ImproperlyConfigured otherwise."""
    value = text(name, default)
    hour, _, minute = value.partition(":")
    if hour.isdecimal() and minute.isdecimal() and len(minute) == 2 and int(hour) < 24 and int(minute) < 60:
        return time(int(hour), int(minute))
    raise ImproperlyConfigured(f"{name}={value!r}: expected an hour and minute such as 07:00")


def address(name: str, default: str) -> str:
    """The variable as the address under which people open the site, without a slash at its end."""
    value = text(name, default).rstrip("/")
    found = urlsplit(value)
    if found.scheme not in ("http", "https") or not found.netloc or found.query or found.fragment:
        raise ImproperlyConfigured(f"{name}={value!r}: expected an address such as https://hallbook.example.org")
    return value


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
