"""Captured bodies with their headers, and messages of remote write made by Google's protobuf library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PAYLOADS = Path(__file__).parent.parent.parent / "payloads" / "telemetry"
V1 = "application/x-protobuf"
V2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"


class Body(NamedTuple):
    """One request as captured: `answered` is the status that the sender got then (0: nobody sent it)."""

    name: str
    content_type: str
    headers: dict[str, str]
    raw: bytes
    answered: int


def bodies(folder: Path, ending: str) -> Iterator[Body]:
    """The bodies of a folder whose names end so, in order of arrival."""
    for path in sorted(folder.glob(f"*{ending}")):
        about = json.loads(path.with_name(path.name.rsplit(".", 1)[0] + ".headers.json").read_text())
        headers = {name.lower(): value for name, value in about["headers"].items()}
        status = about.get("answered", {}).get("status", 0)
        yield Body(path.name, headers["content-type"], headers, path.read_bytes(), status)


def squeezed(raw: bytes) -> bytes:
    """A block of snappy."""
    return bytes(cramjam.snappy.compress_raw(raw))


_TYPES = {"double": 1, "int64": 3, "string": 9, "message": 11, "bytes": 12, "uint32": 13}


def _messages() -> dict[str, Any]:
    """Message classes of both protocols, by the published field numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="write.proto", package="w", syntax="proto3")
    shapes = {
        "Label": [("name", 1, "string", ""), ("value", 2, "string", "")],
        "Sample": [("value", 1, "double", ""), ("timestamp", 2, "int64", ""), ("start", 3, "int64", "")],
        "Anything": [("body", 15, "bytes", "")],
        "TimeSeries": [("labels", 1, "message", "*Label"), ("samples", 2, "message", "*Sample"),
                       ("exemplars", 3, "message", "*Anything"), ("histograms", 4, "message", "*Anything")],
        "About": [("type", 1, "uint32", ""), ("family", 2, "string", ""), ("help", 4, "string", ""),
                  ("unit", 5, "string", "")],
        "Write": [("timeseries", 1, "message", "*TimeSeries"), ("metadata", 3, "message", "*About")],
        "About2": [("type", 1, "uint32", ""), ("help", 3, "uint32", ""), ("unit", 4, "uint32", "")],
        "TimeSeries2": [("refs", 1, "uint32", "*"), ("samples", 2, "message", "*Sample"),
                        ("histograms", 3, "message", "*Anything"), ("exemplars", 4, "message", "*Anything"),
                        ("metadata", 5, "message", "About2"), ("created", 6, "int64", "")],
        "Request": [("symbols", 4, "string", "*"), ("timeseries", 5, "message", "*TimeSeries2")],
    }  # fmt: skip
    for name, shape in shapes.items():
        message = file.message_type.add(name=name)
        for field, number, kind, target in shape:
            many, of = target.startswith("*"), target.lstrip("*")
            message.field.add(
                name=field,
                number=number,
                type=_TYPES[kind],
                label=3 if many else 1,
                type_name=f".w.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"w.{name}")) for name in shapes}


MESSAGES = _messages()


def write_request(*series: tuple[dict[str, str], list[tuple[float, int]]]) -> bytes:
    """A packed body of 1.0, encoded by the library."""
    message = MESSAGES["Write"]()
    for labels, samples in series:
        one = message.timeseries.add()
        for name, value in labels.items():
            one.labels.add(name=name, value=value)
        for number, t_ms in samples:
            one.samples.add(value=number, timestamp=t_ms)
    return squeezed(message.SerializeToString())
