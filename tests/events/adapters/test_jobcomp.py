"""Posts of jobcomp/elasticsearch: real ones of Slurm 22.05.8, and the fields of other versions."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.adapters import Draft, Refusal, jobcomp
from events.types.jobs import JobReported
from events.validate import checked
from tests.events.adapters.slurm_posts import posts, read_jobcomp

NOON = 1_796_036_400
"""2026-11-30T11:00:00Z."""


def bodies() -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in posts("jobcomp")]


def report(**changes: Any) -> JobReported:
    """What becomes of the post of job 9 (cancelled while it ran, 2 GPUs for 25 s) with other fields."""
    body = next(one for one in bodies() if one["jobid"] == 9) | changes
    item = read_jobcomp({name: value for name, value in body.items() if value is not ...})
    assert isinstance(item, Draft)
    assert isinstance(item.data, JobReported)
    return item.data


def refused(**changes: Any) -> Refusal:
    body = next(one for one in bodies() if one["jobid"] == 9) | changes
    item = read_jobcomp({name: value for name, value in body.items() if value is not ...})
    assert isinstance(item, Refusal)
    return item


def of_job(number: int) -> list[JobReported]:
    items = [read_jobcomp(body) for _, body in posts("jobcomp")]
    return [one.data for one in items if isinstance(one, Draft) and one.data.job_id == str(number)]  # type: ignore[attr-defined,misc]


class TestCapture:
    def test_every_post_is_a_sighting_that_the_log_takes(self) -> None:
        items = [read_jobcomp(body) for _, body in posts("jobcomp")]
        assert len(items) == 106
        for item in items:
            assert isinstance(item, Draft)
            assert checked(item, (NOON + 3600) * 1_000_000) == item.data
            assert item.source == "jobcomp:pod-a"

    def test_states(self) -> None:
        """Counted in the file: grep -o 'state\\":\\"[A-Z_]*' jobcomp_posts.jsonl | sort | uniq -c."""
        states = Counter(read_jobcomp(body).data.state for _, body in posts("jobcomp"))  # type: ignore[union-attr,attr-defined]
        assert states == {"COMPLETED": 79, "FAILED": 13, "CANCELLED": 4, "PENDING": 4, "TIMEOUT": 2, "NODE_FAIL": 2,
                          "PREEMPTED": 1, "RESIZING": 1}  # fmt: skip

    def test_a_gang_of_eight_nodes(self) -> None:
        (one,) = of_job(1)
        # date -u -d 2026-11-30T10:57:45 +%s: 1796036265; start 2 s and end 8 s later.
        assert (one.submit, one.eligible, one.start, one.end) == (1796036265, 1796036265, 1796036267, 1796036273)
        assert (one.nodes, one.cpus, one.gpus, one.gpu_types) == (8, 512, 64, ("h100=32", "h200=32"))
        assert (one.node_list, one.limit_seconds, one.exit_code, one.exit_signal) == ("gpu[001-008]", 120, 0, 0)
        assert (one.account, one.user, one.partition, one.qos) == ("robotics", "u05", "train", "normal")
        assert (one.name, one.record, one.restarts) == ("gang64", None, None)
        assert (one.array_job_id, one.het_job_id) == (None, None)

    def test_what_a_requeue_closed_keeps_its_state_and_times(self) -> None:
        closed, final = of_job(12)
        assert (closed.state, final.state) == ("PENDING", "COMPLETED")
        assert (closed.submit, closed.start, closed.end) == (NOON - 125, NOON - 121, NOON - 115)
        assert (final.submit, final.eligible, final.start, final.end) == (NOON - 115, NOON - 94, NOON - 7, NOON - 2)

    def test_the_two_parts_of_a_resized_job(self) -> None:
        """Post 1 has start = end and elapsed 120; post 2 starts at the resize with elapsed 41: it began at end - 41."""
        closed, final = of_job(15)
        assert (closed.state, closed.start, closed.end, closed.gpus) == ("RESIZING", None, NOON - 98, 4)
        assert (final.state, final.start, final.end, final.gpus) == ("COMPLETED", NOON - 123, NOON - 82, 2)

    def test_cancelled_before_it_started(self) -> None:
        (one,) = of_job(28)
        assert (one.state, one.start, one.end, one.gpus, one.node_list) == ("CANCELLED", None, NOON - 98, None, None)

    def test_exit_codes(self) -> None:
        assert [(of_job(n)[0].exit_code, of_job(n)[0].exit_signal) for n in (16, 17, 18)] == [(1, 0), (127, 0), (0, 9)]

    def test_a_het_job_and_an_array_task(self) -> None:
        assert [(one.het_job_id, one.het_offset) for n in (35, 36) for one in of_job(n)] == [("35", 0), ("35", 1)]
        (task,) = of_job(59)
        assert (task.array_job_id, task.array_task) == ("32", "0")

    def test_names_are_kept_as_given(self) -> None:
        (odd,) = of_job(23)
        assert odd.name == 'odd|name, "q" αβ'

    def test_a_repeated_post_is_the_same_sighting(self) -> None:
        for _, body in posts("jobcomp"):
            assert read_jobcomp(body) == read_jobcomp(body)
        first, second = (read_jobcomp(body) for _, body in posts("jobcomp") if b'"jobid":12,' in body)
        assert isinstance(first, Draft)
        assert isinstance(second, Draft)
        assert first.native_key == f"pod-a/12/{NOON - 125}" != second.native_key


class TestOtherVersions:
    def test_a_newer_slurm(self) -> None:
        """Fields of 23.02 to 25.11: failed_node, std_err, reservation_name, tres_req_raw and tres_alloc_raw."""
        more = {"failed_node": "gpu005", "std_err": "/x", "reservation_name": "r", "tres_alloc_raw": "1=16,4=1,1001=2",
                "tres_req_raw": "1=2", "orig_dependency": "afterok:1", "wc_key": "*", "features": "h100"}  # fmt: skip
        assert report(**more) == report()

    def test_a_start_that_lay_ahead_when_it_was_cancelled(self) -> None:
        """Since 22.05 such a job has @start Unknown."""
        one = report(**{"@start": "Unknown", "nodes": "", "tres_alloc": ..., "elapsed": -3600})
        assert (one.state, one.start, one.end, one.gpus) == ("CANCELLED", None, NOON - 98, None)

    def test_an_older_slurm_gives_only_pack_keys_and_no_tres(self) -> None:
        older = {"het_job_id": ..., "het_job_offset": ..., "pack_job_id": 35, "tres_alloc": ...}
        one = report(**older)
        assert (one.het_job_id, one.het_offset, one.cpus, one.nodes, one.gpus) == ("35", None, 16, 1, None)

    def test_null_values(self) -> None:
        one = report(username=None, nodes=None, qos=None, job_name=None, account=None)
        assert (one.user, one.node_list, one.qos, one.name, one.account) == (None, None, None, None, None)
        assert one.gpus == 2  # tres_alloc says that it ran

    def test_a_comment_names_the_run(self) -> None:
        one = report(comment="sweep; run=atlas-70b")
        assert (one.comment, one.run) == ("sweep; run=atlas-70b", "atlas-70b")

    def test_an_unlimited_job_has_no_limit(self) -> None:
        assert report(time_limit=...).limit_seconds is None

    def test_elapsed_never_moves_a_start_before_the_submission(self) -> None:
        assert report(elapsed=10**6).start == report().start == NOON - 123

    def test_elapsed_shorter_than_the_span_changes_nothing(self) -> None:
        assert report(elapsed=3).start == NOON - 123


class TestRefusals:
    def test_the_cluster_may_come_with_the_delivery(self) -> None:
        body = {**bodies()[0], "cluster": None}
        found = read_jobcomp(body, cluster="pod-b")
        assert isinstance(found, Draft)
        assert found.source == "jobcomp:pod-b"
        assert refused(cluster=...).code == "cluster_missing"

    @pytest.mark.parametrize(("field", "value", "code", "pointer"), [
        ("jobid", None, "identity_missing", "/jobid"), ("jobid", "x", "bad_number", "/jobid"),
        ("jobid", 10**40, "bad_number", "/jobid"), ("state", "RUNING", "bad_state", "/state"),
        ("@end", "yesterday", "bad_time", "/@end"), ("@end", "2026-11-30T10:57:56", "negative_duration", "/@end"),
        ("exit_code", "1", "bad_exit_code", "/exit_code"), ("tres_alloc", "gpu", "bad_tres", "/tres_alloc"),
        ("username", "a/b", "bad_name", "/username"), ("job_name", ["x"], "bad_value", "/job_name"),
        ("total_cpus", {"set": True}, "bad_value", ""),
    ])  # fmt: skip
    def test_bad_values_name_their_field(self, field: str, value: object, code: str, pointer: str) -> None:
        if field == "total_cpus":
            assert refused(total_cpus=value, tres_alloc=...).pointer == "/total_cpus"
            return
        found = refused(**{field: value})
        assert (found.code, found.pointer) == (code, pointer)
        assert '"jobid"' in found.payload

    def test_without_any_time(self) -> None:
        assert refused(**{"@submit": ..., "@start": ..., "@end": ...}).code == "time_missing"

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000])
    def test_what_is_no_object(self, body: bytes) -> None:
        found = read_jobcomp(body)
        assert isinstance(found, Refusal)
        assert found.code == "malformed"

    def test_bytes_that_are_no_utf8_are_shown_as_such(self) -> None:
        body = next(body for _, body in posts("jobcomp") if b'"jobid":9,' in body)
        item = read_jobcomp(body.replace(b'"job_name":"', b'"job_name":"\xe9'))
        assert isinstance(item, Draft)
        assert item.data.name.startswith("\ufffd")  # type: ignore[attr-defined]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6,
)  # fmt: skip
FIELDS = sorted({name for body in bodies() for name in body} | {"comment"})


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(), json_values, max_size=8))
def test_any_object_is_a_sighting_or_refused(changes: dict[str, Any]) -> None:
    for body in (changes, bodies()[8] | changes):
        (item,) = jobcomp.translate("application/json", {}, json.dumps(body).encode())
        if isinstance(item, Draft):
            checked(item, NOON * 1_000_000)


@given(st.binary())
def test_any_bytes_are_refused_and_never_raise(body: bytes) -> None:
    (item,) = jobcomp.translate("", {}, body)
    assert isinstance(item, Refusal)
