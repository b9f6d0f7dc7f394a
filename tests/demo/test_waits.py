"""Why the demo's jobs waited: what the books say is what happened, as far as a look every 30 seconds can see it."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from django.db import connection

from config.demo.live import Teller
from config.demo.loading import Plan, load
from config.demo.truth import Job, Truth, Why, project_of
from config.demo.world import World, midnight
from events import deliveries, projector
from tests.hand import ask, own_database

BEGIN = date(2025, 3, 24)
FIRST = midnight(BEGIN)
PLAN = Plan("pod", 5, BEGIN)
POLL: Final = 30
"""The step of sampling: each change of a reason is seen up to so many seconds late."""
CAUSES: Final = {
    # By Slurm's documentation of its job reasons.
    "JobHeldUser": "dependency_or_hold", "BeginTime": "dependency_or_hold", "Priority": "own_share",
    "Resources": "full", "QOSMaxGRESPerUser": "own_limit", "JobArrayTaskLimit": "own_limit",
}  # fmt: skip


class Span(NamedTuple):
    """One wait of the simulated hall: of an attempt, or of what never started or waits still (to the end known)."""

    job: Job
    number: int
    submit: int
    eligible: int | None
    end: int
    started: bool
    told: list[Why]


@pytest.fixture(scope="module", params=[9, pytest.param(90, marks=pytest.mark.slow)], ids="{} days".format)
def truth(request: Any, django_db_setup: None, django_db_blocker: Any) -> Iterator[Truth]:
    """A pod in a database of its own, until the middle of a day, as a demo ends."""
    with own_database(django_db_blocker), django_db_blocker.unblock():
        world = World(PLAN.pod, PLAN.seed, PLAN.begin)
        until = midnight(BEGIN + timedelta(days=request.param)) + 34_567
        yield load(PLAN, world, until, stdout=io.StringIO(), stderr=io.StringIO(), step=lambda _text: None)


def spans(jobs: list[Job], until: int) -> Iterator[Span]:
    """Every wait of every job that has a number; what waits is cut at `until`."""
    for job in jobs:
        if job.id is None:
            continue
        together = job.array.told if job.array else job.told
        for attempt in job.attempts:
            told = together if attempt.number == 1 else job.told
            yield Span(job, attempt.number, attempt.submit, attempt.eligible, attempt.start, True, told)
        if not job.attempts or (job.state == "PENDING" and job.end is None):
            told = job.told if job.attempts else together
            yield Span(
                job, len(job.attempts) + 1, job.submit, job.eligible, until if job.end is None else job.end, False, told
            )


def happened(span: Span) -> Counter[str]:
    """Seconds since the submission by cause, as the scheduler of the hall had its reasons."""
    cuts = [why for why in span.told if span.submit <= why.at < span.end]
    ends = [why.at for why in cuts[1:]] + [span.end]
    found: Counter[str] = Counter()
    for why, end in zip(cuts, ends, strict=True):
        found[CAUSES[why.reason]] += end - why.at
    return found


def sampled(span: Span) -> dict[str, tuple[int, int]]:
    """cause -> seconds (since eligible, since submit), from one look after another: a second reading of the rules."""
    found: dict[str, list[int]] = {}
    eligible = span.submit if span.eligible is None else span.eligible
    looks = [
        (moment, CAUSES[[why.reason for why in span.told if why.at <= moment][-1]])
        for moment in range(-(-span.submit // POLL) * POLL, span.end, POLL)
    ]
    soon = [(span.submit, looks[0][1] if looks else "unknown")]
    if eligible > span.submit:
        soon = [(span.submit, "dependency_or_hold"), (eligible, soon[0][1])]
    told = [cut for cut in soon if not looks or cut[0] < looks[0][0]] + looks
    for (start, cause), end in zip(told, [*(at for at, _ in told[1:]), span.end], strict=True):
        sums = found.setdefault(cause, [0, 0])
        sums[0] += max(0, end - max(start, eligible)) if span.eligible is not None else 0
        sums[1] += max(0, end - start)
    return {cause: (sums[0], sums[1]) for cause, sums in found.items() if sums[1]}


def booked(until: int) -> dict[tuple[str, int], dict[str, tuple[int, int]]]:
    """(job id, number) -> cause -> seconds since eligible and since submit, as far as they lie before `until`."""
    found: dict[tuple[str, int], dict[str, tuple[int, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT split_part(stream, '/', 3), number, cause, sum(seconds) FILTER (WHERE since_eligible),
                      sum(seconds) FILTER (WHERE since_submit)
               FROM (SELECT *, extract(epoch FROM least(end_at, to_timestamp(%s)) - start_at)::bigint AS seconds
                     FROM jobs_wait WHERE start_at < to_timestamp(%s)) w GROUP BY 1, 2, 3""",
            [until, until],
        )
        for job, number, cause, eligible, submit in cursor.fetchall():
            found.setdefault((job, number), {})[cause] = (int(eligible or 0), int(submit or 0))
    return found


def check(jobs: list[Job], until: int) -> Counter[str]:
    """Every wait of the hall is in the books as looks every 30 s saw it. How many there were of each kind."""
    told, kinds = booked(until), Counter[str]()
    for span in spans(jobs, until):
        expected, found = sampled(span), told.pop((str(span.job.id), span.number), None)
        if found is None:  # it started before anybody looked: less than one step of sampling
            assert span.end - span.submit < POLL, span
            continue
        assert _known(found, span) == _known(expected, span), span
        assert sum(submit for _, submit in found.values()) == span.end - span.submit
        changes = [why for why in span.told if span.submit <= why.at < span.end]
        real = happened(span)
        for cause in {*real, *found}:
            assert abs(found.get(cause, (0, 0))[1] - real[cause]) <= POLL * len(changes), span
        kinds.update(_kinds(span))
    assert not told, "the books tell of waits that were none"
    return kinds


def _known(sums: dict[str, tuple[int, int]], span: Span) -> dict[str, tuple[int, int]]:
    """Of what waits again after a requeue nobody tells since when it could start, until it does."""
    return sums if span.started or span.number == 1 else {cause: (0, submit) for cause, (_, submit) in sums.items()}


def _kinds(span: Span) -> Iterator[str]:
    job, reasons = span.job, {why.reason for why in span.told if span.submit <= why.at < span.end}
    yield "all"
    if job.array and span.number == 1:
        yield "array"
    if job.array and span.number > 1:
        yield "requeued task"
    if span.number > 1:
        yield "requeued"
        yield job.attempts[span.number - 2].state
    if job.het:
        yield "het"
    if not span.started:
        yield "waits" if job.end is None else "cancelled"
    yield from reasons & {"JobHeldUser", "BeginTime", "JobArrayTaskLimit", "QOSMaxGRESPerUser"}


def test_every_wait_has_the_causes_it_had_within_the_step_of_sampling(truth: Truth) -> None:
    kinds = check(truth.jobs, truth.until)
    often = {"array", "requeued", "PREEMPTED", "cancelled", "waits", "JobHeldUser", "BeginTime", "JobArrayTaskLimit",
             "QOSMaxGRESPerUser"}  # fmt: skip
    seldom = {"NODE_FAIL", "het", "requeued task"} if truth.until - FIRST > 60 * 86_400 else set()
    assert often | seldom <= set(kinds), kinds
    assert kinds["all"] > 400


def test_most_of_the_waiting_has_a_cause(truth: Truth) -> None:
    """What nobody saw is what lasted less than one look."""
    rows = ask("waits", _stamp(FIRST), _stamp(truth.until), "cause").rows
    seconds = {row["cause"]: row["wait_from_submit_seconds"] for row in rows}
    unseen = [span for span in spans(truth.jobs, truth.until) if span.started and not _polled(span)]
    assert seconds["unknown"] == sum(span.end - max(span.submit, span.eligible or 0) for span in unseen)
    assert seconds["unknown"] < sum(seconds.values()) / 100
    assert set(seconds) == {"unknown", "own_share", "full", "own_limit", "dependency_or_hold"}


def _polled(span: Span) -> bool:
    return -(-span.submit // POLL) * POLL < span.end


def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@pytest.mark.parametrize("by", ["project", "day", "partition", "user"])
def test_causes_add_up_to_the_whole_in_every_group(truth: Truth, by: str) -> None:
    start, end = _stamp(FIRST), _stamp(truth.until)
    whole, parts = ask("waits", start, end, by), ask("waits", start, end, f"{by},cause")
    for measure in ("wait_seconds", "wait_from_submit_seconds"):
        sums: Counter[str] = Counter()
        for row in parts.rows:
            sums[row[by]] += row[measure]
        assert sums == Counter({row[by]: row[measure] for row in whole.rows})
        assert sum(sums.values()) == whole.total[measure] == parts.total[measure]
    truly: Counter[str] = Counter()
    for attempt in truth.attempts():
        truly[project_of(attempt.account)] += attempt.start - attempt.eligible
    if by == "project":
        assert {row["project"]: row["wait_seconds"] for row in whole.rows} == truly


def test_causes_add_up_to_the_whole_in_any_window(truth: Truth) -> None:
    random = Random("windows")
    for _ in range(12):
        first, last = sorted(random.randrange(FIRST, truth.until) for _ in range(2))
        rows = ask("waits", _stamp(first), _stamp(last + 1), "cause")
        started = truth.started(first, last + 1)
        assert sum(row["wait_seconds"] for row in rows.rows) == sum(one.start - one.eligible for one in started)
        assert sum(row["wait_from_submit_seconds"] for row in rows.rows) == sum(
            one.start - one.submit for one in started
        )


def test_expected_starts_are_those_of_the_reservation(truth: Truth) -> None:
    """As the list tells them: by which hour, and by which ten minutes where it is near."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT split_part(stream, '/', 3), extract(epoch FROM at)::bigint, extract(epoch FROM expected)::bigint
               FROM jobs_look WHERE expected IS NOT NULL"""
        )
        rows = cursor.fetchall()
    told = {(str(job.id), why.at): why.expected for job in truth.jobs for why in job.told if why.expected}
    assert len(rows) > 20
    for job, at, expected in rows:
        before = max((moment, shadow) for (name, moment), shadow in told.items() if name == job and moment <= at)[1]
        assert before is not None
        assert 0 <= expected - before < (600 if before - at <= 7200 else 3600)


LATER: Final = date(2025, 5, 5)
LAST: Final = midnight(LATER + timedelta(days=4)) + 12 * 3600


@pytest.fixture
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """Four days and a half of a rack in the books."""
    with own_database(django_db_blocker), django_db_blocker.unblock():
        world = World("small", 2, LATER)
        load(Plan("small", 2, LATER), world, LAST, stdout=io.StringIO(), stderr=io.StringIO(), step=lambda _text: None)
        yield world


def settle() -> None:
    while deliveries.drain():
        pass
    projector.catch_up()


def test_told_live_they_are_the_same_and_a_pause_only_blurs_them(world: World) -> None:
    teller, last = Teller(world, LAST - 1), LAST + 6 * 3600
    for now in range(LAST, last + 1, 7):
        teller.tell(now)
    settle()
    mine = [job for job in world.queue.jobs if job.id is not None]
    until = now + 1
    own = booked(until)
    compared = 0
    for span in spans(mine, until):
        found = own.get((str(span.job.id), span.number))
        if found is not None:
            assert _known(found, span) == _known(sampled(span), span), span
            compared += span.end > LAST
    assert compared > 10

    teller.tell(now + 5 * 3600)
    settle()
    own, until = booked(now + 5 * 3600 + 1), now + 5 * 3600 + 1
    for span in spans([job for job in world.queue.jobs if job.id is not None], until):
        if found := own.get((str(span.job.id), span.number)):
            assert sum(submit for _, submit in found.values()) == span.end - span.submit
