"""What each interruption of a run cost, from the partitions of its attempts. Pure rules.

An interruption is the end of an attempt with lost work. It opens what is lost until the run steps again: the work since
the state that is taken up, the time until its end was noticed and the nodes were free, the wait for the next start,
and the start itself until the first step. Each of these seconds lies in one attempt, so each is charged once: where the
next attempt ends before it has caught up, the first end bears what the first attempt did in vain and the start of the
second, the second end what the second attempt did. While nodes are not held a wait costs time and no GPU-seconds.

Formula: research note on lost work at a fault: stall = rollback + detect + requeue + restore; here taking down and the
wait for all ranks are apart, as parts of the partition are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from jobs.goodput import Part

__all__ = ["ENDING", "STARTING", "Interruption", "Lived", "Spent", "charged", "interruptions", "uncharged"]

ENDING: Final[tuple[Part, ...]] = ("rollback_replay", "detect", "teardown")
"""Parts of the attempt that was interrupted."""
STARTING: Final[tuple[Part, ...]] = ("partial_gang_wait", "init_restore")
"""Parts of the attempt that goes on after it."""


@dataclass(frozen=True, slots=True)
class Spent:
    """GPU-seconds and seconds of time of the parts of ENDING and STARTING in one attempt."""

    gpu_seconds: Mapping[Part, int]
    seconds: Mapping[Part, int]


@dataclass(frozen=True, slots=True)
class Lived:
    """One attempt of a run: [start, end) in epoch seconds, end None while it runs. lost: it ended with lost work.

    restored: its program told that it took up a saved state. spent: None where its program told nothing.
    """

    attempt: UUID
    job: UUID
    start: int
    end: int | None
    lost: bool
    restored: bool
    spent: Spent | None


@dataclass(frozen=True, slots=True)
class Interruption:
    """An attempt that was interrupted and the one that went on, if any did."""

    broken: Lived
    resumed: Lived | None

    @property
    def requeue_seconds(self) -> int | None:
        """From the end of the one to the start of the other."""
        if self.resumed is None or self.broken.end is None:
            return None
        return self.resumed.start - self.broken.end

    def seconds(self, part: Part) -> int | None:
        """Of time, of one part; None where no program told."""
        spent = self._spent(part)
        return None if spent is None else spent.seconds[part]

    def gpu_seconds(self, part: Part) -> int | None:
        """The same of GPUs."""
        spent = self._spent(part)
        return None if spent is None else spent.gpu_seconds[part]

    @property
    def stall_seconds(self) -> int | None:
        """All that is known of it in time, the wait included; None where its program told nothing."""
        if self.broken.spent is None:
            return None
        return (self.requeue_seconds or 0) + sum(self.seconds(part) or 0 for part in (*ENDING, *STARTING))

    @property
    def lost_gpu_seconds(self) -> int | None:
        """All that is known of it in GPU-seconds; None where its program told nothing."""
        if self.broken.spent is None:
            return None
        return sum(self.gpu_seconds(part) or 0 for part in (*ENDING, *STARTING))

    def _spent(self, part: Part) -> Spent | None:
        lived = self.broken if part in ENDING else self.resumed
        return None if lived is None else lived.spent


def interruptions(lived: Sequence[Lived]) -> list[Interruption]:
    """The interruptions of a run in order of their ends. lived: all its attempts."""
    broken = sorted(
        (one for one in lived if one.lost and one.end is not None), key=lambda one: (one.end, one.start, one.attempt)
    )
    resumed = _resumed(lived)
    return [Interruption(one, resumed.get(one.attempt)) for one in broken]


def _resumed(lived: Sequence[Lived]) -> dict[UUID, Lived]:
    """Interrupted attempt -> the one that went on: the next of its job, else the first of a later job.

    A later job goes on for it where its own job began no more, and the later one took up a saved state or nothing
    else of the run was running (jobs side by side under one name do not go on for each other). No attempt goes on for
    two: of several that ended before it, it goes on for the one that ended last.
    """
    ordered = sorted(lived, key=lambda one: (one.start, one.end is None, one.end or 0, one.attempt))
    last_start = {one.job: one.start for one in ordered}
    waiting: list[Lived] = []
    running: list[Lived] = []
    begun: set[UUID] = set()
    found: dict[UUID, Lived] = {}
    for one in ordered:
        running = [other for other in running if other.end is None or other.end > one.start]
        may_follow = one.job not in begun and (one.restored or not running)
        ended = [other for other in waiting if other.end is not None and other.end <= one.start]
        own = [other for other in ended if other.job == one.job]
        others = [other for other in ended if may_follow and last_start[other.job] < (other.end or 0)]
        if choice := own or others:
            before = max(choice, key=lambda other: (other.end or 0, other.start, other.attempt))
            found[before.attempt] = one
            waiting.remove(before)
        begun.add(one.job)
        running.append(one)
        if one.lost and one.end is not None:
            waiting.append(one)
    return found


def charged(found: Sequence[Interruption], part: Part) -> int:
    """GPU-seconds of a part that interruptions bear."""
    return sum(one.gpu_seconds(part) or 0 for one in found)


def uncharged(lived: Sequence[Lived], found: Sequence[Interruption], part: Part) -> int:
    """GPU-seconds of a part that no interruption bears: of first starts, and of ends without lost work.

    With `charged` it is the part of the run's partition, exactly.
    """
    bearing = {one.broken.attempt for one in found} if part in ENDING else {
        one.resumed.attempt for one in found if one.resumed is not None}  # fmt: skip
    return sum(one.spent.gpu_seconds[part] for one in lived if one.spent is not None and one.attempt not in bearing)
