"""The demo hall from a first day on: load, named runs and queue together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

from config.demo.hall import PODS, ZONE, Hall
from config.demo.load import RETRY_SECONDS, SCAVENGE, Ask, Load
from config.demo.programs import Programs
from config.demo.queue import Queue
from config.demo.story import Story
from config.demo.truth import Job, Program, Truth

__all__ = ["World", "midnight"]

TARGET: Final = 0.75
"""Share of the installed GPUs that are allocated (Helios' Earth .67, Philly's nodes .74)."""
SHORT: Final = 0.065
"""What queues, limits of users and gaps between runs take off what is asked for, found by trying seeds 1 to 5."""
RETRY_WORKS: Final = 0.33
"""Share of chains of retries that succeed (B200 report)."""


def midnight(day: date) -> int:
    """Epoch seconds at which a day of the site begins."""
    return int(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(ZONE)).timestamp())


class World:
    """pod: key of PODS. seed: which of many worlds. begin: its first day. The same three are the same world."""

    def __init__(self, pod: str, seed: int, begin: date) -> None:
        self.hall, self.seed, self.begin = Hall(PODS[pod]), seed, begin
        self.pod = pod
        self.story = Story(self.hall, seed)
        offered = (TARGET + SHORT) * self.hall.gpus - self.story.mean_gpus - SCAVENGE * self.hall.gpus
        self.load = Load(self.hall, seed, max(offered, 0.1 * self.hall.gpus))
        self._programs = Programs(seed)
        self.queue = Queue(self.hall, seed, midnight(begin), self._later)
        self._day(begin)
        for ask in self.story.open(midnight(begin)):
            self.queue.submit(ask)

    def run(self, until: int) -> Truth:
        """Let time pass until a moment (epoch seconds) and tell what is then true."""
        self.queue.run(until)
        return Truth(self.queue.jobs, self.queue.faults, until)

    def programs(self, until: int) -> list[Program]:
        """What the training programs that tell of themselves did, as told at `until`."""
        return self._programs.of(self.queue.jobs, until)

    def _day(self, day: date) -> None:
        """The submissions of one day, and at its end those of the next."""
        for ask in self.load.day(midnight(day), day.weekday()):
            self.queue.submit(ask)
        following = day + timedelta(days=1)
        self.queue.at(midnight(following) - 1, self._day, following)

    def _later(self, job: Job, now: int) -> Iterator[Ask]:
        yield from self.story.follow(job, now)
        ask = job.ask
        if job.state == "FAILED" and ask.retry and not ask.tasks:
            # Whether the fault has gone by then hangs on the job alone, not on who asks first.
            works = Random(f"{self.seed}/retry/{job.id}").random() < RETRY_WORKS / 3
            end = "COMPLETED" if works else "FAILED"
            yield replace(ask, at=now + RETRY_SECONDS, end=end, work=max(60, ask.work // 3), retry=ask.retry - 1)
