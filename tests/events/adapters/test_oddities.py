"""The 23 oddities of a real Slurm, as counted in the README of the capture: each with a test of its number.

Most are shown on the captured bodies themselves, at the layer that meets them: adapter, fold or report. What is
about things that Hallbook does not read yet (16, and 17's decayed usage) shows what becomes of such input today.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command

from events.adapters import Draft, Refusal
from events.adapters.hostlist import expand
from events.adapters.sacct_delivery import sacct_text
from events.adapters.slurm_json import sacct_json, slurmctld_jobs, slurmdb_jobs
from events.derive.attempts import Attempt, Job, fold
from events.types.jobs import JobReported
from tests.events.adapters.sacct_files import SACCT, jobs, read_file, refusals, table
from tests.events.adapters.slurm_posts import SLURM, posts, read_hook
from tests.hand import ask, total
from tests.invariants.captured import ACCOUNTING, SOURCES, body, said, truth

NOON = 1_796_036_400
"""2026-11-30T11:00:00Z."""


def of(job_id: str, *sources: str) -> Job:
    """The job as these sources tell it (all, if none is named)."""
    (job,) = fold([one for source in sources or SOURCES for one in said(source).get(job_id, ())])
    return job


def only(job_id: str, *sources: str) -> Attempt:
    (attempt,) = of(job_id, *sources).attempts
    return attempt


def reports(job_id: str, source: str) -> list[JobReported]:
    return [one.data for one in said(source).get(job_id, ()) if isinstance(one.data, JobReported)]


def seconds(attempt: Attempt, size: str) -> int:
    return sum((getattr(part, size) or 0) * (part.end - part.start) for part in attempt.segments if part.end)


def one_post(job_id: int, state: str) -> dict[str, Any]:
    bodies: list[dict[str, Any]] = [json.loads(post) for _, post in posts("jobcomp")]
    return next(one for one in bodies if (one["jobid"], one["state"]) == (job_id, state))


def test_01_one_id_has_several_records() -> None:
    """116 records of 109 ids are 103 attempts; without -D sacct hides the first run of a requeued job."""
    assert len(table("job.tsv")) == 116
    assert (len(truth()), sum(map(len, truth().values()))) == (109, 103)
    shown, hidden = (jobs(read_file(SACCT / f"requeue_after{name}.psv")) for name in ("", "_no_duplicates"))
    assert [(one.state, one.submit) for one in shown if one.job_id == "99"] == [
        ("REQUEUED", NOON + 3), ("PENDING", NOON + 72),
    ]  # fmt: skip
    assert [(one.state, one.submit) for one in hidden] == [("PENDING", NOON + 72)]
    assert [one.state for one in of("12", "sacct-text").attempts] == ["REQUEUED", "COMPLETED"]


@pytest.mark.parametrize("source", ["sacct-text", "sacct-json", "slurmdb", "jobcomp"])
def test_02_a_resize_overlaps(source: str) -> None:
    """4 GPUs for 25 s and then 2 for 16 s: 132. Slurm's two records give 4 x 25 + 2 x 41 = 182."""
    attempt = only("15", source)
    assert [(part.start, part.end, part.gpus) for part in attempt.segments] == [
        (NOON - 123, NOON - 98, 4), (NOON - 98, NOON - 82, 2),
    ]  # fmt: skip
    assert seconds(attempt, "gpus") == 132
    closed = one_post(15, "RESIZING")
    assert (closed["@start"], closed["elapsed"]) == (closed["@end"], 120)


def test_03_jobcomp_calls_what_a_requeue_closed_pending() -> None:
    """With the times of the closed run; posts come in any order and more than once."""
    assert one_post(13, "PENDING")["@end"] == "2026-11-30T10:58:22"
    first, second = of("13", "jobcomp").attempts
    assert (first.state, first.start, first.end) == ("REQUEUED", NOON - 123, NOON - 98)
    assert (second.state, second.start, second.end) == ("COMPLETED", NOON - 76, NOON - 69)
    told = said("jobcomp")["13"]
    assert fold([*told[::-1], *told]) == fold(told)
    assert [one.state for one in of("2", "jobcomp").attempts] == ["PREEMPTED", "COMPLETED"]
    assert only("8", "jobcomp").state == "NODE_FAIL"


def test_04_times_have_no_zone_mark() -> None:
    """jobcomp is UTC, sacct text the client's zone, JSON epoch seconds: the same instants."""
    for source in (*ACCOUNTING, "jobcomp", "slurmctld", "squeue"):
        assert (only("4", source).start, only("4", source).end) == (NOON - 126, NOON + 17), source
    rig = read_file(SACCT / "jobs_only_rig_tz.psv", zone=ZoneInfo("Etc/GMT+11"))
    utc = {one.job_id: (one.submit, one.start, one.end) for one in jobs(read_file(SACCT / "allocations.psv"))}
    local = {one.job_id: (one.submit, one.start, one.end) for one in jobs(rig)}
    assert len(local) == 32
    assert local.items() <= utc.items()
    assert [one.end for one in reports("3", "sacct-json")] == [None]  # 0 there


@pytest.mark.parametrize("source", [one for one in SOURCES if one != "hooks"])
def test_05_a_job_cancelled_before_it_started_has_no_attempt(source: str) -> None:
    """sacct: Start None; jobcomp: @start == @end, no nodes; all give it its end."""
    assert of("28", source).attempts == ()
    assert (of("28", source).state, [one.end for one in reports("28", source)]) == ("CANCELLED", [NOON - 98])


def test_05_unknown_times_are_none() -> None:
    (running,) = reports("3", "sacct-text")
    (waiting,) = reports("96", "sacct-text")
    assert (running.start, running.end) == (NOON - 126, None)
    assert (waiting.start, waiting.end) == (None, None)


@pytest.mark.parametrize("source", [one for one in SOURCES if one != "hooks"])
def test_06_typed_gpus_are_the_same_gpus(source: str) -> None:
    """gres/gpu=64,gres/gpu:h100=32,gres/gpu:h200=32 are 64 GPUs, in whatever order they stand."""
    (part,) = only("1", source).segments
    assert (part.gpus, part.cpus, part.nodes) == (64, 512, 8)
    if source not in ("slurmctld", "squeue"):
        assert part.gpu_types == (("h100", 32), ("h200", 32))


def test_07_energy_that_was_not_read_is_none() -> None:
    """2^64-2 in the database (job 2), empty in text, null in JSON; a measured one is the same everywhere."""
    (row,) = [row for row in table("job.tsv") if row["job_db_inx"] == "3"]
    assert "3=18446744073709551614" in row["tres_alloc"]
    for source in ACCOUNTING:
        assert {one.energy_j for one in reports("2", source)} == {None}
        assert only("1", source).energy_j == 338_443
    every = [one for source in SOURCES for job_id in said(source) for one in reports(job_id, source)]
    assert max(one.energy_j or 0 for one in every) < 10**9


@pytest.mark.django_db
def test_07_energy_is_not_added_up() -> None:
    """It is the node's, so jobs that share a node each carry all of it: no report of use has it as a measure."""
    report = ask("usage", "2026-11-30", "2026-12-01", "user")
    assert not [name for name in report.total if "energy" in name or "joule" in name]


def test_08_exit_codes_differ_by_interface() -> None:
    """Text and jobcomp `1:0`, REST the wait status 256, JSON of the accounting nothing: the state tells it failed."""
    for job_id, code, signal in (("16", 1, 0), ("17", 127, 0), ("18", 0, 9)):
        for source in ("sacct-text", "jobcomp", "slurmctld", "hooks"):
            assert (only(job_id, source).exit_code, only(job_id, source).exit_signal) == (code, signal), source
        for source in ("sacct-json", "slurmdb"):
            lost = only(job_id, source)
            assert (lost.state, lost.exit_code, lost.exit_signal) == ("FAILED", None if code else 0, signal or None)
        assert (only(job_id).exit_code, only(job_id).exit_signal) == (code, signal)
    (failed, *_) = of("7", "jobcomp").attempts
    assert (failed.state, failed.exit_code, failed.exit_signal) == ("NODE_FAIL", 0, 1)
    (failed, *_) = of("7", "sacct-text", "jobcomp").attempts
    assert (failed.exit_code, failed.exit_signal) == (1, 0)  # the accounting has the last word


def test_09_states_carry_more() -> None:
    """`CANCELLED by 42003`, a uid; in JSON a field of its own. The word alone is the state."""
    assert "CANCELLED by 42003" in (SACCT / "allocations.psv").read_text()
    assert {only("9", source).state for source in SOURCES if source != "hooks"} == {"CANCELLED"}


def test_09_states_of_nodes_are_no_states_of_jobs() -> None:
    """`IDLE+DRAIN` and 8194 stand in events of nodes: as a job's state they are refused, with their place."""
    good = (SACCT / "allocations.psv").read_text().splitlines()[:2]
    for state in ("IDLE+DRAIN", "idle*", "8194"):
        text = "\n".join([good[0], good[1].replace("COMPLETED", state)]).encode()
        (item,) = sacct_text("", {"x-hallbook-cluster": "pod-a", "x-hallbook-timezone": "UTC"}, text)
        assert isinstance(item, Refusal)
        assert (item.code, item.pointer, item.index) == ("bad_state", "State", 2)


@pytest.mark.parametrize("source", ["sacct-text", "sacct-json", "slurmdb", "jobcomp", "slurmctld"])
def test_10_suspended_time_stays_in_use_and_is_shown_apart(source: str) -> None:
    """52 s, of them 27 suspended: ElapsedRaw is 25, and sreport takes 27 s x 8 CPUs off its CPU-seconds alone.

    (That CPU sum is compared in tests/invariants/test_sources.py::test_totals_equal_sreport.)
    """
    attempt = only("11", source)
    assert (attempt.start, attempt.end, seconds(attempt, "gpus")) == (NOON - 123, NOON - 71, 52)
    assert attempt.suspended_seconds == (0 if source == "jobcomp" else 27)


@pytest.mark.django_db
def test_11_any_window_in_any_zone_adds_up() -> None:
    """sreport knows whole local hours; here two odd windows give together what it printed for the hour."""
    call_command("import_sacct", str(SACCT / "allocations.psv"), cluster="pod-a", timezone="UTC", verbosity=0)
    parts = [("2026-11-30T10:00:00Z", "2026-11-30T10:58:30Z"), ("2026-11-30T10:58:30Z", "2026-11-30T11:00:00Z")]
    # sreport's 5,788 less the 50 that it counts twice for the resized job.
    assert sum(total("usage", *part, "gpu_seconds") for part in parts) == 5738
    # By hand: up to 10:58:30 every attempt of the table cut there.
    cut = sum(gpus * max(0, min(end, NOON - 90) - start) for start, end, gpus in pieces())
    assert total("usage", *parts[0], "gpu_seconds") == cut
    # The rig's own zone, 11 h behind: the same hour under another name.
    assert total("usage", "2026-11-29T23:00:00-11:00", "2026-11-30T00:00:00-11:00", "gpu_seconds") == 5738


def pieces() -> list[tuple[int, int, int]]:
    """(start, end, GPUs) of every size of every attempt of the table; a running one ends far away."""
    found = []
    for row in table("job.tsv"):
        gpus = dict(part.split("=") for part in row["tres_alloc"].split(",") if part).get("1001", "0")
        start = int(row["time_submit"]) if row["job_db_inx"] == "92" else int(row["time_start"])  # after the resize
        if row["time_start"] != "0":
            found.append((start, int(row["time_end"]) or 2**40, int(gpus)))
    return found


@pytest.mark.django_db
def test_11_nobody_is_charged_for_a_reservation() -> None:
    """sreport gives 3,840 idle CPU-seconds of the reservation maint-cdu to the account root: nobody ran there."""
    call_command("import_sacct", str(SACCT / "allocations.psv"), cluster="pod-a", timezone="UTC", verbosity=0)
    accounts = {row["account"] for row in ask("usage", "2026-11-30", "2026-12-01", "account").rows}
    assert accounts == {"genomics", "robotics", "speech", "vision"}


def test_12_arrays() -> None:
    """Pending tasks are a range under the array's id; each started task has an id of its own, the last the array's."""
    (waiting,) = reports("33", "squeue")
    assert (waiting.array_job_id, waiting.array_task) == ("33", "13-30%2")
    for source in ("sacct-text", "sacct-json", "jobcomp", "slurmctld"):
        assert [(of(n, source).array_job_id, of(n, source).array_task) for n in ("59", "65", "32")] == [
            ("32", "0"), ("32", "6"), ("32", "7"),
        ], source  # fmt: skip
        assert (of("1", source).array_job_id, of("1", source).array_task) == (None, None)


def test_13_het_jobs() -> None:
    """35+0 and 35+1 are jobs 35 and 36; an ordinary job has offset 0, 4294967294 or null, by interface: none."""
    for source in SOURCES:
        assert [(of(n, source).het_job_id, of(n, source).het_offset) for n in ("35", "36")] == [("35", 0), ("35", 1)]
        assert (of("1", source).het_job_id, of("1", source).het_offset) == (None, None)


def test_14_separators_and_letters_in_user_text() -> None:
    """`|` breaks three rows of sacct -P, which are refused with the line; the database mangles quotes and letters."""
    broken = refusals(read_file(SACCT / "all_duplicates.psv.gz"))
    assert [(one.index, one.code) for one in broken] == [(18, "field_count"), (56, "field_count"), (257, "field_count")]
    assert of("23", "jobcomp").name == of("23", "slurmctld").name == 'odd|name, "q" αβ'
    assert of("23", "sacct-json").name != 'odd|name, "q" αβ'
    assert of("23").name == 'odd|name, "q" αβ'  # the accounting has the last word on all but texts
    # With the delimiter 0x1f the same row has as many fields as the header.
    header, *rows = (line.split("\x1f") for line in (SACCT / "allocations_us.txt").read_text().splitlines())
    (odd,) = [row for row in rows if row[header.index("JobIDRaw")] == "23"]
    assert (len(odd), odd[header.index("JobName")][:8]) == (len(header), "odd|name")


def test_15_node_lists_are_ranges() -> None:
    """They are kept as told and read when nodes are asked for."""
    assert only("22", "jobcomp").node_list == "gpu[001-004]"
    assert expand("gpu[001-004,007]") == ("gpu001", "gpu002", "gpu003", "gpu004", "gpu007")
    assert [len(expand(only("1", source).node_list or "")) for source in SOURCES] == [8] * len(SOURCES)


@pytest.mark.django_db
def test_16_events_of_nodes_are_not_taken_for_jobs() -> None:
    """Hallbook does not read events of nodes yet: the text of `sacctmgr show event` is refused as a whole, with what
    was expected. Node triggers give no event and stay in their delivery. A NODE_FAIL is known by the job's record,
    also where the node came back so fast that no event of it exists (gpu007, job 7)."""
    path = SLURM / "sacctmgr" / "events.psv"
    assert "|Cluster|" in path.read_text()
    with pytest.raises(CommandError) as caught:
        call_command("import_sacct", str(path), cluster="pod-a", timezone="UTC")
    assert "neither a header nor a record" in str(caught.value)
    told = [(row.split("|")[6], row.split("|")[7]) for row in path.read_text().splitlines()[1:]]
    assert {reason for node, reason in told if node == "gpu007"} == {"cold-start"}
    triggers = [call for _, call in posts("hook") if b'"trigger_' in call]
    assert [read_hook(call) for call in triggers] == [[]] * 5
    assert of("7", "sacct-text").attempts[0].state == "NODE_FAIL"


def test_17_fair_share_of_slurm_is_not_usage() -> None:
    """sshare's RawUsage is billing-weighted and decays; a second look gives other figures. Use is of the records
    alone: here u01 has 2,223 GPU-seconds in the hour, and no text of sshare can change that, as none is taken."""
    text = (SLURM / "sshare" / "sshare_long.psv").read_text()
    assert "RawUsage" in text
    assert "|inf|" in text  # LevelFS without use
    (item,) = sacct_text("", {"x-hallbook-cluster": "pod-a", "x-hallbook-timezone": "UTC"}, text.encode())
    assert isinstance(item, Refusal)
    assert item.code == "malformed"
    rows = list(csv.DictReader(text.splitlines(), delimiter="|"))
    assert {row["FairShare"] for row in rows if not row["User"]} == {""}


def test_18_what_slurmrestd_answers_instead_of_jobs_is_seen() -> None:
    """A bad token or time gives 500 with `errors` and no jobs, or plain text: refused with what Slurm said."""
    answers = {
        "slurmdb_v0.0.38_jobs_epoch_query.json": ("source_error", "Unable to parse time format"),
        "slurmdb_v0.0.38_jobs_iso.json.gz": ("malformed", "not JSON"),
    }
    for name, (code, text) in answers.items():
        found = slurmdb_jobs("application/json", {"x-hallbook-cluster": "pod-a"}, body(f"rest/{name}"))
        assert [one.code for one in found if isinstance(one, Refusal)] == [code], name
        assert not [one for one in found if isinstance(one, Draft)]
        assert text in found[0].text  # type: ignore[union-attr]
    _, _, answer = body("rest/bad_token.txt").decode().replace("\r", "").partition("\n\n")
    (refused,) = slurmctld_jobs("application/json", {"x-hallbook-cluster": "pod-a"}, answer.encode())
    assert isinstance(refused, Refusal)
    assert "Failed while looking for jobs" in refused.text


def test_19_without_scontrol_json_the_queue_comes_by_squeue_or_rest() -> None:
    """22.05 has no `scontrol --json`: squeue's JSON and REST show the same jobs with the same times."""
    queue, rest = said("squeue"), said("slurmctld")
    assert len(queue) == 107
    assert rest.keys() - queue.keys() == {"108"}  # it began between the two
    same = {"1", "3", "4", "15", "23", "33", "74", "96"}
    for job_id in same:
        pairs = zip(reports(job_id, "squeue"), reports(job_id, "slurmctld"), strict=True)
        assert all(
            (mine.submit, mine.start, mine.end, mine.state) == (its.submit, its.start, its.end, its.state)
            for mine, its in pairs
        )


def test_20_after_a_requeue_a_job_waits_for_its_begin_time() -> None:
    """Its submission is the requeue, and it is eligible 21 s later: the wait of a run counts from there."""
    first, second = of("13", "sacct-text").attempts
    assert (second.submit, second.eligible, second.start) == (NOON - 97, NOON - 76, NOON - 76)
    assert second.submit == (first.end or 0) + 1
    job = of("14", "sacct-text")
    assert (job.state, len(job.attempts), job.submit) == ("PENDING", 1, NOON - 125)


def test_21_jobcomp_sends_no_header_of_its_own() -> None:
    """Host, Accept and the content's type and length are all: credentials ride in the address.

    (Both forms are tried in tests/api/test_webhooks.py.) Limits are seconds there and minutes in REST; the list
    of parent accounts repeats the account, which is read from its own field.
    """
    with gzip.open(SLURM / "http" / "jobcomp_posts.jsonl.gz", "rt", encoding="utf-8") as file:
        heads = [json.loads(line)["headers"] for line in file]
    assert {name for head in heads for name in head} == {"Host", "Accept", "Content-Type", "Content-Length"}
    assert [of("1", source).limit_seconds for source in ("jobcomp", "slurmctld", "sacct-json")] == [120, 120, 120]
    post = one_post(1, "COMPLETED")
    assert post["parent_accounts"].split("/") == ["", "root", "embodied", "robotics", "robotics"]
    assert post["account"] == "robotics"
    assert of("1", "jobcomp").account == "robotics"


def test_22_jobs_that_never_became_eligible_are_only_in_the_queue() -> None:
    """Held, begin later, unmet dependency: 25, 26 and 27 (and the waiting rest of array 33)."""
    hidden = {"25", "26", "27", "33"}
    for source in (*ACCOUNTING, "jobcomp", "hooks"):
        assert not hidden & said(source).keys(), source
    for source in ("slurmctld", "squeue"):
        assert hidden <= said(source).keys()
        assert {of(job_id, source).state for job_id in hidden} == {"PENDING"}
        assert not any(of(job_id, source).attempts for job_id in hidden)
    assert Counter(len(said(source)) for source in ("sacct-text", "slurmdb", "slurmctld")) == {103: 1, 104: 1, 108: 1}


def test_23_what_hooks_know() -> None:
    """Those of nodes carry no name and run once per node, with its GPUs; those of slurmctld once per job, with name,
    nodes and restart count. After a power cut no epilog may come: job 7 ran on gpu007, and what its hooks did not
    tell the accounting does."""
    told = [one for one in reports("1", "hooks") if one.state == "RUNNING"]
    nodes = [one for one in told if one.gpu_indices]
    assert (len(told), len(nodes), {one.name for one in nodes}) == (9, 8, {None})
    assert [(one.name, one.restarts, one.node_list) for one in told if not one.gpu_indices] == [
        ("gang64", 0, "gpu[001-008]")
    ]
    assert only("1", "hooks").gpu_indices == tuple(f"gpu{n:03d}=0-7" for n in range(1, 9))
    assert [one.restarts for one in reports("2", "hooks") if one.state == "RUNNING"] == [0, 0, 1, 1]
    first = of("7").attempts[0]
    assert (first.state, first.end, first.confirmed) == ("NODE_FAIL", NOON - 31, True)
    assert [one.end for one in of("7", "hooks").attempts] == [NOON - 31]


def test_23_json_of_the_accounting_is_read_like_all_others() -> None:
    """So that no oddity above passes for want of input: every captured document is read without a refusal."""
    for source in SOURCES:
        assert said(source)
    assert not [one for one in sacct_json("", {}, body("sacct/all.json.gz")) if isinstance(one, Refusal)]
