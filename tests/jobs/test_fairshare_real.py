"""The captured Slurm's standing through the product: its accounts, its sacct text and its slurm.conf, and no more."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import call_command

from events import queries as log
from jobs.fairshare import Standing
from jobs.standing import standing

pytestmark = pytest.mark.django_db
SHARE_AT = datetime.fromtimestamp(1796036461, UTC)
"""When the captured `sshare -l` was taken (captures.tsv)."""
CONF = {"half_life": "00:05:00", "period": "00:01:00", "phase": "42"}
WEIGHTS = ["*=CPU=0.125,GRES/gpu=10", "scavenge=CPU=0.03,GRES/gpu=2.5"]
"""PriorityDecayHalfLife, PriorityCalcPeriod and TRESBillingWeights of slurm.conf (train and debug weigh the same). The
phase is the one fitted number, the same for all users. The text of chosen columns has no partition; the text of all
columns lacks three rows that a `|` broke: together they have everything, as the JSON has."""
FILES = {"text": (["allocations.psv", "all_duplicates.psv.gz"], False), "json": (["all.json.gz"], True)}
Key = tuple[str, str]


@pytest.fixture(autouse=True, params=sorted(FILES))
def taken(request: pytest.FixtureRequest, db: None, payloads: Path) -> None:
    folder, out = payloads / "slurm", io.StringIO()
    files, json = FILES[request.param]
    paths = [str(folder / "sacct" / name) for name in files]
    call_command("import_accounts", str(folder / "sacctmgr" / "dump.cfg"), stdout=out)
    call_command("import_sacct", *paths, cluster="pod-a", timezone="UTC", json=json, stdout=out, stderr=out)
    call_command("fairshare", "set", "pod-a", **CONF, weights=WEIGHTS, stdout=out)


@pytest.fixture
def shown(payloads: Path) -> dict[Key, dict[str, str]]:
    with (payloads / "slurm" / "sshare" / "sshare_long.psv").open(encoding="utf-8") as file:
        return {(row["Account"].strip(), row["User"]): row for row in csv.DictReader(file, delimiter="|")}


def found() -> dict[Key, Standing]:
    lines = standing("pod-a", SHARE_AT).lines
    names = log.people(line.member.user for line in lines)
    return {(line.member.account, names.get(line.member.user, "")): line.standing for line in lines}


def test_shares_and_ranks_of_every_row(shown: dict[Key, dict[str, str]]) -> None:
    rows = found()
    assert {key: row["NormShares"] for key, row in shown.items()} == {
        key: f"{one.norm_shares:.6f}" for key, one in rows.items()
    }
    assert {key: row["FairShare"] for key, row in shown.items() if key[1]} == {
        key: f"{one.fairshare:.6f}" for key, one in rows.items() if key[1]
    }


def test_raw_usage_of_every_row_within_one_percent(shown: dict[Key, dict[str, str]]) -> None:
    rows = found()
    assert len(rows) == len(shown) == 19
    for key, row in shown.items():
        assert rows[key].usage == pytest.approx(int(row["RawUsage"]), rel=0.01), key
