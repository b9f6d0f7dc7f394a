"""Answers that are kept while one state of the books is read: what several parts of a page ask, is asked once.

A question decorated with `kept` is put to the database once per state and set of arguments. A state is what
`read_at`, `known_at` and `one_state` hold still; around them, a request that only reads is one. Outside of both,
nothing is kept: commands, workers and writers always ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponse

__all__ = ["kept", "new_state", "per_request"]

P = ParamSpec("P")
T = TypeVar("T")
_answers: ContextVar[dict[Any, Any] | None] = ContextVar("answers", default=None)


@contextmanager
def new_state() -> Iterator[None]:
    """Inside, answers are kept, and none from outside is used; afterwards those of outside are back."""
    before = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(before)


def kept(question: Callable[P, T]) -> Callable[P, T]:
    """Ask once per state. Arguments must be hashable, and nobody may change an answer."""

    @wraps(question)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        answers = _answers.get()
        if answers is None:
            return question(*args, **kwargs)
        key = (question, args, tuple(sorted(kwargs.items())))
        if key not in answers:
            answers[key] = question(*args, **kwargs)
        found: T = answers[key]
        return found

    return ask


def per_request(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: answers are kept for the length of a request that writes nothing."""

    def respond(request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return answer(request)
        with new_state():
            return answer(request)

    return respond
