"""Login: who gets in, who is kept out for a while, and that all processes count together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests.web.books import PASSWORD, person
from web import limits
from web.models import LoginFailure

pytestmark = pytest.mark.usefixtures("hall")


def login(password: str, name: str = "ada", address: str = "10.0.0.1", **more: Any) -> Any:
    return Client().post("/login/", {"username": name, "password": password, **more}, REMOTE_ADDR=address)


def test_the_right_password_leads_home() -> None:
    person("ada")
    response = login(PASSWORD)
    assert (response.status_code, response["Location"]) == (302, "/")
    assert login(PASSWORD, next="/projects/?group=user")["Location"] == "/projects/?group=user"
    assert login(PASSWORD, next="https://elsewhere.example/")["Location"] == "/"


def test_a_wrong_one_is_told_without_saying_which_half() -> None:
    person("ada")
    known, unknown = login("wrong"), login("wrong", name="nobody")
    assert known.status_code == unknown.status_code == 200
    assert b"Name and password do not match." in known.content
    assert b"Name and password do not match." in unknown.content


def test_the_eleventh_try_is_refused_even_with_the_right_password() -> None:
    person("ada")
    for _ in range(limits.MOST_FAILURES):
        assert login("wrong").status_code == 200
    refused = login(PASSWORD)
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 901
    assert b"Too many failed tries." in refused.content
    assert login(PASSWORD, name="ADA").status_code == 429  # spellings of a name count together


def test_only_this_name_from_this_address_is_refused() -> None:
    person("ada")
    person("ben")
    for _ in range(limits.MOST_FAILURES + 1):
        login("wrong")
    assert login(PASSWORD, address="10.0.0.2").status_code == 302
    assert login(PASSWORD, name="ben").status_code == 302


def test_it_opens_again_and_forgets() -> None:
    person("ada")
    for _ in range(limits.MOST_FAILURES + 3):
        login("wrong")
    LoginFailure.objects.update(at=timezone.now() - limits.WINDOW - timedelta(seconds=1))
    assert login(PASSWORD).status_code == 302
    assert LoginFailure.objects.count() == 0


def test_success_clears_earlier_failures() -> None:
    person("ada")
    for _ in range(3):
        for _ in range(limits.MOST_FAILURES - 1):
            login("wrong")
        assert login(PASSWORD).status_code == 302


def test_many_at_once_do_not_slip_through() -> None:
    def once(_: int) -> bool:
        try:
            return limits.begin("ada", "10.0.0.1")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        let_through = sum(pool.map(once, range(40)))
    assert let_through <= limits.MOST_FAILURES


def test_behind_a_proxy_its_own_word_counts(settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    person("ada")
    for number in range(limits.MOST_FAILURES):
        login("wrong", HTTP=number)
        Client().post(
            "/login/", {"username": "ada", "password": "wrong"}, HTTP_X_FORWARDED_FOR=f"10.9.9.{number}, 10.0.0.7"
        )
    last = Client().post("/login/", {"username": "ada", "password": PASSWORD}, HTTP_X_FORWARDED_FOR="1.2.3.4, 10.0.0.7")
    assert last.status_code == 429


def test_logout_needs_a_post() -> None:
    client = Client()
    client.force_login(person("ada"))
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/projects/").status_code == 302


def test_forms_carry_a_token() -> None:
    assert Client(enforce_csrf_checks=True).post("/login/", {"username": "a", "password": "b"}).status_code == 403
