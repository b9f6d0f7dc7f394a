"""Prometheus remote write, 1.0 and 2.0: which of the two a body is, and its samples.

What a door must answer (a sender drops a batch on any 4xx and repeats it on 5xx): `Unreadable.status` for a body that
is refused whole; else, once the samples are durable, `status(...)` with `written(...)` as headers of 2.0.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from events.adapters import remote_write_v1, remote_write_v2
from events.adapters.compression import MOST_BYTES, unsnapped
from events.adapters.protowire import Broken
from events.adapters.samples import Samples, Unreadable

__all__ = ["Protocol", "decode", "negotiated", "status", "written"]


class Protocol(enum.Enum):
    """The two protocols, by the name of their message."""

    V1 = "prometheus.WriteRequest"
    V2 = "io.prometheus.write.v2.Request"


_MEDIA: Final = "application/x-protobuf"
_READERS: Final = {Protocol.V1: remote_write_v1.read, Protocol.V2: remote_write_v2.read}


def negotiated(content_type: str, headers: Mapping[str, str]) -> Protocol:
    """Which protocol is announced. `headers`: names in lower case. Raises Unreadable 415.

    A body without a Content-Encoding is taken for snappy, which is the only one there is.
    """
    encoding = headers.get("content-encoding", "snappy").strip().lower()
    if encoding != "snappy":
        raise Unreadable(415, "unsupported", f"content encoding {encoding} is not taken; expected snappy")
    media, *parameters = (part.strip() for part in content_type.split(";"))
    if media.lower() != _MEDIA:
        raise Unreadable(415, "unsupported", f"{media or 'no content type'} is not taken; expected {_MEDIA}")
    said = dict(part.partition("=")[::2] for part in parameters)
    proto = {name.strip().lower(): value.strip().strip('"') for name, value in said.items()}.get("proto")
    try:
        return Protocol(proto) if proto is not None else Protocol.V1
    except ValueError:
        known = " and ".join(one.value for one in Protocol)
        raise Unreadable(415, "unsupported", f"the message {proto} is not taken; known are {known}") from None


def decode(content_type: str, headers: Mapping[str, str], body: bytes, most: int = MOST_BYTES) -> Samples:
    """The samples of a body as sent; `most`: bytes that it may unpack to. Raises Unreadable 400, 413, 415."""
    reader = _READERS[negotiated(content_type, headers)]
    raw = unsnapped(body, most)
    try:
        return reader(raw)
    except Broken as broken:
        raise Unreadable(400, "malformed", f"the body is no message of remote write: {broken}") from None


def status(found: Samples) -> int:
    """204, or 400 where a part could not be kept: the sender must not repeat it, and its log shows it."""
    return 400 if found.refused_count else 204


def written(found: Samples) -> dict[str, str]:
    """The headers by which 2.0 learns how much was kept; native histograms and exemplars never are."""
    name = "X-Prometheus-Remote-Write-"
    counts = {"Samples": len(found), "Histograms": 0, "Exemplars": 0}
    return {f"{name}{what}-Written": str(count) for what, count in counts.items()}
