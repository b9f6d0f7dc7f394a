"""Where the allocated GPU-time of an attempt went: a partition that adds up to the second. Pure rules.

Each moment of an attempt has one part. What a training program says is painted over one another, later lines of
`partition` over earlier ones; what nothing is said of is `other`. An attempt whose program says nothing has no
partition: it is not instrumented, which is another thing than `other`.

Definitions: research note on goodput, rollback and stalls; parts as in the glossary. Times are epoch milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal, NamedTuple, get_args

__all__ = ["PARTS", "Attempt", "Part", "Partition", "Progress", "Save", "Size", "goodput", "partition"]

Part = Literal["productive", "checkpoint_stall", "rollback_replay", "detect", "teardown", "init_restore", "data_stall",
               "partial_gang_wait", "idle_held", "other"]  # fmt: skip
PARTS: Final[tuple[Part, ...]] = get_args(Part)
MOST_OTHER: Final = 0.02
"""An attempt of which more is unexplained is flagged."""


class Size(NamedTuple):
    """So many GPUs over [start, end)."""

    start: int
    end: int
    gpus: int


class Progress(NamedTuple):
    """Steps done over [start, end), of which `data` milliseconds were spent waiting for data."""

    start: int
    end: int
    data: int = 0


class Save(NamedTuple):
    """A checkpoint: steps stood still over [state, state + blocking). committed: when it could be restored, or None."""

    state: int
    blocking: int
    committed: int | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known of one attempt. `sizes` lie side by side from its start to its end (or to now).

    ready: all ranks were there. first_rank: the first one was. lost: it ended so that work since the last save had to
    be done again. last: the end of its last whole step, if it told that it was interrupted; noticed: when it told.
    idle: stretches in which its GPUs were held and did nothing, as telemetry tells.
    """

    sizes: Sequence[Size]
    ended: bool
    lost: bool
    ready: int | None = None
    first_rank: int | None = None
    progress: Sequence[Progress] = ()
    saves: Sequence[Save] = ()
    last: int | None = None
    noticed: int | None = None
    idle: Sequence[tuple[int, int]] = ()

    @property
    def told(self) -> bool:
        """Whether its program says anything that a partition can be made of."""
        return bool(self.progress or self.saves or self.ready is not None or self.noticed is not None)


@dataclass(frozen=True, slots=True)
class Partition:
    """GPU-seconds of each part; they add up to `allocated` exactly. rolled_back: seconds of wall time lost."""

    gpu_seconds: Mapping[Part, int]
    allocated: int
    rolled_back: int = 0

    @property
    def unexplained(self) -> bool:
        """More than a fiftieth is `other`."""
        return self.gpu_seconds["other"] > MOST_OTHER * self.allocated


def goodput(parts: Iterable[Partition]) -> float | None:
    """Productive over allocated GPU-seconds; None where nothing was allocated."""
    every = list(parts)
    allocated = sum(one.allocated for one in every)
    return sum(one.gpu_seconds["productive"] for one in every) / allocated if allocated else None


def partition(attempt: Attempt) -> Partition | None:
    """The parts of an attempt's allocated GPU-seconds; None when its program said nothing of it."""
    if not attempt.sizes or not attempt.told:
        return None
    start, end = attempt.sizes[0].start, attempt.sizes[-1].end
    canvas = _Canvas(start, end)
    first, last = _working(attempt, start, end)
    _paint_beginning(canvas, attempt, start, first)
    for stretch in attempt.progress:
        canvas.paint(stretch.start, stretch.end, "productive")
    for a, b in attempt.idle:
        canvas.paint(a, b, "idle_held", over=("other", "productive"))
    for save in attempt.saves:
        canvas.paint(save.state, save.state + save.blocking, "checkpoint_stall")
    rolled_back = _paint_rollback(canvas, attempt, first, last)
    if attempt.ended:
        _paint_ending(canvas, attempt, last, end)
    return _counted(canvas, attempt, rolled_back)


def _working(attempt: Attempt, start: int, end: int) -> tuple[int, int]:
    """From when to when steps were done; without a report of any, from when all ranks were there."""
    begun = min((stretch.start for stretch in attempt.progress), default=None)
    if begun is None:
        begun = attempt.ready if attempt.ready is not None else start
    seen = [stretch.end for stretch in attempt.progress] + [save.state + save.blocking for save in attempt.saves]
    last = attempt.last if attempt.last is not None else max(seen, default=begun)
    return min(max(begun, start), end), min(max(last, begun, start), end)


def _paint_beginning(canvas: _Canvas, attempt: Attempt, start: int, first: int) -> None:
    """Waiting for all ranks, then loading and restoring until the first step."""
    ready = start if attempt.ready is None else min(max(attempt.ready, start), first)
    if attempt.ready is not None and attempt.first_rank is not None:
        begun = min(max(attempt.first_rank, start), ready)
        canvas.paint(start, begun, "init_restore")
        canvas.paint(begun, ready, "partial_gang_wait")
    else:
        canvas.paint(start, ready, "partial_gang_wait" if attempt.ready is not None else "init_restore")
    canvas.paint(ready, first, "init_restore")


def _paint_rollback(canvas: _Canvas, attempt: Attempt, first: int, last: int) -> int:
    """Work since the state of the last committed save, where it was lost; saves since then were in vain too."""
    if not attempt.lost:
        return 0
    kept = max((save.state for save in attempt.saves if save.committed is not None and save.committed <= last),
               default=first)  # fmt: skip
    kept = max(kept, first)
    held = max(
        (s.state + s.blocking for s in attempt.saves if s.state == kept and s.committed is not None), default=kept
    )
    return canvas.paint(held, last, "rollback_replay", over=("productive", "other", "checkpoint_stall"))


def _paint_ending(canvas: _Canvas, attempt: Attempt, last: int, end: int) -> None:
    """After the last step: until it was noticed that there are no more, then until the nodes were free again.

    An end that nobody told of was noticed by the scheduler, which ended the attempt: all of it was detecting if work
    was lost, and taking down if not.
    """
    if attempt.noticed is None:
        canvas.paint(last, end, "detect" if attempt.lost else "teardown")
        return
    noticed = min(max(attempt.noticed, last), end)
    canvas.paint(last, noticed, "detect" if attempt.lost else "teardown")
    canvas.paint(noticed, end, "teardown")


@dataclass(slots=True)
class _Canvas:
    """[start, end) cut into stretches, each with one part; all `other` at first."""

    start: int
    end: int
    edges: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.edges, self.parts = [self.start], ["other"]

    def paint(self, start: int, end: int, part: Part, over: Sequence[Part] = PARTS) -> int:
        """Give [start, end) a part where it has one of `over` now. Returns how many milliseconds changed."""
        start, end = max(start, self.start), min(end, self.end)
        if start >= end:
            return 0
        first, last = self._cut(start), self._cut(end) if end < self.end else len(self.edges)
        changed = 0
        for index in range(first, last):
            if self.parts[index] in over:
                until = self.edges[index + 1] if index + 1 < len(self.edges) else self.end
                changed += until - self.edges[index]
                self.parts[index] = part
        return changed

    def _cut(self, at: int) -> int:
        """Index of the stretch that begins at `at`, made where there is none."""
        index = bisect_left(self.edges, at)
        if index == len(self.edges) or self.edges[index] != at:
            self.edges.insert(index, at)
            self.parts.insert(index, self.parts[index - 1])
        return index

    def stretches(self) -> Iterable[tuple[int, int, Part]]:
        """(start, end, part), in order and without a gap."""
        return zip(self.edges, [*self.edges[1:], self.end], self.parts, strict=True)

    def inside(self, start: int, end: int) -> Iterable[tuple[int, int, Part]]:
        """Those that [start, end) touches."""
        index = max(0, bisect_right(self.edges, start) - 1)
        while index < len(self.edges) and self.edges[index] < end:
            until = self.edges[index + 1] if index + 1 < len(self.edges) else self.end
            yield self.edges[index], until, self.parts[index]
            index += 1


def _counted(canvas: _Canvas, attempt: Attempt, rolled_back: int) -> Partition:
    """Milliseconds times GPUs by part, then whole GPU-seconds that add up to what was allocated."""
    milli: dict[Part, int] = dict.fromkeys(PARTS, 0)
    for start, end, part in canvas.stretches():
        milli[part] += _held(attempt, start, end)
    for stretch in attempt.progress:
        stalled = min(_stalled(canvas, attempt, stretch), milli["productive"])  # stretches may overlap
        milli["productive"] -= stalled
        milli["data_stall"] += stalled
    allocated = sum((size.end - size.start) * size.gpus for size in attempt.sizes)
    return Partition(_whole_seconds(milli), allocated // 1000, round(rolled_back / 1000))


def _held(attempt: Attempt, start: int, end: int) -> int:
    """GPU-milliseconds of a stretch of time."""
    return sum(max(0, min(end, size.end) - max(start, size.start)) * size.gpus for size in attempt.sizes)


def _stalled(canvas: _Canvas, attempt: Attempt, stretch: Progress) -> int:
    """GPU-milliseconds that the kept steps of a stretch waited for data.

    A program tells their sum, not when they were: they are spread evenly over the steps, also over those that were
    lost later, which stay lost work.
    """
    if not stretch.data:
        return 0
    kept = lost = 0
    for start, end, part in canvas.inside(stretch.start, stretch.end):
        if part in ("productive", "rollback_replay"):
            held = _held(attempt, max(start, stretch.start), min(end, stretch.end))
            kept, lost = (kept + held, lost) if part == "productive" else (kept, lost + held)
    if not kept:
        return 0
    gpus = Fraction(_held(attempt, stretch.start, stretch.end), max(1, stretch.end - stretch.start))
    return min(kept, round(stretch.data * gpus * kept / (kept + lost)))


def _whole_seconds(milli: Mapping[Part, int]) -> dict[Part, int]:
    """Whole seconds by the largest remainder: their sum is the sum of the milliseconds, which is whole."""
    floor = {part: value // 1000 for part, value in milli.items()}
    missing = sum(milli.values()) // 1000 - sum(floor.values())
    by_rest = sorted(PARTS, key=lambda part: (-(milli[part] % 1000), PARTS.index(part)))
    for part in by_rest[:missing]:
        floor[part] += 1
    return floor
