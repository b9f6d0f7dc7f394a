"""`manage.py import_accounts`: associations are kept when they change, and accounts become a project tree."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from events.models import Event, Person, Rejection
from events.types.projects import ProjectDeclared
from fleet.models import Cluster
from jobs.models import AccountPlace, Project, ProjectPlace, UsageDay
from tests.hand import job, mapped, tell

pytestmark = pytest.mark.django_db
Run = Callable[..., str]


@pytest.fixture
def dump(payloads: Path) -> Path:
    return payloads / "slurm" / "sacctmgr" / "dump.cfg"


def run(file: Path | str, *options: str) -> str:
    out = io.StringIO()
    call_command("import_accounts", str(file), *options, stdout=out, stderr=out)
    return out.getvalue()


def events(type_: str) -> list[dict[str, Any]]:
    return list(Event.objects.filter(type=type_).order_by("position").values_list("data", flat=True))


def test_a_dump_gives_associations_and_the_tree_of_its_accounts(dump: Path) -> None:
    said = run(dump)
    assert "19 associations of pod-a: 19 new, 0 changed, 0 known, 0 rejected" in said
    assert "pod-a: 6 projects declared, 6 accounts mapped from 1970-01-01 on, 0 left alone" in said
    assert Cluster.objects.filter(name="pod-a").exists()
    assert list(Project.objects.order_by("code").values_list("code", "kind", "parent", "title")) == [
        ("embodied", "team", None, "division embodied"),
        ("genomics", "project", "embodied", "project genomics"),
        ("perception", "team", None, "division perception"),
        ("robotics", "project", "embodied", "project robotics"),
        ("speech", "project", "perception", "project speech"),
        ("vision", "project", "perception", "project vision"),
    ]
    assert set(AccountPlace.objects.values_list("cluster", "account", "project")) == {
        ("pod-a", name, name) for name in ("embodied", "genomics", "perception", "robotics", "speech", "vision")
    }
    assert ProjectPlace.objects.filter(project="vision", path=["perception", "vision"]).exists()


def test_users_are_named_by_surrogate_ids_only(dump: Path) -> None:
    run(dump)
    (ada,) = Person.objects.filter(name="u07").values_list("id", flat=True)
    (row,) = Event.objects.filter(stream=f"association/pod-a/genomics/{ada}")
    assert (row.data["user"], row.data["shares"]) == (ada, 3)
    assert not [data for data in events("association.reported") if "u07" in str(data)]


def test_the_same_file_or_another_form_of_it_changes_nothing(dump: Path, payloads: Path, tmp_path: Path) -> None:
    run(dump)
    before = Event.objects.count()
    said = run(dump)
    assert "0 new, 0 changed, 19 known" in said
    assert "0 projects declared, 0 accounts mapped" in said
    assert "left alone: vision is mapped to vision already" in said
    assert Event.objects.count() == before
    zipped = tmp_path / "dump.gz"
    zipped.write_bytes(gzip.compress(dump.read_bytes()))
    assert "19 known" in run(zipped)


def test_a_share_that_goes_back_is_a_change_again(dump: Path, tmp_path: Path) -> None:
    run(dump)
    other = tmp_path / "other.cfg"
    other.write_text(dump.read_text().replace("Fairshare=60", "Fairshare=61"))
    assert "0 new, 1 changed, 18 known" in run(other)
    assert "0 new, 1 changed, 18 known" in run(dump)
    shares = [data["shares"] for data in events("association.reported") if data["account"] == "perception"]
    assert [share for share in shares if share >= 60] == [60, 61, 60]


def test_what_a_file_does_not_have_is_told_and_withdrawn_only_when_it_is_complete(dump: Path, tmp_path: Path) -> None:
    run(dump)
    less = tmp_path / "less.cfg"
    less.write_text("\n".join(line for line in dump.read_text().splitlines() if "'u03'" not in line))
    assert "1 known associations are not in this file: kept; --complete withdraws them" in run(less)
    assert "1 known associations are not in this file: withdrawn" in run(less, "--complete")
    assert [(data["account"], "user" in data) for data in events("association.withdrawn")] == [("speech", True)]
    assert "are not in this file" not in run(less, "--complete")
    assert "1 new" not in run(less)
    assert "0 new, 1 changed" in run(dump)  # it is back


def test_mappings_and_projects_that_exist_are_left_alone(dump: Path) -> None:
    tell(
        ProjectDeclared(project="ai", title="All of AI"),
        ProjectDeclared(project="vision", title="Seeing", parent="ai"),
        mapped("perception", "ai", from_day="2026-01-01"),
    )
    said = run(dump, "--from", "2026-02-01")
    assert "pod-a: 4 projects declared, 5 accounts mapped from 2026-02-01 on, 1 left alone" in said
    assert "left alone: perception is mapped to ai already" in said
    assert Project.objects.get(code="vision").title == "Seeing"
    assert Project.objects.get(code="speech").parent == "ai"  # where its parent account belongs
    place = AccountPlace.objects.get(account="vision", project="vision")
    assert str(place.from_day) == "2026-02-01"


def test_use_before_the_import_lands_in_the_projects(dump: Path) -> None:
    tell(job("1", 1_700_000_000, 1_700_003_600, account="vision", gpus=8))
    run(dump)
    assert {(row.project, tuple(row.path)) for row in UsageDay.objects.all()} == {("vision", ("perception", "vision"))}


def test_without_projects(dump: Path) -> None:
    run(dump, "--no-projects")
    assert not Project.objects.exists()
    assert len(events("association.reported")) == 19


def test_accounts_whose_names_give_one_code_are_told(tmp_path: Path) -> None:
    file = tmp_path / "assoc.psv"
    file.write_text("Cluster|Account|ParentName|Share\nb|A b|root|1\nb|a-b|root|1\nb|***|root|1\n")
    said = run(file)
    assert "left alone: a-b would be the project a-b, as A b is" in said
    assert Project.objects.filter(code__startswith="account-").count() == 1


@pytest.mark.parametrize("text", ["", "nothing of the kind\n", "{}", '{"associations": []}'])
def test_a_file_that_is_none_keeps_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(CommandError) as told:
        run(file)
    assert (told.value.returncode, Event.objects.count()) == (2, 0)
    assert str(told.value).startswith(str(file))


def test_wrong_calls_are_told(dump: Path, tmp_path: Path) -> None:
    for file, options in ((tmp_path / "none", ()), (dump, ("--from", "soon")), (dump, ("--cluster", "pod-z"))):
        with pytest.raises(CommandError) as told:
            run(file, *options)
        assert told.value.returncode == 2
    assert Event.objects.count() == 0


def test_bad_lines_are_rejections(tmp_path: Path) -> None:
    file = tmp_path / "assoc.psv"
    file.write_text("Cluster|Account|ParentName|Share\nb|a/b|root|1\nb|ok|root|1\n")
    said = run(file)
    assert "1 new, 0 changed, 0 known, 1 rejected" in said
    assert "line 2" in said
    assert Rejection.objects.get().source == "sacctmgr:b"
