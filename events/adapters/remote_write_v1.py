"""Remote write 1.0: WriteRequest {1 TimeSeries*, 3 MetricMetadata*}.

TimeSeries {1 Label {1 name, 2 value}, 2 Sample {1 double value, 2 int64 ms}, 3 Exemplar, 4 native Histogram};
MetricMetadata {1 type, 2 family, 4 help, 5 unit}. (Field 2 of a WriteRequest is reserved, 4 and 5 are those of 2.0.)

Label sets repeat at every scrape, and a series has nearly always one sample, which stands last. So what stands before
a last field of that shape is looked up among the label sets already read. That is exact: what is remembered was read
as a sequence of whole labels, and a message is read from left to right, so the rest is the sample and nothing else.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from events.adapters.protowire import BYTES, FIXED64, VARINT, Broken, fields, signed, varint
from events.adapters.sacct_values import Bad
from events.adapters.samples import (
    LONGEST_REMEMBERED,
    MOST_LABELS,
    MOST_REMEMBERED,
    MOST_SERIES,
    STALE_BITS,
    Described,
    Samples,
    Series,
    Unreadable,
    instant,
    make_series,
)

__all__ = ["KINDS", "keep", "kind_of", "number_of", "read", "sample_of"]

KINDS: Final = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")
"""Kinds of metrics by their number, in both protocols."""
_double: Final = struct.Struct("<d")
_ZERO: Final = b"\0" * 8
_known: Final[dict[bytes, Series]] = {}


def read(raw: bytes) -> Samples:
    """The samples of an unpacked body. Raises Unreadable and protowire.Broken."""
    out = Samples()
    times: dict[bytes, int] = {}
    count, at, end = 0, 0, len(raw)
    while at < end:
        if raw[at] != 0x0A:  # not a TimeSeries
            at = _other(raw, at, out)
            continue
        count += 1
        if count > MOST_SERIES:
            raise Unreadable(413, "too_many", f"a body has at most {MOST_SERIES:,} series; send less at a time")
        size, begin = varint(raw, at + 1)
        at = begin + size
        if at > end:
            raise Broken(begin, f"series {count - 1} ends {at - end} bytes after the body")
        one = raw[begin:at]
        if not _known_one(one, times, out):
            _one(one, count - 1, out)
    return out


def _known_one(one: bytes, times: dict[bytes, int], out: Samples) -> bool:
    """Take a series of a remembered label set with one sample at its end; False: it has to be read in full."""
    if one[-18:-15] == b"\x12\x10\x09" and one[-7] == 0x10:
        series, bits = _known.get(one[:-18]), one[-15:-7]
    elif one[-9:-6] == b"\x12\x07\x10":  # a value of zero is left out
        series, bits = _known.get(one[:-9]), _ZERO
    else:
        return False
    if series is None:
        return False
    t_ms = times.get(one[-6:]) or _instant(one[-6:], times)
    if not t_ms:
        return False
    out.add(series, t_ms, None if bits == STALE_BITS else _double.unpack(bits)[0])
    return True


def _instant(said: bytes, times: dict[bytes, int]) -> int:
    """The number that these six bytes are, remembered; 0 where they are not one number."""
    if said[5] >= 128 or min(said[:5]) < 128:
        return 0
    times[said] = found = varint(said, 0)[0]
    return found


def _one(one: bytes, index: int, out: Samples) -> None:
    """Read one TimeSeries in full; refuse it, or single samples of it, where they cannot be kept."""
    labels: list[bytes] = []
    told: list[bytes] = []
    head, leading = 0, True
    try:
        for number, kind, value, after in fields(one):
            if number == 1 and kind == BYTES:
                labels.append(value)  # type: ignore[arg-type]
                head = after if leading else 0
                continue
            leading = False
            if number == 2 and kind == BYTES:
                told.append(value)  # type: ignore[arg-type]
            out.ignored.exemplars += number == 3
            out.ignored.histograms += number == 4
        _keep(labels, [sample_of(each) for each in told], index, out, one[:head])
    except Broken as broken:
        raise Unreadable(400, "malformed", f"series {index}: {broken}", f"/timeseries/{index}") from None
    out.ignored.empty += len(one) == head


def _keep(
    labels: list[bytes], told: list[tuple[float | None, int, int]], index: int, out: Samples, head: bytes
) -> None:
    """Keep the samples of a series. `head`: its labels as sent, if nothing stands between them."""
    if not told:
        return
    try:
        series = make_series(_flat(labels))
    except Bad as bad:
        sent = [each.decode("utf-8", "replace") for each in labels[: MOST_LABELS + 1]] if out.telling else []
        out.refuse(index, f"/timeseries/{index}/labels", bad, msgspec.json.encode(sent).decode(), len(told))
        return
    if 0 < len(head) <= LONGEST_REMEMBERED:
        if len(_known) >= MOST_REMEMBERED:
            _known.clear()
        _known[head] = series
    keep(series, told, index, out)


def keep(series: Series, told: list[tuple[float | None, int, int]], index: int, out: Samples) -> None:
    """Add samples (value, t_ms, start_ms) of one series; refuse those whose time is none."""
    for place, (value, t_ms, start_ms) in enumerate(told):
        try:
            out.add(series, instant(t_ms), value, instant(start_ms) if start_ms else 0)
        except Bad as bad:
            shown = msgspec.json.encode({"metric": series.metric, **series.named(), "value": str(value), "ms": t_ms})
            out.refuse(index, f"/timeseries/{index}/samples/{place}", bad, shown.decode())


def _flat(labels: list[bytes]) -> list[str]:
    """Names and values in turn. Raises Bad, and Broken where a label is no message."""
    if len(labels) > MOST_LABELS:
        raise Bad("too_many_labels", f"{len(labels)} labels; at most {MOST_LABELS} are taken")
    flat: list[str] = []
    for raw in labels:
        name, value = _parted(raw)
        flat += [_text(name), _text(value)]
    return flat


def _parted(raw: bytes) -> tuple[bytes, bytes]:
    """Name and value of a label; nearly always they follow each other and each is shorter than 128 bytes."""
    end = len(raw)
    if end > 4 and raw[0] == 0x0A and (name := 2 + raw[1]) + 1 < end and raw[name] == 0x12:
        value = name + 2
        if raw[name + 1] < 128 and value + raw[name + 1] == end:
            return raw[2:name], raw[value:]
    said = {number: value for number, kind, value, _ in fields(raw) if kind == BYTES}
    return said.get(1, b""), said.get(2, b"")  # type: ignore[return-value]


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Bad("label_bad", f"a label is not text in UTF-8: {raw!r:.80}") from None


def sample_of(raw: bytes) -> tuple[float | None, int, int]:
    """Value (None: stale marker), time and start (2.0 only; else 0) of a Sample. Raises Broken."""
    if len(raw) == 16 and raw[0] == 0x09 and raw[9] == 0x10:  # nearly always
        t_ms, end = varint(raw, 10)
        if end == 16:
            return number_of(raw[1:9]), t_ms, 0
    bits, t_ms, start = _ZERO, 0, 0
    for number, kind, value, _ in fields(raw):
        if number == 1 and kind == FIXED64:
            bits = value  # type: ignore[assignment]
        elif number == 2 and kind == VARINT:
            t_ms = signed(value)  # type: ignore[arg-type]
        elif number == 3 and kind == VARINT:
            start = signed(value)  # type: ignore[arg-type]
    return number_of(bits), t_ms, start


def number_of(bits: bytes) -> float | None:
    """A double as sent; None for the stale marker. Other NaNs stay what they are."""
    return None if bits == STALE_BITS else _double.unpack(bits)[0]


def _other(raw: bytes, at: int, out: Samples) -> int:
    """Read one field that is no TimeSeries; the offset after it. Raises Unreadable 415 on a field of 2.0."""
    number, kind, value, after = next(fields(raw, at))
    if number in (4, 5):
        text = "the body is remote write 2.0 and announced as 1.0; send it with its own content type"
        raise Unreadable(415, "unsupported", text)
    if number == 3 and kind == BYTES:
        said = {number: value for number, _, value, _ in fields(value)}  # type: ignore[arg-type]
        out.described.append(
            Described(_told(said.get(2)), kind_of(said.get(1)), _told(said.get(5)), _told(said.get(4)))
        )
    return after


def _told(raw: int | bytes | None) -> str:
    """A text that only people read."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""


def kind_of(number: int | bytes | None) -> str:
    """The kind of a metric by its number; `unknown` where there is none such."""
    return KINDS[number] if isinstance(number, int) and number < len(KINDS) else "unknown"
