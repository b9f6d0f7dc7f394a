"""How a cluster's use fades over its dated configurations: one clock for roll-ups and for any instant. Pure rules.

Use is cut at edges, one per day of the site: in continuous mode its midnight, in slurm mode the first end of a slice
at or after it. A configuration starts at an edge, so what lies between two edges follows one rule, and a balance at
an edge is carried to a later one by a factor alone:

    balance(edge n+1) = balance(edge n) x left(edge n, edge n+1) + use(edge n, edge n+1)

`left` over several configurations is the product over the stretches of time in which each held: 2^-(seconds / its
half-life) in continuous mode, (1 - 0.693 / its half-life)^seconds from slice end to slice end in slurm mode, and 0
over a reset. Rates are thousandths of a billing unit, so balances are thousandths of billing-seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from events.reports import midnight
from events.types.shares import ANY_PARTITION, FairshareConfigured, Weights, weights_of
from jobs.decay import Held, Slices, continuous_usage, undecayed_usage

__all__ = ["BY_CPU", "Clock", "Piece", "Rates", "Stretch", "Use"]

BY_CPU: Final = Weights(cpu=1000)
"""Without weights Slurm bills CPUs."""
FIRST_DAY: Final = date(1, 1, 1)
LAST_DAY: Final = date(9999, 12, 31)
_SLURM_LN2: Final = 0.693


class Piece(NamedTuple):
    """A stretch of an attempt with one size: [start, end) in epoch seconds, end None while it runs.

    began: when the attempt began, where this stretch follows a resize of it.
    """

    start: int
    end: int | None
    cpus: int
    gpus: int
    nodes: int
    began: int | None = None


class Use(NamedTuple):
    """What was used between two instants: decayed to the later one, and as it was (thousandths of billing-seconds)."""

    decayed: float
    plain: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """One configuration and the days [from_day, to_day) in which it holds."""

    from_day: date
    to_day: date
    config: FairshareConfigured

    def boundary(self, at: int) -> int:
        """The instant up to which everything that runs at `at` has been charged."""
        if self.config.mode == "continuous":
            return at
        return at - (at - self.config.phase_seconds) % self.config.calc_period_seconds

    def edge(self, at: int) -> int:
        """The first such instant at or after `at`."""
        done = self.boundary(at)
        return done if done == at else done + self.config.calc_period_seconds

    def charged_from(self, piece: Piece) -> int:
        """From when on a piece is charged. After a resize Slurm charges the slice so far again, at the new size."""
        if piece.began is None or self.config.mode == "continuous":
            return piece.start
        return max(piece.began, self.boundary(piece.start))

    def left(self, seconds: int) -> float:
        """What is left of a unit of use after so many seconds of decay."""
        half_life = self.config.half_life_seconds
        if self.config.mode == "continuous":
            return float(2.0 ** (-seconds / half_life))
        return math.exp(seconds * math.log1p(-_SLURM_LN2 / half_life)) if half_life else 1.0

    def use(self, held: Sequence[Held], at: int) -> float:
        """What `held` comes to at `at`. Independent of its order."""
        if self.config.mode == "continuous":
            return continuous_usage(held, self.config.half_life_seconds, at)
        config = self.config
        return Slices(config.half_life_seconds, config.calc_period_seconds, config.phase_seconds).usage(held, at)

    def resets_on(self, day: date) -> bool:
        """Whether all use is forgotten as this day begins."""
        return {
            "none": False, "daily": True, "weekly": day.weekday() == 6, "monthly": day.day == 1,
            "quarterly": day.day == 1 and day.month % 3 == 1, "yearly": (day.month, day.day) == (1, 1),
        }[self.config.reset]  # fmt: skip


@lru_cache(maxsize=4096)
def _midnight(day: date, zone: ZoneInfo) -> int:
    if day <= FIRST_DAY:
        return int(datetime(1, 1, 2, tzinfo=UTC).timestamp())
    if day >= LAST_DAY:
        return int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
    return int(midnight(day, zone).timestamp())


class Clock:
    """The dated configurations of one cluster in the site's zone. stretches: in order, without gaps, not empty."""

    def __init__(self, stretches: Sequence[Stretch], zone: ZoneInfo) -> None:
        self.stretches, self.zone = tuple(stretches), zone
        self._starts = [one.from_day for one in stretches]
        self._rates = {one.from_day: Rates(one.config) for one in stretches}
        self._edges: dict[date, int] = {}
        self._factors: dict[tuple[date, date], float] = {}

    @property
    def begin(self) -> int:
        """Epoch seconds from which on use counts."""
        return self.edge(self.stretches[0].from_day)

    def stretch(self, day: date) -> Stretch:
        """What holds from the edge of a day to the next; before the first day the first one."""
        return self.stretches[max(0, bisect_right(self._starts, day) - 1)]

    def edge(self, day: date) -> int:
        """Epoch seconds of the edge with which a day begins."""
        if (found := self._edges.get(day)) is None:
            at, one = _midnight(day, self.zone), self.stretch(day)
            found = self._edges[day] = at if day == one.from_day else one.edge(at)
        return found

    def day_of(self, at: int) -> date:
        """The day with edge(day) < at <= edge(day + 1): whose rule made what is seen at `at`."""
        day = datetime.fromtimestamp(at, self.zone).date() + timedelta(1)
        while self.edge(day) >= at:
            day -= timedelta(1)
        return day

    def carry(self, day: date, until: date) -> float:
        """What is left at the edge of `until` of a balance at the edge of `day`; 0 over a reset."""
        if day >= until:
            return 1.0
        if (found := self._factors.get((day, until))) is None:
            found = self._factors[day, until] = 0.0 if self.forgotten(day, until) else self._decay(day, until)
        return found

    def forgotten(self, day: date, until: date) -> bool:
        """Whether a reset lies at the edge of `day` or between it and `until`."""
        for one in self.stretches:
            first, last = max(day, one.from_day), min(until, one.to_day)
            if first < last and one.config.reset != "none":
                # The longest wait for a reset is a year.
                span = min((last - first).days, 366)
                if any(one.resets_on(first + timedelta(n)) for n in range(span)):
                    return True
        return False

    def _decay(self, day: date, until: date) -> float:
        left = 1.0
        for one in self.stretches:
            first, last = max(day, one.from_day), min(until, one.to_day)
            if first < last:
                left *= one.left(self.edge(last) - self.edge(first))
        return left

    def left_until(self, day: date, at: int) -> float:
        """What is left at `at`, within the day, of a balance at the edge with which the day begins."""
        one = self.stretch(day)
        if one.resets_on(day):
            return 0.0
        return one.left(max(0, one.boundary(at) - self.edge(day)))

    def use(self, pieces: Iterable[Piece], partition: str, day: date, at: int) -> Use:
        """What was used between the edge of a day and `at`, at most the next edge, decayed to `at`."""
        last = self.edge(day + timedelta(1))
        return self._use(pieces, partition, day, (self.edge(day), last if at >= last else None), min(at, last))

    def whole(self, pieces: Sequence[Piece], partition: str, at: int) -> Use:
        """What was used ever, since the last reset, decayed to `at`, of stretches in one partition.

        For what has no roll-up: running attempts.
        """
        first = min((max(piece.start, self.begin) for piece in pieces), default=at)
        if first >= at:
            return Use(0.0, 0)
        day, last = self.day_of(first + 1), self.day_of(at)
        one = self.stretch(day)
        if one is not self.stretch(last) or one.config.reset != "none":
            return self._by_day(pieces, partition, day, at)
        return self._use(pieces, partition, day, (self.begin, None), at)

    def _by_day(self, pieces: Sequence[Piece], partition: str, day: date, at: int) -> Use:
        last, decayed, plain = self.day_of(at), 0.0, 0
        while True:
            after = day + timedelta(1)
            end = at if day == last else self.edge(after)
            used = self.use(pieces, partition, day, end)
            forgotten = self.forgotten(day, after)
            kept = 0.0 if forgotten else self.left_until(day, end) if day == last else self.carry(day, after)
            decayed, plain = decayed * kept + used.decayed, (0 if forgotten else plain) + used.plain
            if day == last:
                return Use(decayed, plain)
            day = after

    def _use(self, pieces: Iterable[Piece], partition: str, day: date, between: tuple[int, int | None], at: int) -> Use:
        """Use of pieces, cut to `between`, by the rule of a day."""
        one = self.stretch(day)
        rates, plain, charged = self._rates[one.from_day], [], []
        for piece in pieces:
            rate = float(rates.rate(partition, piece))
            held = _cut(Held(piece.start, piece.end, rate), *between)
            if held.end is None or held.start < held.end:
                plain.append(held)
                again = piece.began is not None
                charged.append(_cut(Held(one.charged_from(piece), piece.end, rate), *between) if again else held)
        return Use(one.use(charged, at), round(undecayed_usage(plain, at)))


def _cut(piece: Held, start: int, end: int | None) -> Held:
    """The part of a stretch of use at or after `start`, and before `end` where that is a number."""
    until = piece.end if end is None else end if piece.end is None else min(piece.end, end)
    return Held(max(piece.start, start), until, piece.rate)


class Rates:
    """What an allocation weighs under a configuration, in thousandths of a billing unit."""

    def __init__(self, config: FairshareConfigured) -> None:
        self._of = weights_of(config.weights)
        self._rest = self._of.get(ANY_PARTITION, BY_CPU)

    def rate(self, partition: str, piece: Piece) -> int:
        """Weights x units. Slurm too charges the sum as it is, not the whole number that it shows as billing."""
        by = self._of.get(partition, self._rest)
        return piece.cpus * by.cpu + piece.gpus * by.gpu + piece.nodes * by.node
