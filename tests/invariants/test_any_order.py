"""Any order of arrival, any duplication, any split and any interleaving give the same read models."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from events import projector
from events.append import Fact, append
from events.rebuild import known_at
from tests.hand import read_models
from tests.invariants.worlds import FEW, forgotten, tellings

pytestmark = pytest.mark.django_db
POSITION = ("position",)
"""Jobs and attempts carry the last position that speaks of them: it is the order of arrival itself."""


def project_at_once(said: list[Fact]) -> dict[str, list[str]]:
    """The read models when everything is said in one batch and projected in one."""
    with forgotten():
        append(said)
        projector.catch_up()
        return read_models(POSITION)


def not_conserved() -> list[str]:
    """What the groups' own checks say of their roll-ups."""
    with connection.cursor() as cursor:
        return [text for group in projector.groups() for text in group.check(cursor)]


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[Fact], list[tuple[list[Fact], int]]]:
    """What is said, and batches of it in another order, some said twice, each with a size of projecting (0: not)."""
    said = draw(tellings())
    order = draw(st.permutations(said)) + draw(st.lists(st.sampled_from(said), max_size=5))
    batches, rest = [], list(order)
    while rest:
        size = draw(st.integers(1, len(rest)))
        batches.append((rest[:size], draw(st.sampled_from([0, 1, 3, 1000]))))
        rest = rest[size:]
    return said, batches


@FEW
@given(arrivals())
def test_read_models_do_not_depend_on_how_it_arrived(arrived: tuple[list[Fact], Any]) -> None:
    said, batches = arrived
    with forgotten():
        for batch, size in batches:
            append(batch)
            if size:
                projector.catch_up(batch=size)
        projector.catch_up()
        found = read_models(POSITION)
        assert not_conserved() == []
    assert found == project_at_once(said)
    assert found["jobs_attempt"]


@FEW
@given(arrivals(), st.data())
def test_rebuilt_equals_live_now_and_as_known_before(arrived: tuple[list[Fact], Any], data: st.DataObject) -> None:
    _, batches = arrived
    past: list[tuple[int, dict[str, list[str]]]] = []
    with forgotten():
        for batch, size in batches:
            append(batch)
            projector.catch_up(batch=size or 1000)
            past.append((projector.position(projector.groups()[-1]), read_models()))
        for position, live in {0: data.draw(st.sampled_from(past)), 1: past[-1]}.values():
            with known_at(position):
                assert read_models() == live
        assert read_models() == past[-1][1]
