"""What a cluster should reach, and how well a model's measured throughput grows with its GPUs. Pure rules.

Records of one cluster and model are compared with each other; see jobs.placement for the formulas.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol, TypeVar

from jobs.placement import mfu, scaling_efficiency

__all__ = ["TARGETS", "Measured", "Target", "against", "base_of", "efficiency", "mfu_of", "target"]

SOURCE: Final = "design targets of the hall (docs/goodput.md)"


class Target(NamedTuple):
    """A share that should lie in [low, high], up to so many GPUs (None: whatever the size), and where that stands.

    brief: in per cent, for the foot of a column.
    """

    measure: str
    words: str
    brief: str
    low: float
    high: float
    most_gpus: int | None
    source: str = SOURCE


TARGETS: Final = (
    Target("scaling_efficiency", "above 90 % up to 64 GPUs", "> 90", 0.90, 1.0, 64),
    Target("mfu", "40 to 60 %", "40 to 60", 0.40, 0.60, None),
    Target("communication", "below 5 % up to 32 GPUs", "< 5", 0.0, 0.05, 32),
)
"""What the hall was designed for."""


def target(measure: str) -> Target:
    """The target of a measure. Raises StopIteration for one without."""
    return next(one for one in TARGETS if one.measure == measure)


def against(measure: str, value: float | None, gpus: int) -> str:
    """`met`, `missed` (worse), `above` (better than was expected: look at the inputs), or '' where none applies.

    A larger run that does as well as a smaller one should has met the target too; a worse one has not missed it.
    """
    if value is None:
        return ""
    aim = target(measure)
    if _worse(measure, value, aim):
        return "" if aim.most_gpus is not None and gpus > aim.most_gpus else "missed"
    return "above" if measure != "communication" and value > aim.high else "met"


def _worse(measure: str, value: float, aim: Target) -> bool:
    """Above 90 % and below 5 % leave their edges out; 40 to 60 % has them in."""
    if measure == "communication":
        return value >= aim.high
    return value <= aim.low if measure == "scaling_efficiency" else value < aim.low


class Measured(Protocol):
    """A record, as far as the rules look at it."""

    cluster: str
    model: str
    precision: str
    measured: datetime
    gpus: int
    milli_tokens_per_second: int
    flop_per_token: int | None
    peak_gflops: int | None


Record = TypeVar("Record", bound=Measured)


def comparable(record: Measured) -> Hashable:
    """What two records must have in common."""
    return record.cluster, record.model, record.precision


def base_of(record: Measured, records: Sequence[Record]) -> Record:
    """What a record is compared with: of those with the fewest GPUs the one measured nearest in time.

    Of two as near the earlier one. records: that count, itself among them.
    """
    alike = [one for one in records if comparable(one) == comparable(record)]
    fewest = min(one.gpus for one in alike)
    return min(
        (one for one in alike if one.gpus == fewest),
        key=lambda one: (abs((one.measured - record.measured).total_seconds()), one.measured),
    )


def efficiency(record: Measured, base: Measured) -> float:
    """Throughput per GPU against that of the base: 1 for itself."""
    return scaling_efficiency(record.gpus, record.milli_tokens_per_second, base.gpus, base.milli_tokens_per_second)


def mfu_of(record: Measured) -> float | None:
    """Model FLOPs utilisation of a record; None where it does not tell the inputs."""
    if record.flop_per_token is None or record.peak_gflops is None:
        return None
    tokens = record.milli_tokens_per_second / 1000
    return mfu(tokens, record.flop_per_token, record.gpus, record.peak_gflops * 1e9)
