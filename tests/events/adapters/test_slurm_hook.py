"""Calls of Slurm's prologs and epilogs: real ones of Slurm 22.05.8, and the environments of other versions."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.adapters import Draft, Refusal, slurm_hook
from events.types.jobs import JobReported
from events.validate import checked
from tests.events.adapters.slurm_posts import posts, read_hook

NOON = 1_796_036_400
"""2026-11-30T11:00:00Z."""
FORM = "application/x-www-form-urlencoded"


def calls(name: str, job: str) -> list[dict[str, Any]]:
    """Captured bodies of one hook of one job."""
    bodies = [json.loads(body) for _, body in posts("hook")]
    return [one for one in bodies if one["hook"] == name and one["env"].get("SLURM_JOB_ID") == job]


def report(body: dict[str, Any], **env: str) -> JobReported:
    """What becomes of a call with other variables (empty: without it)."""
    found = {name: value for name, value in {**body["env"], **env}.items() if value}
    (item,) = read_hook({**body, "env": found})
    assert isinstance(item, Draft)
    assert isinstance(item.data, JobReported)
    assert checked(item, (NOON + 3600) * 1_000_000) == item.data
    return item.data


def refused(body: dict[str, Any] | bytes, kind: str = "application/json") -> Refusal:
    (item,) = read_hook(body, kind)
    assert isinstance(item, Refusal)
    return item


(PROLOG,) = calls("prolog", "2")[:1]
(BEFORE,) = calls("prologslurmctld", "2")[:1]
(AFTER,) = calls("epilogslurmctld", "2")[:1]
(EPILOG,) = calls("epilog", "12")[:1]


class TestCapture:
    def test_every_call_of_a_job_hook_is_a_sighting_and_no_other(self) -> None:
        """596 posts: 99 prolog, 90 epilog, 108 and 103 of slurmctld; 93 + 98 of tasks and 5 of nodes say nothing."""
        made: Counter[tuple[str, int]] = Counter()
        for _, body in posts("hook"):
            items = read_hook(body)
            assert not any(isinstance(item, Refusal) for item in items)
            made[json.loads(body)["hook"], len(items)] += 1
        assert made == {
            ("prolog", 1): 99, ("epilog", 1): 90, ("prologslurmctld", 1): 108, ("epilogslurmctld", 1): 103,
            ("taskprolog", 0): 93, ("taskepilog", 0): 98, ("trigger_down", 0): 2, ("trigger_drained", 0): 2,
            ("trigger_up", 0): 1,
        }  # fmt: skip

    def test_the_prolog_of_a_node(self) -> None:
        one = report(PROLOG)
        # The script ran at 1796036274.291; the accounting has the start at 1796036274.
        assert (one.state, one.start, one.end, one.restarts) == ("RUNNING", 1796036274, None, 0)
        assert (one.gpu_indices, one.node_list, one.nodes, one.cpus) == (("gpu002=0-3",), "gpu002", 1, 32)
        assert (one.name, one.user, one.account, one.partition) == (None, "u07", "genomics", "scavenge")
        assert (one.gpus, one.submit, one.record) == (None, None, None)
        (item,) = read_hook(PROLOG)
        assert isinstance(item, Draft)
        assert (item.source, item.occurred_us) == ("hook:pod-a", 1796036274_291_000)

    def test_the_prolog_of_the_job(self) -> None:
        one = report(calls("prologslurmctld", "1")[0])
        assert (one.state, one.start, one.name, one.node_list) == ("RUNNING", 1796036267, "gang64", "gpu[001-008]")
        assert (one.nodes, one.cpus, one.gpu_indices) == (8, 512, ())

    def test_the_epilog_of_a_node_tells_of_that_node_only(self) -> None:
        """Job 15 gave gpu002 back at the resize and ran on, on gpu001."""
        one = report(calls("epilog", "15")[0])
        assert (one.state, one.end, one.node_list, one.exit_code) == ("COMPLETING", 1796036302, "gpu002", None)

    def test_the_epilog_of_the_job(self) -> None:
        (item,) = read_hook(AFTER)
        assert isinstance(item, Draft)
        assert item.source == "epilogslurmctld:pod-a"
        one = report(AFTER)
        assert (one.state, one.start, one.end, one.exit_code, one.exit_signal) == ("UNKNOWN", None, 1796036319, 0, 0)

    def test_the_restart_count_of_an_epilog_names_its_run_only_when_it_is_none(self) -> None:
        """Job 2 was preempted: the epilog of its first run counts the requeue already (1), as that of its second."""
        assert [body["env"]["SLURM_JOB_RESTART_COUNT"] for body in calls("epilogslurmctld", "2")] == ["1", "1"]
        assert [report(body).restarts for body in calls("epilogslurmctld", "2")] == [None, None]
        assert [report(body).restarts for body in calls("prologslurmctld", "2")] == [0, 1]
        assert report(calls("epilogslurmctld", "8")[0]).restarts == 0

    def test_a_het_job_and_an_array_task(self) -> None:
        one = report(calls("prologslurmctld", "36")[0])
        assert (one.job_id, one.het_job_id, one.het_offset) == ("36", "35", 1)
        task = report(calls("epilogslurmctld", "59")[0])
        assert (task.array_job_id, task.array_task) == ("32", "0")

    def test_exit_codes(self) -> None:
        # jobs.tsv: 16 fails with 1:0, 17 with 127:0, 18 with 0:9.
        found = [report(calls("epilogslurmctld", job)[0]) for job in ("16", "17", "18")]
        assert [(one.exit_code, one.exit_signal) for one in found] == [(1, 0), (127, 0), (0, 9)]
        raw = [report(calls("epilogslurmctld", job)[0], SLURM_JOB_EXIT_CODE2="") for job in ("16", "17", "18")]
        assert [(one.exit_code, one.exit_signal) for one in raw] == [(1, 0), (127, 0), (0, 9)]

    def test_the_same_call_again_is_the_same_sighting(self) -> None:
        made = [read_hook(body) for _, body in posts("hook")]
        assert made == [read_hook(body) for _, body in posts("hook")]
        drafts = [item for items in made for item in items if isinstance(item, Draft)]
        told = [(item.source, item.native_key, item.data) for item in drafts]
        # No two calls are taken for one.
        assert len(set(told)) == 99 + 90 + 108 + 103


class TestOtherForms:
    @staticmethod
    def flat(body: dict[str, Any]) -> dict[str, str]:
        more = {"HALLBOOK_HOOK": body["hook"], "HALLBOOK_TIME": str(body["time"]), "HALLBOOK_HOST": body["host"]}
        return {**body["env"], **more}

    @pytest.mark.parametrize("body", [PROLOG, BEFORE, AFTER, EPILOG], ids=lambda body: body["hook"])
    def test_flat_json_and_a_form_say_the_same(self, body: dict[str, Any]) -> None:
        flat = self.flat(body)
        expected = read_hook(body)
        assert read_hook(flat) == expected
        assert read_hook(urlencode(flat).encode(), FORM) == expected
        assert read_hook(urlencode(flat).encode() + b"\n", "") == expected
        assert read_hook(json.dumps(flat).encode(), FORM) == expected  # curl's own content type

    def test_slurm_itself_names_the_hook(self) -> None:
        flat = self.flat(AFTER)
        del flat["HALLBOOK_HOOK"]
        assert read_hook(flat) == read_hook(AFTER)

    @pytest.mark.parametrize("name", ["PrologSlurmctld", "prolog_slurmctld", "prolog-slurmctld"])
    def test_names_are_read_as_people_write_them(self, name: str) -> None:
        assert read_hook({**BEFORE, "hook": name}) == read_hook(BEFORE)

    def test_the_text_of_users_survives_a_form(self) -> None:
        flat = {**self.flat(BEFORE), "SLURM_JOB_NAME": 'a&b=c +%41 "q" αβ\nx'}
        (item,) = read_hook(urlencode(flat).encode(), FORM)
        assert isinstance(item, Draft)
        assert item.data.name == 'a&b=c +%41 "q" αβ\nx'  # type: ignore[attr-defined]


class TestOtherVersions:
    def test_a_newer_slurm_tells_the_schedulers_own_times(self) -> None:
        """Since 23.02: start, and as end what is expected, but for the epilog of the job."""
        times = {"SLURM_JOB_START_TIME": "1796036270", "SLURM_JOB_END_TIME": "1796039870"}
        assert (report(PROLOG, **times).start, report(PROLOG, **times).end) == (1796036270, None)
        over = report(AFTER, SLURM_JOB_START_TIME="1796036270", SLURM_JOB_END_TIME="1796036318")
        assert (over.start, over.end) == (1796036270, 1796036318)
        assert report(AFTER, **times).end == 1796036319  # an end that lies ahead is only expected
        free = report(EPILOG, **times)
        assert (free.start, free.end) == (1796036270, 1796036285)

    @pytest.mark.parametrize("told", ["0", "1796039999"])
    def test_a_start_that_is_none_or_lies_ahead_is_not_believed(self, told: str) -> None:
        """After a requeue the scheduler's start is 0, or an estimate."""
        assert report(PROLOG, SLURM_JOB_START_TIME=told).start == 1796036274
        assert report(AFTER, SLURM_JOB_START_TIME=told).start is None

    def test_an_end_before_the_start_is_not_believed(self) -> None:
        one = report(AFTER, SLURM_JOB_START_TIME="1796036300", SLURM_JOB_END_TIME="1796036299")
        assert (one.start, one.end) == (1796036300, 1796036319)
        assert report(AFTER, SLURM_JOB_END_TIME="1796030000").end == 1796036319

    def test_a_comment_names_the_run(self) -> None:
        one = report(PROLOG, SLURM_JOB_COMMENT="run='big one',x")
        assert (one.comment, one.run) == ("run='big one',x", "big one")

    @pytest.mark.parametrize(("told", "kept"), [
        ("0,1,2,3,6", ("gpu002=0-3,6",)), ("0-3,6", ("gpu002=0-3,6",)), ("7,0", ("gpu002=0,7",)),
        ("GPU-b,GPU-a", ("gpu002=GPU-a,GPU-b",)), ("", ()), (",", ()), ("MIG-GPU-1/0/0", ("gpu002=MIG-GPU-1/0/0",)),
        (",".join(f"MIG-{n:036d}" for n in range(16)), ()),
    ])  # fmt: skip
    def test_gpus(self, told: str, kept: tuple[str, ...]) -> None:
        """Numbers as ranges, UUIDs as they are; sixteen of those are more than one entry may hold."""
        assert report(PROLOG, SLURM_JOB_GPUS=told).gpu_indices == kept

    @pytest.mark.parametrize(("told", "nodes", "cpus"), [
        ("64(x8)", "8", 512), ("64,32(x2)", "3", 128), ("64(x8)", "7", None), ("64(x", "1", None), ("", "1", None),
        ("8", "1", 8), ("8", "", None),
    ])  # fmt: skip
    def test_cpus(self, told: str, nodes: str, cpus: int | None) -> None:
        assert report(PROLOG, SLURM_JOB_CPUS_PER_NODE=told, SLURM_JOB_NUM_NODES=nodes).cpus == cpus


class TestRefusals:
    def without(self, *names: str) -> dict[str, Any]:
        return {**PROLOG, "env": {name: value for name, value in PROLOG["env"].items() if name not in names}}

    def test_the_cluster_may_come_with_the_delivery(self) -> None:
        (item,) = read_hook(self.without("SLURM_CLUSTER_NAME"), cluster="pod-b")
        assert isinstance(item, Draft)
        assert item.source == "hook:pod-b"
        assert refused(self.without("SLURM_CLUSTER_NAME")).code == "cluster_missing"

    def test_identity_time_and_hook(self) -> None:
        assert refused(self.without("SLURM_JOB_ID", "SLURM_JOBID")).code == "identity_missing"
        assert refused({**PROLOG, "time": None}).code == "time_missing"
        assert refused({**PROLOG, "time": True}).code == "bad_value"
        assert refused({**PROLOG, "hook": "mailprog"}).code == "unknown_hook"

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"null", b"\xff", b"[" * 100_000])
    def test_what_is_no_object(self, body: bytes) -> None:
        assert refused(body).code == "malformed"

    def test_a_form_of_too_many_fields(self) -> None:
        assert refused(b"&".join(b"a=1" for _ in range(6000)), FORM).code == "malformed"
        assert refused(b"", FORM).code == "malformed"
        assert refused(b"x=1", FORM).code == "unknown_hook"


texts = st.text() | st.sampled_from(["0", "1796036274", "-1", "1e999", "nan", "64(x8)", "0-3", "9" * 30, "1:0", "\0"])
names = st.sampled_from(sorted({*PROLOG["env"], *AFTER["env"], "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME",
                                "SLURM_JOB_COMMENT", "HALLBOOK_TIME", "SLURM_HET_JOB_OFFSET"}))  # fmt: skip
odd = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.lists(st.text(), max_size=2) | texts


@given(st.sampled_from([PROLOG, BEFORE, AFTER, EPILOG]), st.dictionaries(names | st.text(), odd, max_size=6),
       st.dictionaries(st.sampled_from(["hook", "time", "host", "args", "env"]), odd, max_size=2))  # fmt: skip
def test_any_object_is_a_sighting_or_refused(body: dict[str, Any], env: dict[str, Any], outer: dict[str, Any]) -> None:
    for item in read_hook({**body, "env": {**body["env"], **env}, **outer}):
        if isinstance(item, Draft):
            checked(item, NOON * 1_000_000)


@given(st.dictionaries(names | st.text(), texts, max_size=8), st.binary(), st.sampled_from([FORM, "", "text/plain"]))
def test_any_form_and_any_bytes_never_raise(env: dict[str, str], noise: bytes, kind: str) -> None:
    full = {**TestOtherForms.flat(AFTER), **env}
    sent = urlencode({name: value.encode("utf-8", "replace") for name, value in full.items()}).encode()
    for body in (sent, sent + noise, noise):
        for item in slurm_hook.translate(kind, {}, body):
            if isinstance(item, Draft):
                checked(item, NOON * 1_000_000)
