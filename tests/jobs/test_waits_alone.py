"""Tasks of an array that wait by themselves: after a requeue, or since somebody held one of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hand import job, tell
from tests.jobs.test_waits import T, begin, look, waits

pytestmark = pytest.mark.django_db


def test_a_requeued_task_does_not_wait_as_its_array_any_more() -> None:
    begin()
    look(33, T + 10, "Resources", array_job_id=33, array_task_string="0-3%2")
    tell(job("34", T + 100, T + 200, submit=T, eligible=T, state="PREEMPTED", array_job_id="33", array_task="0"))
    look(34, T + 220, "BeginTime", submit_time=T + 200, eligible_time=T + 321, restart_cnt=1, array_job_id=33,
         array_task_id=0)  # fmt: skip
    look(33, T + 300, "JobArrayTaskLimit", array_job_id=33, array_task_string="1-3%2")
    tell(job("34", T + 400, T + 500, submit=T + 200, eligible=T + 321, record=2, array_job_id="33", array_task="0"))
    assert waits("34") == [
        ("full", "Resources", 0, 100),
        ("dependency_or_hold", "", 200, 220),
        ("dependency_or_hold", "BeginTime", 220, 321),
        ("dependency_or_hold", "BeginTime", 321, 400),
    ]


def test_a_task_that_is_held_waits_by_itself_from_then_on() -> None:
    begin()
    look(33, T + 10, "Resources", array_job_id=33, array_task_string="0-3%2")
    look(36, T + 100, "JobHeldUser", array_job_id=33, array_task_id=3)
    look(33, T + 200, "Priority", array_job_id=33, array_task_string="0-2%2")
    look(36, T + 300, "Resources", array_job_id=33, array_task_id=3)
    tell(job("36", T + 400, T + 500, submit=T, eligible=T, array_job_id="33", array_task="3"))
    assert waits("36") == [
        ("full", "Resources", 0, 100), ("dependency_or_hold", "JobHeldUser", 100, 300), ("full", "Resources", 300, 400)
    ]  # fmt: skip
    assert waits("33") == [("full", "Resources", 0, 200), ("own_share", "Priority", 200, None)]


def test_a_job_requeued_again_waits_for_the_same_again() -> None:
    """The last word of one wait and the first of the next are two looks, though they are the same word."""
    begin()
    again: dict[str, Any] = {"submit_time": T + 500, "eligible_time": T + 621, "restart_cnt": 1}
    third: dict[str, Any] = {"submit_time": T + 1000, "eligible_time": T + 1121, "restart_cnt": 2}
    tell(job("7", T + 50, T + 500, submit=T, eligible=T, state="PREEMPTED", record=1))
    look(7, T + 520, "BeginTime", **again)
    tell(job("7", T + 650, T + 1000, submit=T + 500, eligible=T + 621, state="PREEMPTED", record=2))
    look(7, T + 1020, "BeginTime", **third)
    assert waits("7")[-2:] == [
        ("dependency_or_hold", "BeginTime", 621, 650),
        ("dependency_or_hold", "BeginTime", 1000, None),
    ]
