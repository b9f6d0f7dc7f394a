"""Slurm's JSON through the real doors: `import_sacct --json`, and polls that are delivered again and again."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from events.actions import declare_cluster
from events.deliveries import accept_delivery, drain
from events.models import Event, Rejection
from tests.events.adapters.sacct_files import SACCT as TEXT
from tests.events.adapters.slurm_documents import OLDER, SACCT, SLURMCTLD, SLURMDB, SQUEUE, body, document, dump

pytestmark = pytest.mark.django_db
IMPORT = ("import_sacct", "--json", "--cluster", "pod-a")


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, everything printed, and the error line of a command."""
    out = io.StringIO()
    try:
        call_command(*words, stdout=out, stderr=out)
    except CommandError as error:
        return error.returncode, out.getvalue(), str(error)
    return 0, out.getvalue(), ""


def test_a_zipped_file_is_imported_once() -> None:
    """109 records and 155 steps (counted by jq); again they are all known."""
    code, printed, _ = run(*IMPORT, str(SACCT))
    assert (code, printed) == (0, f"{SACCT}: 264 accepted, 0 duplicate, 0 rejected\n")
    assert Event.objects.filter(type="job.reported").count() == 109
    assert set(Event.objects.exclude(type="cluster.declared").values_list("source", flat=True)) == {"sacct:pod-a"}
    assert run(*IMPORT, str(SACCT))[1] == f"{SACCT}: 0 accepted, 264 duplicate, 0 rejected\n"


def test_a_bad_job_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    jobs = document(SACCT)["jobs"][:3]
    jobs[1]["time"]["end"] = 5
    file = tmp_path / "jobs.json"
    file.write_bytes(dump(jobs))
    code, printed, _ = run(*IMPORT, str(file))
    steps = len(jobs[0]["steps"]) + len(jobs[2]["steps"])
    first, bad, where = printed.splitlines()
    assert (code, first) == (0, f"{file}: {2 + steps} accepted, 0 duplicate, 1 rejected (negative_duration 1)")
    assert bad.startswith("  job 1, /jobs/1/time/end: 5 lies ")
    assert where == "  all of them with what was sent: GET /api/v1/rejections"
    assert json.loads(Rejection.objects.get().payload)["job_id"] == jobs[1]["job_id"]


def test_a_file_without_its_older_records_is_doubted(tmp_path: Path) -> None:
    """Job 15 was resized; without -D its first record is not there."""
    file = tmp_path / "jobs.json.gz"
    file.write_bytes(
        gzip.compress(dump(job for job in document(SACCT)["jobs"] if job["state"]["current"] != "RESIZING"))
    )
    assert "sacct was run without -D" in run(*IMPORT, str(file))[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("JobID|State\n7|COMPLETED\n", "is no JSON document of jobs"),
        ("", "is empty"),
        ("\n\n", "is no JSON document of jobs"),
        ("[]", "is no JSON document of jobs"),
    ],
)
def test_a_file_that_is_none_keeps_nothing(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    code, printed, told = run(*IMPORT, str(file))
    assert (code, printed) == (2, "")
    assert told.startswith(f"{file}: ")
    assert words in told
    assert not Event.objects.exists()


def test_a_file_that_was_cut_short_keeps_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_bytes(body(SACCT)[:100_000])
    code, printed, _ = run(*IMPORT, str(file))
    kept = Event.objects.filter(type="job.reported").count()
    assert (code, kept > 0, "1 rejected (malformed 1)" in printed) == (0, True, True)
    assert Rejection.objects.get().pointer == f"/jobs/{kept}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--json", "--cluster", ""), "--cluster"),
        (("--json", "--cluster", "a/b"), "--cluster"),
        (("--cluster", "pod-a"), "--timezone: sacct's text needs the zone"),
    ],
)
def test_wrong_options(words: tuple[str, ...], told: str) -> None:
    file = SACCT if "--json" in words else TEXT / "requeue_after.psv"
    code, _, error = run("import_sacct", *words, str(file))
    assert (code, error.startswith(told)) == (2, True)
    assert not Event.objects.exists()


def test_another_cluster_than_the_one_named(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_bytes(dump(document(SACCT)["jobs"][:2]))
    printed = run("import_sacct", "--json", "--cluster", "pod-b", str(file))[1]
    assert "0 accepted, 0 duplicate, 2 rejected (cluster_mismatch 2)" in printed


@pytest.mark.parametrize(
    ("kind", "path", "events"),
    [("sacct-json", SACCT, 264), ("slurmdb-jobs", SLURMDB, 266), ("slurmctld-jobs", SLURMCTLD, 108),
     ("squeue-json", SQUEUE, 107)],
)  # fmt: skip
def test_a_poll_that_says_the_same_again_makes_no_event(kind: str, path: Path, events: int) -> None:
    declare_cluster("pod-a", actor="test")
    for _ in range(3):
        deliver(kind, body(path))
    assert drain() == 3
    assert (reported(), Rejection.objects.count()) == (events, 0)


def reported() -> int:
    return Event.objects.filter(type__endswith=".reported").count()


def deliver(kind: str, sent: bytes) -> None:
    accept_delivery(source="rest", kind=kind, content_type="application/json", headers={}, body=sent, actor="puller")


def test_only_what_changed_makes_an_event() -> None:
    """From v0.0.37 to v0.0.38, some 200 ms later, one job went from its prolog to running: that is no event."""
    declare_cluster("pod-a", actor="test")
    deliver("slurmctld-jobs", body(OLDER))
    deliver("slurmctld-jobs", body(SLURMCTLD))
    drain()
    assert reported() == 108
    jobs = document(SLURMCTLD)["jobs"]
    next(job for job in jobs if job["job_id"] == 3)["job_state"] = "SUSPENDED"
    deliver("slurmctld-jobs", dump(jobs))
    drain()
    assert [event.data["job_id"] for event in Event.objects.order_by("position")[1 + 108 :]] == ["3"]


def test_posted_text_of_sacct_is_taken_with_its_zone() -> None:
    declare_cluster("pod-a", actor="test")
    accept_delivery(
        source="sacct", kind="sacct-text", content_type="text/plain", headers={"x-hallbook-timezone": "UTC"},
        body=body(TEXT / "requeue_after.psv"), actor="cron",
    )  # fmt: skip
    drain()
    assert set(Event.objects.exclude(type="cluster.declared").values_list("source", flat=True)) == {"sacct:pod-a"}
    assert Event.objects.filter(type="job.reported").count() == 2


def test_an_error_that_is_answered_again_is_one_rejection() -> None:
    for port in (1, 2):
        meta = {"client": {"source": f"[rest]:{port}"}}
        deliver("slurmdb-jobs", dump([], errors=[{"error": "Protocol authentication error"}], meta=meta))
    drain()
    assert Rejection.objects.get().code == "source_error"
