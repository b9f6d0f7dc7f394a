"""What one state of the books answers is asked once, and never answered from another state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client

from events.answers import kept, new_state, per_request
from events.rebuild import known_at, read_at
from fleet.queries import site
from tests.hand import place, tell
from tests.web.books import person, signed_in
from web.state import one_state


@pytest.fixture
def question() -> tuple[Callable[..., int], list[int]]:
    """A question that counts how often it was asked, and what it was asked."""
    asked: list[int] = []

    @kept
    def double(number: int, *, more: int = 0) -> int:
        asked.append(number)
        return 2 * number + more

    return double, asked


Question = tuple[Callable[..., int], list[int]]


def test_outside_of_a_state_it_is_always_asked(question: Question) -> None:
    double, asked = question
    assert (double(4), double(4), asked) == (8, 8, [4, 4])


def test_inside_it_is_asked_once_for_each_set_of_arguments(question: Question) -> None:
    double, asked = question
    with new_state():
        assert [double(4), double(5), double(4), double(4, more=1), double(4, more=1)] == [8, 10, 8, 9, 9]
    assert asked == [4, 5, 4]
    assert double(5) == 10
    assert asked == [4, 5, 4, 5]


def test_a_state_inside_another_knows_nothing_of_it_and_leaves_it_as_it_was(question: Question) -> None:
    double, asked = question
    with new_state():
        double(4)
        with new_state():
            double(4)
        double(4)
    assert asked == [4, 4]


@pytest.mark.parametrize(("method", "times"), [("GET", 1), ("HEAD", 1), ("POST", 2), ("DELETE", 2)])
def test_a_request_that_may_write_keeps_nothing(question: Question, method: str, times: int) -> None:
    double, asked = question

    def view(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(double(4) + double(4)))

    request = HttpRequest()
    request.method = method
    assert per_request(view)(request).content == b"16"
    assert len(asked) == times
    per_request(view)(request)
    assert len(asked) == 2 * times


@pytest.mark.usefixtures("hall")
def test_each_state_of_the_books_has_its_own_site() -> None:
    first = tell(place("Europe/Berlin"))
    tell(place("America/New_York"))
    with one_state():
        assert site().timezone == "America/New_York"
        with read_at(first):
            assert site().timezone == "Europe/Berlin"
        assert site().timezone == "America/New_York"
    tell(place("Asia/Tokyo"))
    with read_at(None):
        assert site().timezone == "Asia/Tokyo"
    with known_at(first):
        assert site().timezone == "Europe/Berlin"
    with transaction.atomic():
        tell(place("UTC"))
        assert site().timezone == "UTC"


@pytest.mark.usefixtures("hall")
def test_the_next_request_sees_what_was_declared_after_the_last() -> None:
    tell(place("Europe/Berlin"))
    admin: Client = signed_in(person("ada", admin=True))
    assert "Times in Europe/Berlin" in admin.get("/events/").content.decode()
    tell(place("Asia/Tokyo"))
    html = admin.get("/events/").content.decode()
    assert "Times in Asia/Tokyo" in html
    assert "Times in Europe/Berlin" not in html
