"""Additive measures add up: days to months, quarters and years, and to the window, in any zone and grouping.

A window of whole days of the site is read from the roll-up by day, any other from the stretches themselves; both
are compared with sums made here from the runs as they were.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import projector
from events.access import Scope
from events.reports import Params, instant, run
from tests.hand import ask, at, gpus, job, place, say, summed, tell, total
from tests.hand import instant as moment
from tests.invariants.worlds import FEW, ZONES, Run, days, forgotten, runs

pytestmark = pytest.mark.django_db
SECONDS = ("gpu_seconds", "cpu_seconds", "node_seconds", "wall_seconds")
ADDITIVE = (*SECONDS, "suspended_seconds", "attempts_started", "jobs_started", "jobs_ended")
BUCKETS = ("day", "week", "month", "quarter", "year")


def by_hand(world: list[Run], start: int, end: int, cut: int) -> dict[str, int]:
    """The additive measures of a window, run by run: seconds of overlap x size; ends and starts inside."""
    sums = dict.fromkeys(ADDITIVE, 0)
    for one in world:
        until = max(one.start, min(cut, end)) if one.end is None else one.end
        seconds = max(0, min(until, end) - max(one.start, start))
        for name, size in (("gpu", one.gpus), ("cpu", one.cpus), ("node", one.nodes), ("wall", 1)):
            sums[f"{name}_seconds"] += seconds * size
        begun, over = start <= one.start < end, one.end is not None and start <= one.end < end
        sums["attempts_started"] += begun
        sums["jobs_started"] += begun
        sums["jobs_ended"] += over
        sums["suspended_seconds"] += one.suspended if over else 0
    return sums


def asked(first: str, last: str, zone: str, by: tuple[str, ...], cut: int, name: str = "usage") -> Any:
    place_ = ZoneInfo(zone)
    params = Params(
        instant("from", first, place_), instant("to", last, place_), place_, by, cut=datetime.fromtimestamp(cut, UTC)
    )
    return run(name, Scope.everything(), params)


windows = st.tuples(days(), days()).filter(lambda pair: pair[0] != pair[1]).map(sorted)
groupings = st.lists(st.sampled_from(["account", "user", "project", "partition", "cluster"]), max_size=2, unique=True)


@FEW
@given(runs(), st.sampled_from(ZONES), st.sampled_from(ZONES), windows, groupings, st.data())
def test_sums_of_buckets_and_groups_are_the_total(
    world: list[Run], site: str, other: str, window: list[str], groups: list[str], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(at("2026-03-20 00:00"), at("2026-11-30 00:00")))
    with forgotten():
        tell(place(site), *(one.record for one in world))
        for zone in (site, other):
            start, end = (int(instant("from", day, ZoneInfo(zone)).timestamp()) for day in window)
            expected = by_hand(world, start, end, cut)
            for bucket in ((), *((name,) for name in BUCKETS)):
                report = asked(*window, zone, (*bucket, *groups), cut)
                assert summed([report.total], ADDITIVE) == expected, (zone, bucket)
                assert summed(report.rows, ADDITIVE) == expected, (zone, bucket)


@FEW
@given(runs(4), st.sampled_from(ZONES), st.sampled_from(["2026-03-29", "2026-10-25", "2026-11-01"]))
def test_hours_add_up_to_their_day(world: list[Run], site: str, day: str) -> None:
    following = {"2026-03-29": "2026-03-30", "2026-10-25": "2026-10-26", "2026-11-01": "2026-11-02"}[day]
    cut = at("2026-11-24 00:00")
    with forgotten():
        tell(place(site), *(one.record for one in world))
        hours, whole = (asked(day, following, site, (by,), cut) for by in ("hour", "day"))
        assert len(whole.rows) == 1
        assert summed(hours.rows, ADDITIVE) == summed(whole.rows, ADDITIVE) == summed([hours.total], ADDITIVE)


@FEW
@given(runs(), st.sampled_from(ZONES), windows)
def test_waits_are_booked_whole_where_the_attempt_starts(world: list[Run], site: str, window: list[str]) -> None:
    with forgotten():
        tell(place(site), *(one.record for one in world))
        start, end = (int(instant("from", day, ZoneInfo(site)).timestamp()) for day in window)
        waited = [one.waited for one in world if start <= one.start < end]
        report = asked(*window, site, ("month", "user"), end, "waits")
        for rows in ([report.total], report.rows):
            assert summed(rows, ["attempts_started", "wait_seconds", "wait_from_submit_seconds"]) == {
                "attempts_started": len(waited), "wait_seconds": sum(waited),
                "wait_from_submit_seconds": 2 * sum(waited),
            }  # fmt: skip


# Europe/Berlin: 29 March 2026 has 23 hours, 25 October 25. March has 31*24 - 1 = 743 h, October 31*24 + 1 = 745.
@pytest.mark.parametrize(
    ("first", "after", "hours"),
    [("2026-03-29", "2026-03-30", 23), ("2026-10-25", "2026-10-26", 25), ("2026-03-01", "2026-04-01", 743),
     ("2026-10-01", "2026-11-01", 745), ("2026-07-01", "2026-08-01", 744)],
)  # fmt: skip
@pytest.mark.parametrize("end", ["2026-11-20 00:00", None])
def test_days_of_23_and_25_hours_have_23_and_25_hours(first: str, after: str, hours: int, end: str | None) -> None:
    tell(place("Europe/Berlin"), job("1", at("2026-01-01 00:00"), end and at(end), **gpus(1)))
    cut = moment("2026-11-25 00:00")
    assert total("usage", first, after, "gpu_seconds", cut=cut) == hours * 3600
    by_hour = ask("usage", first, after, "hour", cut=cut)
    assert len(by_hour.rows) == hours
    assert {row["gpu_seconds"] for row in by_hour.rows} == {3600}


# Where clocks go back over midnight the day starts at the first one: in Havana 1 November 2026 has 25 hours, from
# 04:00 UTC on. In Cairo they jump over midnight: 24 April 2026 starts at 01:00 local, 22:00 UTC the day before.
@pytest.mark.parametrize(
    ("zone", "day", "after", "start", "hours"),
    [("America/Havana", "2026-11-01", "2026-11-02", "2026-11-01 04:00", 25),
     ("Atlantic/Azores", "2026-10-25", "2026-10-26", "2026-10-25 00:00", 25),
     ("Africa/Cairo", "2026-04-24", "2026-04-25", "2026-04-23 22:00", 23)],
)  # fmt: skip
def test_a_midnight_that_comes_twice_or_never(zone: str, day: str, after: str, start: str, hours: int) -> None:
    first = at(start)
    tell(place(zone), job("1", first + 600, first + 2400, **gpus(1)), job("2", first - 600, first, **gpus(1)),
         job("3", first - 3600, first + 26 * 3600, account="b", **gpus(1)))  # fmt: skip
    assert [total("usage", day, after, name) for name in ("gpu_seconds", "jobs_started")] == [1800 + hours * 3600, 1]
    # Job 2 ends with the first instant of the day and job 1 inside it; job 3 ends after it.
    assert total("usage", day, after, "jobs_ended") == 2


def test_month_ends_and_midnights_cut_exactly() -> None:
    # 2 GPUs from 31 January 22:00 to 1 February 03:00: 2 h and 3 h.
    tell(place(), job("1", at("2026-01-31 22:00"), at("2026-02-01 03:00"), **gpus(2)))
    report = ask("usage", "2026-01-01", "2026-04-01", "month")
    assert [(row["month"], row["gpu_seconds"], row["attempts"], row["jobs_ended"]) for row in report.rows] == [
        ("2026-01", 2 * 2 * 3600, 1, 0), ("2026-02", 2 * 3 * 3600, 1, 1), ("2026-03", 0, 0, 0),
    ]  # fmt: skip
    assert report.total["attempts"] == 1


def test_an_attempt_that_ends_at_midnight_leaves_nothing_to_the_next_day_but_its_end() -> None:
    tell(place(), job("1", at("2026-02-01 23:00"), at("2026-02-02 00:00"), **gpus(1)))
    say(place(), key="again")
    projector.catch_up()
    rows = ask("usage", "2026-02-01", "2026-02-03", "day").rows
    assert [(row["gpu_seconds"], row["attempts"], row["jobs_ended"]) for row in rows] == [(3600, 1, 0), (0, 0, 1)]
