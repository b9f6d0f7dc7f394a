"""A real Slurm 22.05.8: its sacct texts become use, compared with Slurm's own roll-up of the same hour (sreport)."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.hand import ask, column, instant, total

pytestmark = pytest.mark.django_db

SLURM = Path(__file__).parents[1] / "payloads" / "slurm"
# The hour that sreport printed: 1796032800 .. 1796036400 (FACTS.txt).
WINDOW = ("2026-11-30T10:00:00Z", "2026-11-30T11:00:00Z")
# Rows without the header, and of them the rows that cannot become an event. Counted with awk:
#   zcat all_duplicates.psv.gz | awk -F'|' 'NR==1{n=NF;next} {rows++; bad+=NF!=n} END{print rows, bad}'
# A `|` in user text gives a row too many fields; the text with times in the rig's zone has only JobID, which
# does not identify a task of an array or a part of a het job (awk -F'|' '$1~/[_+]/': 8); the one with 0x1f has
# no times at all.
FILES = {
    "all.psv.gz": ("UTC", "|", 254, 2, "field_count"),
    "all_duplicates.psv.gz": ("UTC", "|", 264, 3, "field_count"),
    "all_duplicates_epoch.psv.gz": ("UTC", "|", 264, 3, "field_count"),
    "allocations.psv": ("UTC", "|", 109, 0, ""),
    "allocations_us.txt": ("UTC", "0x1f", 104, 104, "time_missing"),
    "jobs_only_rig_tz.psv": ("Etc/GMT+11", "|", 40, 8, "identity_missing"),
    "requeue_after.psv": ("UTC", "|", 3, 0, ""),
    "requeue_after_no_duplicates.psv": ("UTC", "|", 1, 0, ""),
    "requeue_before.psv": ("UTC", "|", 2, 0, ""),
}
UNREADABLE = ("help_fields.txt", "human_default.txt")


def load(name: str, *others: str) -> str:
    """Import a captured file in the zone and with the delimiter that its README states; what is printed."""
    zone, delimiter, *_ = FILES[name]
    out = io.StringIO()
    call_command(
        "import_sacct", *(str(SLURM / "sacct" / each) for each in (name, *others)), cluster="pod-a",
        timezone=zone, delimiter=delimiter, stdout=out, stderr=io.StringIO(),
    )  # fmt: skip
    return out.getvalue()


def counted() -> tuple[int, dict[str, int]]:
    """Events about jobs and steps in the log, and rejections by reason."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM events_event WHERE type IN ('job.reported', 'step.reported')")
        events = cursor.fetchone()[0]
        cursor.execute("SELECT code, count(*) FROM events_rejection GROUP BY 1")
        return events, dict(cursor.fetchall())


def by_user(measure: str) -> dict[str, int]:
    return column(ask("usage", *WINDOW, "user"), "user", measure)


def sreport(tres: str) -> dict[str, int]:
    """Seconds per user as Slurm printed them; u02 and u08 have two accounts."""
    sums: Counter[str] = Counter()
    for line in (SLURM / "sreport" / "account_by_user_hour.psv").read_text().splitlines():
        if f"|{tres}|" in line and (login := line.split("|")[2]).startswith("u"):
            sums[login] += int(line.rsplit("|", 1)[1])
    return dict(sums)


def less(sums: dict[str, int], **by: int) -> dict[str, int]:
    return {user: seconds - by.get(user, 0) for user, seconds in sums.items()}


# Job 15 of u06 held 4 GPUs on 2 nodes for 25 s and then 2 GPUs on 1 node for 16 s: 4*25 + 2*16 = 132 GPU-s. Slurm
# keeps two records that both begin with the job, and sreport adds 4*25 + 2*41 = 182: 50 = 2 GPUs x 25 s too many.
# Nodes likewise: 2*25 + 1*16 = 66 against 2*25 + 1*41 = 91, so 25 too many.
RESIZE_GPU = 50
RESIZE_NODE = 25


def assert_equals_sreport() -> None:
    assert by_user("gpu_seconds") == less(sreport("gres/gpu"), u06=RESIZE_GPU)
    assert by_user("node_seconds") == less(sreport("node"), u06=RESIZE_NODE)


def test_what_sreport_printed_is_read_right() -> None:
    assert sreport("gres/gpu") == {
        "u01": 2223, "u02": 705, "u03": 569, "u04": 757, "u05": 386, "u06": 422, "u07": 606, "u08": 120,
    }  # fmt: skip


def test_allocations_alone_equal_sreport() -> None:
    load("allocations.psv")
    assert_equals_sreport()
    # 5,788 of sreport less 50.
    assert total("usage", *WINDOW, "gpu_seconds") == 5738


def test_all_files_together_equal_sreport_in_any_order() -> None:
    for name in sorted(FILES, key=lambda name: name[::-1]):
        load(name)
    assert_equals_sreport()


@pytest.mark.parametrize("name", FILES)
def test_every_record_is_an_event_or_a_rejection(name: str) -> None:
    *_, rows, bad, code = FILES[name]
    printed = load(name)
    assert printed.startswith(f"{SLURM / 'sacct' / name}: {rows - bad} accepted, 0 duplicate, {bad} rejected")
    assert counted() == (rows - bad, {code: bad} if bad else {})


@pytest.mark.parametrize("name", FILES)
def test_the_same_file_again_is_all_duplicates(name: str) -> None:
    *_, rows, bad, _ = FILES[name]
    load(name)
    before = counted()
    assert f": 0 accepted, {rows - bad} duplicate, {bad} rejected" in load(name)
    assert counted() == before


def test_without_the_rows_that_a_bar_broke_exactly_their_seconds_are_missing() -> None:
    # Job 7 of u01: 16 GPUs on 2 nodes for 95 s = 1520 and 190; job 23 (`odd|name`) of u03: 1 GPU for 4 s.
    # awk over the whole rows of all_duplicates_epoch.psv.gz: u01 703, u03 565 GPU-s.
    for name in ("all_duplicates.psv.gz", "all_duplicates_epoch.psv.gz"):
        load(name)
        assert by_user("gpu_seconds") == less(sreport("gres/gpu"), u01=1520, u03=4, u06=RESIZE_GPU)
        assert by_user("node_seconds") == less(sreport("node"), u01=190, u03=4, u06=RESIZE_NODE)


def test_rejections_name_file_line_and_what_was_expected() -> None:
    load("all_duplicates.psv.gz")
    with connection.cursor() as cursor:
        cursor.execute("SELECT origin, item, text, payload FROM events_rejection ORDER BY item")
        found = cursor.fetchall()
    # zcat all_duplicates.psv.gz | awk -F'|' 'NR==1{n=NF;next} NF!=n{print NR, NF}': 18 111, 56 113, 257 111
    assert [row[1] for row in found] == [18, 56, 257]
    for (origin, _, text, payload), fields in zip(found, (111, 113, 111), strict=True):
        assert origin.endswith("all_duplicates.psv.gz")
        assert str(fields) in text
        assert "109" in text
        assert "|gpu" in payload or "None assigned" in payload


def test_without_earlier_records_their_seconds_are_missing() -> None:
    # sacct without -D hides what was requeued: jobs 2 (u07, 4 GPUs x 45 s = 180), 12 and 13 (u06, 6 + 25) and 14
    # (u04, 25); besides the rows a `|` broke: job 7 of u01 (hidden and broken, 1520) and job 23 of u03 (4).
    load("all.psv.gz")
    missing = {"u07": 180, "u06": 6 + 25 + RESIZE_GPU, "u04": 25, "u01": 1520, "u03": 4}
    assert by_user("gpu_seconds") == less(sreport("gres/gpu"), **missing)


def test_suspended_seconds_are_in_the_use_and_shown_apart() -> None:
    # Job 11 of u06: 1 GPU from 10:57:57 to 10:58:49 = 52 s, suspended 27 s of them (ElapsedRaw is 25).
    load("allocations.psv")
    assert by_user("suspended_seconds") == {**dict.fromkeys(sreport("node"), 0), "u06": 27}
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT s.gpus, extract(epoch FROM s.end_at - s.start_at)::int FROM jobs_segment s
               WHERE s.stream = 'job/pod-a/11'"""
        )
        assert cursor.fetchall() == [(1, 52)]


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_file_is_exit_2_with_one_line_and_the_others_are_kept(name: str) -> None:
    with pytest.raises(CommandError) as caught:
        load("requeue_after.psv", name, "requeue_before.psv")
    assert caught.value.returncode == 2
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).startswith(str(SLURM / "sacct" / name))
    # 3 and 2 records; before the requeue job 99 and its step still ran: other sightings, no duplicates.
    assert counted() == (5, {})


@pytest.mark.parametrize("name", UNREADABLE)
def test_of_an_unreadable_file_alone_nothing_is_kept(name: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("import_sacct", str(SLURM / "sacct" / name), cluster="pod-a", timezone="UTC")
    assert caught.value.returncode == 2
    with connection.cursor() as cursor:
        cursor.execute("SELECT (SELECT count(*) FROM events_event), (SELECT count(*) FROM events_rejection)")
        assert cursor.fetchone() == (0, 0)  # not even the cluster


# Running at the capture (awk on End=Unknown with a Start): job 3 (4 GPUs from 10:57:54), 99 (2, 11:00:04),
# 106 (1, 11:00:53) and 107 (1, 11:00:58). Until 12:00: 4*3726 + 2*3596 + 3547 + 3542 = 29185; until midnight
# 8 GPUs x 12 h = 345600 more. Ended ones: 6456 by awk over allocations.psv, less 50 for the resize.
@pytest.mark.parametrize(
    ("cut", "seconds"), [("2026-11-30 10:00", 0), ("2026-11-30 12:00", 29185), ("2026-12-01 00:00", 374785)]
)
def test_running_attempts_count_to_the_cut(cut: str, seconds: int) -> None:
    load("allocations.psv")
    found = total("usage", "2026-11-30", "2026-12-02", "gpu_seconds", cut=instant(cut))
    assert found == 6456 - RESIZE_GPU + seconds
