"""Remote write 2.0 (2.0-rc.1 to rc.4): Request {4 symbols*, 5 TimeSeries*}.

TimeSeries {1 references of labels into the symbols, 2 Sample {1 double value, 2 int64 ms, 3 int64 start ms},
3 native Histogram, 4 Exemplar, 5 Metadata {1 type, 3 help, 4 unit}, 6 int64 created ms}. Fields 1 to 3 of a Request
are reserved: a body of 1.0 has them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from events.adapters.protowire import BYTES, VARINT, Broken, fields, signed, varint
from events.adapters.remote_write_v1 import keep, kind_of, sample_of
from events.adapters.sacct_values import Bad
from events.adapters.samples import MOST_LABELS, MOST_SERIES, Described, Samples, Unreadable, known_series

__all__ = ["read"]

MOST_SYMBOLS: Final = 200_000


def read(raw: bytes) -> Samples:
    """The samples of an unpacked body. Raises Unreadable and protowire.Broken."""
    symbols: list[bytes] = []
    series: list[bytes] = []
    for number, kind, value, _ in fields(raw):
        if kind != BYTES:
            continue
        if number == 5:
            series.append(value)  # type: ignore[arg-type]
        elif number == 4:
            symbols.append(value)  # type: ignore[arg-type]
        elif number in (1, 3):
            text = "the body is remote write 1.0 and announced as 2.0; send it with its own content type"
            raise Unreadable(415, "unsupported", text)
        if len(series) > MOST_SERIES or len(symbols) > MOST_SYMBOLS:
            text = f"a body has at most {MOST_SERIES:,} series and {MOST_SYMBOLS:,} symbols; send less at a time"
            raise Unreadable(413, "too_many", text)
    texts = _texts(symbols)
    out = Samples()
    for index, one in enumerate(series):
        try:
            _one(one, index, texts, out)
        except Broken as broken:
            raise Unreadable(400, "malformed", f"series {index}: {broken}", f"/timeseries/{index}") from None
    return out


def _texts(symbols: list[bytes]) -> list[str]:
    """The table of symbols, whose first is empty. Raises Unreadable."""
    if symbols and symbols[0]:
        raise Unreadable(400, "malformed", "the first symbol is not the empty one", "/symbols/0")
    texts = []
    for index, raw in enumerate(symbols):
        try:
            texts.append(raw.decode())
        except UnicodeDecodeError:
            raise Unreadable(400, "malformed", f"symbol {index} is not UTF-8", f"/symbols/{index}") from None
    return texts


def _one(one: bytes, index: int, texts: list[str], out: Samples) -> None:
    """Read one TimeSeries; refuse it, or single samples of it, where they cannot be kept. Raises Broken."""
    refs: list[int] = []
    told: list[tuple[float | None, int, int]] = []
    created, about = 0, b""
    for number, kind, value, _ in fields(one):
        if number == 1:
            refs += _numbers(value) if isinstance(value, bytes) else [value]
        elif number == 2 and kind == BYTES:
            told.append(sample_of(value))  # type: ignore[arg-type]
        elif number == 5 and kind == BYTES:
            about = value  # type: ignore[assignment]
        elif number == 6 and kind == VARINT:
            created = signed(value)  # type: ignore[arg-type]
        out.ignored.histograms += number == 3
        out.ignored.exemplars += number == 4
    if not told:
        out.ignored.empty += all(number == 1 for number, *_ in fields(one))
        return
    try:
        flat = _flat(refs, texts)
        series = known_series(flat)
    except Bad as bad:
        sent = [texts[ref] for ref in refs[: 2 * MOST_LABELS] if ref < len(texts)] if out.telling else []
        out.refuse(index, f"/timeseries/{index}/labels_refs", bad, msgspec.json.encode(sent).decode(), len(told))
        return
    if about:
        _describe(about, series.metric, texts, out)
    keep(series, [(value, t_ms, start or created) for value, t_ms, start in told], index, out)


def _numbers(packed: bytes) -> list[int]:
    """Packed numbers; nearly always each takes one or two bytes."""
    if not packed or max(packed) < 128:
        return list(packed)
    found, at = [], 0
    while at < len(packed):
        byte = packed[at]
        if byte < 128:
            found.append(byte)
            at += 1
        else:
            number, at = varint(packed, at)
            found.append(number)
    return found


def _flat(refs: list[int], texts: list[str]) -> tuple[str, ...]:
    """The labels' names and values in turn. Raises Bad."""
    if len(refs) % 2:
        raise Bad("label_bad", f"{len(refs)} references to symbols; expected pairs of name and value")
    if len(refs) > 2 * MOST_LABELS:
        raise Bad("too_many_labels", f"{len(refs) // 2} labels; at most {MOST_LABELS} are taken")
    try:
        return tuple([texts[ref] for ref in refs])
    except IndexError:
        raise Bad("label_bad", f"a label names symbol {max(refs)}, and there are {len(texts)}") from None


def _describe(raw: bytes, metric: str, texts: list[str], out: Samples) -> None:
    """Note the metadata of a series, once for each metric in a row."""
    said = {number: value for number, kind, value, _ in fields(raw) if kind == VARINT}
    kind, help_, unit = (int(said.get(number, 0)) for number in (1, 3, 4))
    if kind == help_ == unit == 0 or (out.described and out.described[-1].family == metric):
        return
    help_text, unit_text = (texts[ref] if ref < len(texts) else "" for ref in (help_, unit))
    out.described.append(Described(metric, kind_of(kind), unit_text, help_text))
