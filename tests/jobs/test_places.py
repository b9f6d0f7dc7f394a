"""Which rows lie in a project: found by accounts and times, and equal to looking at every row's day."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from events.access import Scope
from events.types.projects import ProjectMoved
from jobs import queries
from jobs.places import Stay, stays
from tests.hand import HOUR, job, mapped, place, project, tell

pytestmark = pytest.mark.django_db
BERLIN = ZoneInfo("Europe/Berlin")


def local(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp())


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    """p hangs under red until 9 March, then under blue. Account a belongs to p, from 20 March to q under red;
    account b to nobody until 15 March, then to q. One job of each account starts at each of six local times."""
    starts = (
        "03-08 23:59:59",
        "03-09 00:00:00",
        "03-14 23:59:59",
        "03-15 00:00:00",
        "03-19 23:59:59",
        "03-20 00:00:00",
    )
    tell(
        place("Europe/Berlin"), project("red", kind="team"), project("blue", kind="team"), project("p", "red"),
        project("q", "red"), ProjectMoved("p", "2026-03-09", "blue"),
        mapped("a", "p", "2020-01-01"), mapped("a", "q", "2026-03-20"), mapped("b", "q", "2026-03-15"),
        *(job(f"{name}{n}", local(f"2026-{at}"), local(f"2026-{at}") + HOUR, account=name)
          for name in "ab" for n, at in enumerate(starts)),
        job("a-waits", None, None, account="a", submit=local("2026-03-08 12:00")),
    )  # fmt: skip


RED = ["a-waits", "a0", "a5", "b3", "b4", "b5"]
BLUE = ["a1", "a2", "a3", "a4"]
LOST = ["b0", "b1", "b2"]


@pytest.mark.parametrize(
    ("projects", "expected"),
    [
        ({"red"}, RED), ({"blue"}, BLUE), ({"q"}, ["a5", "b3", "b4", "b5"]), ({"p"}, ["a-waits", "a0", *BLUE]),
        ({"red", "blue"}, sorted(RED + BLUE)), ({"unmapped/b"}, LOST), ({"unmapped/b", "blue"}, sorted(BLUE + LOST)),
        ({"unmapped/a"}, []), ({"nobody"}, []), (set(), []),
    ],
)  # fmt: skip
def test_jobs_of_projects_by_their_day(projects: set[str], expected: list[str]) -> None:
    scope = Scope.only(projects)
    assert sorted(queries.jobs(scope).values_list("job_id", flat=True)) == expected
    everything = queries.jobs(Scope.everything())
    assert sorted(queries.in_projects(everything, projects).values_list("job_id", flat=True)) == expected
    started = [name for name in expected if name != "a-waits"]
    assert sorted(queries.attempts(scope).values_list("job_id", flat=True)) == started
    assert len(queries.runs(scope)) == len(expected)


def test_a_filter_does_not_reach_beyond_the_scope() -> None:
    def found(scope: set[str], *chosen: str) -> list[str]:
        rows = queries.in_projects(queries.jobs(Scope.only(scope)), set(chosen))
        return sorted(rows.values_list("job_id", flat=True))

    assert found({"red"}, "p") == ["a-waits", "a0"]
    assert found({"red"}, "blue") == []
    assert found({"red", "unmapped/b"}, "p") == ["a-waits", "a0"]
    assert found({"red", "unmapped/b"}, "unmapped/b") == LOST
    assert found({"red"}, "unmapped/b") == []
    assert found({"blue"}, "p", "q") == BLUE
    assert found(set(), "p") == []


def test_rows_carry_the_project_of_their_day() -> None:
    found = dict(queries.attempts(Scope.everything()).values_list("job_id", "project"))
    assert [found[f"a{n}"] for n in range(6)] == ["p", "p", "p", "p", "p", "q"]
    assert [found[f"b{n}"] for n in range(6)] == ["unmapped/b"] * 3 + ["q"] * 3


def test_stays_that_follow_each_other_are_one() -> None:
    red = stays({"red"})
    assert Stay("pod-a", "a", date(2020, 1, 1), date(2026, 3, 9)) in red
    assert Stay("pod-a", "a", date(2026, 3, 20), date(9999, 12, 31)) in red
    assert stays({"p", "q"}) == [
        Stay("pod-a", "a", date(2020, 1, 1), date(9999, 12, 31)),
        Stay("pod-a", "b", date(2026, 3, 15), date(9999, 12, 31)),
    ]  # fmt: skip
