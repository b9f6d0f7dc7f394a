"""The sacct adapter against captured files: the database behind them, sreport's sums, and hand-made lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, timedelta, timezone

import pytest

from events.adapters import Draft, Refusal
from events.adapters.sacct import open_sacct
from events.types.jobs import JobReported, StepReported
from tests.events.adapters.sacct_files import (
    SACCT,
    SLURM,
    drafts,
    jobs,
    read_file,
    read_lines,
    refusals,
    steps,
    table,
)

HOUR = (1796032800, 1796036400)
"""The hour of the captured sreport, from FACTS.txt."""


def _known(seconds: str) -> int | None:
    return int(seconds) or None


def _tres(text: str) -> dict[int, int]:
    return {int(key): int(value) for key, value in (part.split("=") for part in text.split(",") if part)}


def _tres_id(kind: str, name: str) -> int:
    (row,) = (row for row in table("tres.tsv") if (row["type"], row["name"]) == (kind, name))
    return int(row["id"])


def _expected(row: dict[str, str]) -> dict[str, object]:
    """What a row of the job table says, in our fields."""
    held = _tres(row["tres_alloc"])
    gpu, h100, h200 = (_tres_id("gres", name) for name in ("gpu", "gpu:h100", "gpu:h200"))
    start = _known(row["time_start"])
    types = tuple(f"{name}={held[key]}" for name, key in (("h100", h100), ("h200", h200)) if key in held)
    return {
        "record": int(row["job_db_inx"]),
        "submit": int(row["time_submit"]),
        "eligible": int(row["time_eligible"]),
        "start": start,
        "end": _known(row["time_end"]),
        "cpus": held[_tres_id("cpu", "")] if start else None,
        "nodes": held[_tres_id("node", "")] if start else None,
        "gpus": held.get(gpu, 0) if start else None,
        "gpu_types": types,
        "node_list": row["nodelist"] if start else None,
        "account": row["account"],
    }


def test_allocations_equal_the_database() -> None:
    rows = {int(row["job_db_inx"]): row for row in table("job.tsv")}
    made = jobs(read_file(SACCT / "allocations.psv"))
    assert len(made) == 109
    # Two jobs started in the seconds between the capture of sacct and that of the table.
    for job in made:
        assert job.record is not None
        expected = _expected(rows[job.record])
        found = {name: getattr(job, name) for name in expected}
        if job.state == "RUNNING" and expected["end"]:
            expected["end"] = None
        assert found == expected, job.job_id
        assert job.job_id == rows[job.record]["id_job"]


def test_suspended_time_equals_the_database() -> None:
    stopped = [job for job in jobs(read_file(SACCT / "allocations.psv")) if job.suspended_seconds]
    assert [(job.job_id, job.suspended_seconds) for job in stopped] == [("11", 27)]


def test_gpu_and_node_seconds_equal_sreport() -> None:
    used: dict[tuple[str, str, str], int] = defaultdict(int)
    for job in jobs(read_file(SACCT / "allocations.psv")):
        if job.start is None:
            continue
        seconds = max(0, min(job.end or HOUR[1], HOUR[1]) - max(job.start, HOUR[0]))
        used[job.account or "", job.user or "", "gres/gpu"] += seconds * (job.gpus or 0)
        used[job.account or "", job.user or "", "node"] += seconds * (job.nodes or 0)
    checked = 0
    for line in (SLURM / "sreport" / "account_by_user_hour.psv").read_text().splitlines():
        found = line.split("|")
        if len(found) == 6 and found[2] not in ("", "Login", "root") and found[4] in ("gres/gpu", "node"):
            assert used[found[1], found[2], found[4]] == int(found[5]), line
            checked += 1
    assert checked == 20


def test_gang_of_two_gpu_types_is_counted_once() -> None:
    (gang,) = (job for job in jobs(read_file(SACCT / "allocations.psv")) if job.job_id == "1")
    assert (gang.gpus, gang.gpu_types, gang.cpus, gang.nodes) == (64, ("h100=32", "h200=32"), 512, 8)
    assert gang.energy_j == 338443
    assert gang.node_list == "gpu[001-008]"


def test_exit_codes_states_and_energy() -> None:
    made = {job.record: job for job in jobs(read_file(SACCT / "allocations.psv"))}
    assert (made[31].exit_code, made[31].exit_signal) == (127, 0)
    assert (made[32].exit_code, made[32].exit_signal) == (0, 9)
    assert made[10].state == "CANCELLED"
    assert made[8].energy_j == 0
    assert made[3].energy_j is None
    assert made[38].gpus == 0


def test_array_and_het_parts_have_their_own_number() -> None:
    made = {job.job_id: job for job in jobs(read_file(SACCT / "allocations.psv"))}
    assert (made["59"].array_job_id, made["59"].array_task) == ("32", "0")
    assert (made["32"].array_job_id, made["32"].array_task) == ("32", "7")
    assert (made["36"].het_job_id, made["36"].het_offset) == ("35", 1)
    assert made["1"].array_job_id is None
    assert made["1"].het_job_id is None


def test_never_started_leaves_out_what_was_only_asked_for() -> None:
    (job,) = (job for job in jobs(read_file(SACCT / "allocations.psv")) if job.job_id == "28")
    assert (job.state, job.start, job.end) == ("CANCELLED", None, 1796036302)
    assert (job.cpus, job.nodes, job.gpus, job.node_list) == (None, None, None, None)


def test_duplicates_file_counts() -> None:
    made = read_file(SACCT / "all_duplicates.psv.gz")
    assert (len(jobs(made)), len(steps(made))) == (106, 155)
    assert [(item.code, item.index) for item in refusals(made)] == [("field_count", 18), ("field_count", 56),
                                                                    ("field_count", 257)]  # fmt: skip
    assert "expected 109 fields and found 113" in refusals(made)[1].text
    assert "\\x1f" in refusals(made)[1].text
    assert refusals(made)[1].payload.startswith("speech||8|1|")


def test_final_file_counts() -> None:
    made = read_file(SACCT / "all.psv.gz")
    assert (len(jobs(made)), len(steps(made)), len(refusals(made))) == (102, 150, 2)


def test_epoch_file_equals_text_file() -> None:
    epoch, text = (drafts(read_file(SACCT / f"all_duplicates{end}.psv.gz")) for end in ("_epoch", ""))
    assert len(epoch) == 261
    # One job (2) and its step ended in the second between the two captures.
    pairs = [(old, new) for old, new in zip(text, epoch, strict=True) if old != new]
    assert [old.native_key for old, _ in pairs] == ["pod-a/2/105", "pod-a/2/105/batch"]
    for old, new in pairs:
        told = [(item.data.state, item.data.start, item.data.end) for item in (old, new)]
        assert told == [("RUNNING", 1796036454, None), ("COMPLETED", 1796036454, 1796036465)]
    assert [item.native_key for item in epoch] == [item.native_key for item in text]


def test_all_columns_equal_the_narrow_export() -> None:
    names = (
        "submit",
        "eligible",
        "start",
        "end",
        "cpus",
        "nodes",
        "gpus",
        "gpu_types",
        "state",
        "energy_j",
        "exit_code",
    )
    wide = {job.record: job for job in jobs(read_file(SACCT / "all_duplicates.psv.gz"))}
    narrow = {job.record: job for job in jobs(read_file(SACCT / "allocations.psv"))}
    assert len(narrow.keys() - wide.keys()) == 3
    for record, job in wide.items():
        if record == 105:  # ended between the two captures
            continue
        assert [getattr(job, name) for name in names] == [getattr(narrow[record], name) for name in names]
    assert wide[1].limit_seconds == 120
    assert (wide[1].name, wide[1].partition, wide[1].qos, wide[1].user) == (
        "gang64",
        "train",
        "normal",
        "u05",
    )


def test_steps_carry_the_raw_number() -> None:
    made = {(step.job_id, step.step): step for step in steps(read_file(SACCT / "all_duplicates.psv.gz"))}
    gang = made["1", "0"]
    assert (gang.name, gang.cpus, gang.nodes, gang.gpus, gang.record) == ("sleep", 512, 8, 64, 1)
    assert made["36", "0"].node_list == "gpu[001-002]"
    assert {step for _, step in made} == {"batch", "0", "1"}


def test_local_time_of_the_rig() -> None:
    made = read_file(SACCT / "jobs_only_rig_tz.psv", zone=timezone(timedelta(hours=-11)))
    starts = {(row["id_job"], row["time_start"]) for row in table("job.tsv")}
    assert len(jobs(made)) == 32
    for job in jobs(made):
        if job.start is not None:
            assert (job.job_id, str(job.start)) in starts
    assert jobs(made)[0].cpus == 32
    assert Counter(item.code for item in refusals(made)) == {"identity_missing": 8}
    assert "JobIDRaw" in refusals(made)[0].text


def test_unit_separator_survives_delimiters_in_names() -> None:
    made = read_file(SACCT / "allocations_us.txt", delimiter="\x1f")
    assert Counter(item.code for item in refusals(made)) == {"time_missing": 104}
    assert "Submit, Start and End" in refusals(made)[0].text
    lines = (SACCT / "allocations_us.txt").read_text().splitlines()
    timed = [line + "\x1f1796036265" for line in lines[1:]]
    names = [job.name for job in jobs(read_lines([lines[0] + "\x1fStart", *timed], delimiter="\x1f"))]
    assert len(names) == 104
    assert any("odd|name" in (name or "") for name in names)


def test_requeue_keeps_the_key_of_each_record() -> None:
    before, after = (drafts(read_file(SACCT / f"requeue_{when}.psv")) for when in ("before", "after"))
    assert [item.native_key for item in before] == ["pod-a/99/134", "pod-a/99/134/batch"]
    assert [item.native_key for item in after] == ["pod-a/99/134", "pod-a/99/134/batch", "pod-a/99/154"]
    assert [item.data.state for item in before] == ["RUNNING", "RUNNING"]
    assert [item.data.state for item in after] == ["REQUEUED", "CANCELLED", "PENDING"]
    assert all(item.by_content for item in after)


# Hand-made lines.

HEADER = "JobIDRaw|JobID|State|Submit|Eligible|Start|End|NNodes|NCPUS|NodeList|AllocTRES|Account|User"
LINE = "7|7|COMPLETED|1000|1001|1010|1070|2|16|gpu[1-2]|cpu=16,gres/gpu:h100=4,node=2|vision|u01"


def one(line: str, header: str = HEADER, **options: object) -> Draft | Refusal:
    (made,) = read_lines([header, line], **options)
    return made


def job_of(line: str, header: str = HEADER, **options: object) -> JobReported:
    made = one(line, header, **options)
    assert isinstance(made, Draft), made
    assert isinstance(made.data, JobReported)
    return made.data


def code_of(line: str, header: str = HEADER, **options: object) -> tuple[str, str]:
    made = one(line, header, **options)
    assert isinstance(made, Refusal), made
    assert made.index == 2
    return made.code, made.pointer


def test_a_plain_record_in_full() -> None:
    assert one(LINE) == Draft(
        "job.reported",
        JobReported(cluster="pod-a", job_id="7", state="COMPLETED", submit=1000, eligible=1001, start=1010,
                    end=1070, account="vision", user="u01", nodes=2, cpus=16, gpus=4, gpu_types=("h100=4",),
                    node_list="gpu[1-2]"),
        native_key="pod-a/7/submit:1000", occurred_us=1_070_000_000, index=2,
    )  # fmt: skip


def test_columns_in_any_order_and_case_give_the_same_draft() -> None:
    order = [12, 3, 0, 7, 1, 9, 2, 11, 4, 10, 5, 8, 6]
    names, found = HEADER.split("|"), LINE.split("|")
    header = "|".join(names[place].lower() if place % 2 else names[place].upper() for place in order)
    assert one("|".join(found[place] for place in order), header) == one(LINE)


def test_trailing_delimiter_of_parsable() -> None:
    assert one(LINE + "|", HEADER + "|") == one(LINE)


def test_blank_lines_and_repeated_headers_are_no_records() -> None:
    reader = open_sacct(HEADER, cluster="pod-a", zone=UTC)
    assert reader.has_header
    assert reader.columns[0] == "JobIDRaw"
    assert [reader.read(number, line) for number, line in enumerate(["", "  ", HEADER, HEADER + "\r\n"], 1)] == [
        None
    ] * 4


def test_a_record_of_empty_fields_is_no_blank_line() -> None:
    header = "JobIDRaw\x1fState\x1fSubmit"
    assert [item.code for item in refusals(read_lines([header, "\x1f\x1f"], delimiter="\x1f"))] == ["identity_missing"]


@pytest.mark.parametrize(
    ("tres", "gpus", "types"),
    [
        ("cpu=4,node=1", 0, ()),
        ("", None, ()),
        ("gres/gpu=16,gres/gpu:h100=16", 16, ("h100=16",)),
        ("gres/gpu:h200=2,gres/gpu:h100=3", 5, ("h100=3", "h200=2")),
        ("gres/gpu=8,gres/gpumem=80G,gres/shard=4", 8, ()),
        ("mem=62.50G,gres/gpu=1", 1, ()),
        ("gres/gpu=2K,node=256", 2048, ()),
    ],
)
def test_gpus_of_alloctres(tres: str, gpus: int | None, types: tuple[str, ...]) -> None:
    job = job_of(LINE.replace("cpu=16,gres/gpu:h100=4,node=2", tres))
    assert (job.gpus, job.gpu_types) == (gpus, types)


def test_requested_gpus_never_count() -> None:
    assert (
        job_of("7|DONE".replace("DONE", "COMPLETED") + "|0|9|gres/gpu=8", "JobIDRaw|State|Start|End|ReqTRES").gpus
        is None
    )


def test_counts_prefer_their_own_columns() -> None:
    job = job_of(LINE.replace("cpu=16", "cpu=8").replace("node=2", "node=1"))
    assert (job.cpus, job.nodes) == (16, 2)
    job = job_of(LINE.replace("|2|16|", "|||"))
    assert (job.cpus, job.nodes) == (16, 2)
    assert job_of(LINE.replace("|2|16|", "|1.50K|16|")).nodes == 1536


@pytest.mark.parametrize(
    ("state", "start", "end", "nodes", "expected"),
    [
        ("CANCELLED by 7", "1070", "1070", "None assigned", (None, 1070, None)),
        ("CANCELLED by 7", "None", "1070", "None assigned", (None, 1070, None)),
        ("PENDING", "Unknown", "Unknown", "None assigned", (None, None, None)),
        ("PENDING", "1300", "Unknown", "None assigned", (None, None, None)),
        ("FAILED", "1070", "1070", "gpu1", (1070, 1070, 16)),
        ("RUNNING", "1070", "Unknown", "gpu1", (1070, None, 16)),
    ],
)
def test_never_started(state: str, start: str, end: str, nodes: str, expected: tuple[int | None, ...]) -> None:
    job = job_of(f"7|7|{state}|1000|1000|{start}|{end}|2|16|{nodes}|cpu=16,node=2|a|u")
    assert (job.start, job.end, job.cpus) == expected


@pytest.mark.parametrize(
    ("line", "code", "pointer"),
    [
        (LINE.replace("COMPLETED", "CANCELLED+"), "bad_state", "State"),
        (LINE.replace("COMPLETED", ""), "bad_state", "State"),
        (LINE.replace("1010", "yesterday"), "bad_time", "Start"),
        (LINE.replace("1010", "2026-02-30T00:00:00"), "bad_time", "Start"),
        (LINE.replace("1010", "2026-W01-1T00:00:00"), "bad_time", "Start"),
        (LINE.replace("1010", "1969-12-31T00:00:00"), "bad_time", "Start"),
        (LINE.replace("1070", "999999999999"), "bad_time", "End"),
        (LINE.replace("1070", "1009"), "negative_duration", "End"),
        (LINE.replace("|2|16|", "|two|16|"), "bad_number", "NNodes"),
        (LINE.replace("|2|16|", "|2|-16|"), "bad_number", "NCPUS"),
        (LINE.replace("cpu=16", "cpu"), "bad_tres", "AllocTRES"),
        (LINE.replace("h100=4", "h100=x"), "bad_number", "AllocTRES"),
        (LINE.replace("vision", "vi/sion"), "bad_name", "Account"),
        (LINE.replace("7|7", "7a|7"), "bad_identity", "JobIDRaw"),
        (LINE.replace("7|7", "7|x"), "bad_identity", "JobID"),
        (LINE.replace("7|7", "|33_5"), "identity_missing", "JobIDRaw"),
        (LINE.replace("7|7", "|33_[13-30%2]"), "identity_missing", "JobIDRaw"),
        (LINE.replace("7|7", "|35+0.0"), "identity_missing", "JobIDRaw"),
        (LINE.replace("7|7", "|"), "identity_missing", "JobIDRaw"),
        (LINE.replace("1000|1001|1010|1070", "Unknown|1001|None|0"), "time_missing", "Submit"),
        (LINE + "|x", "field_count", ""),
        (LINE[:-4], "field_count", ""),
        (LINE.replace("u01", "u\0"), "nul", "User"),
        (LINE.replace("u01", "u" * 65_537), "too_long", "User"),
        (LINE + "x" * (1 << 20), "too_long", ""),
    ],
)
def test_refusals(line: str, code: str, pointer: str) -> None:
    assert code_of(line) == (code, pointer)
    made = one(line)
    assert isinstance(made, Refusal)
    assert len(made.text) < 400
    assert "\0" not in made.payload
    assert len(made.payload.encode()) <= 65_536


def test_plain_job_ids_need_no_raw_column() -> None:
    header = "JobID|State|Submit"
    assert job_of("7|PENDING|1000", header).job_id == "7"
    made = one("7.batch|RUNNING|1000", header)
    assert isinstance(made, Draft)
    assert made.data == StepReported(cluster="pod-a", job_id="7", step="batch", state="RUNNING", submit=1000)
    assert made.native_key == "pod-a/7/submit:1000/batch"


def test_pending_array_with_its_raw_number() -> None:
    job = job_of("33|33_[13-30%2]|PENDING|1000", "JobIDRaw|JobID|State|Submit")
    assert (job.job_id, job.array_job_id, job.array_task) == ("33", "33", "13-30%2")


def test_key_stays_while_the_state_changes() -> None:
    lines = [
        "7|PENDING|1000|Unknown|Unknown",
        "7|RUNNING|1000|1010|Unknown",
        "7|COMPLETED|1000|1010|1070",
    ]
    made = drafts(read_lines(["JobIDRaw|State|Submit|Start|End", *lines]))
    assert {item.native_key for item in made} == {"pod-a/7/submit:1000"}
    assert [item.occurred_us for item in made] == [1_000_000_000, 1_010_000_000, 1_070_000_000]
    assert len({item.data for item in made}) == 3


@pytest.mark.parametrize(
    ("column", "text", "field", "value"),
    [
        ("Suspended", "00:00:27", "suspended_seconds", 27),
        ("Suspended", "1-01:00:01", "suspended_seconds", 90001),
        ("Suspended", "", "suspended_seconds", None),
        ("TimelimitRaw", "90", "limit_seconds", 5400),
        ("Timelimit", "1-06:00:00", "limit_seconds", 108000),
        ("Timelimit", "UNLIMITED", "limit_seconds", None),
        ("TimelimitRaw", "Partition_Limit", "limit_seconds", None),
        ("ConsumedEnergyRaw", "", "energy_j", None),
        ("ConsumedEnergyRaw", "0", "energy_j", 0),
        ("ConsumedEnergyRaw", "18446744073709551614", "energy_j", None),
        ("DBIndex", "12", "record", 12),
        ("DBIndex", "0", "record", None),
        ("Reason", "None", "reason", None),
        ("Reason", "x" * 500, "reason", "x" * 400),
        ("Comment", "run=a b", "comment", "run=a b"),
        ("ExitCode", "1:9", "exit_signal", 9),
        ("Group", "vision/x", "account", None),
    ],
)
def test_single_columns(column: str, text: str, field: str, value: object) -> None:
    job = job_of(f"7|COMPLETED|1000|100000|{text}", f"JobIDRaw|State|Start|End|{column}")
    assert getattr(job, field) == value


@pytest.mark.parametrize(
    ("column", "text", "code"),
    [
        ("Suspended", "INVALID", "bad_duration"),
        ("Suspended", "2-00:00:00", "bad_duration"),
        ("Timelimit", "soon", "bad_number"),
        ("ConsumedEnergyRaw", "338.44K", "bad_number"),
        ("ExitCode", "1", "bad_exit_code"),
        ("DBIndex", "-1", "bad_number"),
        ("Partition", "p" * 401, "too_long"),
        ("Comment", "c" * 20_001, "too_long"),
    ],
)
def test_single_columns_refused(column: str, text: str, code: str) -> None:
    header = f"JobIDRaw|State|Start|End|{column}"
    assert code_of(f"7|COMPLETED|1000|100000|{text}", header) == (code, column)


def test_one_file_is_one_cluster() -> None:
    header = "Cluster|JobIDRaw|State|Submit"
    made = read_lines([header, "a|1|PENDING|5", "a|2|PENDING|5", "b|3|PENDING|5", "|4|PENDING|5"])
    assert [item.code for item in refusals(made)] == ["cluster_mixed"]
    assert {item.data.cluster for item in drafts(made)} == {"pod-a"}
