"""A caller limited to one team sees exactly what hangs below it, in every report and list."""

from __future__ import annotations

import pytest

from events.access import Scope
from events.types.projects import ProjectMoved
from jobs import queries
from tests.hand import HOUR, ask, at, column, gpus, job, mapped, place, project, rate, tell

pytestmark = pytest.mark.django_db
MARCH = ("2026-03-01", "2026-04-01")
RED = Scope.only({"red"})
NOTHING = Scope.only(set())


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    """org > red > (p, q), org > blue > r; accounts a..d belong to p, q, r and to nobody; e belongs to red itself.

    Each account has one job of one GPU that starts on 10 March; they run 1, 2, 4, 8 and 16 hours.
    """
    start = at("2026-03-10 06:00")
    tell(
        place(), project("org", kind="organisation"), project("red", "org", "team"), project("blue", "org", "team"),
        project("p", "red"), project("q", "red"), project("r", "blue"),
        mapped("a", "p"), mapped("b", "q"), mapped("c", "r"), mapped("e", "red"), rate("gpu", 1_000_000),
        *(job(f"job-{name}", start, start + 2**power * HOUR, account=name, submit=start - 60 * 2**power, **gpus(1))
          for power, name in enumerate("abcde")),
    )  # fmt: skip


def gpu_hours(scope: Scope, start: str = MARCH[0], end: str = MARCH[1]) -> dict[str, int]:
    found = column(ask("usage", start, end, "project", scope), "project", "gpu_seconds")
    return {code: seconds // HOUR for code, seconds in found.items()}


def test_everything_is_seen_without_a_limit() -> None:
    assert gpu_hours(Scope.everything()) == {"p": 1, "q": 2, "r": 4, "unmapped/d": 8, "red": 16}


@pytest.mark.parametrize("window", [MARCH, ("2026-03-01T00:30:00Z", "2026-04-01")])
def test_usage_of_the_subtree_by_roll_up_and_by_stretches(window: tuple[str, str]) -> None:
    assert gpu_hours(RED, *window) == {"p": 1, "q": 2, "red": 16}
    assert gpu_hours(Scope.only({"p", "r"}), *window) == {"p": 1, "r": 4}
    assert gpu_hours(Scope.only({"org"}), *window) == {"p": 1, "q": 2, "r": 4, "red": 16}
    assert gpu_hours(NOTHING, *window) == {}


def test_totals_are_of_the_subtree_too() -> None:
    assert ask("usage", *MARCH, scope=RED).total["gpu_seconds"] == 19 * HOUR
    assert ask("usage", *MARCH, scope=NOTHING).total["gpu_seconds"] == 0


def test_waits() -> None:
    report = ask("waits", *MARCH, "project", RED)
    # Submitted 1, 2, 4, 8 and 16 minutes before the start.
    assert column(report, "project", "wait_from_submit_seconds") == {"p": 60, "q": 120, "red": 960}
    assert report.total["wait_from_submit_seconds"] == 1140
    assert report.total["attempts_started"] == 3


def test_costs() -> None:
    report = ask("costs", *MARCH, "account", RED)
    assert column(report, "account", "amount") == {
        "a": {"amount": "1.00", "currency": "EUR"}, "b": {"amount": "2.00", "currency": "EUR"},
        "e": {"amount": "16.00", "currency": "EUR"},
    }  # fmt: skip
    assert report.total["amount"]["amount"] == "19.00"


@pytest.mark.parametrize(
    ("scope", "accounts"),
    [(RED, "abe"), (Scope.only({"q"}), "b"), (Scope.only({"org"}), "abce"), (NOTHING, ""), (Scope(), "abcde")],
)
def test_jobs_and_attempts(scope: Scope, accounts: str) -> None:
    for rows in (queries.jobs(scope), queries.attempts(scope)):
        assert sorted(rows.values_list("account", flat=True)) == list(accounts)


def test_jobs_carry_their_project() -> None:
    found = dict(queries.jobs(Scope.everything()).values_list("account", "project"))
    assert found == {"a": "p", "b": "q", "c": "r", "d": "unmapped/d", "e": "red"}


@pytest.mark.parametrize(
    ("scope", "codes"),
    [(RED, ["p", "q", "red"]), (Scope.only({"q"}), ["q"]), (NOTHING, []),
     (Scope(), ["blue", "org", "p", "q", "r", "red"])],
)  # fmt: skip
def test_projects(scope: Scope, codes: list[str]) -> None:
    assert list(queries.projects(scope).values_list("code", flat=True)) == codes


def test_accounts_and_what_is_unmapped() -> None:
    assert list(queries.accounts(RED).values_list("account", flat=True)) == ["a", "b", "e"]
    assert queries.unmapped_accounts(RED) == []
    assert queries.unmapped_accounts(Scope.everything()) == [("pod-a", "d")]


def test_a_project_that_moves_away_is_seen_for_the_days_it_was_here() -> None:
    # q moves from red to blue on 10 March at 00:00 UTC, before its job; p moves the day after its job.
    tell(ProjectMoved(project="q", from_day="2026-03-10", parent="blue"),
         ProjectMoved(project="p", from_day="2026-03-11", parent="blue"))  # fmt: skip
    assert gpu_hours(RED) == {"p": 1, "red": 16}
    assert sorted(queries.attempts(RED).values_list("account", flat=True)) == ["a", "e"]
    assert gpu_hours(Scope.only({"blue"})) == {"q": 2, "r": 4}


def test_the_past_is_seen_with_the_same_limit() -> None:
    position = tell(place(), key="again")
    tell(mapped("a", "r"))
    assert gpu_hours(RED) == {"q": 2, "red": 16}
    found = ask("usage", *MARCH, "project", RED, as_known_at=str(position))
    assert {row["project"]: row["gpu_seconds"] // HOUR for row in found.rows} == {"p": 1, "q": 2, "red": 16}
