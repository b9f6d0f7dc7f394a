"""Utilisation: allocated is the use of `usage`, productive that of `goodput`, and what nobody tells is null."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.access import Scope
from events.queries import head_position
from events.types.nodes import NodeDeclared, NodeListed
from tests.hand import HOUR, ask, at, gpus, job, mapped, place, project, say, tell
from tests.invariants.worlds import FEW, ZONES, Run, days, forgotten, runs
from tests.jobs.test_training import BEGIN, FAULT, LOST, books

pytestmark = pytest.mark.django_db
UNKNOWN = ("installed_gpu_seconds", "available_gpu_seconds", "busy_gpu_seconds", "available_of_installed_ppm",
           "allocated_of_installed_ppm", "allocated_of_available_ppm", "busy_of_allocated_ppm")  # fmt: skip


def utilisation(by: str = "", **options: Any) -> Any:
    return ask("utilisation", "2026-03-01", "2026-04-01", by, **options)


def test_allocated_productive_and_what_is_not_known() -> None:
    """Job 1 (16 GPUs, an hour) told where its time went, job 2 (4 GPUs, half an hour) of another project did not."""
    say(place(), project("nlp"), project("vision"), mapped("b", "vision"))
    books(*FAULT)
    tell(job("2", BEGIN, BEGIN + 1800, account="b", **gpus(4)))
    nlp, vision = utilisation("project").rows
    assert (nlp["project"], nlp["allocated_gpu_seconds"], nlp["instrumented_gpu_seconds"]) == (
        "nlp", 16 * HOUR, 16 * HOUR)  # fmt: skip
    assert nlp["productive_gpu_seconds"] == LOST["productive"]
    assert nlp["productive_of_instrumented_ppm"] == round(LOST["productive"] / (16 * HOUR) * 1e6)
    assert (vision["allocated_gpu_seconds"], vision["instrumented_gpu_seconds"]) == (4 * 1800, 0)
    assert vision["productive_of_instrumented_ppm"] is None
    answer = utilisation("project")
    for row in [*answer.rows, answer.total]:
        assert {row[name] for name in UNKNOWN} == {None}
    assert {gap["measure"] for gap in answer.gaps} == {"installed_gpu_seconds", "busy_gpu_seconds"}


def test_an_instrumented_attempt_is_held_where_it_ran_and_told_of_whole_where_it_ends() -> None:
    """16 GPUs from 10:00 to 11:00: allocated in the hour that ends with it, told of in the hour that begins then."""
    books(*FAULT)
    rows = ask("utilisation", "2026-03-01T09:00:00Z", "2026-03-01T12:00:00Z", "hour").rows
    assert [row["allocated_gpu_seconds"] for row in rows] == [0, 16 * HOUR, 0]
    assert [row["instrumented_gpu_seconds"] for row in rows] == [0, 0, 16 * HOUR]
    (row,) = ask("utilisation", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z", "hour,user").rows
    assert (row["hour"], row["user"]) == ("2026-03-01T11:00:00+00:00", "u")
    assert (row["allocated_gpu_seconds"], row["instrumented_gpu_seconds"]) == (0, 16 * HOUR)


def test_a_running_attempt_is_held_until_the_cut_and_told_until_then() -> None:
    books(FAULT[0], FAULT[1], state="RUNNING", minutes=None)
    total = utilisation("project", cut=datetime.fromtimestamp(BEGIN + 1800, UTC)).total
    assert (total["allocated_gpu_seconds"], total["instrumented_gpu_seconds"]) == (16 * 1800, 16 * 1800)
    assert total["productive_gpu_seconds"] == 16 * 15 * 60


def test_as_known_at_a_position_and_inside_a_scope() -> None:
    books(*FAULT)
    before = head_position()
    tell(project("vision"), mapped("b", "vision"), job("2", BEGIN, BEGIN + HOUR, account="b", **gpus(4)))
    then = utilisation("project", as_known_at=str(before))
    assert (then.total["allocated_gpu_seconds"], then.as_of.position) == (16 * HOUR, before)
    seen = utilisation("project", scope=Scope(frozenset({"vision"})))
    assert [(row["project"], row["allocated_gpu_seconds"]) for row in seen.rows] == [("vision", 4 * HOUR)]
    assert seen.total["instrumented_gpu_seconds"] == 0


@FEW
@given(
    runs(), st.sampled_from(ZONES),
    st.tuples(days(), days()).filter(lambda pair: pair[0] != pair[1]).map(sorted),
    st.sampled_from(["", "project", "day", "month,user", "week,account", "account,partition", "cluster", "branch"]),
)  # fmt: skip
def test_allocated_is_the_use_to_the_second(world: list[Run], zone: str, window: list[str], by: str) -> None:
    cut = datetime(2026, 11, 1, tzinfo=UTC)
    with forgotten():
        tell(place(zone), *(one.record for one in world))
        first, last = window
        used, held = (ask(name, first, last, by, cut=cut) for name in ("usage", "utilisation"))
        keys = [column.name for column in held.columns[: len(held.params.group_by)]]
        assert [[row[key] for key in keys] for row in held.rows] == [[row[key] for key in keys] for row in used.rows]
        assert [row["allocated_gpu_seconds"] for row in held.rows] == [row["gpu_seconds"] for row in used.rows]
        assert held.total["allocated_gpu_seconds"] == used.total["gpu_seconds"]


def test_installed_and_available_are_those_of_the_nodes() -> None:
    """Two nodes of 8 GPUs all March, one of them drained for ten days; 16 GPUs held for an hour on the 10th."""
    books(*FAULT)
    drained = NodeListed("pod-a", "n2", at("2026-03-05"), "UP", at("2026-03-15"), ("DRAIN",), False, "operator", "fan")
    tell(*(NodeDeclared("pod-a", name, gpus=8, from_day="2026-03-01") for name in ("n1", "n2")), drained)
    total = utilisation().total
    assert total["installed_gpu_seconds"] == 2 * 8 * 31 * 24 * HOUR
    assert total["available_gpu_seconds"] == total["installed_gpu_seconds"] - 8 * 10 * 24 * HOUR
    # 16 of 11,904 installed and of 9,984 available GPU-hours.
    assert (total["allocated_of_installed_ppm"], total["allocated_of_available_ppm"]) == (1344, 1603)
    by_day = {row["day"]: row for row in utilisation("day").rows}
    assert by_day["2026-03-04"]["available_gpu_seconds"] == 2 * 8 * 24 * HOUR
    assert by_day["2026-03-05"]["available_gpu_seconds"] == 8 * 24 * HOUR
    assert sum(row["available_gpu_seconds"] for row in by_day.values()) == total["available_gpu_seconds"]
    (row,) = utilisation("cluster").rows
    assert (row["cluster"], row["installed_gpu_seconds"]) == ("pod-a", total["installed_gpu_seconds"])
    assert utilisation("project").rows[0]["installed_gpu_seconds"] is None
    assert utilisation("project").total["installed_gpu_seconds"] == total["installed_gpu_seconds"]


def test_a_lead_is_told_what_part_of_the_hall_the_projects_held() -> None:
    """Two nodes of 8 GPUs all March: 11,904 GPU-hours, of which nlp held 16 and vision 8 (4 GPUs for two hours)."""
    books(*FAULT)
    tell(project("vision"), mapped("b", "vision"), job("2", BEGIN, BEGIN + 2 * HOUR, account="b", **gpus(4)),
         *(NodeDeclared("pod-a", name, gpus=8, from_day="2026-03-01") for name in ("n1", "n2")))  # fmt: skip
    installed = 11_904 * HOUR
    lead = Scope(frozenset({"vision"}))
    for options in ({"scope": lead}, {"project": "vision"}):
        total = utilisation("day", **options).total
        assert (total["installed_gpu_seconds"], total["available_gpu_seconds"]) == (installed, installed)
        assert total["allocated_gpu_seconds"] == 8 * HOUR
        assert total["allocated_of_installed_ppm"] == 672  # 8 of 11,904
    rows = utilisation("day", scope=lead).rows
    assert sum(row["installed_gpu_seconds"] for row in rows) == installed
    assert [row["day"] for row in rows if row["allocated_gpu_seconds"]] == ["2026-03-01"]
    (row,) = utilisation("cluster", scope=lead).rows
    assert (row["cluster"], row["installed_gpu_seconds"], row["allocated_gpu_seconds"]) == (
        "pod-a", installed, 8 * HOUR)  # fmt: skip
    mine = utilisation("project", scope=lead)
    assert [(row["project"], row["installed_gpu_seconds"]) for row in mine.rows] == [("vision", None)]
    assert mine.total["allocated_of_installed_ppm"] == 672


def test_a_window_in_which_nodes_were_not_known_yet_has_no_data() -> None:
    books(*FAULT)
    tell(NodeDeclared("pod-a", "n1", gpus=8, from_day="2026-03-20"))
    answer = utilisation("day")
    assert answer.total["installed_gpu_seconds"] is None
    assert "since 2026-03-20 00:00" in answer.gaps[0]["reason"]
    by_day = {row["day"]: row["installed_gpu_seconds"] for row in answer.rows}
    assert (by_day["2026-03-19"], by_day["2026-03-20"]) == (None, 8 * 24 * HOUR)
