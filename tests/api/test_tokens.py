"""A token's life: made, shown once, used, expired, revoked."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from api import tokens
from api.models import Token
from api.scopes import granted

pytestmark = pytest.mark.django_db


def test_command_prints_the_secret_once_and_keeps_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "hook", "--scope", "events:write", "--expires", "30")
    secret = capsys.readouterr().out.strip()
    assert re.fullmatch(r"hb_[A-Za-z0-9_-]{40}", secret)
    token = Token.objects.get(name="hook")
    assert bytes(token.sha256) == hashlib.sha256(secret.encode()).digest()
    assert token.scopes == ["events:write"]
    assert timedelta(days=29, hours=23) < token.expires_at - timezone.now() <= timedelta(days=30)
    call_command("token", "--list")
    listed = capsys.readouterr().out
    assert "hook\tevents:write\t*" in listed
    assert secret not in listed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x", "--scope", "nope"], "unknown scope nope"),
        (["x"], "at least one scope"),
        (["taken", "--scope", "read"], "exists already"),
        (["x", "--scope", "log:read", "--project", "nlp"], "log:read cannot be limited to a project"),
        (["x", "--scope", "read", "--expires", "0"], "1 to 36500 days"),
        (["--revoke", "nobody"], "no token named 'nobody'"),
        ([], "give a NAME"),
    ],
)
def test_wrong_calls_exit_2_with_one_line(arguments: list[str], says: str) -> None:
    tokens.create("taken", ["read"])
    with pytest.raises(CommandError, match=re.escape(says)) as caught:
        call_command("token", *arguments)
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)


def test_scopes_bring_along_what_they_need() -> None:
    assert granted(["events:write"]) == {"events:write"}
    assert granted(["money:read"]) == {"money:read", "read"}
    assert granted(["admin"]) == {"events:write", "runs:write", "read", "money:read", "log:read", "admin"}


def test_basic_password_is_the_token(client: Client) -> None:
    _, secret = tokens.create("basic", ["read"])
    pair = base64.b64encode(f"anyone:{secret}".encode()).decode()
    assert client.get("/api/v1/site", HTTP_AUTHORIZATION=f"Basic {pair}").status_code == 200
    assert client.get("/api/v1/site", HTTP_AUTHORIZATION="Basic !!").status_code == 401


def test_use_costs_no_query_while_cached_and_is_noted_once_a_minute(
    client: Client, django_assert_num_queries: object
) -> None:
    _, secret = tokens.create("used", ["read"])
    assert tokens.check(secret) is not None
    first = Token.objects.get(name="used").last_used_at
    assert first is not None
    with django_assert_num_queries(0):  # type: ignore[operator]
        assert tokens.check(secret).actor == "token:used"
    tokens.forget()
    tokens.check(secret)
    assert Token.objects.get(name="used").last_used_at == first
    Token.objects.filter(name="used").update(last_used_at=first - timedelta(seconds=61))
    tokens.forget()
    tokens.check(secret)
    assert Token.objects.get(name="used").last_used_at >= first


def test_revoked_and_expired_tokens_are_refused(client: Client) -> None:
    _, secret = tokens.create("gone", ["read"])
    header = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    assert client.get("/api/v1/site", **header).status_code == 200
    call_command("token", "--revoke", "gone")
    answer = client.get("/api/v1/site", **header)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="hallbook"'
    _, secret = tokens.create("old", ["read"], expires_days=1)
    assert tokens.check(secret) is not None
    Token.objects.filter(name="old").update(expires_at=timezone.now() - timedelta(seconds=1))
    tokens.forget()
    assert tokens.check(secret) is None


def test_revocation_reaches_other_processes_within_the_cache_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(tokens.time, "monotonic", lambda: now[0])
    _, secret = tokens.create("far", ["read"])
    assert tokens.check(secret) is not None
    Token.objects.filter(name="far").update(revoked_at=timezone.now())  # as another process does
    now[0] += 30
    assert tokens.check(secret) is not None
    now[0] += 0.1
    assert tokens.check(secret) is None
