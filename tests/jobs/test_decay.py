"""Decayed usage: against a real slurmctld's RawUsage, against numeric integration, and what must always hold."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.decay import BadHalfLife, Held, Slices, continuous_usage, undecayed_usage
from jobs.fairshare import Association, fair_tree

SHARE_AT = 1796036461
"""When the captured `sshare -l` was taken (captures.tsv)."""
PHASE = 42
"""The one fitted number: the second of the minute at which the captured slurmctld ended its slices."""
BILLING = "5"
"""Slurm's number of the TRES `billing` in tres_alloc."""
Key = tuple[str, str]


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "slurm" / "db" / f"{name}.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def captured_shares(folder: Path) -> list[dict[str, str]]:
    with (folder / "slurm" / "sshare" / "sshare_long.psv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="|"))


def held_by(folder: Path) -> dict[Key, list[Held]]:
    who = {row["id_assoc"]: (row["acct"], row["user"]) for row in table(folder, "assoc")}
    found: dict[Key, list[Held]] = defaultdict(list)
    for row in table(folder, "job"):
        if start := int(row["time_start"]):
            tres = dict(part.split("=") for part in row["tres_alloc"].split(",") if part)
            found[who[row["id_assoc"]]].append(Held(start, int(row["time_end"]) or None, float(tres.get(BILLING, 0))))
    return found


def test_raw_usage_of_a_real_cluster_within_one_percent(payloads: Path) -> None:
    """Half-life 5 min, a slice a minute; one phase for all users. The largest error found is 0.72 %."""
    held, slices = held_by(payloads), Slices(half_life=300, period=60, phase=PHASE)
    shown = {(row["Account"].strip(), row["User"]): int(row["RawUsage"]) for row in captured_shares(payloads)}
    users = {key: raw for key, raw in shown.items() if key[1]}
    assert len(users) == 12
    for key, raw in users.items():
        assert slices.usage(held.get(key, []), SHARE_AT) == pytest.approx(raw, rel=0.01), key


def test_standing_of_every_user_of_a_real_cluster(payloads: Path) -> None:
    """From the cluster's accounts and jobs alone: NormShares and FairShare of each row as sshare showed them."""
    held, slices = held_by(payloads), Slices(half_life=300, period=60, phase=PHASE)
    associations = [
        Association(
            row["acct"], row["user"] or None, None if row["user"] else row["parent_acct"] or None,
            int(row["shares"]), round(slices.usage(held.get((row["acct"], row["user"]), []), SHARE_AT)),
        )
        for row in table(payloads, "assoc")
    ]  # fmt: skip
    standing = {(one.account, one.user or ""): one for one in fair_tree(associations)}
    rows = captured_shares(payloads)
    assert {key(row): row["NormShares"] for row in rows} == {
        name: f"{one.norm_shares:.6f}" for name, one in standing.items()
    }
    assert {key(row): row["FairShare"] for row in rows if row["User"]} == {
        name: f"{one.fairshare:.6f}" for name, one in standing.items() if name[1]
    }


def key(row: dict[str, str]) -> Key:
    return row["Account"].strip(), row["User"]


# --- the closed form -------------------------------------------------------------------------------------------


def integral(one: Held, half_life: float, at: int) -> float:
    """Gauss-Legendre with 5 points on 64 pieces of the interval: error far below 1e-12 of the integral."""
    points = ((0.0, 128 / 225), (math.sqrt(5 - 2 * math.sqrt(10 / 7)) / 3, (322 + 13 * math.sqrt(70)) / 900),
              (math.sqrt(5 + 2 * math.sqrt(10 / 7)) / 3, (322 - 13 * math.sqrt(70)) / 900))  # fmt: skip
    end = at if one.end is None else min(one.end, at)
    width = (end - one.start) / 64
    parts = []
    for piece in range(64):
        middle = one.start + (piece + 0.5) * width
        for x, weight in points:
            for sign in (1,) if x == 0 else (1, -1):
                t = middle + sign * x * width / 2
                parts.append(weight * width / 2 * one.rate * 2 ** (-(at - t) / half_life))
    return math.fsum(parts)


HELD = st.builds(
    lambda start, length, rate: Held(start, start + length if length else None, rate),
    st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 4096).map(float),
)  # fmt: skip
AT = 3 * 10**6


@settings(max_examples=40, deadline=None, derandomize=True)
@given(HELD, st.sampled_from([3600.0, 86_400.0, 604_800.0, 2.5e6]))
def test_closed_form_equals_numeric_integration(one: Held, half_life: float) -> None:
    assert continuous_usage([one], half_life, AT) == pytest.approx(integral(one, half_life, AT), rel=1e-9, abs=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(HELD, max_size=20), st.randoms(use_true_random=False))
def test_no_order_of_arrival_changes_a_balance(held: list[Held], shuffler: object) -> None:
    other = list(held)
    shuffler.shuffle(other)  # type: ignore[attr-defined]
    slices = Slices(604_800, 300, 7)
    assert continuous_usage(held, 604_800, AT) == continuous_usage(other, 604_800, AT)
    assert slices.usage(held, AT) == slices.usage(other, AT)
    assert undecayed_usage(held, AT) == undecayed_usage(other, AT)


def test_half_is_left_after_a_half_life() -> None:
    """One unit for one second, read a week later: 0.5 by the closed form, 0.500073 by Slurm's linear factor."""
    week = 604_800
    one = [Held(0, 1, 1.0)]
    assert continuous_usage(one, week, week) == pytest.approx(0.5, rel=1e-6)
    assert Slices(week, 1).usage(one, week) == pytest.approx(0.500073, abs=1e-6)


def test_a_slice_is_charged_a_little_low() -> None:
    """A slice of 300 s with a half-life of 7 days: factor 0.999656 (research note on accrual)."""
    assert Slices(604_800, 300).usage([Held(0, None, 1.0)], 300) / 300 == pytest.approx(0.999656, abs=5e-7)


def test_slices_equal_a_plain_loop() -> None:
    """The geometric sum against the decay thread written out: decay all, then charge what ran in the slice."""
    held, period, phase, half_life = [Held(95, 1000, 3.0), Held(130, None, 2.0), Held(400, 410, 5.0)], 60, 20, 900
    d = 1 - 0.693 / half_life
    for at in (96, 140, 141, 405, 410, 999, 1000, 1001, 1219):
        usage, last = 0.0, 20
        charged = [False] * len(held)
        for now in range(21, at + 1):
            for n, one in enumerate(held):
                if one.end == now and not charged[n]:
                    run = now - max(last, one.start)
                    usage += run * d**run * one.rate
                    charged[n] = True
            if (now - phase) % period == 0:
                usage *= d ** (now - last)
                for n, one in enumerate(held):
                    if not charged[n] and one.start < now:
                        run = now - max(last, one.start)
                        usage += run * d**run * one.rate
                last = now
        assert Slices(half_life, period, phase).usage(held, at) == pytest.approx(usage, rel=1e-12), at


@pytest.mark.parametrize("half_life", [0, -1, math.nan, math.inf])
def test_no_half_life_is_refused(half_life: float) -> None:
    with pytest.raises(BadHalfLife, match="needs more than 0 seconds"):
        continuous_usage([], half_life, 0)


def test_slurm_without_decay() -> None:
    assert Slices(0, 300).usage([Held(0, 1000, 2.0)], 10**6) == 2000.0
    with pytest.raises(BadHalfLife):
        Slices(-1)
