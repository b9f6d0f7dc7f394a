"""Measured speed by REST: records and what they come to, runs and what they told. Vectors of the research note."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from events import projector
from events.append import append
from events.models import Event
from events.rebuild import compare
from events.types.clusters import ClusterDeclared
from events.types.scaling import ScalingRecorded
from jobs import actions_scaling
from jobs.models import Run, ScalingRecord, Speed
from tests.hand import gpus, job, mapped, place, project, say, tell
from tests.jobs.test_training import BEGIN, MINUTE, heard

Make = Callable[..., Client]
PATH = "/api/v1/scaling-records"
SMALL = {"cluster": "pod-a", "model": "gpt-8b", "kind": "acceptance", "measured": "2024-03-01T10:00:00+01:00",
         "gpus": 8, "tokens_per_second": "100000", "signed_by": "Ada Lovelace"}  # fmt: skip
BIG = {**SMALL, "gpus": 64, "tokens_per_second": "736000", "measured": "2024-03-01T12:00:00Z"}


def record(client: Client, body: dict[str, Any], key: str = "", status: int = 201) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    answer = client.post(PATH, body, content_type="application/json", headers=headers)
    assert answer.status_code == status, answer.content
    projector.catch_up()
    return dict(answer.json())


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """What the calls give, each in a thread of its own."""

    def done(call: Callable[[], Any]) -> Any:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(done, calls))


def rows(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"{PATH}?ordering=position{query}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["results"])


@pytest.fixture
def admin(hall: Any, caller: Make) -> Client:
    say(place(), ClusterDeclared(cluster="pod-a"), ClusterDeclared(cluster="pod-b"))
    projector.catch_up()
    return caller("admin")


def test_the_efficiency_of_the_vector(admin: Client) -> None:
    """8 GPUs 100,000 tokens/s, 64 GPUs 736,000: 92.0 %, above the 90 % of the design."""
    record(admin, SMALL)
    record(admin, BIG)
    small, big = rows(admin)
    assert big["scaling_efficiency"] == pytest.approx(0.92)
    assert (big["base"], big["base_gpus"], big["scaling_target"]) == (small["position"], 8, "met")
    assert (small["scaling_efficiency"], small["tokens_per_gpu_second"], big["tokens_per_gpu_second"]) == (
        1.0, 12_500.0, 11_500.0)  # fmt: skip
    assert (small["measured"], small["signed_by"], small["mfu"], small["mfu_target"]) == (
        "2024-03-01T09:00:00Z", "Ada Lovelace", None, "")  # fmt: skip


def test_the_mfu_of_the_vector(admin: Client) -> None:
    """593,400 tokens/s of 8e9 parameters on 64 GPUs of 989 TFLOP/s: 0.4500."""
    more = {"tokens_per_second": "593400", "flop_per_token": 48_000_000_000, "peak_gflops": 989_000,
            "convention": "6N, dense BF16", "step_seconds": "7.068", "steps": 200,
            "communication": "0.061"}  # fmt: skip
    record(admin, {**BIG, **more})
    (row,) = rows(admin)
    assert row["mfu"] == pytest.approx(0.4500, abs=5e-5)
    assert (row["mfu_target"], row["step_seconds"], row["steps"]) == ("met", 7.068, 200)
    assert (row["communication"], row["communication_target"]) == (0.061, ""), "the 5 % are meant up to 32 GPUs"


def test_targets_missed(admin: Client) -> None:
    """Of 12,500 per GPU 360,000 on 32 are exactly 90 %, 800,000 on 128 are half."""
    record(admin, {**SMALL, "communication": "0.049999"})
    record(admin, {**SMALL, "gpus": 32, "tokens_per_second": "360000", "communication": "0.05"})
    record(admin, {**SMALL, "gpus": 128, "tokens_per_second": "800000", "communication": "0.05"})
    found = rows(admin)
    assert [row["scaling_efficiency"] for row in found] == pytest.approx([1, 0.9, 0.5])
    assert [row["scaling_target"] for row in found] == ["met", "missed", ""], "above 90 %, and up to 64 GPUs"
    assert [row["communication_target"] for row in found] == ["met", "missed", ""]


def test_each_campaign_has_the_base_nearest_in_time_and_other_models_none_of_it(admin: Client) -> None:
    """A year later 8 GPUs do 90,000 and 64 do 648,000: again 90 %, not 81 % of the first year's base."""
    record(admin, SMALL)
    record(admin, BIG)
    record(admin, {**BIG, "kind": "yearly", "measured": "2025-03-02T08:00:00Z", "tokens_per_second": "648000"})
    record(admin, {**SMALL, "kind": "yearly", "measured": "2025-03-02T09:00:00Z", "tokens_per_second": "90000"})
    record(admin, {**BIG, "precision": "fp8", "tokens_per_second": "1200000"})
    assert [row["scaling_efficiency"] for row in rows(admin)] == pytest.approx([1, 0.92, 0.9, 1, 1])


def test_a_record_is_corrected_by_one_that_replaces_it(admin: Client) -> None:
    """The base was 10,000 too low: 736,000 on 64 are 83.6 % of 110,000 on 8."""
    wrong = record(admin, SMALL)["position"]
    record(admin, BIG)
    right = record(admin, {**SMALL, "tokens_per_second": "110000", "replaces": wrong})["position"]
    by_position = {row["position"]: row for row in rows(admin)}
    assert (by_position[wrong]["replaced_by"], by_position[right]["replaces"]) == (right, wrong)
    counting = rows(admin, "&counts=true")
    assert [row["tokens_per_second"] for row in counting] == [736_000, 110_000]
    assert counting[0]["scaling_efficiency"] == pytest.approx(736 / 880)
    told = record(admin, {**SMALL, "replaces": wrong}, status=409)
    assert (told["code"], str(right) in told["detail"]) == ("replaced", True)
    assert record(admin, {**SMALL, "replaces": 10**9}, status=422)["code"] == "missing"


def test_the_same_key_records_once(admin: Client) -> None:
    first = record(admin, SMALL, key="acc-8")
    assert record(admin, SMALL, key="acc-8", status=200) == {"position": first["position"], "again": True}
    assert record(admin, BIG, key="acc-8", status=422)["code"] == "key_used"
    assert ScalingRecord.objects.count() == 1
    replaced = {**SMALL, "tokens_per_second": "110000", "replaces": first["position"]}
    second = record(admin, replaced, key="acc-8b")
    assert record(admin, replaced, key="acc-8b", status=200)["position"] == second["position"]


@pytest.mark.parametrize(
    ("change", "said"),
    [({"gpus": 0}, "gpus"), ({"tokens_per_second": "0"}, "more than 0"), ({"measured": "yesterday"}, "measured"),
     ({"token_per_second": 1}, "no such field"), ({"kind": "weekly"}, "kind"), ({"signed_by": ""}, "signed_by"),
     ({"step_seconds": "0"}, "step_seconds"),
     ({"measured": "2024-03-01T10:00:00"}, "measured\",\"text\":\"this time has no zone: write 2024-03-01T10:00:00Z")],
)  # fmt: skip
def test_what_is_wrong_is_named(admin: Client, change: dict[str, Any], said: str) -> None:
    answer = admin.post(PATH, {**SMALL, **change}, content_type="application/json")
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert not ScalingRecord.objects.exists()


def test_an_mfu_needs_all_its_inputs_and_nothing_is_measured_tomorrow(admin: Client) -> None:
    told = record(admin, {**SMALL, "flop_per_token": 1}, status=422)
    assert "all three or none" in told["detail"]
    assert [one["pointer"] for one in told["errors"]] == ["/peak_gflops", "/convention"]
    told = record(admin, {**SMALL, "measured": "2199-01-01T00:00:00Z"}, status=422)
    assert "ahead of our clock" in told["detail"]
    assert [one["pointer"] for one in told["errors"]] == ["/measured"]


@pytest.mark.parametrize(
    ("change", "code", "pointers"),
    [({"cluster": "pod-z"}, "cluster", ["/cluster"]), ({"model": "gpt\u2028/8b\x1f"}, "invalid", ["/model"]),
     ({"replaces": 10**9}, "missing", ["/replaces"])],
)  # fmt: skip
def test_what_breaks_a_rule_is_named_as_it_was_sent(
    admin: Client, change: dict[str, Any], code: str, pointers: list[str]
) -> None:
    told = record(admin, {**SMALL, **change}, status=422)
    assert (told["code"], [one["pointer"] for one in told["errors"]]) == (code, pointers)
    assert all(one["text"] for one in told["errors"])
    assert not ScalingRecord.objects.exists()


def test_a_record_of_another_cluster_is_not_replaced(admin: Client) -> None:
    of_a = record(admin, SMALL)["position"]
    told = record(admin, {**SMALL, "cluster": "pod-b", "replaces": of_a}, status=422)
    assert (told["code"], told["errors"][0]["pointer"]) == ("other_cluster", "/replaces")
    assert [row["replaced_by"] for row in rows(admin)] == [None]


def test_of_two_that_replace_one_record_at_once_one_is_heard(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked before either speaks."""
    wrong = record(admin, SMALL)["position"]
    both, look = threading.Barrier(2), actions_scaling._may_be_said

    def looked(saying: Any, data: Any) -> None:
        look(saying, data)
        both.wait(20)

    monkeypatch.setattr(actions_scaling, "_may_be_said", looked)
    bodies = [{**SMALL, "tokens_per_second": tokens, "replaces": wrong} for tokens in ("110000", "120000")]
    answers = at_once([partial(admin.post, PATH, body, content_type="application/json") for body in bodies])
    monkeypatch.undo()
    projector.catch_up()
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    assert next(answer.json()["code"] for answer in answers if answer.status_code == 409) == "replaced"
    assert len(rows(admin, "&counts=true")) == 1
    assert Event.objects.filter(type="scaling.recorded").count() == 2


def test_the_same_replacement_under_one_key_at_once_is_one(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = record(admin, SMALL)["position"]
    both, look = threading.Barrier(2), actions_scaling._may_be_said

    def looked(saying: Any, data: Any) -> None:
        look(saying, data)
        both.wait(20)

    monkeypatch.setattr(actions_scaling, "_may_be_said", looked)
    send = partial(admin.post, PATH, {**SMALL, "replaces": wrong}, content_type="application/json",
                   headers={"Idempotency-Key": "twice"})  # fmt: skip
    one, other = at_once([send, send])
    assert sorted((one.status_code, other.status_code)) == [200, 201]
    assert one.json()["position"] == other.json()["position"]


def test_a_key_that_was_used_otherwise_does_not_hold_the_record(admin: Client) -> None:
    """The refused replacement leaves no claim: the right one is heard."""
    wrong = record(admin, SMALL, key="k")["position"]
    assert record(admin, {**SMALL, "gpus": 16, "replaces": wrong}, key="k", status=422)["code"] == "key_used"
    record(admin, {**SMALL, "gpus": 16, "replaces": wrong}, key="k-2")


def raw(tokens: int, cluster: str = "pod-a", replaces: int | None = None) -> int:
    """A record that came as an event, which nobody checks against the others. Its position."""
    return tell(ScalingRecorded(cluster=cluster, model="gpt-8b", kind="acceptance", gpus=8, signed_by="A",
                                milli_tokens_per_second=tokens * 1000, replaces=replaces))  # fmt: skip


def test_of_events_that_replace_one_record_the_first_counts(admin: Client) -> None:
    wrong = raw(100_000)
    first = raw(110_000, replaces=wrong)
    second = raw(120_000, replaces=wrong)
    third = raw(130_000, replaces=second)
    lost = raw(140_000, replaces=1)
    again = raw(150_000, replaces=1)
    ahead = raw(160_000, replaces=10**6)
    other = raw(170_000, "pod-b", replaces=first)
    found = {row["position"]: row["replaced_by"] for row in rows(admin)}
    assert found == {wrong: first, first: None, second: first, third: first, lost: None, again: lost, ahead: None,
                     other: None}  # fmt: skip
    told = record(admin, {**SMALL, "replaces": second}, status=409)
    assert f"position {first}" in told["detail"]
    compare([group for group in projector.groups() if group.name == "jobs"])


def test_the_log_holds_no_name(admin: Client) -> None:
    position = record(admin, {**SMALL, "note": "measured with Ada"})["position"]
    event = Event.objects.get(position=position)
    assert "Ada" not in str(event.data)
    assert rows(admin)[0]["note"] == "measured with Ada"
    assert event.occurred_at == datetime(2024, 3, 1, 9, tzinfo=UTC)


def test_as_an_event_it_is_the_same(admin: Client, caller: Make) -> None:
    body = {"specversion": "1.0", "id": "1", "source": "bench", "type": "scaling.recorded",
            "time": "2024-03-01T09:00:00Z", "data": {"cluster": "pod-a", "model": "gpt-8b", "kind": "acceptance",
            "gpus": 8, "milli_tokens_per_second": 100_000_000, "signed_by": "Ada Lovelace"}}  # fmt: skip
    answer = caller("events:write").post("/api/v1/events?atomic=1", [body],
                                         content_type="application/cloudevents-batch+json")  # fmt: skip
    assert answer.status_code == 200, answer.content
    record(admin, SMALL)
    one, two = ({name: value for name, value in row.items() if name not in ("position", "base")} for row in rows(admin))
    assert one == two


# --- what runs told ----------------------------------------------------------------------------------------------


def steps(first: float, last: float, job_id: str = "1", /, **more: Any) -> Any:
    return heard(last, "run.progressed", job_id, day="2026-03-01", step=round(last * 10), steps=60,
                 period_ms=round((last - first) * MINUTE), **more)  # fmt: skip


MODEL = {"flop_per_token": 48_000_000_000, "peak_gflops": 989_000, "convention": "6N, dense BF16"}


@pytest.fixture
def run(hall: Any) -> str:
    """A run of two jobs: on 8 GPUs 100,000 tokens/s, on 64 593,400 with an MFU of 0.45, and some that is told less."""
    say(place(), ClusterDeclared(cluster="pod-a"), project("nlp"), project("vision"),
        mapped("a", "nlp"), mapped("b", "vision"),
        job("1", BEGIN, BEGIN + 3600, run="big", **gpus(8)),
        job("2", BEGIN + 3600, BEGIN + 7200, run="big", **gpus(64)),
        job("3", BEGIN, BEGIN + 3600, account="b", **gpus(4)))  # fmt: skip
    append([
        steps(0, 10, tokens=60_000_000), steps(10, 20, communication_ppm=30_000), steps(20, 30),
        steps(60, 70, "2", tokens=356_040_000, communication_ppm=40_000, **MODEL),
        steps(70, 90, "2", tokens=712_080_000, communication_ppm=70_000, **MODEL),
        steps(90, 100, "2", tokens=356_040_000, **{**MODEL, "convention": "12 l h s"}),
        steps(0, 10, "3"),
    ])  # fmt: skip
    projector.catch_up()
    return str(Run.objects.get(name="big").id)


def test_a_run_by_number_of_gpus_and_convention(run: str, caller: Make) -> None:
    """60e6 tokens in 600 s on 8; 1,068.12e6 in 1,800 s on 64 are 593,400/s: 48e9 FLOP each over 64 x 989e12: 0.4500.

    Per GPU 12,500 and 9,271.875: 74.175 %. Communication on 64: (600 x 4 + 1,200 x 7) / 1,800 = 6 %.
    """
    body = caller("read").get(f"/api/v1/runs/{run}/speed").json()
    few, other, many = body["lines"]
    assert (few["gpus"], few["convention"], few["steps"], few["step_seconds"]) == (8, "", 180, 10.0)
    assert (few["tokens_per_second"], few["tokens_per_gpu_second"], few["mfu"]) == (100_000, 12_500, None)
    assert (few["communication"], few["scaling_efficiency"]) == (0.03, 1.0)
    assert (other["convention"], other["communication"], other["communication_target"]) == ("12 l h s", None, "")
    assert (many["gpus"], many["tokens_per_second"], many["tokens_per_gpu_second"]) == (64, 593_400, 9271.875)
    assert many["mfu"] == pytest.approx(0.4500, abs=5e-5)
    assert many["scaling_efficiency"] == pytest.approx(0.74175)
    assert (many["scaling_target"], many["mfu_target"]) == ("missed", "met")
    assert many["communication"] == pytest.approx(0.06)
    assert [one["convention"] for one in body["whole"]["mfu"]] == ["12 l h s", "6N, dense BF16"]
    assert body["gaps"] == ["placement: no data, the topology of the cluster is not known"]
    assert {one["measure"]: (one["low"], one["high"], one["most_gpus"]) for one in body["targets"]} == {
        "scaling_efficiency": (0.9, 1.0, 64), "mfu": (0.4, 0.6, None), "communication": (0.0, 0.05, 32)}  # fmt: skip


def test_rebuilt_from_the_log_records_and_speeds_are_the_same(run: str, caller: Make) -> None:
    wrong = record(caller("admin"), SMALL)["position"]
    record(caller("admin"), {**SMALL, "replaces": wrong})
    assert (ScalingRecord.objects.count(), Speed.objects.count(), bool(run)) == (2, 4, True)
    compare([group for group in projector.groups() if group.name == "jobs"])


def test_rows_of_attempts_say_how_fast_they_went(run: str, caller: Make) -> None:
    """Of two conventions in one attempt there is no MFU; of none of what an MFU needs neither."""
    client = caller("read")
    answer = client.get(f"/api/v1/goodput?run={run}&ordering=start").json()["results"]
    names = ("tokens_per_second", "tokens_per_gpu_second", "mfu", "mfu_convention", "communication")
    assert [[row[name] for name in names] for row in answer] == [
        [100_000, 12_500, None, None, 0.03], [593_400, 9271.875, None, None, pytest.approx(0.06)]]  # fmt: skip
    text = b"".join(client.get(f"/api/v1/goodput?run={run}&format=csv&fields=mfu,tokens").streaming_content).decode()
    assert next(iter(csv.reader(io.StringIO(text)))) == ["tokens", "mfu"]


def test_nobody_sees_the_speed_of_another_project_s_run(run: str, caller: Make) -> None:
    for path in ("speed", "interruptions", "advice"):
        assert caller("read", projects=("vision",)).get(f"/api/v1/runs/{run}/{path}").status_code == 404
        assert caller("read", projects=("nlp",)).get(f"/api/v1/runs/{run}/{path}").status_code == 200


@pytest.mark.usefixtures("run")
def test_a_run_that_told_only_steps_has_no_data_for_the_rest(caller: Make) -> None:
    silent = Run.objects.get(account="b")
    (line,) = caller("read").get(f"/api/v1/runs/{silent.id}/speed").json()["lines"]
    told = {name: value for name, value in line.items() if value not in (None, "")}
    assert told == {"gpus": 4, "steps": 60, "step_seconds": 10.0}
