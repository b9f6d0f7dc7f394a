"""Samples of metrics in columns, as every telemetry adapter gives them, and what makes a label set a series.

A stale marker (the series ended) is the value None, never a number. Instants are milliseconds since 1970 UTC.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from events.adapters import Refusal
from events.adapters.sacct_values import Bad, shown
from events.validate import refusal

__all__ = ["LATEST_MS", "LONGEST_REMEMBERED", "MOST_LABELS", "MOST_NAME", "MOST_REFUSALS", "MOST_REMEMBERED",
           "MOST_SAMPLES", "MOST_SERIES", "MOST_VALUE", "STALE_BITS", "Described", "Ignored", "Samples", "Series",
           "Unreadable", "instant", "known_series", "make_series"]  # fmt: skip

STALE_BITS: Final = b"\x02\x00\x00\x00\x00\x00\xf0\x7f"
"""The one NaN (0x7ff0000000000002, little endian) by which Prometheus says that a series ended."""
LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
MOST_SERIES: Final = 50_000
MOST_SAMPLES: Final = 200_000
MOST_LABELS: Final = 128
MOST_NAME: Final = 256
"""Characters of a label's name or a metric's."""
MOST_VALUE: Final = 4_096
MOST_REFUSALS: Final = 100
"""Refusals of one body that are told one by one; the others are counted."""
MOST_REMEMBERED: Final = 1 << 15
"""Label sets that are remembered: those of some 1,500 GPUs, about 30 MB."""
LONGEST_REMEMBERED: Final = 2_048
"""Characters of a label set that is remembered; those of DCGM have some 500."""
_METRIC: Final = "__name__"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Unreadable(Exception):
    """A body that is refused as a whole.

    status: 400 malformed, 413 beyond a bound, 415 another protocol. place: where, as a JSON pointer ('' is the whole).
    """

    def __init__(self, status: int, code: str, text: str, place: str = "") -> None:
        super().__init__(text)
        self.status, self.code, self.text, self.place = status, code, text, place


class Series(msgspec.Struct, frozen=True, gc=False):
    """One label set. id: 16 bytes, the same for the same labels in whatever order, of whatever protocol.

    labels: name, value, name, value, ... sorted by name, without the metric's name and without empty values.
    """

    id: bytes
    metric: str
    labels: tuple[str, ...]

    def named(self) -> dict[str, str]:
        """The labels by name."""
        return dict(zip(self.labels[::2], self.labels[1::2], strict=True))


class Described(msgspec.Struct, frozen=True, gc=False):
    """What a source says about a family of metrics: its kind (`counter`, `gauge`, ...), unit and help."""

    family: str
    kind: str
    unit: str
    help: str


@dataclass(slots=True)
class Ignored:
    """What was read and is not kept by design, counted."""

    histograms: int = 0
    exemplars: int = 0
    summaries: int = 0
    empty: int = 0
    """Series with nothing in them."""


@dataclass(slots=True)
class Samples:
    """The samples of one body in columns of equal length, and what else it held.

    start_ms: since when a counter counts, 0 where the source does not tell. refused: single series or points that
    cannot be kept, at most MOST_REFUSALS of them; refused_count: all samples that are lost by that.
    """

    series: list[Series] = field(default_factory=list)
    t_ms: list[int] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)
    start_ms: list[int] = field(default_factory=list)
    described: list[Described] = field(default_factory=list)
    ignored: Ignored = field(default_factory=Ignored)
    refused: list[Refusal] = field(default_factory=list)
    refused_count: int = 0

    def __len__(self) -> int:
        return len(self.t_ms)

    @property
    def stale(self) -> int:
        """How many of the samples are stale markers."""
        return self.value.count(None)

    def distinct(self) -> dict[bytes, Series]:
        """The series that occur, by id: rows of a table of series."""
        return {one.id: one for one in self.series}

    def rows(self) -> Iterator[tuple[bytes, int, float | None, int | None]]:
        """Rows for a staging table: series id, t_ms, value (None: stale marker), start_ms (None: not told)."""
        for series, t_ms, value, start in zip(self.series, self.t_ms, self.value, self.start_ms, strict=True):
            yield series.id, t_ms, value, start or None

    def add(self, series: Series, t_ms: int, value: float | None, start_ms: int = 0) -> None:
        """One more sample. Raises Unreadable beyond MOST_SAMPLES."""
        if len(self.t_ms) >= MOST_SAMPLES:
            raise Unreadable(413, "too_many", f"a body has at most {MOST_SAMPLES:,} samples; send less at a time")
        self.series.append(series)
        self.t_ms.append(t_ms)
        self.value.append(value)
        self.start_ms.append(start_ms)

    @property
    def telling(self) -> bool:
        """Whether a further refusal is told, not only counted."""
        return len(self.refused) < MOST_REFUSALS

    def refuse(self, index: int, place: str, bad: Bad, payload: str, lost: int = 1) -> None:
        """Note what cannot be kept: `lost` samples at `place`."""
        self.refused_count += lost
        if self.telling:
            self.refused.append(refusal(index, place, bad.code, bad.text, payload))


def instant(t_ms: int) -> int:
    """The instant, if it is one between 1970 and 9999. Raises Bad `bad_time`."""
    if not 0 < t_ms <= LATEST_MS:
        raise Bad("bad_time", f"{t_ms} is no time; expected milliseconds since 1970 (1 to {LATEST_MS})", "timestamp")
    return t_ms


def make_series(flat: Sequence[str]) -> Series:
    """The series of labels as sent: name, value, name, value, ..., with the metric under `__name__`.

    Raises Bad `metric_missing`, `label_bad`, `label_twice`, `too_many_labels`, `too_long`; pointer: the label's name.
    """
    if len(flat) > 2 * MOST_LABELS:
        raise Bad("too_many_labels", f"{len(flat) // 2} labels; at most {MOST_LABELS} are taken")
    pairs = sorted(zip(flat[::2], flat[1::2], strict=True))
    metric, kept, last = "", [], None
    for name, value in pairs:
        if name == last:
            raise Bad("label_twice", f"the label {shown(name)} is given twice", name)
        _check(name, value)
        last = name
        if name == _METRIC:
            metric = value
        elif value:  # an empty value is no label
            kept += [name, value]
    if not metric:
        raise Bad("metric_missing", "the label __name__ is missing: which metric is it?", _METRIC)
    return Series(_identity(metric, kept), metric, tuple(kept))


def _check(name: str, value: str) -> None:
    if not name or _CONTROL.search(name):
        raise Bad("label_bad", f"{shown(name)} cannot be the name of a label", name)
    if len(name) > MOST_NAME or len(value) > (MOST_NAME if name == _METRIC else MOST_VALUE):
        raise Bad("too_long", f"the label {shown(name)} is too long: {len(name)} and {len(value)} characters", name)
    if "\0" in value or (name == _METRIC and _CONTROL.search(value)):
        raise Bad("label_bad", f"the value of {shown(name)} holds a character that no label may: {shown(value)}", name)


def _identity(metric: str, labels: Sequence[str]) -> bytes:
    """0xff is no byte of UTF-8 text, so two label sets never read the same."""
    said = b"\xff".join(text.encode() for text in (metric, *labels))
    return hashlib.blake2b(said, digest_size=16).digest()


_remembered: Final[dict[tuple[str, ...], Series]] = {}


def known_series(flat: tuple[str, ...]) -> Series:
    """As make_series, remembered: a source sends the same label sets at every scrape."""
    series = _remembered.get(flat)
    if series is None:
        series = make_series(flat)
        if sum(map(len, flat)) <= LONGEST_REMEMBERED:
            if len(_remembered) >= MOST_REMEMBERED:
                _remembered.clear()
            _remembered[flat] = series
    return series
