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
from events.types.jobs import JobFound, JobLost
from tests.events.derive.sightings import DAY, corrected, spans, told


def without_positions(jobs: Iterable[Job]) -> list[Job]:
    return [replace(job, last_position=0, attempts=tuple(map(without_place, job.attempts))) for job in jobs]


def without_place(one: Attempt) -> Attempt:
    return replace(one, first_position=0, last_position=0)


OTHERS = ("jobcomp:c", "slurmctld:c", "epilogslurmctld:c", "hook:gpu001")
FINALS = ("COMPLETED", "FAILED", "TIMEOUT", "REQUEUED", "PREEMPTED", "NODE_FAIL", "CANCELLED")


@st.composite
def reports_of_a_run(draw: st.DrawFn, run: int, submit: int) -> tuple[list[dict[str, Any]], int]:
    """What the sources say of one submission: the accounting with its resizes, the others a choice of it."""
    start = submit + draw(st.integers(0, 40))
    size = draw(st.integers(0, 16))
    source = draw(st.sampled_from(("sacct:c", "slurmdbd:c")))
    base = {"submit": submit, "eligible": submit}
    record = 10 * run + 1
    numbered = draw(st.booleans())
    said: list[dict[str, Any]] = []
    cursor, resizes = start, draw(st.integers(0, 2))
    for part in range(resizes + 1):
        base = {"submit": submit if part == 0 else cursor, "eligible": submit}
        number = {"record": record + part} if numbered else {}
        end = cursor + draw(st.integers(3, 60))
        state = "RESIZING" if part < resizes else draw(st.sampled_from(FINALS))
        whole = {**base, **number, "source": source, "start": start, "gpus": size + part, "nodes": 1}
        if part == 0 and draw(st.booleans()):
            said.append({**base, **number, "source": source, "state": "PENDING"})
        if draw(st.booleans()):
            said.append({**whole, "state": "RUNNING"})
        said.append({**whole, "state": state, "end": end, "suspended_seconds": draw(st.integers(0, 90))})
        cursor = end
    for other in draw(st.lists(st.sampled_from(OTHERS), unique=True)):
        # Slurm starts no job again before its epilogs have run: those that name no run are 2 s late at most.
        late, soon = (
            (draw(st.integers(0, 9)), draw(st.integers(0, 2))) if other.startswith(("hook", "epilog")) else (0, 0)
        )
        extra = {"source": other, "submit": submit, "start": start, "gpus": size + resizes}
        if other.startswith(("hook", "slurmctld")) and draw(st.booleans()):
            extra |= {"restarts": run, "gpu_indices": (f"n{draw(st.integers(1, 2))}=0-{draw(st.integers(1, 3))}",)}
        if other.startswith(("hook", "epilog")) and draw(st.booleans()):
            del extra["submit"]  # Slurm's scripts do not know it
        if draw(st.booleans()):
            said.append({**extra, "state": "RUNNING"})
        if other.startswith("hook") and draw(st.booleans()):
            node = f"n{draw(st.integers(1, 2))}"
            said.append({"source": other, "state": "COMPLETING", "end": cursor + soon, "node_list": node, "nodes": 1})
        if other.startswith("epilog") and draw(st.booleans()):
            said.append({"source": other, "state": "UNKNOWN", "end": cursor + soon})
        else:
            said.append({**extra, "state": state, "end": cursor + late, "name": other})
    return said, cursor


def words_about(draw: st.DrawFn, start: int) -> list[Sighting]:
    """That a run was lost, found and lost again, in some order and perhaps at one moment."""
    times = draw(st.lists(st.integers(0, 3), max_size=4))
    return [
        Sighting(2000 + place, "hallbook", f"word{place}", "job.found" if odd else "job.lost", (9000 + at) * 10**6,
                 JobFound("pod-a", "7", start) if odd else JobLost("pod-a", "7", start, start + at, "unseen"))
        for place, at in enumerate(times) for odd in [place % 2]
    ]  # fmt: skip


@st.composite
def streams(draw: st.DrawFn) -> list[Sighting]:
    said: list[dict[str, Any]] = []
    submit = draw(st.integers(1000, 2000))
    for run in range(draw(st.integers(1, 4))):
        more, end = draw(reports_of_a_run(run=run, submit=submit))
        said += more
        submit = end + draw(st.sampled_from((0, 1, 2, 3, 500, 31 * DAY)))
    last = draw(st.sampled_from(("", "PENDING", "RUNNING")))
    if last == "PENDING":
        said.append({"source": "slurmctld:c", "state": last, "submit": submit})
    elif last:
        said.append({"source": "sacct:c", "state": last, "submit": submit, "start": submit + 5, "gpus": 2})
    reports = [told(position=position, **one) for position, one in enumerate(said, 1)]
    reports += words_about(draw, submit + 5)
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


@given(streams(), st.data())
def test_any_part_of_what_was_said_in_any_order(stream: list[Sighting], data: st.DataObject) -> None:
    """Also what makes little sense, as when the accounting is missing or epilogs without their prologs."""
    part = data.draw(st.lists(st.sampled_from(stream), unique_by=lambda one: one.position))
    jobs = fold(part)
    assert fold(data.draw(st.permutations(part))) == jobs
    for one in (one for job in jobs for one in job.attempts):
        check_segments(one)
