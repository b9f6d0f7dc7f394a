"""The training effort that the program of a job names; it beats the name in the job's comment (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from events.derive.outcome import Job
from events.derive.sightings import NEAR, Sighting
from events.types.training import RunDeclared

__all__ = ["name_runs"]


def name_runs(jobs: Sequence[Job], sightings: Sequence[Sighting]) -> tuple[Job, ...]:
    """The jobs of a stream with the runs that their programs declared.

    A declaration is of the last job that had been submitted by then; of several the latest one counts, whenever it
    arrived.
    """
    said: dict[int, Sighting] = {}
    for one in sorted(sightings, key=_turn):
        if isinstance(one.data, RunDeclared) and jobs:
            said[_meant(jobs, one.occurred_us // 1_000_000)] = one
    return tuple(_named(job, said.get(job.seq)) for job in jobs)


def _meant(jobs: Sequence[Job], instant: int) -> int:
    """The seq of the last job that had begun to exist at an instant, the first one if none had."""
    return max((job.seq for job in jobs if _since(job) <= instant + NEAR), default=jobs[0].seq)


def _since(job: Job) -> int:
    known = [job.submit] if job.submit is not None else [attempt.start for attempt in job.attempts]
    return min(known, default=0)


def _named(job: Job, said: Sighting | None) -> Job:
    if said is None or not isinstance(said.data, RunDeclared):
        return job
    return replace(job, run=said.data.run, last_position=max(job.last_position, said.position))


def _turn(one: Sighting) -> tuple[int, str, str]:
    return (one.occurred_us, one.source, one.source_key)
