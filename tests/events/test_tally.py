"""Counts of what came from whom: exact, in the drain's transaction, and bounded in number."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from events import tally
from events.access import Scope
from events.tally import OTHERS, Settled, note, tallies
from tests.hand import instant

pytestmark = pytest.mark.django_db
AT = instant("2026-03-01 12:00")


def one(source: str = "jobcomp:pod-a", minutes: int = 0, **counts: int | str) -> Settled:
    return Settled(source, "jobcomp", AT + timedelta(minutes=minutes), **counts)  # type: ignore[arg-type]


def told(source: str = "jobcomp:pod-a") -> tuple[int, ...]:
    row = tallies(Scope.everything()).get(source=source)
    return (row.deliveries, row.refused, row.accepted, row.duplicate, row.rejected)


def test_deliveries_and_their_items_are_added_up() -> None:
    note(
        [
            one(accepted=3, rejected=1, error="bad: a"),
            one(minutes=5, duplicate=2),
            one(minutes=3, rejected=4, error="b"),
        ]
    )
    assert told() == (3, 1, 3, 2, 5)
    note([one(minutes=1, accepted=1)])
    assert told() == (4, 1, 4, 2, 5)
    row = tallies(Scope.everything()).get()
    assert row.last_received == AT + timedelta(minutes=5)
    assert (row.last_error, row.last_error_at) == ("b", AT + timedelta(minutes=5))


def test_each_source_and_kind_has_its_own() -> None:
    note([one(), one("jobcomp:pod-b", accepted=2), Settled("jobcomp:pod-a", "slurm-hook", AT, 7)])
    assert told("jobcomp:pod-b") == (1, 0, 2, 0, 0)
    assert tallies(Scope.everything()).count() == 3


def test_a_drain_that_is_rolled_back_counts_nothing() -> None:
    note([one(accepted=1)])
    with transaction.atomic():
        note([one(accepted=1), one("another")])
        transaction.set_rollback(True)
    assert told() == (1, 0, 1, 0, 0)
    assert tallies(Scope.everything()).count() == 1


def test_nothing_settled_is_nothing_counted() -> None:
    note([])
    assert tallies(Scope.everything()).count() == 0


def test_a_sender_that_names_ever_new_sources_fills_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST", 3)
    note([one(f"s{number}", accepted=1) for number in range(10)])
    assert tallies(Scope.everything()).count() == 4
    assert told(OTHERS) == (7, 0, 7, 0, 0)
    note([one("s0", accepted=1), one("s99", accepted=1)])
    assert (told("s0"), told(OTHERS)) == ((2, 0, 2, 0, 0), (8, 0, 8, 0, 0))


def test_who_may_not_see_the_log_sees_none() -> None:
    note([one()])
    assert not tallies(Scope.only({"nlp"})).exists()
    assert tally.waiting(Scope.only({"nlp"})) == {}
