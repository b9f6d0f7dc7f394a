"""The doors of telemetry: what real senders sent is staged once, and each is answered so that nothing is lost."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cramjam
import pytest
import yaml
from django.db import DataError, OperationalError, connection
from django.test import Client
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as otlp_messages

from api import telemetry, tokens
from events.access import Scope
from events.models import Delivery, Rejection, Sample, SampleSeries
from fleet.queries import sources
from tests.events.adapters.telemetry import MESSAGES, PAYLOADS, V1, V2, Body, bodies, squeezed, write_request

pytestmark = pytest.mark.django_db
Make = Callable[..., Client]
WRITE = "/api/v1/ingest/prometheus/write"
OTLP = "/api/v1/ingest/otlp/v1/metrics"
NOON = 1_796_040_000_000
"""30 November 2026, 12:00 UTC, in ms: within the hours of the captures."""
WRITTEN = "X-Prometheus-Remote-Write-Samples-Written"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipt is at noon of the day of the captures."""
    monkeypatch.setattr(telemetry, "now_us", lambda: NOON * 1000)


def post(client: Client, body: Body, path: str = WRITE) -> Any:
    headers = {name: value for name, value in body.headers.items() if name not in ("host", "authorization")}
    return client.generic("POST", path, body.raw, content_type=body.content_type, headers=headers)


def send(client: Client, raw: bytes, kind: str = V1, path: str = WRITE, **headers: str) -> Any:
    told = {"content-encoding": "snappy"} if path == WRITE else {}
    return client.generic("POST", path, raw, content_type=kind, headers=told | headers)


def rows() -> list[tuple[Any, ...]]:
    """All that is staged, as text: NaN is equal to itself there."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT s.metric, s.labels::text, t_ms, value::text, start_ms FROM events_sample e
               JOIN events_sampleseries s ON s.shard = e.shard AND s.id = e.series ORDER BY 1, 2, 3"""
        )
        return list(cursor.fetchall())


def counted() -> dict[tuple[str, str], tuple[int, int, int, int]]:
    found = sources(Scope.everything())
    return {(one.source, one.kind): (one.deliveries, one.accepted, one.duplicate, one.rejected) for one in found}


class TestTheRunOfPrometheus:
    """One run of Prometheus 2.42; the counts are those of expected.json and of the README beside it."""

    def test_what_was_accepted_then_is_staged_once_and_again_changes_nothing(self, caller: Make, data: Path) -> None:
        expected = json.loads((data / "telemetry" / "expected.json").read_text())["counts"]
        taken = [one for one in bodies(data / "telemetry" / "prometheus-run", "-rw.bin") if one.answered == 204]
        assert len(taken) == expected["requests_answered_204"]
        client = caller("events:write")
        assert {post(client, one).status_code for one in taken} == {204}
        found = rows()
        assert len(found) == expected["distinct_samples"]
        assert SampleSeries.objects.count() == expected["distinct_series"]
        first = (196, expected["distinct_samples"], expected["samples_accepted_again"], 0)
        assert _sum(counted()) == first
        assert {post(client, one).status_code for one in taken} == {204}
        assert rows() == found
        assert _sum(counted()) == (392, first[1], first[2] + expected["samples_accepted"], 0)
        assert not Rejection.objects.exists()
        assert not Delivery.objects.exists()  # the bodies are not kept, their samples are

    def test_all_that_was_sent_in_any_order_is_the_same(self, caller: Make, data: Path) -> None:
        """The README: 269 samples were lost by a 429 and 264 by a 400; here they are not."""
        expected = json.loads((data / "telemetry" / "expected.json").read_text())["counts"]
        sent = list(bodies(data / "telemetry" / "prometheus-run", "-rw.bin"))
        client = caller("events:write")
        assert {post(client, one).status_code for one in sent} == {204}
        found = rows()
        assert len(found) == expected["distinct_samples"] + 269 + 264
        Sample.objects.all().delete()
        SampleSeries.objects.all().delete()
        random.Random(5).shuffle(sent)
        assert {post(client, one).status_code for one in sent} == {204}
        assert rows() == found


def _sum(counts: dict[tuple[str, str], tuple[int, int, int, int]]) -> tuple[int, ...]:
    """Bodies of metadata alone name no cluster: they are of the source `prometheus`."""
    assert set(counts) <= {("prometheus:pod-a", "remote-write"), ("prometheus", "remote-write")}
    return tuple(map(sum, zip(*counts.values(), strict=True)))


def points(taken: Iterable[Body]) -> set[tuple[Any, ...]]:
    """The samples of bodies of 1.0 as Google's library reads them."""
    found = set()
    for one in taken:
        message = MESSAGES["Write"].FromString(bytes(cramjam.snappy.decompress_raw(one.raw)))
        for series in message.timeseries:
            labels = tuple(sorted((label.name, label.value) for label in series.labels if label.value))
            found |= {(labels, sample.timestamp) for sample in series.samples}
    return found


@pytest.mark.parametrize("ending", ["[0-9]-rw.bin", "-otel-rw.bin"])
def test_bodies_of_other_clients_are_staged_whole(caller: Make, ending: str) -> None:
    taken = list(bodies(PAYLOADS / "other-clients", ending))
    assert len(taken) == {"[0-9]-rw.bin": 15, "-otel-rw.bin": 3}[ending]
    client = caller("events:write")
    for _ in range(2):
        assert {post(client, one).status_code for one in taken} == {204}
        found = {(*row[:3],) for row in rows()}
        wanted = points(taken)
        assert len(found) == len(rows()) == len(wanted) > 0
        assert {(dict(labels)["__name__"], t_ms) for labels, t_ms in wanted} == {(row[0], row[2]) for row in found}
        random.Random(3).shuffle(taken)


def test_stale_markers_are_no_numbers(caller: Make) -> None:
    """The README of the capture: vmagent sent 152 of them in one body, when its target was taken away."""
    (body,) = bodies(PAYLOADS / "other-clients", "0013-rw.bin")
    assert post(caller("events:write"), body).status_code == 204
    assert Sample.objects.filter(value=None).count() == 152


def test_bodies_of_2_0_say_how_much_was_written(caller: Make) -> None:
    """As many as its message has by Google's library; a second time they are written all the same."""
    client = caller("events:write")
    for body in bodies(PAYLOADS / "constructed", ".bin"):
        message = MESSAGES["Request"].FromString(bytes(cramjam.snappy.decompress_raw(body.raw)))
        wanted = sum(len(series.samples) for series in message.timeseries)
        before = Sample.objects.count()
        for _ in range(2):
            answer = post(client, body)
            assert (answer.status_code, answer[WRITTEN]) == (204, str(wanted))
            assert answer["X-Prometheus-Remote-Write-Histograms-Written"] == "0"
        assert Sample.objects.count() == before + wanted


@pytest.mark.parametrize("ending", ["-v1_metrics.bin", "-v1_metrics.json"])
def test_what_opentelemetry_exports_is_answered_in_its_encoding(caller: Make, ending: str) -> None:
    """Gauges and sums as Google's library counts them; its histogram is told as partial success."""
    client = caller("events:write")
    taken = list(bodies(PAYLOADS / "other-clients", ending))
    assert len(taken) == {"-v1_metrics.bin": 6, "-v1_metrics.json": 3}[ending]
    for body in taken:
        answer = post(client, body, OTLP)
        assert (answer.status_code, answer["Content-Type"]) == (200, body.content_type)
    staged = rows()
    for body in taken:
        post(client, body, OTLP)
    assert rows() == staged != []


def test_json_and_protobuf_of_opentelemetry_are_the_same_samples(caller: Make) -> None:
    client = caller("events:write")
    said = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "power", "gauge": {"dataPoints": [{"timeUnixNano": f"{NOON}000000", "asDouble": 412.5}]}},
        {"name": "wait", "histogram": {"dataPoints": [{"timeUnixNano": f"{NOON}000000", "count": "3"}]}},
    ]}]}]}  # fmt: skip
    answer = send(client, json.dumps(said).encode(), "application/json", OTLP)
    assert answer.json()["partialSuccess"]["rejectedDataPoints"] == "1"
    assert rows() == [("power", "{}", NOON, "412.5", None)]
    message = otlp_messages.ExportMetricsServiceRequest()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name="power")
    metric.gauge.data_points.add(time_unix_nano=NOON * 1_000_000, as_double=412.5)
    raw = gzip.compress(message.SerializeToString())
    answer = send(client, raw, "application/x-protobuf", OTLP, **{"content-encoding": "gzip"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert len(rows()) == 1


def test_clocks_are_refused_beyond_five_minutes_ahead_and_two_days_behind(caller: Make) -> None:
    client = caller("events:write")
    minute, day = 60_000, 86_400_000
    times = [NOON + 5 * minute, NOON + 5 * minute + 1, NOON, NOON - 2 * day, NOON - 2 * day - 1, NOON - 3 * day]
    raw = write_request(({"__name__": "up", "instance": "gpu001:9400", "cluster": "a"}, [(1.0, at) for at in times]))
    answer = send(client, raw)
    assert (answer.status_code, answer[WRITTEN]) == (400, "3")
    assert [one["code"] for one in answer.json()["errors"]] == ["clock_ahead", "too_late"]
    assert [row[2] for row in rows()] == sorted([NOON + 5 * minute, NOON, NOON - 2 * day])
    assert counted() == {("prometheus:a", "remote-write"): (1, 3, 0, 3)}
    send(client, raw)
    told = Rejection.objects.order_by("code").values_list("code", "source", "state")
    assert list(told) == [("clock_ahead", "prometheus:a", "open"), ("too_late", "prometheus:a", "open")]
    assert "gpu001:9400" in Rejection.objects.get(code="clock_ahead").text


def test_another_value_at_the_same_time_is_refused_and_seen(caller: Make) -> None:
    client = caller("events:write")
    labels = {"__name__": "power", "instance": "gpu001:9400"}
    assert send(client, write_request((labels, [(400.0, NOON)]))).status_code == 204
    answer = send(client, write_request((labels, [(500.0, NOON), (401.0, NOON + 1)])))
    assert (answer.status_code, answer[WRITTEN]) == (400, "1")
    assert [(row[2], row[3]) for row in rows()] == [(NOON, "400"), (NOON + 1, "401")]
    assert [one.code for one in Rejection.objects.all()] == ["other_value"]


def test_a_bad_series_does_not_cost_the_others(caller: Make) -> None:
    raw = write_request(({"instance": "gpu001:9400"}, [(1.0, NOON)]), ({"__name__": "up"}, [(1.0, NOON)]))
    answer = send(caller("events:write"), raw)
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["errors"][0]["code"] == "metric_missing"
    assert [row[0] for row in rows()] == ["up"]
    assert Rejection.objects.get().pointer.startswith("/timeseries/0")


def test_rejections_of_one_source_have_a_bound_and_the_count_none(
    caller: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("events.staging.MOST_OPEN", 3)
    bad = [({"a": str(number)}, [(1.0, NOON)]) for number in range(5)]
    assert send(caller("events:write"), write_request(*bad)).status_code == 400
    assert Rejection.objects.count() == 3
    assert counted() == {("prometheus", "remote-write"): (1, 0, 0, 5)}


@pytest.mark.parametrize(
    ("path", "kind", "raw", "headers", "status"),
    [
        (WRITE, "application/x-protobuf;proto=io.prometheus.write.v3.Request", b"", {}, 415),
        (WRITE, "application/json", b"{}", {}, 415),
        (WRITE, V1, b"", {"content-encoding": "zstd"}, 415),
        (WRITE, V1, b"\xff\xff\xff\xff\x7f", {}, 413),
        (WRITE, V1, b"not snappy", {}, 400),
        (WRITE, V2, squeezed(b"\x0f"), {}, 400),
        (OTLP, "application/json", b"{", {}, 400),
        (OTLP, "text/plain", b"", {}, 415),
        (OTLP, "application/x-protobuf", b"\xff", {}, 400),
    ],
)
def test_what_can_never_be_taken_is_final_and_seen(
    caller: Make, path: str, kind: str, raw: bytes, headers: dict[str, str], status: int
) -> None:
    client = caller("events:write")
    for _ in range(2):
        answer = send(client, raw, kind, path, **headers)
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    (row,) = Rejection.objects.all()
    assert (row.code, row.text) == (answer.json()["code"], answer.json()["detail"])
    assert [one[0] for one in counted().values()] == [2]
    assert rows() == []


def test_a_body_over_the_cap_is_413(caller: Make, settings: Any) -> None:
    settings.INGEST_MAX_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert send(caller("events:write"), write_request(({"__name__": "up"}, [(1.0, NOON)]))).status_code == 413


class TestWhatPassesIsNever4xx:
    """Prometheus drops a batch on any 4xx, and sends it again on 503."""

    raw = write_request(({"__name__": "up"}, [(1.0, NOON)]))

    def test_a_token_that_was_one_is_503_and_one_that_never_was_is_401(self) -> None:
        _, old = tokens.create("old", ["events:write"])
        _, new = tokens.create("new", ["events:write"])
        known = [Client(HTTP_AUTHORIZATION=f"Bearer {secret}") for secret in (old, new)]
        assert [send(client, self.raw).status_code for client in known] == [204, 204]
        tokens.revoke("old")
        answers = [send(client, self.raw) for client in known]
        assert [answer.status_code for answer in answers] == [503, 204]
        assert answers[0]["Retry-After"] == "60"
        for client in (Client(), Client(HTTP_AUTHORIZATION="Bearer hb_never")):
            assert send(client, self.raw).status_code == 401

    def test_an_expired_token_is_503(self) -> None:
        token, secret = tokens.create("short", ["events:write"], expires_days=1)
        token.expires_at = token.created_at
        token.save()
        assert send(Client(HTTP_AUTHORIZATION=f"Bearer {secret}"), self.raw).status_code == 503

    def test_a_revoked_token_is_still_401_at_other_doors(self) -> None:
        _, secret = tokens.create("gone", ["admin"])
        tokens.revoke("gone")
        assert Client(HTTP_AUTHORIZATION=f"Bearer {secret}").get("/api/v1/tokens").status_code == 401

    @pytest.mark.parametrize("error", [OperationalError("away"), RuntimeError("nobody foresaw it")])
    @pytest.mark.parametrize("path", [WRITE, OTLP])
    def test_a_database_that_is_away_and_what_nobody_foresaw(
        self, caller: Make, monkeypatch: pytest.MonkeyPatch, path: str, error: Exception
    ) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(telemetry, "stage", fail)
        kind, raw = (V1, self.raw) if path == WRITE else ("application/json", b"{}")
        answer = send(caller("events:write"), raw, kind, path)
        assert answer.status_code == 503
        assert int(answer["Retry-After"]) > 0
        assert not Rejection.objects.exists()

    def test_too_many_at_once(self, caller: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(telemetry, "WAIT_SECONDS", 0.01)
        client = caller("events:write")
        with telemetry._turn(), telemetry._turn():
            assert send(client, self.raw).status_code == 503
        assert send(client, self.raw).status_code == 204

    def test_what_the_database_refuses_is_final(self, caller: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise DataError("no such text")

        monkeypatch.setattr(telemetry, "stage", fail)
        assert send(caller("events:write"), self.raw).status_code == 400
        assert Rejection.objects.get().code == "bad_data"


def test_the_snippet_for_prometheus_leads_to_the_door() -> None:
    text = (Path(__file__).parent.parent.parent / "deploy" / "prometheus" / "remote_write.yml").read_text()
    (write,) = yaml.safe_load(text)["remote_write"]
    assert write["url"] == "https://hallbook.example.org" + WRITE
    kept = re.compile(write["write_relabel_configs"][0]["regex"])
    wanted = ("DCGM_FI_DEV_POWER_USAGE", "facility_leak_detected", "node_chassis_power_watts", "up")
    assert [name for name in (*wanted, "go_goroutines", "upper") if kept.fullmatch(name)] == list(wanted)
