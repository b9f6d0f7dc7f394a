"""The demo hall in real time: the same world goes on by the clock and tells of itself through the doors.

Every second what has happened since is told as a Slurm tells it: prologs when a job starts, jobcomp and epilogs when
one ends, every 20 s what `sacct` would show of the jobs that changed, and every 30 s what is new of those that wait.
Beside the world, and only while this process does, a check of the cluster runs every 15 s, so that something moves in
a quiet hour too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from django.db import DatabaseError, connections, transaction

from config.celery import app
from config.demo import alerts, looks, nodes, posts
from config.demo.load import Ask
from config.demo.loading import MARGIN, deliver
from config.demo.programs import events_of
from config.demo.tell import COLUMNS, rows
from config.demo.truth import Attempt, Job, Size
from config.demo.world import World, midnight
from events.tasks import nudge

__all__ = ["Teller", "going_on"]

POLL: Final = 20
"""Seconds between two looks of `sacct`."""
CHECK: Final = 30
"""Seconds between two checks of the cluster."""
MOST_CHECK: Final = 70
"""Seconds of the longest check."""
LISTENED: Final = 900
"""Seconds into the past that are listened to again: programs tell late, and of some things only once they are over."""
PAUSE: Final = 600
"""Seconds without this process after which only the accounting tells what happened meanwhile."""
FIRST_CHECK: Final = 9_000_000
"""Job number of the first check: far above those of the world."""


class Teller:
    """Tells what happens in a world. since: epoch seconds up to which all is told already."""

    def __init__(self, world: World, since: int) -> None:
        self._world, self._told, self._polled = world, since, since
        self._heard = {event["id"] for event in events_of(world.programs(since), since - 2 * LISTENED, since)}
        self._checks = {number: check(world, number) for number in _numbers(world, since - MOST_CHECK, since + MARGIN)}

    def tell(self, now: int) -> int:
        """Tell what happened since the last call, up to `now`; how many bodies that took. One transaction."""
        if now <= self._told:
            return 0
        self._world.run(now + 1)
        poll = now - self._polled >= POLL
        bodies = [*self._posts(self._happened(now), now), *(self._rows(now) if poll else ())]
        bodies += self._programs(now) if poll else ()
        seen = list(looks.bodies(self._looks(now)))
        queue, begin = self._world.queue, midnight(self._world.begin)
        changed = list(nodes.bodies(self._world.hall, queue.faults, begin, self._told, now))
        alarms = list(alerts.bodies(self._world.hall, queue.faults, self._told, now))
        with transaction.atomic():
            for kind, body in bodies:
                deliver(kind, body)
            for at, body in seen:
                deliver("slurmctld-jobs", body, looked=at)
            for at, body in changed:
                deliver("slurm-nodes", body, looked=at)
            for _, body in alarms:
                deliver("alertmanager", body)
        self._told = now
        self._polled = now if poll else self._polled
        self._checks = {key: job for key, job in self._checks.items() if (job.end or 0) > self._polled}
        return len(bodies) + len(seen) + len(changed) + len(alarms)

    def _happened(self, now: int) -> list[Job]:
        """Jobs of which there are posts. After a pause the accounting tells what happened in it, and only that."""
        if now - self._told > PAUSE:
            return list(self._checks.values())
        for number in _numbers(self._world, self._told, now):
            self._checks.setdefault(number, check(self._world, number))
        return [job for job in self._world.queue.jobs if job.touched > self._told] + list(self._checks.values())

    def _looks(self, now: int) -> list[looks.Look]:
        """What the looks since the last call saw. In a pause nobody looks; what waits after it is seen then."""
        if now // looks.POLL == self._told // looks.POLL:
            return []
        found = list(looks.looks(self._world.queue.jobs, self._told, now))
        return looks.at_last(found, now) if now - self._told > PAUSE else found

    def _posts(self, jobs: list[Job], now: int) -> Iterator[tuple[str, bytes]]:
        hall = self._world.hall
        for job in jobs:
            for attempt in job.attempts:
                if self._told < attempt.start <= now:
                    yield from (("slurm-hook", body) for body in posts.prologs(hall, attempt))
                if attempt.end is not None and self._told < attempt.end <= now:
                    yield from (("slurm-hook", body) for body in posts.epilogs(hall, attempt))
                    yield from (("jobcomp", body) for body in posts.ended(hall, job, attempt))
            if not job.attempts and job.id and job.end is not None and self._told < job.end <= now:
                yield from (("jobcomp", body) for body in posts.ended(hall, job, None))

    def _rows(self, now: int) -> Iterator[tuple[str, bytes]]:
        """What sacct shows of the jobs that changed since it was last looked at."""
        changed = [job for job in self._world.queue.jobs if job.touched > self._polled]
        changed += [job for job in self._checks.values() if (job.end or 0) <= now]
        lines = list(rows(self._world.hall, changed))
        if lines:
            yield "sacct-text", "\n".join(("|".join(COLUMNS), *lines, "")).encode()

    def _programs(self, now: int) -> Iterator[tuple[str, bytes]]:
        """What training programs told since they were last listened to, each event once."""
        told = events_of(self._world.programs(now), self._polled - LISTENED, now)
        fresh = [event for event in told if event["id"] not in self._heard]
        self._heard.update(event["id"] for event in fresh)
        return (("cloudevents", msgspec.json.encode(event)) for event in fresh)


def _numbers(world: World, after: int, until: int) -> range:
    """Numbers of the checks that start in (after, until]."""
    begin = midnight(world.begin)
    return range(max(0, (after - begin) // CHECK), max(0, (until - begin) // CHECK))


def check(world: World, number: int) -> Job:
    """A check of 10 to 70 s on two cores, the same for the same number; every 23rd fails."""
    at = midnight(world.begin) + number * CHECK + CHECK - 1
    end = at + 11 + number * 7919 % (MOST_CHECK - 9)
    state = "FAILED" if number % 23 == 0 else "COMPLETED"
    node = world.hall.gpu_nodes + number % world.hall.cpu_nodes
    ask = Ask(at, "infra", "infra", "svc-check", "cluster-check", "cpu", "normal", 0, 2, end - at - 1, 600, state,
              comment="run=cluster-checks")  # fmt: skip
    job = Job(ask, at, at, id=FIRST_CHECK + number, state=state, end=end)
    size = Size(at + 1, (node,), (0,), 2, FIRST_CHECK + number, at)
    job.attempts.append(Attempt(job, 1, at, at, [size], end, state, account=ask.account))
    return job


@contextmanager
def going_on(world: World, since: int) -> Iterator[None]:
    """Let the world go on in a process of its own, as long as the block and its parent live."""
    connections.close_all()  # a forked child must not share them
    process = multiprocessing.get_context("fork").Process(target=_go_on, args=(world, since, os.getpid()), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join(10)


def _go_on(world: World, since: int, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends this process
    os.nice(10)
    app.set_default()  # its broker is the one that the worker listens to
    teller = Teller(world, since)
    while os.getppid() == parent:
        try:
            if teller.tell(int(time.time())):
                nudge()
        except DatabaseError:  # the server restarts: the next round tells the same again
            connections.close_all()
        time.sleep(1)
