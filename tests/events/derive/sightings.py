"""Hand-made sightings of one job stream, and short ways to look at what the fold makes of them."""

from __future__ import annotations

from typing import Any

from events.derive.attempts import Attempt, Job, Sighting, fold
from events.types.corrections import RecordCorrected
from events.types.jobs import JobReported

DAY = 86_400


def told(state: str, position: int = 1, source: str = "sacct:pod-a", at: int | None = None, **data: Any) -> Sighting:
    report = JobReported(cluster="pod-a", job_id="7", state=state, **data)  # type: ignore[arg-type]
    occurred = next((t for t in (at, report.end, report.start, report.submit) if t is not None), 0)
    return Sighting(position, source, f"key{position}", "job.reported", occurred * 1_000_000, report)


def corrected(field: str, new: str, start: int = 110, position: int = 90) -> Sighting:
    data = RecordCorrected("pod-a", "7", start, field, "", new, "as agreed")  # type: ignore[arg-type]
    return Sighting(position, "person", f"fix{position}", "record.corrected", 10**15, data)


def only(*sightings: Sighting) -> Job:
    (job,) = fold(sightings)
    return job


def attempt(*sightings: Sighting) -> Attempt:
    (one,) = only(*sightings).attempts
    return one


def spans(one: Attempt) -> list[tuple[int, int | None, int | None]]:
    return [(part.start, part.end, part.gpus) for part in one.segments]


def gpu_seconds(one: Attempt) -> int:
    return sum((part.gpus or 0) * (part.end - part.start) for part in one.segments if part.end is not None)


def replace_data(sighting: Sighting, **changes: Any) -> Sighting:
    data = {name: getattr(sighting.data, name) for name in sighting.data.__struct_fields__}
    return sighting._replace(data=JobReported(**{**data, **changes}))
