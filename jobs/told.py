"""What training programs say, put to the attempts it is of: from words to what a partition is made of. Pure rules.

Which attempt a word is of: the one of its job that ran at its moment, that is, when the state of a save was
taken, the last moment of a stretch of steps, else the time of the event. A moment up to 30 s outside of every attempt
belongs to the nearest one: clocks of nodes differ, and a program may be asked to stop a little before its end is
booked. What fits no attempt stays in the log and counts nowhere.

Work is lost in an attempt that its scheduler ended with a failure, a limit or a preemption, and in one after which
the run took up a state from before its last step, whatever the scheduler calls its end. All since the state that
was taken up is lost then; as long as nothing was, all since the last committed save. What was taken up was whole, also
where nobody told in time that it was: a program that saves when it is asked to stop loses nothing.

Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from jobs.goodput import PARTS, Attempt, Part, Partition, Progress, Save, Size, partition
from jobs.speed import Key, Sums, sums_of

__all__ = ["EDGE_MS", "LOSING", "Parted", "Restore", "Span", "Word", "part", "share_out"]

EDGE_MS: Final = 30_000
"""How far outside of an attempt a moment may lie and still be of it."""
LOSING: Final = frozenset(
    {"NODE_FAIL", "BOOT_FAIL", "FAILED", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE", "PREEMPTED", "REQUEUED"}
)
"""States of attempts whose work since the last save is lost."""
MOST: Final = 2**63 - 1
"""More tokens than a column holds are nonsense, and must not stop the books."""
_SAVES: Final = ("checkpoint.committed", "checkpoint.failed")


class Word(NamedTuple):
    """One event of a training program: its position, type, time and data."""

    position: int
    kind: str
    ms: int
    data: Any

    @property
    def moment(self) -> int:
        """The moment that decides of which attempt it is."""
        if self.kind in _SAVES:
            return int(self.data.state_ms)
        return self.ms - 1 if self.kind == "run.progressed" else self.ms


class Restore(NamedTuple):
    """An attempt of a run that began at `start` took up a state."""

    start: int
    state: int


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt: when it ran (end None: it runs), its sizes in order, and how its scheduler calls its end."""

    id: UUID
    run: UUID
    start: int
    end: int | None
    state: str
    sizes: Sequence[tuple[int, int | None, int]]
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parted:
    """The partition of an attempt, until when it reaches, and what its program did.

    seconds: of time, of each part. stopped: how and why its program could not go on, as it told last ('' where it did
    not). tokens: None where no report tells any. speeds: see jobs.speed.
    """

    parts: Partition
    until: int
    lost: bool
    seconds: Mapping[Part, int]
    stopped: tuple[str, str]
    last_step: int | None
    steps: int
    tokens: int | None
    period: int
    communication: int
    speeds: Mapping[Key, Sums]


def share_out(spans: Sequence[Span], words: Iterable[Word]) -> dict[UUID, list[Word]]:
    """The words of one job by attempt. spans: of this job, in order."""
    found: dict[UUID, list[Word]] = {}
    for word in words:
        span = _span_of(spans, word.moment)
        if span is not None:
            found.setdefault(span.id, []).append(word)
    return found


def _span_of(spans: Sequence[Span], moment: int) -> Span | None:
    nearest, least = None, EDGE_MS + 1
    for span in spans:
        away = max(span.start - moment, 0 if span.end is None else moment - span.end + 1, 0)
        if away < least:
            nearest, least = span, away
    return nearest


def part(span: Span, words: Sequence[Word], restores: Iterable[Restore]) -> Parted | None:
    """The partition of an attempt from all that its program said; None if that tells nothing of where time went.

    restores: of its run, of all attempts. A running attempt is parted until the last instant that was told.
    """
    until = span.end if span.end is not None else _told_until(span, words)
    sizes = [Size(start, until if end is None else end, gpus) for start, end, gpus in span.sizes]
    known = _described(span, words, sizes, restores)
    parts = partition(known)
    if parts is None:
        return None
    reports = sorted((word for word in words if word.kind == "run.progressed"), key=lambda word: word.ms)
    tokens = [word.data.tokens for word in reports if word.data.tokens is not None]
    stopped = _stopped(words)
    return Parted(
        parts, until, known.lost, _seconds(known, parts),
        (stopped.data.kind, stopped.data.why or "") if stopped else ("", ""),
        reports[-1].data.step if reports else None, sum(word.data.steps for word in reports),
        min(sum(tokens), MOST) if tokens else None, sum(word.data.period_ms for word in reports),
        sum(word.data.period_ms * (word.data.communication_ppm or 0) // 1_000_000 for word in reports),
        sums_of(sizes, ((word.ms, word.data) for word in reports)),
    )  # fmt: skip


def _told_until(span: Span, words: Sequence[Word]) -> int:
    """The last instant that was told, in whole seconds; not before the last size began."""
    last = max((word.ms for word in words), default=span.start)
    return max(-(-last // 1000) * 1000, span.start, span.sizes[-1][0] if span.sizes else span.start)


def _described(span: Span, words: Sequence[Word], sizes: Sequence[Size], restores: Iterable[Restore]) -> Attempt:
    ready = min((word for word in words if word.kind == "gang.ready"), key=lambda word: word.ms, default=None)
    stopped = _stopped(words)
    progress = [Progress(word.ms - word.data.period_ms, word.ms, word.data.data_ms)
                for word in words if word.kind == "run.progressed"]  # fmt: skip
    saves = [_save(word) for word in words if word.kind in _SAVES]
    last = stopped.data.last_ms if stopped else None
    lost, saves = _losing(span, last, progress, saves, restores)
    return Attempt(
        sizes=sizes, ended=span.end is not None, lost=lost, ready=ready.ms if ready else None,
        first_rank=ready.data.first_ms if ready else None, progress=progress, saves=saves, last=last,
        noticed=stopped.ms if stopped else None,
    )  # fmt: skip


def _stopped(words: Sequence[Word]) -> Word | None:
    """The last word of an interruption."""
    found = (word for word in words if word.kind == "run.interrupted")
    return max(found, key=lambda word: (word.ms, word.position), default=None)


def _save(word: Word) -> Save:
    return Save(word.data.state_ms, word.data.blocking_ms, word.ms if word.kind == "checkpoint.committed" else None)


def _losing(
    span: Span, last: int | None, progress: Sequence[Progress], saves: Sequence[Save], restores: Iterable[Restore]
) -> tuple[bool, list[Save]]:
    """Whether work is lost, and the saves with those left out of account that the run did not go on from."""
    if span.end is None:
        return False, list(saves)
    end = span.end
    worked = last if last is not None else max((stretch.end for stretch in progress), default=span.start)
    later = min((one.state for one in restores if one.start >= end), default=None)
    if later is None or later > end:  # of one after it
        return span.state in LOSING, list(saves)
    kept = _taken_up(saves, later, worked)
    held = max((save.state + save.blocking for save in kept if save.committed is not None), default=later)
    return span.state in LOSING or held < worked, kept


def _taken_up(saves: Sequence[Save], later: int, worked: int) -> list[Save]:
    """The saves of an attempt after which the run went on from the state of `later`.

    Those after it count no more. That of `later` was whole, whoever told when, and is known even if nobody told of it.
    """
    kept = [save if save.state <= later else save._replace(committed=None) for save in saves]
    blocking = max((save.blocking for save in kept if save.state == later), default=0)
    return [*(save for save in kept if save.state != later), Save(later, blocking, min(later, worked))]


def _seconds(known: Attempt, parts: Partition) -> Mapping[Part, int]:
    """Seconds of time of each part, whatever the size."""
    sizes = [size for size in known.sizes if size.gpus]
    if len(sizes) == len(known.sizes) == 1:
        return {part: round(parts.gpu_seconds[part] / sizes[0].gpus) for part in PARTS}
    alone = replace(known, sizes=[Size(size.start, size.end, 1) for size in known.sizes])
    counted = partition(alone)
    return counted.gpu_seconds if counted else dict.fromkeys(PARTS, 0)
