"""Fair share against published rows of Slurm's own tests, all columns to the digits given."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from jobs.fairshare import Association, BadTree, Standing, classic, fair_tree, levels, quotient

Rows = list[dict[str, str]]


def rows(payloads: Path, name: str) -> Rows:
    with (payloads / "fairshare" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fair_tree_input(found: Rows) -> list[Association]:
    """A row whose name differs from its parent's and which has usage of its own, or none at all, is a user or not."""
    accounts = {row["parent_account"] for row in found} | {row["account"] for row in found if not row["user"]}
    assert "root" in accounts
    return [
        Association(
            account=row["account"],
            user=row["user"] or None,
            parent=row["parent_account"] or None,
            shares=None if row["raw_shares"] == "parent" else int(row["raw_shares"] or 0),
            usage=int(row["own_raw_usage_input"] or 0),
        )
        for row in found
        if row["parent_account"]
    ]


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def columns(one: Standing) -> dict[str, str]:
    return {
        "norm_shares": shown(one.norm_shares),
        "raw_usage": str(one.usage),
        "norm_usage": shown(one.norm_usage),
        "effectv_usage": shown(one.effective_usage),
        "fairshare": shown(one.fairshare),
        "level_fs": shown(one.level_fs),
    }


def test_fair_tree_gives_all_published_rows(payloads: Path) -> None:
    found = rows(payloads, "fairtree_35_rows.csv")
    standing = {(one.account, one.user or ""): one for one in fair_tree(fair_tree_input(found))}
    said = {key: columns(one) for key, one in standing.items()}
    expected = {(row["account"], row["user"]): {name: row[name] for name in said["root", ""]} for row in found}
    assert said == expected
    assert len(found) == 35


def test_usage_in_parts_of_a_second_gives_the_published_rows(payloads: Path) -> None:
    given = fair_tree_input(rows(payloads, "fairtree_35_rows.csv"))
    assert fair_tree([one._replace(usage=1000 * one.usage) for one in given], parts=1000) == fair_tree(given)


def test_an_account_alone_has_its_published_row(payloads: Path) -> None:
    """From the usage below the account above it; what others used is not given."""
    found = rows(payloads, "fairtree_35_rows.csv")
    given = fair_tree_input(found)
    above = {one.account: one.parent for one in given if one.user is None}
    for row in [row for row in found if not row["user"] and row["parent_account"]]:
        near = [one if _hangs(one.account, row["parent_account"], above) else one._replace(usage=0) for one in given]
        (alone,) = levels(near, {row["account"]})
        expected = {name: row[name] for name in columns(alone)} | {"norm_usage": ""}
        assert columns(alone) == expected


def _hangs(account: str | None, top: str, above: dict[str, str | None]) -> bool:
    while account and account != top:
        account = above.get(account)
    return account == top


def test_classic_gives_all_published_rows(payloads: Path) -> None:
    found = rows(payloads, "classic_6_rows.csv")
    associations: dict[str, Association] = {}
    for row in found:
        shares = dict(part.split("=") for part in row["raw_shares"].split(";"))
        *accounts, user = row["path"].split("/")
        for name, above in zip(accounts, [None, *accounts], strict=False):
            associations[name] = Association(name, parent=above, shares=int(shares[name]))
        associations[user] = Association(accounts[-1], user, shares=int(shares[user]), usage=int(row["raw_usage"]))
    standing = {one.user: one.fairshare for one in classic(list(associations.values()))}
    # The published table has six digits at most.
    assert {row["path"].split("/")[-1]: f"{float(row['expected_fairshare']):.6f}" for row in found} == {
        user: f"{value:.6f}" for user, value in standing.items() if user and value is not None
    }
    assert len(found) == 6


def tied_accounts() -> list[Association]:
    """Two equal accounts under root with two users each: usage 8 and 2, 5 and 5."""
    return [
        Association("A"), Association("B"), Association("A", "a1", usage=8), Association("A", "a2", usage=2),
        Association("B", "b1", usage=5), Association("B", "b2", usage=5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("documented", {"a2": 1.0, "b1": 0.75, "b2": 0.75, "a1": 0.25}),
        ("coded", {"a2": 1.0, "a1": 0.75, "b1": 0.75, "b2": 0.75}),
    ],
)
def test_both_ways_to_rank_equal_accounts(ties: Any, expected: dict[str, float]) -> None:
    """Worked by hand from the document and from the code (research note on Fair Tree, ties)."""
    assert {one.user: one.fairshare for one in fair_tree(tied_accounts(), ties) if one.user} == expected


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ([Association("x", parent="nowhere")], "x hangs below the account nowhere"),
        ([Association("a", "u")], "u hangs below the account a"),
        ([Association("a", parent="b"), Association("b", parent="a")], "a, b hang below each other"),
        ([Association("a", shares=-1)], "a has -1 shares"),
    ],
)
def test_what_is_no_tree_is_refused(broken: list[Association], says: str) -> None:
    with pytest.raises(BadTree, match=says):
        fair_tree(broken)


def test_nobody_used_anything() -> None:
    standing = {one.user: one for one in fair_tree([Association("a"), Association("a", "u"), Association("a", "v")])}
    assert (standing["u"].fairshare, standing["v"].fairshare, standing["u"].level_fs) == (1.0, 1.0, float("inf"))
    assert standing["u"].rank == standing["v"].rank == 1


@pytest.mark.parametrize(
    ("above", "below", "exponent", "mantissa"),
    [
        (1, 1, -63, 1 << 63),
        (1, 3, -65, 0xAAAA_AAAA_AAAA_AAAB),  # 0.0101... in base 2: the rest of 2/3 goes up
        ((1 << 64) + 1, 1, 1, 1 << 63),  # halfway between two numbers: to the even one, down
        ((1 << 64) + 3, 1, 1, (1 << 63) + 2),  # and up
        ((1 << 65) - 1, 1, 2, 1 << 63),  # up to the next power of two
        (5, 1 << 70, -131, 5 << 61),
    ],
)
def test_quotients_have_64_bits(above: int, below: int, exponent: int, mantissa: int) -> None:
    assert quotient(above, below) == (exponent, mantissa)


def test_a_trace_of_use_has_a_level_without_limit() -> None:
    """1 part in 2^1100: its level is 2^1099, which is larger than every double, as after thousands of half-lives."""
    users = [Association("a", "u", usage=1), Association("a", "v", usage=2**1100)]
    standing = {one.user: one for one in fair_tree([Association("a"), *users])}
    assert (standing["u"].level_fs, standing["u"].effective_usage, standing["u"].rank) == (float("inf"), 0.0, 1)
    assert (standing["v"].level_fs, standing["v"].effective_usage, standing["v"].rank) == (0.5, 1.0, 2)
