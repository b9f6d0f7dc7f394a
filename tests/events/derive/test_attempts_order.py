"""Any order of arrival of a job's sightings gives the same jobs, and other sources change no second."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from events.derive.attempts import Attempt, Job, Sighting, fold
from tests.events.derive.sightings import DAY, corrected, spans, told


def without_positions(jobs: Iterable[Job]) -> list[Job]:
    return [replace(job, last_position=0, attempts=tuple(map(without_place, job.attempts))) for job in jobs]


def without_place(one: Attempt) -> Attempt:
    return replace(one, first_position=0, last_position=0)


OTHERS = ("jobcomp:c", "slurmctld:c", "epilogslurmctld:c", "hook:gpu001")
FINALS = ("COMPLETED", "FAILED", "TIMEOUT", "REQUEUED", "PREEMPTED", "NODE_FAIL", "CANCELLED")


@st.composite
def reports_of_a_run(draw: st.DrawFn, record: int, submit: int) -> tuple[list[dict[str, Any]], int]:
    """What the sources say of one submission: the accounting with its resizes, the others a choice of it."""
    start = submit + draw(st.integers(0, 40))
    size = draw(st.integers(0, 16))
    source = draw(st.sampled_from(("sacct:c", "slurmdbd:c")))
    base = {"submit": submit, "eligible": submit}
    numbered = draw(st.booleans())
    said: list[dict[str, Any]] = []
    cursor, resizes = start, draw(st.integers(0, 2))
    for part in range(resizes + 1):
        base = {"submit": submit if part == 0 else cursor, "eligible": submit}
        number = {"record": record + part} if numbered else {}
        end = cursor + draw(st.integers(3, 60))
        state = "RESIZING" if part < resizes else draw(st.sampled_from(FINALS))
        run = {**base, **number, "source": source, "start": start, "gpus": size + part, "nodes": 1}
        if part == 0 and draw(st.booleans()):
            said.append({**base, **number, "source": source, "state": "PENDING"})
        if draw(st.booleans()):
            said.append({**run, "state": "RUNNING"})
        said.append({**run, "state": state, "end": end, "suspended_seconds": draw(st.integers(0, 90))})
        cursor = end
    for other in draw(st.lists(st.sampled_from(OTHERS), unique=True)):
        late = draw(st.integers(0, 9)) if other.startswith(("hook", "epilog")) else 0
        extra = {"source": other, "submit": submit, "start": start, "gpus": size + resizes}
        if draw(st.booleans()):
            said.append({**extra, "state": "RUNNING"})
        said.append({**extra, "state": state, "end": cursor + late, "name": other})
    return said, cursor


@st.composite
def streams(draw: st.DrawFn) -> list[Sighting]:
    said: list[dict[str, Any]] = []
    submit = draw(st.integers(1000, 2000))
    for run in range(draw(st.integers(1, 4))):
        more, end = draw(reports_of_a_run(record=10 * run + 1, submit=submit))
        said += more
        submit = end + draw(st.sampled_from((0, 1, 2, 3, 500, 31 * DAY)))
    if draw(st.booleans()):
        said.append({"source": "slurmctld:c", "state": "PENDING", "submit": submit})
    reports = [told(position=position, **one) for position, one in enumerate(said, 1)]
    if draw(st.booleans()):
        starts = st.sampled_from([one["start"] for one in said if "start" in one])
        new = st.sampled_from(("", "0", "12", "1100", "99999999", "x"))
        fields = st.sampled_from(("start", "end", "gpus", "account", "suspended_seconds"))
        reports.append(corrected(draw(fields), draw(new), draw(starts), 1000))
    return reports


@given(streams(), st.randoms(use_true_random=False))
def test_any_order_and_repetition_gives_the_same_jobs(stream: list[Sighting], chance: random.Random) -> None:
    expected = fold(stream)
    shuffled = [*stream, *chance.choices(stream, k=3)]
    chance.shuffle(shuffled)
    assert fold(shuffled) == expected
    arrived = [one._replace(position=position) for position, one in enumerate(shuffled, 1)]
    assert without_positions(fold(arrived)) == without_positions(expected)


@given(streams())
def test_segments_cover_the_attempt(stream: list[Sighting]) -> None:
    for one in (one for job in fold(stream) for one in job.attempts):
        check_segments(one)


def check_segments(one: Attempt) -> None:
    parts = one.segments
    assert (parts[0].start, parts[-1].end) == (one.start, one.end)
    assert all(before.end == after.start for before, after in pairwise(parts))
    assert all(part.end is None or part.start <= part.end for part in parts)
    if one.end is not None:
        assert sum((part.end or 0) - part.start for part in parts) == one.end - one.start
        assert 0 <= one.suspended_seconds <= one.end - one.start


@given(streams())
def test_other_sources_add_no_run_and_no_second(stream: list[Sighting]) -> None:
    """What jobcomp, slurmctld and the hooks say beside the accounting changes none of its times or sizes."""
    accounting = [one for one in stream if not one.source.startswith(("jobcomp", "slurmctld", "epilog", "hook"))]
    assert runs(fold(stream)) == runs(fold(accounting))


def runs(jobs: Sequence[Job]) -> list[list[tuple[int, int | None, int | None]]]:
    return [spans(one) for job in jobs for one in job.attempts]
