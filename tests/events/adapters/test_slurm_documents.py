"""Documents of Slurm as wholes: what is refused and how it is told, whose cluster it is, streams, any JSON at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.adapters import Draft, Refusal
from events.adapters.hostlist import expand, numbers, ranges
from events.adapters.slurm_json import Jobs, sacct_json, slurmctld_jobs, slurmdb_jobs, squeue_json
from events.adapters.slurm_stream import VALUE_LIMIT, read_jobs
from events.adapters.slurm_values import Exit, Number, Signal, epoch, exit_of, gpu_indices, number, wait_status
from events.adapters.textfiles import Unreadable
from tests.events.adapters.sacct_files import SLURM
from tests.events.adapters.slurm_documents import (
    MADE_BY,
    SACCT,
    SLURMCTLD,
    SLURMDB,
    body,
    document,
    drafts_of,
    dump,
    live,
    of_job,
    record,
)

REST = SLURM / "rest"


def refused(made: list[Draft | Refusal]) -> Refusal:
    (item,) = made
    assert isinstance(item, Refusal), item
    return item


# Answers that are no jobs, as captured (oddity 18).


def test_an_answer_of_errors_is_told_as_such() -> None:
    item = refused(slurmdb_jobs("", {}, (REST / "slurmdb_v0.0.38_jobs_epoch_query.json").read_bytes()))
    assert (item.pointer, item.code) == ("/errors", "source_error")
    assert "Unable to parse time format" in item.text
    # Of the answer only the errors are kept: the rest names the connection and would differ each time.
    assert json.loads(item.payload)[0]["error_number"] == 9000


def test_a_bad_token_is_told_as_such() -> None:
    head, _, answer = (REST / "bad_token.txt").read_bytes().replace(b"\r", b"").partition(b"\n\n")
    assert b"500" in head
    item = refused(slurmctld_jobs("", {}, answer))
    assert (item.code, "token" in item.text, "slurm_load_jobs" in item.text) == ("source_error", True, True)


def test_an_answer_in_plain_text_is_malformed() -> None:
    item = refused(slurmdb_jobs("", {}, body(REST / "slurmdb_v0.0.38_jobs_iso.json.gz")))
    assert (item.code, item.pointer, item.payload) == ("malformed", "", "Unable to parse query.")


def test_errors_beside_jobs_are_told_and_the_jobs_kept() -> None:
    sent = dump([record_json()], errors=[{"error": "partial", "error_number": 2}, "more"])
    draft, item = slurmdb_jobs("", {}, sent)
    assert isinstance(draft, Draft)
    assert isinstance(item, Refusal)
    assert (item.code, "partial and 1 more" in item.text) == ("source_error", True)


def record_json(**job: Any) -> dict[str, Any]:
    time = {"submission": 1000, "start": 1010, "end": 1070}
    return {"job_id": 7, "cluster": "pod-a", "state": {"current": "COMPLETED"}, "time": time, **job}


@pytest.mark.parametrize(
    ("sent", "code", "pointer"),
    [
        (b"", "malformed", ""),
        (b"[1]", "invalid", ""),
        (b'{"nodes": []}', "invalid", "/jobs"),
        (b'{"jobs": null}', "invalid", "/jobs"),
        (b'{"jobs": {"a": 1}}', "invalid", "/jobs"),
        (b'{"jobs": [', "malformed", ""),
        (b"\xff\xfe", "malformed", ""),
        (b'{"meta":' * 5000, "malformed", ""),
    ],
)
def test_no_document(sent: bytes, code: str, pointer: str) -> None:
    for adapter in (sacct_json, slurmdb_jobs, slurmctld_jobs, squeue_json):
        item = refused(adapter("", {"x-hallbook-cluster": "pod-a"}, sent))
        assert (item.code, item.pointer) == (code, pointer)
        assert '"jobs"' in item.text


def test_no_jobs_is_no_fault() -> None:
    assert slurmctld_jobs("", {}, b'{"jobs": [], "errors": []}') == []


# Bad jobs among good ones.


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"job_id": None}, "identity_missing", "/jobs/1/job_id"),
        ({"job_id": "x"}, "bad_number", "/jobs/1/job_id"),
        ({"account": 5}, "invalid", "/jobs/1/account"),
        ({"account": "vi/sion"}, "bad_name", "/jobs/1/account"),
        ({"state": {"current": "SPINNING"}}, "bad_state", "/jobs/1/state/current"),
        ({"state": {"current": []}}, "bad_state", "/jobs/1/state/current"),
        ({"state": {}}, "invalid", "/jobs/1/state/current"),
        ({"time": {"submission": 1.5}}, "bad_number", "/jobs/1/time/submission"),
        ({"time": {"submission": -7}}, "bad_number", "/jobs/1/time/submission"),
        ({"time": {"submission": 253402300800}}, "bad_time", "/jobs/1/time/submission"),
        ({"time": {}}, "time_missing", "/jobs/1"),
        ({"time": {"start": 20, "end": 10}, "nodes": "a"}, "negative_duration", "/jobs/1/time/end"),
        ({"time": {"start": 20, "end": 30, "suspended": 11}, "nodes": "a"}, "bad_duration", "/jobs/1/time/suspended"),
        ({"tres": {"allocated": [{"type": "cpu", "count": "many"}]}}, "bad_number", "/jobs/1/tres/allocated"),
        ({"name": "x" * 20_001}, "too_long", "/jobs/1/name"),
        ({"cluster": "a/b"}, "bad_name", "/jobs/1/cluster"),
        ({"cluster": None}, "cluster_missing", "/jobs/1/cluster"),
    ],
)
def test_a_bad_record_is_told_with_its_place(change: dict[str, Any], code: str, pointer: str) -> None:
    bad = record_json(nodes="gpu001") | change
    first, item, last = slurmdb_jobs("", {}, dump([record_json(), bad, record_json(job_id=9)]))
    assert isinstance(item, Refusal), item
    assert (item.index, item.code, item.pointer) == (1, code, pointer)
    assert json.loads(item.payload[:60000]) == bad or len(item.payload) > 20_000
    assert (of_job(first).job_id, of_job(last).job_id) == ("7", "9")


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"job_state": "SPINNING"}, "bad_state", "/jobs/0/job_state"),
        ({"job_state": ["LAUNCH_FAILED"]}, "bad_state", "/jobs/0/job_state"),
        ({"end_time": 10, "job_state": "COMPLETED"}, "negative_duration", "/jobs/0/end_time"),
        ({"exit_code": 70_000, "job_state": "FAILED"}, "bad_exit_code", "/jobs/0/exit_code"),
        ({"submit_time": 0, "start_time": 0, "job_state": "PENDING"}, "time_missing", "/jobs/0"),
        ({"tres_alloc_str": "cpu"}, "bad_tres", "/jobs/0/tres_alloc_str"),
        ({"gres_detail": [1]}, "invalid", "/jobs/0/gres_detail/0"),
    ],
)
def test_a_bad_job_is_told_with_its_place(change: dict[str, Any], code: str, pointer: str) -> None:
    item = live(**change)
    assert isinstance(item, Refusal), item
    assert (item.code, item.pointer) == (code, pointer)


def test_a_bad_step_leaves_its_job() -> None:
    good = {"state": "COMPLETED", "step": {"id": 0, "name": "a"}, "time": {"start": 1010, "end": 1060}}
    bad = {**good, "step": {"id": "a/b"}}
    made = slurmdb_jobs("", {}, dump([record_json(steps=[good, bad, {**good, "step": {}}, good | {"time": {}}])]))
    assert [item.pointer for item in made if isinstance(item, Refusal)] == [
        "/jobs/0/steps/1/step/id", "/jobs/0/steps/2/step/id", "/jobs/0/steps/3",
    ]  # fmt: skip
    assert [item.type for item in made if isinstance(item, Draft)] == ["job.reported", "step.reported"]


def test_a_stream_of_characters_no_text_may_hold_is_no_key() -> None:
    item = live(cluster="a\0b")
    assert isinstance(item, Refusal)
    assert (item.code, item.pointer) == ("bad_name", "/jobs/0/cluster")


# Whose cluster it is.


def test_the_cluster_of_the_body_or_of_the_delivery() -> None:
    named = {"x-hallbook-cluster": "pod-a"}
    bare = dump([{key: value for key, value in record_json().items() if key != "cluster"}])
    assert of_job(slurmdb_jobs("", named, bare)[0]).cluster == "pod-a"
    assert of_job(slurmdb_jobs("", {}, dump([record_json()]))[0]).cluster == "pod-a"
    meta = {"slurm": {"cluster": "pod-c", "release": "24.05.1"}}
    whole = dump([{**record_json(), "cluster": None}], meta=meta)
    assert of_job(slurmdb_jobs("", {}, whole)[0]).cluster == "pod-c"
    item = refused(slurmdb_jobs("", {"x-hallbook-cluster": "pod-b"}, dump([record_json()])))
    assert (item.code, item.pointer) == ("cluster_mismatch", "/jobs/0/cluster")
    assert "'pod-a'" in item.text
    assert "'pod-b'" in item.text
    item = refused(slurmdb_jobs("", {"x-hallbook-cluster": "a/b"}, dump([record_json()])))
    assert item.code == "bad_name"


def test_the_shape_tells_who_speaks() -> None:
    """A document sent as the other kind is read as what it is, under its own source."""
    assert {item.source for item in slurmctld_jobs("", {}, body(SLURMDB)) if isinstance(item, Draft)} == {
        "slurmdbd:pod-a"
    }
    as_sacct = sacct_json("", {}, body(SLURMCTLD))
    assert as_sacct == drafts_of(SLURMCTLD)


# Big documents, one job at a time.


def pieces(text: str, size: int) -> Iterator[str]:
    return iter([text[at : at + size] for at in range(0, len(text), size)])


@pytest.mark.parametrize("size", [7000, 1 << 20])
def test_a_stream_says_what_the_whole_says(size: int) -> None:
    text = body(SACCT).decode()
    assert list(read_jobs(pieces(text, size), Jobs("sacct", "pod-a"))) == drafts_of(SACCT)
    live = body(SLURMCTLD).decode()
    assert list(read_jobs(pieces(live, size), Jobs("sacct", ""))) == drafts_of(SLURMCTLD)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 4096])
def test_a_stream_in_small_pieces_and_any_order_of_members(size: int) -> None:
    sent = {"last_update": 12345, "jobs": [record_json(), {"job_id": 8}, record_json(job_id=9)], "errors": ["late"]}
    made = list(read_jobs(pieces(json.dumps(sent), size), Jobs("sacct", "pod-a")))
    assert [getattr(item, "pointer", "") for item in made] == ["", "/jobs/1/state", "", "/errors"]
    assert made[:3] == sacct_json("", {"x-hallbook-cluster": "pod-a"}, json.dumps(sent).encode())[:3]


@pytest.mark.parametrize(
    ("text", "kept", "place"),
    [
        (dump([record_json(), record_json(job_id=9)]).decode()[:-40], 1, "/jobs/1"),
        (dump([record_json()]).decode()[:-1], 1, "/jobs/1"),
        (dump([record_json()]).decode()[:-2], 1, "/jobs/1"),
        ('{"jobs": [] "errors": []}', 0, "/jobs/0"),
        ('{"meta": {}, jobs', 0, ""),
        ("{", 0, ""),
        ('{"meta": 1, "errors": []}', 0, "/jobs"),
        ('{"jobs": 5}', 0, "/jobs"),
    ],
)
def test_a_stream_that_breaks_off(text: str, kept: int, place: str) -> None:
    *good, last = read_jobs(pieces(text, 64), Jobs("sacct", "pod-a"))
    assert len(good) == kept
    assert isinstance(last, Refusal)
    assert (last.pointer, last.code in ("malformed", "invalid")) == (place, True)


@pytest.mark.parametrize("text", ["", "  \n", "JobID|State\n", "[1]", "null"])
def test_a_stream_that_is_none_is_told_before_anything_is_kept(text: str) -> None:
    with pytest.raises(Unreadable):
        read_jobs(pieces(text, 3), Jobs("sacct", "pod-a"))


def test_a_job_without_end_does_not_fill_the_memory() -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        yield '{"jobs": [{"job_id": 7, "name": "'
        while True:
            taken += 1 << 20
            yield "x" * (1 << 20)

    (item,) = read_jobs(endless(), Jobs("sacct", "pod-a"))
    assert isinstance(item, Refusal)
    assert (item.pointer, item.code) == ("/jobs/0", "malformed")
    assert taken <= 4 * VALUE_LIMIT


# Any JSON.

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KNOWN = sorted(
    {key for path in (SACCT, SLURMCTLD) for key in document(path)["jobs"][0]} | {"set", "number", "infinite", "current"}
)
half_known = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**65) | st.floats() | st.sampled_from(["", "PENDING", "7", "gpu[1-"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KNOWN), inner, max_size=5),
    max_leaves=12,
)


@given(anything | st.fixed_dictionaries({"jobs": st.lists(half_known | anything, max_size=3), "errors": anything}))
@settings(max_examples=150)
def test_any_json_is_read_or_refused(value: Any) -> None:
    check_any(json.dumps(value).encode())


@given(st.data())
@settings(max_examples=60)
def test_any_change_of_a_real_document_is_read_or_refused(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([SACCT, SLURMCTLD]))
    job = json.loads(json.dumps(REAL[path][data.draw(st.integers(0, 99))]))
    for _ in range(data.draw(st.integers(1, 3))):
        at, key = job, data.draw(st.sampled_from(sorted(job)))
        while isinstance(at[key], dict) and at[key] and data.draw(st.booleans()):
            at, key = at[key], data.draw(st.sampled_from(sorted(at[key])))
        at[key] = data.draw(anything | half_known)
    check_any(dump([job]))


REAL = {path: document(path)["jobs"] for path in (SACCT, SLURMCTLD)}


def check_any(sent: bytes) -> None:
    for adapter in set(MADE_BY.values()):
        for item in adapter("", {"x-hallbook-cluster": "pod-a"}, sent):
            assert isinstance(item, Draft | Refusal)
            if isinstance(item, Draft):
                assert item.native_key.startswith("pod-a/")
                msgspec.json.encode(item.data)
    try:
        list(read_jobs(pieces(sent.decode(), 16), Jobs("sacct", "pod-a")))
    except Unreadable:
        assert not sent.startswith(b"{")


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
@settings(max_examples=60)
def test_any_bytes_are_read_or_refused(sent: bytes) -> None:
    for adapter in set(MADE_BY.values()):
        assert all(isinstance(item, Refusal) for item in adapter("", {}, sent))


# Single values.


def test_numbers_of_all_generations() -> None:
    assert [number(value) for value in (7, 7.0, "7", Number(7), Number(7.0), "18446744073709551614")[:5]] == [7] * 5
    unset = (None, "", "Infinity", -2, 2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2, Number(5, set=False), Number())
    assert [number(value) for value in unset] == [None] * len(unset)
    assert number(Number(0, infinite=True)) is None
    assert (epoch(0), epoch(Number(0)), epoch(1)) == (None, None, 1)


@pytest.mark.parametrize(
    ("status", "found"),
    [(0, (0, 0)), (256, (1, 0)), (32512, (127, 0)), (9, (0, 9)), (139, (0, 11)), (36608, (143, 0)),
     (2**32 - 2, (None, None))],
)  # fmt: skip
def test_wait_statuses(status: int, found: tuple[int | None, int | None]) -> None:
    assert wait_status(status) == found
    assert exit_of(status) == found
    assert exit_of(Exit(number=status)) == found


def test_exit_objects() -> None:
    assert exit_of(Exit(["SUCCESS"], Number(0), Signal(Number(set=False)))) == (0, 0)
    assert exit_of(Exit("SIGNALED", None, Signal(signal_id=9))) == (0, 9)
    assert exit_of(Exit("ERROR", 3, Signal(signal_id=65534))) == (3, 0)  # NO_VAL16 is no signal
    assert exit_of(Exit(["PENDING"], Number(0))) == (None, None)
    assert exit_of(None) == (None, None)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu001", ["gpu001"]),
        ("gpu[001-003,007]", ["gpu001", "gpu002", "gpu003", "gpu007"]),
        ("gpu[9-11],login1", ["gpu9", "gpu10", "gpu11", "login1"]),
        ("r[1-2]n[08-09]x", ["r1n08x", "r1n09x", "r2n08x", "r2n09x"]),
        ("", []),
    ],
)
def test_lists_of_names(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize("text", ["gpu[1-", "gpu]1", "gpu[3-1]", "a,,b", ",a", "gpu[1-999999999]", "gpu[]", "a[1]b]"])
def test_no_lists_of_names(text: str) -> None:
    with pytest.raises(ValueError):
        expand(text)


def test_gpu_indices() -> None:
    assert ranges({6, 0, 1, 2, 3}) == "0-3,6"
    assert numbers("0-3,6") == {0, 1, 2, 3, 6}
    assert gpu_indices(("gpu:h100:2(IDX:0-1),gpu:h200:4(IDX:2-5)", "gpu:0"), "n[1-2]") == ("n1=0-5",)
    assert gpu_indices(("gpu:4,nic:1(IDX:0)",), "n1") == ()
    assert gpu_indices(("gpu:h100:1(IDX:N/A)",), "n1") == ()
    assert gpu_indices(("gpu:1(IDX:0)",), "n[1-2]") == ()  # a detail for each node, or none is believed
    assert gpu_indices(("gpu:1(IDX:5-1)",), "n1") == ()


def test_limits() -> None:
    """Oddity 21: minutes here; seconds in our data."""
    assert of_job(live(time_limit=20)).limit_seconds == 1200
    assert of_job(live(time_limit={"set": False, "infinite": True, "number": 0})).limit_seconds is None
    (made,) = record(time={"submission": 1000, "limit": 4294967295}, state={"current": "PENDING"})
    assert of_job(made).limit_seconds is None


def test_a_long_list_of_waiting_tasks_is_cut_to_a_name() -> None:
    job = of_job(live(job_state="PENDING", array_job_id=7, array_task_string="1,3," * 100))
    assert job.array_task == ("1,3," * 100)[:160]


def test_a_plan_beyond_a_year_is_left_out() -> None:
    """Slurm plans a start a year after an endless job: an event may lie no more than a year ahead."""
    year = 366 * 86_400
    assert of_job(live(job_state="PENDING", start_time=1000 + year)).start is None
    assert of_job(live(job_state="PENDING", start_time=1000 + year - 3600)).start == year - 3600 + 3600


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"jobs":[]}{"jobs":[]}', "text follows behind the document"),
        ('{"jobs":[{"job_id":' + "9" * 5000 + "}]}", "cannot be read begins here"),
    ],
)
def test_what_is_left_over_or_too_long_to_be_a_number_is_refused(text: str, says: str) -> None:
    *_, last = read_jobs(pieces(text, 64), Jobs("sacct", "pod-a"))
    assert isinstance(last, Refusal)
    assert says in last.text
