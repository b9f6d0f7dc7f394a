"""What is one fault: alerts that come again or change their name, instants of Redfish, closings, faults many see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from events.derive.faults import Fault, Heard, fold
from events.types.faults import FaultAcknowledged, FaultClosed, FaultOpened, FaultSighted

Brief = tuple[int, int | None, int, str]
"""Opened, closed, how often told, closed as."""


def alert(start: int, end: int | None = None, name: str = "a", **more: Any) -> FaultSighted:
    where = {} if "unit" in more else {"node": "n1"}
    state = "firing" if end is None else "resolved"
    return FaultSighted(cluster="c", signal="alert", name="X", state=state, started_ms=start, ended_ms=end,
                        fingerprint=name, **{**where, **more})  # type: ignore[arg-type]  # fmt: skip


def redfish(at: int, *, well: bool = False, **more: Any) -> FaultSighted:
    state: Any = "resolved" if well else "firing"
    return FaultSighted(cluster="c", signal="redfish", name="R.Fan", state=state, started_ms=at,
                        ended_ms=at if well else None, node="n1", fingerprint=str(at), **more)  # fmt: skip


def closed(at: int, as_: Any = "repaired") -> FaultClosed:
    return FaultClosed(cluster="c", kind="k", node="n1", at_ms=at, closed_as=as_)


def heard(items: Iterable[Any], *, wide: bool = False, kind: str = "k") -> list[Heard]:
    return [Heard(place, "s", "token:x", kind, wide, one) for place, one in enumerate(items, start=1)]


def brief(faults: Sequence[Fault]) -> list[Brief]:
    return [(one.opened, one.closed, one.times, one.closed_as) for one in faults]


def every_order(items: Sequence[Any], *, wide: bool = False) -> list[Brief]:
    """The faults, which must be the same in every order and if each word came twice."""
    answers = {tuple(brief(fold(heard(order, wide=wide)))) for order in permutations(items)}
    answers.add(tuple(brief(fold(heard([*items, *items], wide=wide)))))
    assert len(answers) == 1
    return list(answers.pop())


def test_an_alert_opens_and_its_end_closes() -> None:
    assert every_order([alert(100)]) == [(100, None, 1, "")]
    assert every_order([alert(100), alert(100, 400)]) == [(100, 400, 1, "")]
    # Only the end arrived.
    assert every_order([alert(100, 400)]) == [(100, 400, 1, "")]


def test_a_new_firing_after_the_end_is_a_new_fault() -> None:
    told = [alert(100, 400), alert(500), alert(500, 600)]
    assert every_order(told) == [(100, 400, 1, ""), (500, 600, 1, "")]


def test_a_label_that_goes_makes_no_second_fault() -> None:
    told = [alert(100), alert(100, 400, "a"), alert(400, name="b")]
    assert every_order(told) == [(100, None, 2, "")]
    assert every_order([*told, alert(400, 900, "b")]) == [(100, 900, 2, "")]


def test_overlapping_words_of_several_sources_are_one_fault_until_the_last_ends() -> None:
    assert every_order([alert(100, 400, "a"), alert(200, 700, "b"), redfish(150), redfish(800, well=True)]) == [
        (100, 800, 3, "")
    ]


def test_the_same_alert_anew_ends_an_earlier_one_whose_end_was_lost() -> None:
    assert every_order([alert(100), alert(900), alert(900, 950)]) == [(100, 950, 2, "")]


def test_redfish_tells_instants() -> None:
    told = [redfish(100), redfish(150), redfish(300, well=True), redfish(350, well=True), redfish(500)]
    assert every_order(told) == [(100, 300, 2, ""), (500, None, 1, "")]
    assert every_order([redfish(10, well=True)]) == []


def test_parts_and_gpus_are_faults_of_their_own_and_a_uuid_is_found_by_its_index() -> None:
    told = [alert(1, gpu=5, gpu_uuid="U5"), alert(2, name="b", gpu=2), alert(3, name="c", gpu_uuid="U5"),
            redfish(4, part="Fans/1")]  # fmt: skip
    places = [(one.lane.place, one.times) for one in fold(heard(told))]
    assert places == [("gpu5", 2), ("gpu2", 1), ("Fans/1", 1)]


def test_a_person_closes_what_still_fires_and_a_later_firing_is_new() -> None:
    told = [alert(100), closed(500), alert(800, name="b")]
    assert every_order(told) == [(100, 500, 1, "repaired"), (800, None, 1, "")]
    # Its end comes later than the closing: the closing stands.
    assert every_order([alert(100), alert(100, 700), closed(500)]) == [(100, 500, 1, "repaired")]
    # The label goes after the closing: the new name goes on where the old one ended, so it is the closed fault.
    assert every_order([alert(100), closed(500), alert(100, 700), alert(700, name="b")]) == [(100, 500, 2, "repaired")]


def test_the_same_alert_anew_after_a_closing_is_a_new_fault() -> None:
    assert every_order([alert(100), closed(500), alert(800)]) == [(100, 500, 1, "repaired"), (800, None, 1, "")]


def test_a_person_s_words_stay_where_sources_told_an_earlier_end_later() -> None:
    assert every_order([alert(100), closed(500, "false_alarm"), alert(100, 450)]) == [(100, 450, 1, "false_alarm")]


def test_two_closings_close_two_faults() -> None:
    told = [alert(100), closed(200), alert(300, name="b"), closed(400, "replaced")]
    assert every_order(told) == [(100, 200, 1, "repaired"), (300, 400, 1, "replaced")]


def test_operators_open_and_acknowledge() -> None:
    opened = FaultOpened(cluster="c", kind="k", node="n1", started_ms=50, note="smoke")
    ack = FaultAcknowledged(cluster="c", kind="k", node="n1", at_ms=70)
    (found,) = fold(heard([ack, opened, alert(60, 65)]))
    assert (found.opened, found.closed, found.times, found.acknowledged) == (50, None, 2, 70)
    assert (found.first, found.last) == (opened, 70)
    # An acknowledgement after the end is of another fault, or of none.
    (found,) = fold(heard([alert(10, 20), FaultAcknowledged(cluster="c", kind="k", node="n1", at_ms=30)]))
    assert found.acknowledged is None


def test_what_many_see_is_one_fault() -> None:
    minute = 60_000
    told = [alert(minute * n, minute * n + 1000, f"f{n}", node=f"n{n}") for n in range(1, 5)]
    assert every_order(told, wide=True) == [(minute, 4 * minute + 1000, 4, "")]
    (found,) = fold(heard(told, wide=True))
    assert (found.nodes, found.lane.where) == (("n1", "n2", "n3", "n4"), "")
    # More than five minutes later it is another one; narrow faults are of each node.
    late = alert(minute * 30, name="z", node="n9")
    assert len(fold(heard([*told, late], wide=True))) == 2
    assert len(fold(heard(told))) == 4


TIMES = st.integers(0, 30)
WORDS = st.one_of(
    st.builds(lambda start, length, name: alert(start, None if length < 0 else start + length, name),
              TIMES, st.integers(-1, 10), st.sampled_from("abc")),
    st.builds(lambda at, well: redfish(at, well=well), TIMES, st.booleans()),
    st.builds(closed, TIMES),
    st.builds(lambda at: FaultAcknowledged(cluster="c", kind="k", node="n1", at_ms=at), TIMES),
    st.builds(lambda at: FaultOpened(cluster="c", kind="k", node="n1", started_ms=at), TIMES),
)  # fmt: skip


def shown(faults: Iterable[Fault]) -> list[Any]:
    """Everything but what the log's order gives."""
    return [(brief([one]), one.last, one.nodes, one.acknowledged, msgspec.to_builtins(one.first)) for one in faults]


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=9), st.randoms())
def test_any_order_and_any_repetition_give_the_same(told: list[Any], chance: Any) -> None:
    twice = [*told, *chance.sample(told, len(told) // 2)]
    chance.shuffle(twice)
    assert shown(fold(heard(twice))) == shown(fold(heard(told)))
    # Faults of one place do not overlap, and of each instant somebody told of trouble.
    faults = fold(heard(told))
    for before, after in pairwise(faults):
        assert before.closed is not None
        assert before.closed <= after.opened
    starts = {one.started_ms for one in told if hasattr(one, "started_ms")}
    assert {one.opened for one in faults} <= starts
