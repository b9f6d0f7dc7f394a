"""`manage.py source`: what an operator types and reads."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from events import deliveries
from events.access import Scope
from events.deliveries import accept_delivery, drain
from events.models import Event
from fleet.models import Cluster, Source
from fleet.queries import sources
from tests.fleet.slurmrestd import TOKEN, Fake, serving

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "_gauge", deliveries._Gauge())


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving() as found:
        yield found


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"SLURM_JWT={TOKEN}\n")
    path.chmod(0o600)
    return path


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("source", *words, stdout=out, stderr=out)
    return out.getvalue()


def refused(*words: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as told:
        run(*words)
    return told.value.returncode, str(told.value)


def add(fake: Fake, token: Path, *more: str) -> str:
    return run("add", "slurmrestd", "pod-a", "--url", fake.url, "--token-file", str(token), *more)


def test_add_check_list_pause_resume_remove(fake: Fake, token: Path) -> None:
    said = add(fake, token, "--from", "2026-11-30T10:00:00Z")
    assert "is asked every 10 s" in said
    assert "from 2026-11-30 10:00Z on" in said
    assert "chmod" not in said
    assert Cluster.objects.get().name == "pod-a"
    said = run("check", "pod-a")
    assert "pod-a: /slurm v0.0.38, /slurmdb v0.0.38" in said
    assert "jobs: 108 shown, 4 running, 108 new or changed" in said
    assert Event.objects.filter(type="job.reported").count() > 200
    assert "jobs: 108 shown, 4 running, 0 new or changed" in run("check", "pod-a")
    listed = run("list")
    assert "every 10 s\t2 pulls" in listed
    assert "slurmdbd:pod-a\tslurmdb-jobs" in listed
    assert TOKEN not in listed + str(list(Source.objects.values()))
    run("pause", "pod-a")
    assert "paused" in run("list")
    run("resume", "pod-a")
    run("remove", "pod-a")
    assert not Source.objects.exists()
    assert Event.objects.filter(type="job.reported").exists()  # what it brought stays


def test_a_check_that_fails_is_exit_1_and_says_why(fake: Fake, token: Path) -> None:
    add(fake, token)
    token.write_text("another")
    code, text = refused("check", "pod-a")
    assert code == 1
    assert "bad or expired token" in text
    assert "FAILING: " in run("list")


def test_a_webhook_declares_its_cluster_and_says_what_to_put_where() -> None:
    accept_delivery(
        source="jobcomp:pod-b", kind="jobcomp", content_type="", headers={}, actor="token:t",
        body=b'{"jobid":7,"cluster":"pod-b","state":"COMPLETED","@start":"2026-01-01T00:00:00",'
        b'"@end":"2026-01-01T01:00:00","@submit":"2026-01-01T00:00:00"}',
    )  # fmt: skip
    said = run("add", "webhook", "b", "--cluster", "pod-b")
    assert "manage.py token b --scope events:write" in said
    assert "JobCompType=jobcomp/elasticsearch" in said
    assert "/api/v1/ingest/slurm/jobcomp" in said
    assert "posts by itself" in run("list")
    drain()
    assert Event.objects.filter(stream="job/pod-b/7").exists()
    assert refused("check", "b")[0] == 2
    (state,) = [one for one in sources(Scope.everything()) if one.name == "b"]
    assert (state.kind, state.pulled, state.failing) == ("webhook", False, False)


def test_a_first_list_says_what_to_do() -> None:
    assert "manage.py source add slurmrestd" in run("list")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--every", "0"), "--every"),
        (("--from", "yesterday"), "--from"),
        (("--url", "http://u:p@head"), "--url"),
        (("--token-file", "/nowhere/token"), "--token-file"),
        (("--cluster", "a/b"), "--cluster"),
    ],
)
def test_wrong_calls_are_exit_2_with_one_line(fake: Fake, token: Path, more: tuple[str, str], named: str) -> None:
    given = {"--url": fake.url, "--token-file": str(token), **dict([more])}
    code, text = refused("add", "slurmrestd", "x", *(word for pair in given.items() for word in pair))
    assert (code, text.split(":")[0], "\n" in text) == (2, named, False)
    assert not Source.objects.exists()
    assert not Event.objects.exists()


def test_an_empty_token_file_and_names_that_are_taken_or_missing(fake: Fake, token: Path) -> None:
    add(fake, token)
    assert refused("add", "webhook", "pod-a") == (
        2, "NAME: there is a source 'pod-a' already: remove it first, or choose another"
    )  # fmt: skip
    assert refused("pause", "nothing") == (2, "NAME: there is no source 'nothing'; there are: pod-a")
    token.write_text(" \n")
    assert "holds no token" in refused("check", "pod-a")[1]


def test_a_token_that_others_can_read_is_told(fake: Fake, token: Path) -> None:
    token.chmod(0o644)
    assert "chmod 600" in add(fake, token)
