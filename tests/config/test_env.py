"""Reading of the environment where a value has a form: mail server, time of day, address."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import time
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import env


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("smtp://mail.example.org", ("mail.example.org", 25, "", "", False, False)),
        ("smtp://127.0.0.1:2525", ("127.0.0.1", 2525, "", "", False, False)),
        ("smtp+tls://u%40x:p%3Aw%2F@mail.example.org", ("mail.example.org", 587, "u@x", "p:w/", True, False)),
        ("submission://u:p@mail.example.org:588", ("mail.example.org", 588, "u", "p", True, False)),
        ("smtps://u:p@mail.example.org", ("mail.example.org", 465, "u", "p", False, True)),
        ("smtp+ssl://[::1]:4650", ("::1", 4650, "", "", False, True)),
    ],
)
def test_mail_server(monkeypatch: pytest.MonkeyPatch, value: str, expected: tuple[object, ...]) -> None:
    monkeypatch.setenv("EMAIL_URL", value)
    assert env.mail_server("EMAIL_URL") == expected


def test_no_mail_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMAIL_URL", raising=False)
    assert env.mail_server("EMAIL_URL") is None


@pytest.mark.parametrize(
    "value", ["mail.example.org", "http://u:secret@x", "smtp://", "smtp://u:secret@x:port", "smtp"]
)
def test_a_bad_mail_server_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("EMAIL_URL", value)
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL") as wrong:
        env.mail_server("EMAIL_URL")
    assert "secret" not in str(wrong.value)


@pytest.mark.parametrize(("value", "expected"), [("07:00", time(7)), ("6:30", time(6, 30)), ("23:59", time(23, 59))])
def test_clock(monkeypatch: pytest.MonkeyPatch, value: str, expected: time) -> None:
    monkeypatch.setenv("AT", value)
    assert env.clock("AT", "07:00") == expected


@pytest.mark.parametrize("value", ["7", "24:00", "07:60", "07:0", "seven", "07:00:00", "-1:00"])
def test_a_bad_clock(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AT", value)
    with pytest.raises(ImproperlyConfigured, match="07:00"):
        env.clock("AT", "07:00")


def test_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URL", "https://hall.example.org/")
    assert env.address("URL", "") == "https://hall.example.org"
    for value in ("hall.example.org", "ftp://hall", "https://", "https://x/?a=1"):
        monkeypatch.setenv("URL", value)
        with pytest.raises(ImproperlyConfigured, match="URL"):
            env.address("URL", "")


@pytest.mark.parametrize(
    ("given", "address"),
    [({}, "http://localhost:8000"), ({"HALLBOOK_PORT": "8131"}, "http://localhost:8131"),
     ({"HALLBOOK_PORT": "8131", "HALLBOOK_URL": "https://hall.example.org"}, "https://hall.example.org"),
     ({"HALLBOOK_PORT": "8131", "HALLBOOK_ALLOWED_HOSTS": "hall.example.org"}, "http://hall.example.org")],
)  # fmt: skip
def test_links_in_mails_lead_to_the_port_that_is_served(tmp_path: Path, given: dict[str, str], address: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HALLBOOK_")}
    environment = {**kept, "HALLBOOK_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings", **given}
    command = [sys.executable, "-c", "from django.conf import settings; print(settings.SITE_URL)"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == address
