"""Reading of the environment where a value has a form: mail server, time of day, address."""

from __future__ import annotations

from datetime import time

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
