"""What people submit: when, how big, for how long, and how it ends. Figures of `research` traces, each with its source.

"Philly": msr-fiddle/philly-traces. "Venus": a cluster of HeliosData. "SuperCloud": MIT. "Acme": InternLM/AcmeTrace.
Sizes and times are drawn for each day from (seed, day) alone, so that a world may be continued at any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from statistics import NormalDist
from typing import Final

from config.demo.hall import GPUS, PROJECTS, UNMAPPED, USERS, Hall, Project, users_of

__all__ = ["Ask", "Load"]

HOUR: Final = 3600
DAY: Final = 24 * HOUR
JOBS_A_DAY: Final = 1.0
"""GPU jobs a day for each GPU (Acme's Seren 1.6, Helios 1.4, Venus 0.7, Philly 0.3)."""
CPU_JOBS: Final = 0.55
"""Jobs without GPUs for each job with some (Seren)."""
SWEEPS: Final = 0.15
"""Share of the jobs that come as sweeps, 5 to 200 at once (Venus: 149 times the mean rate at worst)."""
FEWEST, MOST = 5, 200
MEAN_SWEEP: Final = (MOST - FEWEST) / math.log(MOST / FEWEST)
ARRAYS: Final = 0.8
"""Share of sweeps that are job arrays, the others are loops around sbatch [assumed]."""
HOURS: Final = (37, 27, 25, 16, 11, 9, 8, 9, 16, 33, 54, 61, 49, 54, 65, 69, 72, 72, 53, 55, 56, 57, 48, 43)
"""Jobs by local hour, per mille (Venus)."""
WEEKDAYS: Final = (147, 153, 183, 173, 136, 98, 111)
"""Jobs by weekday from Monday, per mille (Venus)."""
SIZES: Final = {1: 0.64, 2: 0.06, 4: 0.07, 8: 0.13, 16: 0.04, 32: 0.03, 64: 0.015, 128: 0.009, 256: 0.006}
"""GPUs of a job, share of jobs (Philly and a cloud trace of 2026). What a quarter of the hall cannot hold is left
out: the traces are of clusters ten times a pod, and here the named runs of story.py are the largest."""
RUN_TIMES: Final = {1: (6.7, 2.0), 2: (6.9, 2.8), 4: (6.9, 2.8), 8: (9.7, 2.8), 16: (8.9, 3.2)}
"""Mean and deviation of ln(seconds) by size (Philly); 16 stands for all above. Two to four GPUs: 3.8 in the trace,
a mixture; 2.8 keeps its tail without its jobs of a second."""
SPREAD: Final = 1.8
"""Deviation of ln(seconds) of jobs with several GPUs: a pod cannot bear the trace's 2.8 to 3.8, whose few longest jobs
would fill it; the very long ones are the named runs of story.py."""
LONGEST: Final = 14 * DAY
ORDINARY: Final = 3 * DAY
"""The longest of a partition and of an ordinary job's work (the traces are cut at 14 days; see SPREAD)."""
CPU_RUN: Final = (5.0, 2.0)
"""ln(seconds) of jobs without GPUs: scripts of minutes [assumed]."""
ENDS: Final = (("COMPLETED", 0.55), ("CANCELLED", 0.15), ("FAILED", 0.245), ("TIMEOUT", 0.05), ("OUT_OF_MEMORY", 0.005))
"""How jobs end, by number (Seren, Philly, Helios, SuperCloud); a node may end them before."""
LENGTHS: Final = {"COMPLETED": 0.8, "CANCELLED": 2.2, "FAILED": 0.25, "TIMEOUT": 0.6, "OUT_OF_MEMORY": 0.05}
"""Run time against the mean of its size: cancelled ones hold most of the GPU time, failed ones little (Acme)."""
LIMITED: Final = 0.58
"""Share of users' jobs with a limit of their own (SuperCloud); it is 6 to 100 times what they take."""
DEFAULT_LIMIT: Final = 24 * HOUR
RETRY_SECONDS: Final = 600
RETRIES: Final = 6
"""A failed job of some size is submitted again after ten minutes, up to six times (B200 report, arXiv 2605.09370)."""
RETRIED: Final = 0.25
"""Share of failed jobs of whole nodes that are retried so [assumed]."""
SCAVENGE: Final = 0.03
"""GPU use of the partition that yields to all others, as a share of the hall [assumed]."""
_NORMAL: Final = NormalDist()


@dataclass(slots=True)
class Ask:
    """One submission: what it asks for, and what would happen to it on nodes that do not fail.

    Times in seconds. work: how long it computes. end: the state in which it then ends. gives_up: how long it waits
    before its user cancels it. later: seconds until it may start. tasks: of an array, (work, end) of each. part: the
    second component of a het job. pause: (after so many seconds, for so many). shrink: after so many seconds to half
    its nodes. retry: how often it is submitted again when it fails. run: the training effort it belongs to.
    """

    at: int
    project: str
    account: str
    user: str
    name: str
    partition: str
    qos: str
    gpus: int
    cpus: int
    work: int
    limit: int
    end: str
    comment: str = ""
    gives_up: int | None = None
    held: int | None = None
    later: int = 0
    tasks: tuple[tuple[int, str], ...] = ()
    part: Ask | None = None
    pause: tuple[int, int] | None = None
    shrink: int | None = None
    retry: int = 0
    run: str = ""


def zipf(count: int, s: float = 1.2) -> list[float]:
    """Weights of ranks 1 to count (users and groups of SuperCloud, Philly: s = 1.2)."""
    return [rank**-s for rank in range(1, count + 1)]


def mean_capped(mu: float, sigma: float, cap: float) -> float:
    """Mean of min(X, cap) for ln X normal(mu, sigma): the textbook integral of both parts."""
    z = (math.log(cap) - mu) / sigma
    return math.exp(mu + sigma**2 / 2) * _NORMAL.cdf(z - sigma) + cap * (1 - _NORMAL.cdf(z))


class Load:
    """The submissions of each day. offered: GPUs that ordinary jobs shall keep busy on average, all days."""

    def __init__(self, hall: Hall, seed: int, offered: float) -> None:
        self.hall, self._seed = hall, seed
        self._jobs_a_day = JOBS_A_DAY * hall.gpus
        biggest = max(GPUS, hall.gpus // 4)
        self._sizes: dict[int, float] = {}
        for size, share in SIZES.items():
            if size <= biggest:
                self._sizes[size] = share / sum(share for size, share in SIZES.items() if size <= biggest)
        self._shift = self._fit(offered)
        ranked = sorted((*PROJECTS, UNMAPPED), key=lambda project: project.weight)
        self._projects = dict(zip(ranked, zipf(len(ranked)), strict=True))

    def _fit(self, offered: float) -> float:
        """How much ln(seconds) of jobs of several GPUs has to move so that the hall is asked for `offered` GPUs."""
        low, high = -6.0, 3.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (low, middle) if self._asked(middle) > offered else (middle, high)
        return low

    def _asked(self, shift: float) -> float:
        """Mean GPUs in use if nobody ever waited."""
        stretch = sum(share * LENGTHS[end] for end, share in ENDS)
        each = sum(share * size * mean_capped(*self._law(size, shift), ORDINARY) for size, share in self._sizes.items())
        return each * stretch * self._jobs_a_day / DAY

    @staticmethod
    def _law(size: int, shift: float) -> tuple[float, float]:
        mu, sigma = RUN_TIMES[min(size, 16)]
        return (mu, sigma) if size == 1 else (mu + shift, SPREAD)

    def day(self, start: int, weekday: int) -> list[Ask]:
        """All submissions of the day that begins at `start` (epoch seconds of a local midnight), in time order."""
        rng = Random(f"load/{self._seed}/{start}")
        scale = WEEKDAYS[weekday] * 7 / sum(WEEKDAYS)
        asks: list[Ask] = []
        for hour, share in enumerate(HOURS):
            asks += self._hour(rng, start + hour * HOUR, scale * share / sum(HOURS))
        asks += self._rare(rng, start)
        return sorted(asks, key=lambda ask: ask.at)

    def _hour(self, rng: Random, start: int, share: float) -> Iterator[Ask]:
        jobs = self._jobs_a_day * share
        for _ in range(_poisson(rng, jobs * (1 - SWEEPS))):
            yield self._job(rng, start + rng.randrange(HOUR))
        for _ in range(_poisson(rng, jobs * SWEEPS / MEAN_SWEEP)):
            yield from self._sweep(rng, start + rng.randrange(HOUR))
        for _ in range(_poisson(rng, jobs * CPU_JOBS)):
            yield self._script(rng, start + rng.randrange(HOUR))

    def _who(self, rng: Random) -> tuple[Project, str, str]:
        project = rng.choices(list(self._projects), list(self._projects.values()))[0]
        user = rng.choices(users_of(project), zipf(USERS))[0]
        account = project.all_accounts[0 if rng.random() < 0.8 else -1]
        return project, account, user

    def _job(self, rng: Random, at: int) -> Ask:
        size = rng.choices(list(self._sizes), list(self._sizes.values()))[0]
        project, account, user = self._who(rng)
        end, work, limit = self._fate(rng, self._law(size, self._shift))
        word = rng.choice(project.words)
        name = f"{word}-{rng.randrange(100):02d}" if rng.random() < 0.6 else word
        ask = Ask(at, project.code, account, user, name, "train", "normal", size, 12 * size, work, limit, end)
        if size >= GPUS and end == "FAILED" and rng.random() < RETRIED:
            ask.retry = RETRIES
        if rng.random() < 0.05:
            ask.gives_up = int(rng.lognormvariate(7.5, 1.0))
        if work > 2 * HOUR and rng.random() < 0.01:
            ask.pause = (work // 5, rng.randrange(600, HOUR))
        if size >= 2 * GPUS and work > HOUR and rng.random() < 0.02:
            ask.shrink = work // 2
        return ask

    def _fate(self, rng: Random, law: tuple[float, float]) -> tuple[str, int, int]:
        """(how it ends, seconds of work, limit in seconds, whole minutes)."""
        end = rng.choices([name for name, _ in ENDS], [share for _, share in ENDS])[0]
        work = int(min(ORDINARY, max(2.0, rng.lognormvariate(*law) * LENGTHS[end])))
        if end == "TIMEOUT":
            limit = -(-max(300, work) // 300) * 300
            return end, limit + rng.randrange(31), limit  # killed at the next look after the limit
        if rng.random() < LIMITED:
            limit = min(LONGEST, int(work * math.exp(rng.uniform(math.log(6), math.log(100)))))
        else:
            limit = DEFAULT_LIMIT
        return end, work, -(-max(600, limit, work + 60) // 60) * 60

    def _sweep(self, rng: Random, at: int) -> Iterator[Ask]:
        """5 to 200 equal jobs of one GPU: an array, or a loop around sbatch."""
        count = int(math.exp(rng.uniform(math.log(FEWEST), math.log(MOST))))
        project, account, user = self._who(rng)
        law = (rng.gauss(7.2, 0.6), 0.4)
        fates = [self._fate(rng, law) for _ in range(count)]
        limit = max(limit for _, _, limit in fates)
        tasks = tuple((work, "COMPLETED" if end == "TIMEOUT" else end) for end, work, _ in fates)
        first = Ask(at, project.code, account, user, f"sweep-{rng.choice(project.words)}", "train", "normal", 1, 12,
                    tasks[0][0], limit, tasks[0][1])  # fmt: skip
        if rng.random() < ARRAYS:
            yield replace(first, tasks=tasks)
            return
        for place, (work, end) in enumerate(tasks):
            yield replace(first, at=at + place // 3, work=work, end=end, name=f"{first.name}-{place:03d}")

    def _script(self, rng: Random, at: int) -> Ask:
        project, account, user = self._who(rng)
        end, work, limit = self._fate(rng, CPU_RUN)
        cpus = rng.choice((1, 2, 4, 8, 8, 16, 32))
        name = rng.choice(project.words)
        return Ask(at, project.code, account, user, name, "cpu", "normal", 0, cpus, work, limit, end)

    def _rare(self, rng: Random, start: int) -> Iterator[Ask]:
        """What every scheduler sees now and then: held, deferred and two-part jobs, and those that yield to others."""
        scale = self.hall.gpus / 256
        for _ in range(_poisson(rng, 0.3 * scale)):
            yield replace(self._job(rng, start + rng.randrange(DAY)), held=rng.randrange(HOUR, 4 * DAY))
        for _ in range(_poisson(rng, 0.5 * scale)):
            yield replace(self._job(rng, start + rng.randrange(DAY)), later=rng.randrange(HOUR, 12 * HOUR))
        for _ in range(_poisson(rng, 0.5 * scale)):
            yield self._two_parts(rng, start + rng.randrange(DAY))
        for _ in range(_poisson(rng, SCAVENGE * self.hall.gpus * DAY / (4 * 5 * HOUR))):
            yield self._scavenger(rng, start + rng.randrange(DAY))

    def _two_parts(self, rng: Random, at: int) -> Ask:
        """A learner on GPUs and its actors on cores, started together (a het job)."""
        project = next(one for one in PROJECTS if one.code == "robotics")
        user = rng.choices(users_of(project), zipf(USERS))[0]
        work = int(rng.lognormvariate(8.5, 0.8))
        learner = Ask(at, project.code, project.code, user, "rollout-learn", "train", "normal", GPUS, 96, work,
                      DEFAULT_LIMIT, "COMPLETED")  # fmt: skip
        return replace(learner, part=replace(learner, partition="cpu", gpus=0, cpus=64))

    def _scavenger(self, rng: Random, at: int) -> Ask:
        """A job that runs in what nobody else wants and is preempted by all: 1 to 8 GPUs for 5 hours on average."""
        project, account, user = self._who(rng)
        work = int(rng.expovariate(1 / (5 * HOUR))) + 60
        gpus = rng.choice((1, 2, 4, 8))
        return Ask(at, project.code, account, user, "synth-data", "scavenge", "low", gpus, 12 * gpus, work,
                   LONGEST, "COMPLETED")  # fmt: skip


def _poisson(rng: Random, mean: float) -> int:
    """A Poisson number (Knuth's product; means here are below 300)."""
    if mean > 30:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, count, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        count += 1
        product *= rng.random()
    return count
