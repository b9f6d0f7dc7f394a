"""Named training runs: efforts of days and weeks, each many jobs under one `run=` name, one after another per team."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from config.demo.hall import GPUS, Hall
from config.demo.load import DAY, HOUR, LONGEST, Ask
from config.demo.truth import Job

__all__ = ["Campaign", "Story"]

ENDS: Final = (("CANCELLED", 0.80), ("FAILED", 0.12), ("TIMEOUT", 0.08))
"""How a job ends that is not its run's last: stopped by its user to change something, by a crash, by its limit.
Cancelled jobs hold .58 of the GPU time, failed ones .12 (Acme, Helios, Philly)."""
ABANDONED: Final = 0.5
"""Share of runs whose last job is cancelled because the run leads nowhere [assumed]."""
CHUNK: Final = (0.6 * DAY, 4.5 * DAY)
"""Seconds between interventions in a run [assumed]."""
PAUSES: Final = {"CANCELLED": (600, 5 * HOUR), "FAILED": (600, 2 * HOUR), "TIMEOUT": (30, 300)}
"""Seconds until a run's next job is submitted."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """A team's series of runs. share: of the hall's GPUs. days, gap: of a run, and between two, in days."""

    project: str
    account: str
    user: str
    base: str
    share: float
    days: tuple[float, float]
    gap: tuple[float, float]
    first: float

    def gpus(self, hall: Hall) -> int:
        """Whole nodes' worth of GPUs."""
        return max(1, int(self.share * hall.gpu_nodes)) * GPUS

    def mean_gpus(self, hall: Hall) -> float:
        """GPUs in use on average, over runs and gaps."""
        run, gap = sum(self.days) / 2, sum(self.gap) / 2
        return self.gpus(hall) * run / (run + gap)


CAMPAIGNS: Final = (
    Campaign("atlas", "atlas-prod", "svc-atlas", "atlas-70b", 0.375, (8, 20), (1, 3), 0.4),
    Campaign("vision", "vision", "svc-vision", "vit-22b", 0.125, (3, 7), (3, 7), 2.0),
    Campaign("speech", "speech", "svc-speech", "asr-xl", 0.0625, (2, 5), (3, 8), 1.0),
    Campaign("robotics", "robotics", "svc-robotics", "vla-7b", 0.0625, (2, 6), (4, 9), 4.0),
    Campaign("protein", "protein", "svc-protein", "fold-3b", 0.0625, (2, 5), (4, 8), 6.0),
    Campaign("world", "world", "svc-world", "dream-5b", 0.03125, (3, 6), (5, 9), 9.0),
)


@dataclass(slots=True)
class _Effort:
    """Where a campaign stands: its run, and the seconds of work the run still needs."""

    campaign: Campaign
    random: Random
    number: int = 0
    left: float = 0.0
    good: bool = True


class Story:
    """All campaigns; answers to the end of each of their jobs with the next one."""

    def __init__(self, hall: Hall, seed: int) -> None:
        self._hall = hall
        self._efforts = {
            one.base: _Effort(one, Random(f"{seed}/{one.base}"))
            for one in CAMPAIGNS[: 1 if hall.gpu_nodes < 8 else None]
        }

    @property
    def mean_gpus(self) -> float:
        """GPUs that named runs hold on average."""
        return sum(effort.campaign.mean_gpus(self._hall) for effort in self._efforts.values())

    def open(self, begin: int) -> Iterator[Ask]:
        """The first job of every campaign."""
        for effort in self._efforts.values():
            yield self._new_run(effort, begin + int(effort.campaign.first * DAY))

    def follow(self, job: Job, now: int) -> Iterator[Ask]:
        """What is submitted because this job has ended; nothing while the same job is requeued."""
        effort = self._efforts.get(job.ask.run.rpartition("-r")[0]) if job.ask.run else None
        if effort is None or job.state == "PENDING":
            return
        effort.left -= job.ask.work
        if effort.left > 0:
            low, high = PAUSES.get(job.state, (600, HOUR))
            yield self._next_job(effort, now + effort.random.randrange(low, high))
        else:
            yield self._new_run(effort, now + int(effort.random.uniform(*effort.campaign.gap) * DAY))

    def _new_run(self, effort: _Effort, at: int) -> Ask:
        effort.number += 1
        effort.left = effort.random.uniform(*effort.campaign.days) * DAY
        effort.good = effort.random.random() > ABANDONED
        return self._next_job(effort, at)

    def _next_job(self, effort: _Effort, at: int) -> Ask:
        campaign, rng = effort.campaign, effort.random
        work = int(min(effort.left, rng.uniform(*CHUNK)))
        end = rng.choices([name for name, _ in ENDS], [share for _, share in ENDS])[0]
        if effort.left - work < 6 * HOUR:
            work, end = int(effort.left) + 1, "COMPLETED" if effort.good else "CANCELLED"
        limit = LONGEST
        if end == "TIMEOUT":
            work = limit = -(-work // 60) * 60
        gpus, run = campaign.gpus(self._hall), f"{campaign.base}-r{effort.number}"
        return Ask(at, campaign.project, campaign.account, campaign.user, run, "train", "high", gpus, 12 * gpus,
                   work, limit, end, comment=f"run={run}", run=run)  # fmt: skip
