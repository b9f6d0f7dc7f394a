"""Balances of fair share through the log and the projection: whatever the order, and equal to plain integration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import projector
from events.append import append
from events.rebuild import known_at
from events.types.accounts import AssociationReported
from events.types.jobs import JobReported
from events.types.shares import FairshareConfigured
from jobs.decay import Held, Slices
from jobs.share_history import course, history
from jobs.standing import Table, standing
from tests.hand import DAY, HOUR, at, corrected, facts, gpus, job, place, table, tell
from tests.invariants.worlds import FEW, forgotten, tellings

pytestmark = pytest.mark.django_db
MODES: dict[str, dict[str, Any]] = {
    "continuous": {"mode": "continuous", "half_life_seconds": 7 * DAY},
    "slurm": {"mode": "slurm", "half_life_seconds": 7 * DAY, "calc_period_seconds": 300, "phase_seconds": 42},
}
WEIGHTS = ("train=cpu:125,gpu:10000", "small=gpu:2500", "*=node:1000")
START = at("2026-03-01 00:00")
NOW = datetime.fromtimestamp(at("2026-04-20 13:37"), UTC)


def configured(day: str = "2026-01-01", **fields: Any) -> FairshareConfigured:
    return FairshareConfigured(cluster="pod-a", from_day=day, **{"weights": WEIGHTS, **fields})


def shares(account: str, user: str | None = None, parent: str | None = None, **fields: Any) -> AssociationReported:
    return AssociationReported(cluster="pod-a", account=account, user=user, parent=parent, **{"shares": 1, **fields})


TREE = [shares("root"), shares("a", parent="root", shares=3), shares("b", parent="root"),
        *(shares(account, user) for account in "ab" for user in "uv")]  # fmt: skip


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def own(found: Table) -> dict[tuple[str, str], tuple[float, int]]:
    return {line.member[:2]: (line.decayed, line.undecayed) for line in found.lines if line.member.user}


@st.composite
def ran(draw: st.DrawFn, most: int = 12) -> list[JobReported]:
    """Jobs of two accounts and two users over 50 days, short and long, some of them running still."""
    made = []
    for number in range(draw(st.integers(1, most))):
        start = START + draw(st.integers(0, 50 * DAY))
        length = draw(st.one_of(st.integers(0, 7200), st.integers(0, 20 * DAY)))
        end = None if draw(st.integers(0, 5)) == 0 else start + length
        made.append(job(
            str(number), start, end, account=draw(st.sampled_from("ab")), user=draw(st.sampled_from("uv")),
            record=number,
            partition=draw(st.sampled_from(["train", "small", "other"])), cpus=draw(st.integers(0, 64)),
            **gpus(draw(st.integers(0, 16))),
        ))  # fmt: skip
    return made


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[Any], list[list[Any]]]:
    """What is said, and the same in another order, some of it twice, in batches."""
    config = configured(**draw(st.sampled_from(list(MODES.values()))))
    later = configured("2026-03-20", **{**draw(st.sampled_from(list(MODES.values()))), "half_life_seconds": 3 * DAY})
    said = [place(draw(st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]))), config, later, *draw(ran())]
    order = draw(st.permutations(said)) + draw(st.lists(st.sampled_from(said), max_size=4))
    batches = []
    while order:
        size = draw(st.integers(1, len(order)))
        batches.append(order[:size])
        order = order[size:]
    return said, batches


@FEW
@given(arrivals())
def test_any_order_duplication_and_lateness_gives_the_identical_balance(arrived: tuple[list[Any], Any]) -> None:
    said, batches = arrived
    with forgotten():
        append(facts(TREE))
        for batch in batches:
            append(facts(batch))
            projector.catch_up()
        rows, late = table("jobs_balance"), own(standing("pod-a", NOW))
        with known_at(projector.position(projector.groups()[-1])):
            assert table("jobs_balance") == rows
    with forgotten():
        append(facts([*TREE, *said]))
        projector.catch_up()
        assert table("jobs_balance") == rows
        assert own(standing("pod-a", NOW)) == late  # the very same bits


@st.composite
def corrected_worlds(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Worlds with corrections, requeues, second sources and earlier sightings, and their facts in another order."""
    said = draw(tellings()) + facts([configured(**draw(st.sampled_from(list(MODES.values()))))])
    order = draw(st.permutations(said))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=4)))
    return said, [order[a:b] for a, b in pairwise([0, *cuts, len(order)]) if a < b]


@FEW
@given(corrected_worlds())
def test_what_was_corrected_leaves_no_trace_in_balances(arrived: tuple[list[Any], list[Any]]) -> None:
    said, batches = arrived
    with forgotten():
        for batch in batches:
            append(batch)
            projector.catch_up()
        rows = table("jobs_balance")
    with forgotten():
        append(said)
        projector.catch_up()
        assert table("jobs_balance") == rows


@pytest.mark.parametrize("mode", sorted(MODES))
def test_late_and_corrected_attempts_move_the_days_after_them_and_no_others(mode: str) -> None:
    """A day's use arrives after that of the three days that follow it, and one attempt moves to another account."""
    days = [job(str(n), START + n * DAY + HOUR, START + n * DAY + 3 * HOUR, account="a", user="u", record=n, **gpus(n))
            for n in range(1, 5)]  # fmt: skip
    moved = corrected("3", days[2].start or 0, "account", "b", "a")
    other = corrected("4", days[3].start or 0, "end", str((days[3].end or 0) + 2 * DAY))
    with forgotten():
        tell(place(), *TREE, configured(**MODES[mode]))
        for one in (*days[1:], days[0], moved, other):
            tell(one)
        rows = table("jobs_balance")
        keys = [row for row in rows if '"account": "b"' in row]
    with forgotten():
        tell(place(), *TREE, configured(**MODES[mode]), *days, moved, other)
        assert table("jobs_balance") == rows
    assert (len(rows), len(keys)) == (6, 1)  # 1, 2 and 4 with the two days after it; 3 is of b


# --- against integration ---------------------------------------------------------------------------------------


def rate(one: JobReported) -> float:
    """Thousandths of a billing unit, by the weights above."""
    size = one.gpus or 0
    return {"train": 125 * (one.cpus or 0) + 10_000 * size, "small": 2500 * size}.get(one.partition or "", 1000)


def integral(jobs: Sequence[JobReported], stretches: Sequence[tuple[int, float]], until: int) -> float:
    """Numeric integral of rate x product of what each stretch leaves: Gauss-Legendre, 5 points on hours.

    stretches: (from epoch second on, half-life), in order.
    """
    ends = [*(start for start, _ in stretches[1:]), until]

    def halvings(t: float) -> float:
        return math.fsum(max(0.0, end - max(t, start)) / life
                         for (start, life), end in zip(stretches, ends, strict=True))  # fmt: skip

    points = ((0.0, 128 / 225), (math.sqrt(5 - 2 * math.sqrt(10 / 7)) / 3, (322 + 13 * math.sqrt(70)) / 900),
              (math.sqrt(5 + 2 * math.sqrt(10 / 7)) / 3, (322 - 13 * math.sqrt(70)) / 900))  # fmt: skip
    parts = []
    for one in jobs:
        a, b = one.start or 0, min(one.end or until, until)
        cuts = sorted({a, b, *(start for start, _ in stretches if a < start < b), *range(a, b, 6 * HOUR)})
        for left, right in pairwise(cuts):
            for x, weight in points:
                for sign in (1, -1) if x else (1,):
                    t = (left + right) / 2 + sign * x * (right - left) / 2
                    parts.append(weight * (right - left) / 2 * rate(one) * 2 ** -halvings(t))
    return math.fsum(parts)


@FEW
@given(ran(), st.sampled_from(["UTC", "America/Havana"]))
def test_dated_half_lives_equal_numeric_integration(jobs: list[JobReported], zone: str) -> None:
    """7 days of half-life until 20 March, 3 days from then on; weights as above all the time."""
    with forgotten():
        change = {"mode": "continuous", "half_life_seconds": 3 * DAY}
        tell(place(zone), *TREE, configured(**MODES["continuous"]), configured("2026-03-20", **change), *jobs)
        midnight = at("2026-03-20 00:00") + (4 * HOUR if zone == "America/Havana" else 0)  # UTC-4 in summer
        found = own(standing("pod-a", NOW))
    for (account, user), (decayed, undecayed) in found.items():
        mine = [one for one in jobs if (one.account, one.user) == (account, user)]
        expected = integral(mine, [(START - DAY, 7.0 * DAY), (midnight, 3.0 * DAY)], seconds(NOW))
        assert decayed == pytest.approx(expected, rel=1e-9, abs=1e-6)
        assert undecayed == sum(rate(one) * max(0, min(one.end or seconds(NOW), seconds(NOW)) - (one.start or 0))
                                for one in mine)  # fmt: skip


@pytest.mark.parametrize("mode", [*sorted(MODES), "weekly"])
def test_history_by_day_is_the_standing_of_each_instant(mode: str) -> None:
    jobs = [
        job("1", START + HOUR, START + 5 * DAY, account="a", user="u", cpus=8, **gpus(8)),
        job("2", START + 3 * DAY, START + 3 * DAY + 100, account="b", user="v", cpus=8, **gpus(1)),
        job("3", START + 4 * DAY + 7, None, account="b", user="u", cpus=3, **gpus(2)),
    ]
    tell(place("Europe/Berlin"), *TREE, configured(**MODES.get(mode, {"half_life_seconds": 0, "reset": mode})), *jobs)
    days = [(datetime.fromtimestamp(START, UTC) + timedelta(n)).date() for n in range(9)]
    tables = history("pod-a", days)
    assert len(tables) == 9
    courses = {account: course("pod-a", account, days) for account in "ab"}
    for number, one in enumerate(tables):
        for line in one.lines:
            if line.member.account in courses and not line.member.user:
                point = courses[line.member.account][number]
                assert point.share == line.standing.norm_shares
                assert point.usage == pytest.approx(line.standing.effective_usage, rel=1e-12)
        plain = standing("pod-a", one.at)
        for (decayed, spent), (same, total) in zip(own(one).values(), own(plain).values(), strict=True):
            assert decayed == pytest.approx(same, rel=1e-12)
            assert spent == total


def test_slurm_mode_over_days_equals_its_slices_in_one_sum() -> None:
    """The roll-up by day against Slices over the whole stretches at once, which equal the thread written out."""
    jobs = [
        job("1", START + 1234, START + 9 * DAY + 77, account="a", user="u", partition="small", **gpus(4)),
        job("2", START + 2 * DAY, START + 2 * DAY + 299, account="a", user="u", partition="small", **gpus(8)),
        job("3", START + 8 * DAY + 11, None, account="a", user="u", partition="small", **gpus(1)),
    ]
    tell(place("Europe/Berlin"), *TREE, configured(**MODES["slurm"]), *jobs)
    when = START + 12 * DAY + 4321
    held = [Held(one.start or 0, one.end, 2500.0 * (one.gpus or 0)) for one in jobs]
    decayed, _ = own(standing("pod-a", datetime.fromtimestamp(when, UTC)))["a", "u"]
    assert decayed == pytest.approx(Slices(7 * DAY, 300, 42).usage(held, when), rel=1e-12)


def test_a_monthly_reset_forgets_at_the_sites_midnight() -> None:
    """One GPU for ten hours around midnight of 1 April in Berlin (22:00 UTC): five hours stay."""
    middle = at("2026-03-31 22:00")
    reset = configured(half_life_seconds=0, reset="monthly", calc_period_seconds=1)
    across = job("1", middle - 5 * HOUR, middle + 5 * HOUR, partition="small", **gpus(1))
    running = job("2", middle - 9 * DAY, None, account="b", user="v", partition="small", **gpus(2))
    tell(place("Europe/Berlin"), *TREE, reset, across, running)

    def at_(when: int) -> dict[tuple[str, str], tuple[float, int]]:
        return own(standing("pod-a", datetime.fromtimestamp(when, UTC)))

    assert at_(middle)["a", "u"] == (5 * HOUR * 2500.0, 5 * HOUR * 2500)
    assert at_(middle + 9 * HOUR)["a", "u"] == (5 * HOUR * 2500.0, 5 * HOUR * 2500)
    assert at_(middle + HOUR)["a", "u"] == (HOUR * 2500.0, HOUR * 2500)
    assert at_(middle + 60 * DAY)["a", "u"] == (0.0, 0)
    assert at_(middle + HOUR)["b", "v"] == (HOUR * 5000.0, HOUR * 5000)
    assert at_(middle)["b", "v"] == (9 * DAY * 5000.0, 9 * DAY * 5000)
