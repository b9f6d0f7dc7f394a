"""How fast a training program went: tokens per second and per GPU, MFU, share of communication. Pure rules.

All from sums over its reports of progress, each only over those that tell what it needs. Reports are kept apart by the
number of GPUs and by the convention of their MFU, which is comparable within one convention only. Every step counts
that was done, also those that were lost later: speed is of the machine, goodput is of the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from jobs.goodput import Size

__all__ = ["CHANGED", "MICRO", "Key", "Sums", "added", "sums_of"]

CHANGED: Final = 0
"""In place of a number of GPUs, of reports during which it changed."""
MICRO: Final = 10**6


class Key(NamedTuple):
    """What is kept apart. convention: '' where none is stated, or where there is no MFU to state one for."""

    gpus: int
    convention: str


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over reports; each is an exact integer. tokens, tokens_ms, tokens_gpu_ms: of those that tell tokens.

    flop, capacity (millions of operations), mfu_ms: of those that tell all that an MFU needs. communication_ns of
    told_communication_ms: of those that tell its share. steps, period_ms: of all.
    """

    steps: int = 0
    period_ms: int = 0
    tokens: int = 0
    tokens_ms: int = 0
    tokens_gpu_ms: int = 0
    flop: int = 0
    capacity: int = 0
    mfu_ms: int = 0
    communication_ns: int = 0
    told_communication_ms: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Sums)))

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a step; None without one."""
        return self.period_ms / 1000 / self.steps if self.steps else None

    @property
    def tokens_per_second(self) -> float | None:
        """Of all GPUs together; None where no tokens were told."""
        return self.tokens * 1000 / self.tokens_ms if self.tokens_ms else None

    @property
    def tokens_per_gpu_second(self) -> float | None:
        """Of one GPU."""
        return self.tokens * 1000 / self.tokens_gpu_ms if self.tokens_gpu_ms else None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs over what the GPUs could have done at their peak; None where its inputs were not told."""
        return self.flop / (self.capacity * MICRO) if self.capacity else None

    @property
    def communication(self) -> float | None:
        """Share of the time in communication between ranks; None where it was not told."""
        return self.communication_ns / (self.told_communication_ms * MICRO) if self.told_communication_ms else None


def added(parts: Iterable[Sums]) -> Sums:
    """Of all together: meaningful for one convention, or for what does not depend on it."""
    return sum(parts, Sums())


def sums_of(sizes: Sequence[Size], reports: Iterable[tuple[int, Any]]) -> Mapping[Key, Sums]:
    """Sums by number of GPUs and convention. reports: (end in epoch milliseconds, data of a run.progressed).

    The first and the last size reach beyond the attempt: clocks of nodes differ, and no report is shortened for it.
    """
    found: dict[Key, Sums] = {}
    for end, data in reports:
        gpus, gpu_ms = _held(sizes, end - data.period_ms, end)
        key, sums = _report(gpus, gpu_ms, data)
        found[key] = found.get(key, Sums()) + sums
    return found


def _held(sizes: Sequence[Size], start: int, end: int) -> tuple[int, int]:
    """The number of GPUs over a stretch, or CHANGED, and the GPU-milliseconds that it held."""
    edges = [size.start for size in sizes[1:]]
    parts = [
        (max(0, min(end, until) - max(start, since)), size.gpus)
        for size, since, until in zip(sizes, [start, *edges], [*edges, end], strict=True)
    ]
    counts = {gpus for spent, gpus in parts if spent}
    gpu_ms = sum(spent * gpus for spent, gpus in parts)
    return (counts.pop() if len(counts) == 1 else CHANGED), gpu_ms


def _report(gpus: int, gpu_ms: int, data: Any) -> tuple[Key, Sums]:
    """What one report adds, and to which sums."""
    period = data.period_ms
    measured = None not in (data.tokens, data.flop_per_token, data.peak_gflops) and bool(data.peak_gflops and gpu_ms)
    told, communication = data.tokens is not None, data.communication_ppm
    sums = Sums(
        data.steps, period, data.tokens or 0, period if told else 0, gpu_ms if told else 0,
        data.tokens * data.flop_per_token if measured else 0, data.peak_gflops * gpu_ms if measured else 0,
        period if measured else 0, period * (communication or 0), 0 if communication is None else period,
    )  # fmt: skip
    return Key(gpus, (data.convention or "").strip() if measured else ""), sums
