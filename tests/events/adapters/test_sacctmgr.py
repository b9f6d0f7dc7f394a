"""The accounts of the captured cluster in three forms say the same; shares, limits and faults as Slurm writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from events.adapters import Draft, Refusal
from events.adapters.sacctmgr import NoAssociations, accounts_of, read_associations
from events.types.accounts import AssociationReported

Rows = dict[tuple[str, str], AssociationReported]
NOW = 1_796_036_470_000_000


def read(text: str, cluster: str = "") -> Rows:
    found = read_associations(text, cluster, NOW)
    assert not [one for one in found if isinstance(one, Refusal)]
    rows = [one.data for one in found if isinstance(one, Draft) and isinstance(one.data, AssociationReported)]
    return {(row.account, row.user or ""): row for row in rows}


@pytest.fixture
def dump(payloads: Path) -> str:
    return (payloads / "slurm" / "sacctmgr" / "dump.cfg").read_text()


@pytest.fixture
def listed(payloads: Path) -> str:
    return (payloads / "slurm" / "sacctmgr" / "associations.psv").read_text()


@pytest.fixture
def document(payloads: Path) -> str:
    return gzip.decompress((payloads / "slurm" / "rest" / "slurmdb_v0.0.38_associations.json.gz").read_bytes()).decode()


def bare(rows: Rows) -> Rows:
    """Without what only some forms tell."""
    return {key: replace(row, default=None, description=None, organisation=None) for key, row in rows.items()}


def test_three_forms_of_one_accounting_say_the_same(dump: str, listed: str, document: str) -> None:
    told = [bare(read(text)) for text in (dump, listed, document)]
    assert len(told[0]) == 19  # 7 accounts, root as a user, 11 users
    assert told[0] == told[1]
    assert told[0] == told[2]


def test_the_dump_tells_the_tree_the_shares_and_the_descriptions(dump: str) -> None:
    rows = read(dump)
    assert rows["speech", ""] == AssociationReported(
        cluster="pod-a", account="speech", parent="perception", shares=20, qos=("high", "normal"),
        description="project speech", organisation="perception",
    )  # fmt: skip
    assert rows["speech", "u04"] == AssociationReported(
        cluster="pod-a", account="speech", user="u04", shares=7, default=True, qos=("high", "normal")
    )
    assert rows["robotics", "u04"].default is False
    assert rows["root", ""].parent is None
    assert rows["root", "root"].shares == 1


def test_defaults_are_the_same_in_dump_and_json(dump: str, document: str) -> None:
    defaults = [{key: row.default for key, row in read(text).items()} for text in (dump, document)]
    assert defaults[0] == defaults[1]
    assert sorted(user for (_, user), default in defaults[0].items() if default) == [
        "root", "u01", "u02", "u03", "u04", "u05", "u06", "u07", "u08"
    ]  # fmt: skip


def test_accounts_without_their_users(dump: str) -> None:
    found = accounts_of(read_associations(dump, "", NOW))
    assert [account for _, account in found] == [
        "root", "embodied", "perception", "genomics", "robotics", "speech", "vision"
    ]  # fmt: skip


REST_OF_CS = "MaxWallDurationPerJob=40:Description='it's: CS':Organization='LC'"
LINES = "\n".join(
    (
        "Cluster - 'pod-b':MaxTRESPerJob=node=50:Fairshare=1:QOS='normal,low'",
        "Parent - 'root'",
        "Account - 'cs':MaxTRESPerJob=node=5:MaxJobs=4:MaxTRESMinsPerJob=cpu=20:FairShare=399:" + REST_OF_CS,
        "Account - 'phys':QOS='-low':Fairshare=parent",
        "Parent - 'cs'",
        "User - 'lipari':MaxJobs=3:FairShare=parent:DefaultQOS='normal':QOS='+high,-low':Partition='gpu'",
        "Parent - 'phys'",
        "Account - 'astro':QOS='debug'",
    )
)


def test_limits_changes_of_qos_and_shares_of_the_parent() -> None:
    """The options are those of the example that every dump begins with."""
    rows = read(LINES)
    assert rows["cs", ""].limits == (
        "MaxJobs=4", "MaxTRESMinsPerJob=cpu=20", "MaxTRESPerJob=node=5", "MaxWallDurationPerJob=40"
    )  # fmt: skip
    assert (rows["cs", ""].shares, rows["cs", ""].description) == (399, "it's: CS")
    assert (rows["phys", ""].shares, rows["phys", ""].shares_of_parent) == (None, True)
    assert [rows[key].qos for key in (("root", ""), ("cs", ""), ("phys", ""), ("cs", "lipari"), ("astro", ""))] == [
        ("low", "normal"), ("low", "normal"), ("normal",), ("high", "normal"), ("debug",)
    ]  # fmt: skip
    user = rows["cs", "lipari"]
    assert (user.partition, user.default_qos, user.default, user.limits) == ("gpu", "normal", None, ("MaxJobs=3",))


def test_newer_json_wraps_its_numbers() -> None:
    """Since v0.0.39 numbers are {set, infinite, number} and default a truth value."""

    def number(value: int | None, infinite: bool = False) -> dict[str, Any]:
        return {"set": value is not None, "infinite": infinite, "number": value or 0}

    row = {
        "account": "cs", "cluster": "pod-b", "user": "ada", "is_default": True, "shares_raw": 2147483647,
        "parent_account": "", "partition": "", "qos": ["normal"], "default": {"qos": "normal"},
        "priority": number(None),
        "max": {"jobs": {"active": number(4), "total": number(0, True), "per": {"wall_clock": number(1440)}},
                "tres": {"group": {"minutes": [{"type": "gres", "name": "gpu", "id": 1001, "count": 6000},
                                               {"type": "cpu", "name": "", "id": 1, "count": 100}]}}},
    }  # fmt: skip
    (found,) = read(json.dumps({"associations": [row]})).values()
    assert found == AssociationReported(
        cluster="pod-b", account="cs", user="ada", shares_of_parent=True, default=True, qos=("normal",),
        default_qos="normal",
        limits=("GrpTRESMins=cpu=100,gres/gpu=6000", "MaxJobs=4", "MaxWallDurationPerJob=1440"),
    )  # fmt: skip


def test_text_without_the_cluster_needs_its_name() -> None:
    text = "Account|User|Share|MaxSubmit\ncs||10|\ncs|ada|parent|7\n"
    with pytest.raises(NoAssociations, match="--cluster"):
        read_associations(text, "", NOW)
    rows = read(text, "pod-b")
    assert rows["cs", "ada"] == AssociationReported(
        cluster="pod-b", account="cs", user="ada", shares_of_parent=True, limits=("MaxSubmitJobs=7",)
    )


def test_only_the_cluster_that_is_asked_for(document: str) -> None:
    assert read(document, "pod-a")
    assert read_associations(document, "pod-b", NOW) == []


@pytest.mark.parametrize("text", ["", "\n", "{", "{}", '{"associations": 1}', "[]", "a|b\n1|2\n", "JobID|State\n1|X\n"])
def test_what_is_in_no_form_is_told(text: str) -> None:
    with pytest.raises(NoAssociations):
        read_associations(text, "", NOW)


def test_a_bad_line_is_refused_with_its_place() -> None:
    found = read_associations("Cluster|Account|Share\npod-a|a/b|1\npod-a|ok|1\npod-a|bad|many\n", "", NOW)
    assert [(type(one), one.index) for one in found] == [(Refusal, 2), (Draft, 3), (Refusal, 4)]
