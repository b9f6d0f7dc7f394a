"""The sacct adapter as a whole: files it refuses, summer time, public reference figures, any line of text."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.adapters import Draft, Refusal
from events.adapters.sacct import Unreadable, open_sacct
from events.adapters.textfiles import TooLong
from events.types.jobs import JobReported
from tests.events.adapters.sacct_files import SACCT, big_data, drafts, jobs, read_file, read_lines, refusals

BERLIN = ZoneInfo("Europe/Berlin")
HEADER = "JobIDRaw|JobID|State|Submit|Start|End"


@pytest.mark.parametrize(
    ("line", "delimiter", "words"),
    [
        ("JobID           JobName  Partition", "|", "fixed-width"),
        ("Account             AdminComment        AllocCPUS           AllocNodes", "|", "--helpformat"),
        ("JobIDRaw\x1fState\x1fStart", "|", "--delimiter"),
        ("JobIDRaw|State|Start", "\x1f", "by '|'"),
        ("\x7fELF\ufffd\ufffd\x01\0\0", "|", "binary"),
        ('{"meta": {"plugin"', "|", "JSON"),
        ("just some words", "|", "no delimiter"),
        ("a|b|c", "|", "3 fields"),
        ("JobName|State|Start", "|", "lacks JobIDRaw"),
        ("JobID|Start", "|", "lacks State"),
        ("Elapsed|Start|State", "|", "lacks JobIDRaw"),
        ("7|7|COMPLETED|1000|1010|1070", "|", "26-column"),
    ],
)
def test_unreadable(line: str, delimiter: str, words: str) -> None:
    with pytest.raises(Unreadable) as caught:
        open_sacct(line, cluster="pod-a", zone=UTC, delimiter=delimiter)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["human_default.txt", "help_fields.txt"])
def test_captured_unreadable_files(name: str) -> None:
    with pytest.raises(Unreadable):
        read_file(SACCT / name)


@pytest.mark.parametrize(("cluster", "delimiter"), [("", "|"), ("a/b", "|"), ("pod-a", ""), ("pod-a", "\n")])
def test_wrong_calls(cluster: str, delimiter: str) -> None:
    with pytest.raises(ValueError, match="cluster"):
        open_sacct(HEADER, cluster=cluster, zone=UTC, delimiter=delimiter)


def test_overlong_line_is_refused() -> None:
    made = open_sacct(HEADER, cluster="pod-a", zone=UTC).read(9, TooLong("7|7|COMP", 5_000_000))
    assert isinstance(made, Refusal)
    assert (made.index, made.code, made.payload) == (9, "too_long", "7|7|COMP")
    assert "5000000" in made.text


# Clocks went forward at 01:00 UTC on 2026-03-29 (02:00 -> 03:00) and back at 01:00 UTC on 2026-10-25
# (03:00 -> 02:00). Epochs by hand: 2026-03-29T00:00Z = 1774742400, 2026-10-25T00:00Z = 1792886400.
SPRING = 1774742400
AUTUMN = 1792886400


def berlin(submit: str, start: str, end: str) -> Draft | Refusal:
    (made,) = read_lines([HEADER, f"7|7|COMPLETED|{submit}|{start}|{end}"], zone=BERLIN)
    return made


@pytest.mark.parametrize(
    ("submit", "start", "end", "expected"),
    [
        ("2026-03-29T01:59:59", "2026-03-29T03:00:00", "2026-03-29T03:30:00", (3599, 3600, 5400)),
        ("2026-03-29T00:30:00", "2026-03-29T01:00:00", "2026-03-29T04:00:00", (-1800, 0, 7200)),
    ],
)
def test_spring(submit: str, start: str, end: str, expected: tuple[int, int, int]) -> None:
    made = berlin(submit, start, end)
    assert isinstance(made, Draft)
    assert isinstance(made.data, JobReported)
    assert (made.data.submit, made.data.start, made.data.end) == tuple(SPRING + seconds for seconds in expected)


@pytest.mark.parametrize(
    ("submit", "start", "end", "expected"),
    [
        # 02:30 is 00:30Z in the first pass and 01:30Z in the second.
        ("2026-10-25T01:00:00", "2026-10-25T02:30:00", "2026-10-25T02:40:00", (-3600, 1800, 2400)),
        ("2026-10-25T02:30:00", "2026-10-25T02:50:00", "2026-10-25T02:10:00", (1800, 3000, 4200)),
        ("2026-10-25T02:50:00", "2026-10-25T02:10:00", "2026-10-25T03:00:00", (3000, 4200, 7200)),
        ("2026-10-25T01:59:59", "2026-10-25T02:00:00", "2026-10-25T03:00:00", (-1, 0, 7200)),
    ],
)
def test_autumn(submit: str, start: str, end: str, expected: tuple[int, int, int]) -> None:
    made = berlin(submit, start, end)
    assert isinstance(made, Draft)
    assert isinstance(made.data, JobReported)
    assert (made.data.submit, made.data.start, made.data.end) == tuple(AUTUMN + seconds for seconds in expected)


def test_time_in_the_missing_hour() -> None:
    made = berlin("2026-03-29T01:00:00", "2026-03-29T02:30:00", "2026-03-29T03:30:00")
    assert isinstance(made, Refusal)
    assert (made.code, made.pointer) == ("time_missing_in_zone", "Start")
    assert "Europe/Berlin" in made.text


def test_end_before_start_in_any_pass() -> None:
    made = berlin("2026-10-25T01:00:00", "2026-10-25T04:00:00", "2026-10-25T02:10:00")
    assert isinstance(made, Refusal)
    assert made.code == "negative_duration"


# Public reference data of Open XDMoD.

FIRST, LAST = date(2016, 12, 22), date(2017, 1, 1)


def _day(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def _xdmod_days(made: list[JobReported]) -> dict[tuple[str, str], int]:
    """Seconds by (metric, day), by the published rules 2, 3, 5 and 7; never-started jobs do not count."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for job in made:
        if job.start is None or job.end is None:
            continue
        for number in range((LAST - FIRST).days + 1):
            day = FIRST + timedelta(days=number)
            opened = _day(day)
            seconds = max(0, min(job.end, opened + 86400) - max(job.start, opened))
            sums["total_wallduration_hours", str(day)] += seconds
            sums["total_cpu_hours", str(day)] += seconds * (job.cpus or 0)
            sums["total_gpu_hours", str(day)] += seconds * (job.gpus or 0)
            sums["total_node_hours", str(day)] += seconds * (job.nodes or 0)
            if opened <= job.start < opened + 86400:
                wait = job.start - min(job.submit or job.start, job.start)
                sums["total_waitduration_hours", str(day)] += wait
    return sums


def test_xdmod_hours_equal_the_published_values() -> None:
    made = jobs(read_file(big_data("xdmod", "phillips.log.gz"), cluster="phillips"))
    assert len(made) == 4285
    assert sum(job.start is not None for job in made) == 4046
    sums = _xdmod_days(made)
    for metric in {metric for metric, _ in sums}:
        sums[metric, "2016-12-22..2017-01-01"] = sum(value for key, value in sums.items() if key[0] == metric)
    checked = 0
    with big_data("xdmod", "expected_phillips.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["group_by"] == "resource" and row["unit"] == "Day" and row["metric"].startswith("total_"):
                found = sums[row["metric"], row["period"]]
                assert found / 3600 == pytest.approx(float(row["expected"]), abs=0.00006), row
                checked += 1
    assert checked == 60


@pytest.mark.parametrize(
    ("name", "user", "cpus", "nodes", "seconds"),
    [("mortorq-late-utf8.log", "façade", 16, 1, 281813), ("robertson-filter-test.log", "hardu", 108, 9, 938)],
)
def test_xdmod_odd_lines(name: str, user: str, cpus: int, nodes: int, seconds: int) -> None:
    (job,) = jobs(read_file(big_data("xdmod", name)))
    assert (job.user, job.cpus, job.nodes, job.gpus) == (user, cpus, nodes, 0)
    assert job.start is not None
    assert job.end is not None
    assert job.end - job.start == seconds


# Any line of text.

WIDE = (
    "JobIDRaw", "JobID", "Cluster", "DBIndex", "State", "Submit", "Eligible", "Start", "End", "Account",
    "User", "Partition", "QOS", "JobName", "Comment", "Reason", "ExitCode", "NNodes", "NCPUS", "AllocTRES",
    "NodeList", "Suspended", "TimelimitRaw", "Timelimit", "ConsumedEnergyRaw",
)  # fmt: skip

times = st.one_of(
    st.sampled_from(["", "0", "None", "Unknown", "2026-03-29T02:30:00", "9999-12-31T23:59:59", "0001-01-01T00:00:00"]),
    st.integers(0, 10**13).map(str),
    st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%S")),
)
values = st.one_of(
    times,
    st.text(max_size=30),
    st.integers().map(str),
    st.sampled_from(["COMPLETED", "PENDING", "CANCELLED by 7", "7", "7.batch", "33_5", "35+1", "1K",
                     "None assigned", "cpu=4,gres/gpu:h100=2,node=1", "gres/gpu=8", "1-00:00:00", "²", "١"]),
)  # fmt: skip
likely = st.fixed_dictionaries(
    {},
    optional={
        "JobIDRaw": st.sampled_from(["7", "7.0", "8"]),
        "JobID": st.sampled_from(["7", "33_5", "35+1", "33_[1-5%2]"]),
        "State": st.sampled_from(["COMPLETED", "RUNNING", "PENDING", "CANCELLED by 7"]),
        "Submit": times,
        "Start": times,
        "End": times,
        "AllocTRES": st.sampled_from(["", "cpu=4,gres/gpu:h100=2,node=1", "gres/gpu=8,gres/gpu:a=8"]),
    },
)


def _line(random: list[str], sure: dict[str, str]) -> str:
    return "|".join(sure.get(name, random[place]) for place, name in enumerate(WIDE))


def _valid(made: Draft | Refusal | None) -> None:
    if isinstance(made, Draft):
        plain = msgspec.json.encode(made.data)
        assert msgspec.json.decode(plain, type=type(made.data)) == made.data
        assert made.occurred_us >= 0
        assert made.native_key.startswith("pod-a/")
    elif made is not None:
        assert made.code
        assert made.text
        assert "\n" not in made.text


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
def test_any_text_is_told_apart(line: str) -> None:
    _valid(open_sacct("|".join(WIDE), cluster="pod-a", zone=BERLIN).read(1, line))


@given(st.lists(values, min_size=len(WIDE), max_size=len(WIDE)), likely)
def test_any_fields_are_told_apart(random: list[str], sure: dict[str, str]) -> None:
    _valid(open_sacct("|".join(WIDE), cluster="pod-a", zone=BERLIN).read(1, _line(random, sure)))


@given(st.lists(st.sampled_from(["", "7"]), min_size=len(WIDE), max_size=len(WIDE)), likely)
def test_any_likely_record_is_told_apart(random: list[str], sure: dict[str, str]) -> None:
    _valid(open_sacct("|".join(WIDE), cluster="pod-a", zone=BERLIN).read(1, _line(random, sure)))


@given(st.text(), st.sampled_from(["|", "\x1f", ","]))
def test_any_first_line(line: str, delimiter: str) -> None:
    try:
        reader = open_sacct(line, cluster="pod-a", zone=UTC, delimiter=delimiter)
    except Unreadable:
        return
    _valid(reader.read(1, line))


@given(st.permutations(range(len(WIDE))), likely)
def test_order_of_columns_does_not_matter(order: list[int], sure: dict[str, str]) -> None:
    # A reader that knows no place by heart: the same record in any order of columns is the same draft.
    found = _line([""] * len(WIDE), sure).split("|")
    plain = read_lines(["|".join(WIDE), "|".join(found)], zone=BERLIN)
    moved = read_lines(
        ["|".join(WIDE[place] for place in order), "|".join(found[place] for place in order)], zone=BERLIN
    )
    assert drafts(moved) == drafts(plain)
    assert [(item.code, item.pointer) for item in refusals(moved)] == [
        (item.code, item.pointer) for item in refusals(plain)
    ]


def test_captured_records_are_valid() -> None:
    for name in ("all_duplicates.psv.gz", "allocations.psv", "jobs_only_rig_tz.psv"):
        for item in read_file(SACCT / name):
            _valid(item)
