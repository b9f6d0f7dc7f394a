"""XID faults of a GPU, found in the gauge that holds its last code (pure: no clock, no database).

The gauge never clears by itself, so a level is no fault and a change is one. What follows from that:

* A code that stays is one occurrence, whatever labels its series has meanwhile: a job that ends gives the series
  another label set, and stale markers say nothing about the GPU.
* Two equal codes in a row look like one. A code that comes back after 0 or another code is a new occurrence; one that
  is there again after a hole is the old one, since a restart of the driver would have left 0.
* A code that is there at the first sight of a GPU is of unknown age.
* The exporter makes a series for each job on the GPU, and newer ones one for each code: what they say at one instant
  is put together, 0 beside a code says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from events.types.faults import FaultSighted

__all__ = ["Occurrence", "XidSample", "XidState", "occurrences", "sightings", "state_after"]

_MOST_CODE = 9_999


class XidSample(NamedTuple):
    """What one series of the gauge says at one instant; `value` None is a stale marker."""

    t_ms: int
    value: float | None


class XidState(NamedTuple):
    """The codes that a GPU showed at an instant: what the next stretch of samples follows on."""

    t_ms: int
    codes: frozenset[int]


class Occurrence(NamedTuple):
    """One fault: it happened after `after_ms` (None: nobody knows how long before) and not later than `at_ms`.

    until_ms: when the GPU first showed something else; None while it shows this.
    """

    code: int
    after_ms: int | None
    at_ms: int
    until_ms: int | None

    def id(self, gpu: str) -> str:
        """Its name: the same for the same samples, in whatever order and however often they came."""
        return f"{gpu}/{self.code}/{self.at_ms}"


def occurrences(samples: Iterable[XidSample], before: XidState | None = None) -> list[Occurrence]:
    """The occurrences that begin in the samples of one GPU, in any order; `before`: what was shown before them.

    A code of `before` that is still shown is no new occurrence.
    """
    found: list[Occurrence] = []
    running: dict[int, int] = {}
    last, codes = (before.t_ms, before.codes) if before else (None, frozenset())
    for t_ms, shown in _instants(samples):
        if last is not None and t_ms <= last:
            continue
        for code in codes - shown:
            if code in running:
                place = running.pop(code)
                found[place] = found[place]._replace(until_ms=t_ms)
        for code in sorted(shown - codes):
            running[code] = len(found)
            found.append(Occurrence(code, last, t_ms, None))
        last, codes = t_ms, shown
    return found


def state_after(samples: Iterable[XidSample], before: XidState | None = None) -> XidState | None:
    """What the GPU showed last; `before` where the samples say nothing newer."""
    last = max(_instants(samples), default=None)
    if last is None or (before is not None and before.t_ms >= last[0]):
        return before
    return XidState(last[0], last[1])


def _instants(samples: Iterable[XidSample]) -> list[tuple[int, frozenset[int]]]:
    """Instant and codes shown then, in order; instants at which no series said anything are left out."""
    told: dict[int, set[int]] = {}
    for t_ms, value in samples:
        if value is not None and math.isfinite(value) and 0 <= value <= _MOST_CODE and value == int(value):
            told.setdefault(t_ms, set()).add(int(value))
    return [(t_ms, frozenset(codes - {0})) for t_ms, codes in sorted(told.items())]


def sightings(one: Occurrence, cluster: str, node: str | None, gpu: int | None, uuid: str) -> list[FaultSighted]:
    """The events of an occurrence: that it is there and, once it is, that the GPU shows it no more.

    Their keys: `Occurrence.id(uuid)` and the state.
    """
    firing = FaultSighted(
        cluster=cluster,
        signal="xid",
        name="XID",
        state="firing",
        started_ms=one.at_ms,
        node=node,
        gpu=gpu,
        gpu_uuid=uuid,
        xid=one.code,
        fingerprint=one.id(uuid),
    )
    if one.until_ms is None:
        return [firing]
    return [firing, _resolved(firing, one.until_ms)]


def _resolved(firing: FaultSighted, until_ms: int) -> FaultSighted:
    fields = {name: getattr(firing, name) for name in firing.__struct_fields__}
    return FaultSighted(**fields | {"state": "resolved", "ended_ms": until_ms})
