"""OTLP/HTTP metrics, as protobuf or JSON, also gzipped: the points of gauges and sums become samples.

* A metric keeps its OTLP name. Labels are the attributes of the resource and of the point (which wins), and the
  scope's name as `otel.scope.name`; values that are no text are written as JSON.
* A sum of deltas is another thing than a running total: its series has the label `__temporality__` = `delta`.
* A point without a recorded value is a stale marker. Times are cut to milliseconds.
* Histograms and summaries are not kept: they are counted and told to the sender as rejected points.

The messages are those of the package `opentelemetry-proto`. A door answers 200 with `answer(...)`; 503 when it cannot
keep them: only that, 429, 502 and 504 are sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from events.adapters.compression import unzipped
from events.adapters.sacct_values import Bad
from events.adapters.samples import MOST_LABELS, MOST_SERIES, Described, Samples, Unreadable, instant, known_series
from events.validate import UNREADABLE

__all__ = ["JSON", "MOST_BYTES", "PROTOBUF", "answer", "decode"]

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MOST_BYTES: Final = 4 * 1024 * 1024
"""Unpacked; what OTLP receivers take by default. An empty message takes two bytes and becomes an object of 100."""
_DELTA, _CUMULATIVE = 1, 2
_NO_VALUE: Final = 1
"""Flag of a point: nothing was recorded."""
_FIELD: Final = re.compile(r"Failed to parse (\w+) field")
_OTHERS: Final = ("histogram", "exponential_histogram", "summary")


def decode(content_type: str, headers: Mapping[str, str], body: bytes, most: int = MOST_BYTES) -> Samples:
    """The samples of a body as sent. `headers`: names in lower case. Raises Unreadable 400, 413, 415."""
    media = _media(content_type)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        body = unzipped(body, most)
    elif encoding not in ("", "identity"):
        raise Unreadable(415, "unsupported", f"content encoding {encoding} is not taken; expected gzip")
    if len(body) > most:
        raise Unreadable(413, "too_large", f"a body has at most {most:,} bytes; send less at a time")
    request = _from_json(body) if media == JSON else _from_protobuf(body)
    _bounded(request)
    out = Samples()
    for index, resource in enumerate(request.resource_metrics):
        own = _labels(resource.resource.attributes)
        for place, scope in enumerate(resource.scope_metrics):
            named = own | {"otel.scope.name": scope.scope.name}
            for number, metric in enumerate(scope.metrics):
                where = f"/resourceMetrics/{index}/scopeMetrics/{place}/metrics/{number}"
                _take(metric, named, where, out)
    return out


def answer(content_type: str, found: Samples) -> bytes:
    """The answer in the encoding of the request: empty, or how many points were rejected and why."""
    response = ExportMetricsServiceResponse()
    others = found.ignored.histograms + found.ignored.summaries
    reasons = [f"{one.pointer}: {one.text}" for one in found.refused[:3]]
    if others:
        reasons.append(f"{others} points of histograms and summaries: only gauges and sums are kept")
    if found.refused_count + others:
        response.partial_success.rejected_data_points = found.refused_count + others
        response.partial_success.error_message = "; ".join(reasons)
    if _media(content_type) == JSON:
        return str(json_format.MessageToJson(response, indent=None)).encode()
    return bytes(response.SerializeToString())


def _media(content_type: str) -> str:
    media = content_type.partition(";")[0].strip().lower()
    if media not in (PROTOBUF, JSON):
        raise Unreadable(
            415, "unsupported", f"{media or 'no content type'} is not taken; expected {PROTOBUF} or {JSON}"
        )
    return media


def _from_protobuf(body: bytes) -> Any:
    try:
        return ExportMetricsServiceRequest.FromString(body)
    except DecodeError as error:
        raise Unreadable(400, "malformed", f"the body is no ExportMetricsServiceRequest: {error}") from None


def _from_json(body: bytes) -> Any:
    try:
        said = msgspec.json.decode(body)
    except UNREADABLE as error:
        raise Unreadable(400, "malformed", f"the body is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise Unreadable(400, "malformed", "the body is no JSON object")
    try:
        return json_format.ParseDict(said, ExportMetricsServiceRequest(), ignore_unknown_fields=True)
    except (json_format.ParseError, RecursionError, TypeError, ValueError) as error:
        place = "".join(f"/{name}" for name in _FIELD.findall(str(error)))
        text = str(error).rpartition("field: ")[2].rstrip(".")
        raise Unreadable(400, "malformed", f"{place or 'the body'}: {text}"[:400], place) from None


def _bounded(request: Any) -> None:
    """Raises Unreadable 413 where the lists are longer than any sender's."""
    scopes = len(request.resource_metrics)
    if scopes <= MOST_SERIES:
        scopes += sum(len(one.scope_metrics) for one in request.resource_metrics)
    if scopes <= MOST_SERIES:
        scopes += sum(len(scope.metrics) for one in request.resource_metrics for scope in one.scope_metrics)
    if scopes > MOST_SERIES:
        raise Unreadable(413, "too_many", f"a body has at most {MOST_SERIES:,} metrics; send less at a time")


def _take(metric: Any, labels: dict[str, str], where: str, out: Samples) -> None:
    """Keep the points of a gauge or a sum, count those of other kinds."""
    kind = metric.WhichOneof("data")
    if kind is None:
        out.ignored.empty += 1
        return
    points = getattr(metric, kind).data_points
    if kind in _OTHERS:
        out.ignored.histograms += len(points) if kind != "summary" else 0
        out.ignored.summaries += len(points) if kind == "summary" else 0
        return
    temporality = metric.sum.aggregation_temporality if kind == "sum" else _CUMULATIVE
    rising = kind == "sum" and metric.sum.is_monotonic
    shown = "delta" if temporality == _DELTA else "counter" if rising else "gauge"
    out.described.append(Described(metric.name, shown, metric.unit, metric.description))
    fixed = labels | {"__name__": metric.name} | ({"__temporality__": "delta"} if temporality == _DELTA else {})
    for index, point in enumerate(points):
        try:
            if temporality not in (_DELTA, _CUMULATIVE):
                raise Bad("temporality_missing", "the sum does not say whether it is of deltas or a running total")
            _point(point, fixed, out)
        except Bad as bad:
            payload = f"{metric.name} {json_format.MessageToJson(point, indent=None)}" if out.telling else ""
            out.refuse(index, f"{where}/{kind}/dataPoints/{index}", bad, payload)


def _point(point: Any, fixed: dict[str, str], out: Samples) -> None:
    """Keep one point. Raises Bad."""
    t_ms = instant(point.time_unix_nano // 1_000_000)
    start = min(point.start_time_unix_nano // 1_000_000, t_ms)
    value = None
    if not point.flags & _NO_VALUE:
        told = point.WhichOneof("value")
        if told is None:
            raise Bad("value_missing", "the point has neither asInt nor asDouble")
        value = float(getattr(point, told))
    labels = fixed | _labels(point.attributes) | {"__name__": fixed["__name__"]}
    flat = tuple(part for name in sorted(labels) for part in (name, labels[name]))
    out.add(known_series(flat), t_ms, value, start)


def _labels(attributes: Sequence[Any]) -> dict[str, str]:
    """One more than is taken is enough to be refused."""
    return {one.key: _text(_plain(one.value)) for one in attributes[: MOST_LABELS + 1]}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _plain(value: Any) -> Any:
    """An AnyValue as text, truth value, number, list or object; bytes as Base64 of JSON, none as an empty text."""
    told = value.WhichOneof("value")
    if told is None:
        return ""
    found = getattr(value, told)
    if told == "array_value":
        return [_plain(one) for one in found.values]
    if told == "kvlist_value":
        return dict(_named(found.values))
    return found


def _named(pairs: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for one in pairs:
        yield one.key, _plain(one.value)
