"""What really happened in the demo hall: plain objects, and sums over them by arithmetic of their own.

Nothing here imports Hallbook's folds, reports or SQL: tests hold the books against these figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from config.demo.hall import PROJECTS, ZONE
from config.demo.load import Ask

__all__ = ["Attempt", "Fault", "Job", "Program", "Save", "Size", "Truth", "Why", "project_of"]

_ZONE: Final = ZoneInfo(ZONE)
_PROJECTS: Final = {account: project.code for project in PROJECTS for account in project.all_accounts}


def project_of(account: str) -> str:
    """Who is charged for an account."""
    return _PROJECTS.get(account, f"unmapped/{account}")


@dataclass(slots=True)
class Size:
    """A stretch of an attempt on the same nodes. masks: of the GPUs it holds on each. record: native number of the
    accounting record that tells it, opened at `opened`."""

    start: int
    nodes: tuple[int, ...]
    masks: tuple[int, ...]
    cpus: int
    record: int
    opened: int

    @property
    def gpus(self) -> int:
        """GPUs held."""
        return sum(mask.bit_count() for mask in self.masks)


@dataclass(slots=True)
class Attempt:
    """One unbroken execution, [start, end); it runs while `end` is None. Times are epoch seconds."""

    job: Job
    number: int
    submit: int
    eligible: int
    sizes: list[Size]
    end: int | None = None
    state: str = "RUNNING"
    suspended: int = 0
    account: str = ""

    @property
    def start(self) -> int:
        """Its first second."""
        return self.sizes[0].start

    @property
    def wait(self) -> int:
        """Seconds from eligible to start."""
        return self.start - self.eligible

    def stretches(self, until: int) -> Iterator[tuple[int, int, Size]]:
        """(start, end, size) of each stretch; a running one counts to `until`."""
        last = until if self.end is None else self.end
        starts = [size.start for size in self.sizes] + [last]
        for place, size in enumerate(self.sizes):
            yield size.start, starts[place + 1], size

    def gpu_seconds(self, first: int, last: int) -> int:
        """GPU-seconds inside [first, last)."""
        return sum(size.gpus * max(0, min(end, last) - max(start, first)) for start, end, size in self.stretches(last))


class Why(NamedTuple):
    """What keeps a job waiting from `at` on, in Slurm's word, and when its scheduler expects to start it (or None)."""

    at: int
    reason: str
    expected: int | None = None


@dataclass(slots=True)
class Job:
    """One submission. id: its number, None for a task of an array that waits. array: (id, task); het: (id, part).
    left: seconds of work that it still has. record: native number of its open accounting record. told: why it waited
    by itself, each change; tasks of an array that have never run wait as their array does."""

    ask: Ask
    submit: int
    eligible: int | None
    id: int | None = None
    record: int = 0
    left: int = 0
    outcome: str = "COMPLETED"
    state: str = "PENDING"
    end: int | None = None
    touched: int = 0
    array: Array | None = None
    task: int = 0
    het: tuple[int, int] | None = None
    part: Job | None = None
    attempts: list[Attempt] = field(default_factory=list)
    told: list[Why] = field(default_factory=list)

    @property
    def whys(self) -> list[Why]:
        """Where it is noted why it waits now."""
        return self.told if self.array is None or self.attempts else self.array.told

    @property
    def reason(self) -> str:
        """Why it waits now."""
        return self.whys[-1].reason if self.whys else "None"


@dataclass(slots=True)
class Array:
    """A job array: its number, its tasks, how many have not started, how many run, `most` of them at once (`%24`).

    The last task that starts keeps the array's number and accounting record. told: why those that have not started
    waited: they are one record for the scheduler."""

    id: int
    record: int
    tasks: list[Job]
    waiting: int
    most: int
    running: int = 0
    told: list[Why] = field(default_factory=list)


@dataclass(slots=True)
class Fault:
    """A node that could not be used in [start, end). For later: cause, part, who noticed."""

    node: int
    start: int
    end: int


LOSING: Final = frozenset({"NODE_FAIL", "FAILED", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED"})
"""Ends after which nothing of a program's work is left but what it had saved."""


@dataclass(frozen=True, slots=True)
class Save:
    """A saved state: when it was taken, for how long steps stood still, its step, and when it was whole (or never)."""

    state: int
    blocking: int
    step: int
    committed: int | None


@dataclass(slots=True)
class Program:
    """What the training program of an attempt did, in epoch milliseconds.

    did: (start, end, what) in order. waited: end of a stretch of steps -> how long it waited for data. took_up: the
    state it began from; followed_from: the one from which the run went on after it. told: (when, type, data).
    step_ms, tokens, flop: time of a step, its tokens, operations for each token. communicated: end of a stretch of
    steps -> its share in communication, parts per million.
    """

    attempt: Attempt
    did: list[tuple[int, int, str]] = field(default_factory=list)
    waited: dict[int, int] = field(default_factory=dict)
    saves: list[Save] = field(default_factory=list)
    told: list[tuple[int, str, dict[str, object]]] = field(default_factory=list)
    took_up: Save | None = None
    followed_from: Save | None = None
    last: int | None = None
    noticed: int | None = None
    step_ms: int = 0
    tokens: int = 0
    flop: int = 0
    communicated: dict[int, int] = field(default_factory=dict)

    @property
    def until(self) -> int:
        """Until when it is known what it did: its end, or the last whole second of which it told."""
        if self.attempt.end is not None:
            return self.attempt.end * 1000
        return -(-max(at for at, _, _ in self.told) // 1000) * 1000

    @property
    def lost(self) -> bool:
        """Whether steps that it did had to be done again."""
        if self.attempt.end is None:
            return False
        on = self.followed_from
        return self.attempt.state in LOSING or (on is not None and on.state + on.blocking < (self.last or 0))

    def spent(self) -> Counter[str]:
        """Milliseconds of its time by what they were spent on; untold ones are `other`."""
        found: Counter[str] = Counter()
        for start, end, what in self.did:
            if self.attempt.end is not None and self.last is not None and start >= self.last:
                continue
            if self._vain(start, what):
                found["rollback_replay"] += end - start
            elif what == "checkpoint_stall" and self.attempt.end is None and not self._whole(start):
                continue
            else:
                waited = self.waited.get(end, 0) if what == "productive" else 0
                found[what] += end - start - waited
                found["data_stall"] += waited
        found.update(self._ending())
        found["other"] += self.until - self.attempt.start * 1000 - found.total()
        return found

    def _whole(self, state: int) -> bool:
        return any(save.state == state and save.committed for save in self.saves)

    def _vain(self, start: int, what: str) -> bool:
        """Whether what was done from `start` on had to be done again."""
        kept = max((save.state + save.blocking for save in self.saves if save.committed), default=0)
        return self.lost and what in ("productive", "checkpoint_stall") and start >= kept

    def _ending(self) -> Counter[str]:
        """From the last step (or from when all ranks were there, if it came to none) until the nodes were free."""
        if self.attempt.end is None or self.noticed is None:
            return Counter()
        last = self.last or next(at for at, type_, _ in self.told if type_ == "gang.ready")
        found = Counter({"teardown": self.attempt.end * 1000 - self.noticed})
        found["detect" if self.lost else "teardown"] += self.noticed - last
        return found

    def gpu_seconds(self) -> dict[str, float]:
        """GPU-seconds by what they were spent on; named runs hold the same GPUs from begin to end."""
        gpus = self.attempt.sizes[0].gpus
        return {what: spent * gpus / 1000 for what, spent in self.spent().items() if spent}


@dataclass(slots=True)
class Truth:
    """All that happened until the moment `until`, told from outside once for a report's window. programs: those that
    tell of themselves."""

    jobs: list[Job]
    faults: list[Fault]
    until: int
    programs: list[Program] = field(default_factory=list)

    def attempts(self) -> Iterator[Attempt]:
        """Every attempt."""
        return (attempt for job in self.jobs for attempt in job.attempts)

    def known(self) -> list[Job]:
        """Jobs as accounting counts them: of an array's waiting tasks there is one, under the array's number."""
        return [job for job in self.jobs if job.id is not None]

    def gpu_seconds(self, first: int, last: int, by: Callable[[Attempt], str] | None = None) -> Counter[str]:
        """GPU-seconds inside [first, last), running attempts to `until`, by what `by` says of an attempt."""
        last = min(last, self.until)
        found: Counter[str] = Counter()
        for attempt in self.attempts():
            if attempt.start < last and (attempt.end is None or attempt.end > first):
                found[by(attempt) if by else ""] += attempt.gpu_seconds(first, last)
        return found

    def by_day(self, first: int, last: int) -> dict[str, int]:
        """GPU-seconds of each day of the site."""
        return {
            day: sum(self.gpu_seconds(start, end).values()) for day, start, end in days(first, min(last, self.until))
        }

    def started(self, first: int, last: int) -> list[Attempt]:
        """Attempts that started inside [first, last)."""
        return [attempt for attempt in self.attempts() if first <= attempt.start < last]

    def waits(self, first: int, last: int) -> list[int]:
        """Seconds waited by attempts that started inside, sorted."""
        return sorted(max(0, attempt.wait) for attempt in self.started(first, last))


def days(first: int, last: int) -> Iterator[tuple[str, int, int]]:
    """(day, start, end) of the site's days that touch [first, last), cut to it."""
    day = datetime.fromtimestamp(first, _ZONE).replace(hour=0, minute=0, second=0)
    while (start := int(day.timestamp())) < last:
        following = (day.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=_ZONE)
        yield f"{day:%Y-%m-%d}", max(first, start), min(last, int(following.timestamp()))
        day = following


def percentile(ordered: Iterable[int], share: float) -> int:
    """The smallest value at or above that share of the values (percentile_disc)."""
    values = list(ordered)
    return values[max(0, -(-len(values) * round(share * 1000) // 1000) - 1)] if values else 0
