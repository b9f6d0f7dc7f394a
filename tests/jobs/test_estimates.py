"""How far starts lay from what the scheduler had said, worked out by hand."""

from __future__ import annotations

import pytest

from events.access import Scope
from jobs.queries_estimates import Error, estimates
from tests.hand import instant, job, mapped, project, tell
from tests.jobs.test_waits import T, begin, look

pytestmark = pytest.mark.django_db
FROM, TO = instant("2026-03-10 00:00"), instant("2026-03-12 00:00")
HOUR, MINUTE = 3600, 60


def started(number: int, start: int, **more: object) -> None:
    tell(job(str(number), start, start + 60, submit=T, eligible=T, **more))


def told() -> None:
    """T is 06:00. What is told lies on full hours, or on full ten minutes of the next two hours."""
    begin()
    look(1, T + 60, "Resources", start_time=T + 10 * HOUR)  # 10 h ahead
    look(1, T + HOUR, "Resources", start_time=T + 9 * HOUR)  # 8 h ahead: the same class, the later one counts
    look(1, T + 8 * HOUR, "Resources", start_time=T + 8 * HOUR + 30 * MINUTE)  # 30 min ahead
    started(1, T + 8 * HOUR + 20 * MINUTE)  # 40 min early of 9 h; 10 min early of the last
    look(2, T + 60, "Resources", start_time=T + 4 * HOUR)  # 4 h ahead
    started(2, T + 5 * HOUR)  # 1 h late
    look(3, T + 60, "Resources", start_time=T + HOUR)  # 59 min ahead
    started(3, T + HOUR + 5 * MINUTE)  # 5 min late
    look(4, T + 60, "Priority")  # no estimate
    started(4, T + 2 * HOUR)
    look(5, T + 60, "Resources", start_time=T + 30 * HOUR)  # waits still
    look(6, T + 60, "Resources", start_time=T + 30 * HOUR, account="b")  # 30 h ahead
    started(6, T + 29 * HOUR, account="b")  # 1 h early


def test_errors_by_how_far_ahead() -> None:
    told()
    found = estimates(Scope.everything(), FROM, TO)
    assert found.by_lead == [
        # Jobs 1 and 3: -10 and +5 min. The lower median of two is the first.
        Error(0, HOUR, 2, -10 * MINUTE, 5 * MINUTE, 5 * MINUTE),
        Error(HOUR, 6 * HOUR, 1, HOUR, HOUR, HOUR),
        Error(6 * HOUR, 24 * HOUR, 1, -40 * MINUTE, -40 * MINUTE, 40 * MINUTE),
        Error(24 * HOUR, None, 1, -HOUR, -HOUR, HOUR),
    ]
    # -60, -40, -10, +5, +60 min: the third of five; 90 % of five is the fifth. Off by 5, 10, 40, 60, 60.
    assert found.total == Error(0, None, 5, -10 * MINUTE, HOUR, 40 * MINUTE)


def test_only_what_started_in_the_window_in_scope_and_on_the_cluster() -> None:
    told()
    tell(project("p"), mapped("a", "p"))
    assert estimates(Scope.everything(), FROM, instant("2026-03-10 11:00")).total.count == 1  # job 3
    assert estimates(Scope.only(frozenset({"p"}), money=False), FROM, TO).total.count == 4
    assert estimates(Scope.only(frozenset({"unmapped/b"}), money=False), FROM, TO).total.count == 1
    assert estimates(Scope.only(frozenset({"q"}), money=False), FROM, TO).total == Error(0, None, 0, None, None, None)
    assert estimates(Scope.everything(), FROM, TO, "pod-b").total.count == 0


def test_tasks_of_an_array_were_guessed_as_their_array() -> None:
    begin()
    look(33, T + 60, "Resources", start_time=T + HOUR, array_job_id=33, array_task_string="0-1")
    for raw, start, task in (("34", T + 30 * MINUTE, "0"), ("33", T + 40 * MINUTE, "1")):
        tell(job(raw, start, start + 60, submit=T, eligible=T, array_job_id="33", array_task=task))
    assert estimates(Scope.everything(), FROM, TO).by_lead[0] == Error(
        0, HOUR, 2, -30 * MINUTE, -20 * MINUTE, 20 * MINUTE
    )
