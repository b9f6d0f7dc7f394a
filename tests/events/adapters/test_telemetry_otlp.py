"""OTLP/HTTP metrics: what the OpenTelemetry SDK for Python sent, in its three encodings, and what cannot be kept."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from events.adapters import otlp
from events.adapters.otlp import JSON, PROTOBUF, answer, decode
from events.adapters.samples import Samples, Unreadable
from tests.events.adapters.telemetry import PAYLOADS, bodies

NANO = 1_796_036_400_000_000_000


def one_metric(metric: dict[str, Any], resource: list[Any] | None = None) -> bytes:
    return json.dumps({"resourceMetrics": [{"resource": {"attributes": resource or []},
                                            "scopeMetrics": [{"metrics": [metric]}]}]}).encode()  # fmt: skip


def gauge(*points: dict[str, Any]) -> Samples:
    return decode(JSON, {}, one_metric({"name": "power", "unit": "W", "gauge": {"dataPoints": list(points)}}))


def refused(body: bytes, content_type: str = JSON, **headers: str) -> Unreadable:
    with pytest.raises(Unreadable) as found:
        decode(content_type, headers, body)
    return found.value


class TestCaptures:
    def test_all_of_them(self) -> None:
        """16 gauges of GPUs and one sum; the histogram of checkpoint times is told as rejected."""
        folder = PAYLOADS / "other-clients"
        taken = [*bodies(folder, "v1_metrics.bin"), *bodies(folder, "v1_metrics.json")]
        assert len(taken) == 9
        for body in taken:
            found = decode(body.content_type, body.headers, body.raw)
            assert (len(found), found.refused_count, found.ignored.histograms) == (17, 0, 1)
            said = answer(body.content_type, found)
            if body.content_type == JSON:
                assert json.loads(said)["partialSuccess"]["rejectedDataPoints"] == "1"
            else:
                assert ExportMetricsServiceResponse.FromString(said).partial_success.rejected_data_points == 1

    def test_a_body_in_json_by_hand(self) -> None:
        """0022: 4 steps at 1796035490000828496 ns, counted since 1796035488001213109 ns."""
        (body,) = bodies(PAYLOADS / "other-clients", "0022-v1_metrics.json")
        found = decode(body.content_type, body.headers, body.raw)
        series = found.series[0]
        assert (series.metric, found.value[0], found.t_ms[0], found.start_ms[0]) == (
            "training.steps", 4.0, 1_796_035_490_000, 1_796_035_488_001)  # fmt: skip
        labels = series.named()
        assert (labels["host.name"], labels["slurm.job.id"], labels["phase"]) == ("gpu001", "4101", "train")
        assert labels["otel.scope.name"] == "training"
        assert next((one.family, one.kind, one.unit) for one in found.described) == (
            "training.steps",
            "counter",
            "{step}",
        )

    def test_the_encodings_name_the_same_series(self) -> None:
        """0018 (protobuf), 0019 (the same, gzipped) and 0022 (JSON) come from one process."""
        names = ("0018-v1_metrics.bin", "0019-v1_metrics.bin", "0022-v1_metrics.json")
        series = []
        for name in names:
            (body,) = bodies(PAYLOADS / "other-clients", name)
            series.append({one.id for one in decode(body.content_type, body.headers, body.raw).series})
        assert series[0] == series[1] == series[2]
        assert len(series[0]) == 17


class TestPoints:
    def test_values(self) -> None:
        found = gauge(
            {"timeUnixNano": str(NANO), "asInt": "-3"},
            {"timeUnixNano": str(NANO + 1_999_999), "asDouble": 640.25},
            {"timeUnixNano": str(NANO), "flags": 1},
        )
        assert list(zip(found.t_ms, found.value, strict=True)) == [
            (NANO // 10**6, -3.0), (NANO // 10**6 + 1, 640.25), (NANO // 10**6, None)]  # fmt: skip

    def test_deltas_are_another_series_than_a_running_total(self) -> None:
        point = {"timeUnixNano": str(NANO), "startTimeUnixNano": str(NANO - 5_000_000), "asInt": "3"}
        sums = [
            decode(JSON, {}, one_metric({"name": "n", "sum": {"aggregationTemporality": kind, "dataPoints": [point]}}))
            for kind in (1, 2)
        ]
        assert [one.series[0].labels for one in sums] == [("__temporality__", "delta"), ()]
        assert [one.described[0].kind for one in sums] == ["delta", "gauge"]
        assert sums[0].start_ms == [NANO // 10**6 - 5]

    def test_attributes_of_every_type(self) -> None:
        values = [{"stringValue": "a"}, {"boolValue": True}, {"intValue": "7"}, {"doubleValue": 0.5}, {},
                  {"arrayValue": {"values": [{"stringValue": "x"}, {"intValue": "1"}]}}]  # fmt: skip
        resource = [{"key": f"k{n}", "value": value} for n, value in enumerate(values)]
        metric = {"name": "n", "gauge": {"dataPoints": [{"timeUnixNano": str(NANO), "asInt": "1", "attributes": [
            {"key": "k0", "value": {"stringValue": "own"}},
            {"key": "__name__", "value": {"stringValue": "other"}}]}]}}  # fmt: skip
        (series,) = decode(JSON, {}, one_metric(metric, resource)).series
        assert series.metric == "n"
        assert series.named() == {"k0": "own", "k1": "true", "k2": "7", "k3": "0.5", "k5": '["x",1]'}

    def test_what_is_refused_says_where_and_the_rest_is_kept(self) -> None:
        found = gauge({"asInt": "1"}, {"timeUnixNano": str(NANO)}, {"timeUnixNano": str(NANO), "asInt": "1"})
        place = "/resourceMetrics/0/scopeMetrics/0/metrics/0/gauge/dataPoints"
        assert [(one.pointer, one.code) for one in found.refused] == [
            (f"{place}/0", "bad_time"),
            (f"{place}/1", "value_missing"),
        ]
        said = json.loads(answer(JSON, found))["partialSuccess"]
        assert said["rejectedDataPoints"] == "2"
        assert f"{place}/0: 0 is no time" in said["errorMessage"]
        assert found.value == [1.0]

    def test_a_sum_that_does_not_say_of_what(self) -> None:
        body = one_metric({"name": "n", "sum": {"dataPoints": [{"timeUnixNano": str(NANO), "asInt": "1"}]}})
        assert [one.code for one in decode(JSON, {}, body).refused] == ["temporality_missing"]

    def test_nothing_to_complain_of_is_an_empty_answer(self) -> None:
        found = gauge({"timeUnixNano": str(NANO), "asInt": "1"})
        assert (answer(JSON, found), answer(PROTOBUF, found)) == (b"{}", b"")

    def test_summaries_are_counted(self) -> None:
        found = decode(JSON, {}, one_metric({"name": "n", "summary": {"dataPoints": [{}, {}]}}))
        assert found.ignored.summaries == 2


class TestBad:
    def test_types_and_encodings(self) -> None:
        assert refused(b"{}", "text/plain").status == 415
        assert refused(b"{}", **{"content-encoding": "br"}).status == 415
        assert decode("application/json; charset=utf-8", {"content-encoding": ""}, b"{}").value == []

    def test_malformed(self) -> None:
        for body in (b"", b"[]", b"{", b"[" * 100_000):
            assert (refused(body).status, refused(body).code) == (400, "malformed")
        assert refused(b"\x0a\x05a", PROTOBUF).status == 400
        assert refused(b"{}", **{"content-encoding": "gzip"}).code == "malformed"
        assert refused(gzip.compress(b"{}")[:-4], **{"content-encoding": "gzip"}).text == "the gzip body is cut short"

    def test_a_wrong_field_is_named(self) -> None:
        found = refused(one_metric({"name": "x", "gauge": {"dataPoints": [{"timeUnixNano": "soon"}]}}))
        assert found.place == "/resourceMetrics/scopeMetrics/metrics/dataPoints/timeUnixNano"

    def test_bombs(self) -> None:
        """4 MiB are taken; no zipped body is unpacked beyond, and empty messages are counted before they are read."""
        assert refused(gzip.compress(b" " * 50_000_000), **{"content-encoding": "gzip"}).status == 413
        assert refused(b" " * (otlp.MOST_BYTES + 1)).status == 413
        assert refused(b"\x0a\x00" * 100_000, PROTOBUF).code == "too_many"
        many = ExportMetricsServiceRequest()
        scope = many.resource_metrics.add().scope_metrics.add()
        for _ in range(60_000):
            scope.metrics.add()
        assert refused(many.SerializeToString(), PROTOBUF).code == "too_many"

    def test_more_attributes_than_labels(self) -> None:
        resource = [{"key": f"k{n}", "value": {"intValue": "1"}} for n in range(1_000)]
        metric = {"name": "n", "gauge": {"dataPoints": [{"timeUnixNano": str(NANO), "asInt": "1"}]}}
        assert [one.code for one in decode(JSON, {}, one_metric(metric, resource)).refused] == ["too_many_labels"]
