"""What the demo tells in real time, and after a pause, gives the same books as what it loads."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from config.demo.live import CHECK, FIRST_CHECK, Teller, check
from config.demo.loading import MARGIN, Plan, known_plan, load
from config.demo.truth import Attempt, Job
from config.demo.world import World, midnight
from events import deliveries, projector
from events.queries import head_position
from jobs.goodput import PARTS
from jobs.models import Attempt as AttemptRow
from jobs.models import Goodput
from jobs.models import Job as JobRow
from tests.hand import own_database

BEGIN = date(2025, 5, 5)
LAST = midnight(BEGIN + timedelta(days=4)) + 12 * 3600
PLAN = Plan("small", 2, BEGIN)


@pytest.fixture
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """Four days and a half of a rack in the books."""
    with own_database(django_db_blocker), django_db_blocker.unblock():
        world = World(PLAN.pod, PLAN.seed, PLAN.begin)
        load(PLAN, world, LAST, stdout=io.StringIO(), stderr=io.StringIO(), step=lambda _text: None)
        yield world


def settle() -> None:
    while deliveries.drain():
        pass
    projector.catch_up()


def facts(attempts: list[Attempt]) -> set[tuple[Any, ...]]:
    return {(str(a.job.id), a.start, a.end, a.sizes[0].gpus, a.state if a.end else "") for a in attempts}


def in_the_books() -> set[tuple[Any, ...]]:
    return {
        (
            row.job_id,
            int(row.start.timestamp()),
            row.end and int(row.end.timestamp()),
            row.gpus,
            row.state * bool(row.end),
        )
        for row in AttemptRow.objects.all()
    }


def checks_told() -> int:
    return sum(int(row.job_id) >= FIRST_CHECK for row in AttemptRow.objects.all())


def jobs_of(world: World) -> list[Job]:
    return [job for job in world.queue.jobs if job.id is not None]


def test_an_hour_told_second_by_second_and_a_pause_of_hours_afterwards(world: World) -> None:
    teller = Teller(world, LAST - 1)
    for now in range(LAST, LAST + 3600, 7):
        teller.tell(now)
    settle()
    live = {attempt for attempt in in_the_books() if int(attempt[0]) < FIRST_CHECK}
    assert live == facts([attempt for job in jobs_of(world) for attempt in job.attempts])
    assert checks_told() == pytest.approx(3600 / CHECK, abs=5)
    assert not AttemptRow.objects.filter(disagree=True).exists()

    again = World(PLAN.pod, PLAN.seed, PLAN.begin)
    later = LAST + 3600 * 20
    Teller(again, LAST + 3600 - MARGIN).tell(later)
    settle()
    live = {attempt for attempt in in_the_books() if int(attempt[0]) < FIRST_CHECK}
    assert live == facts([attempt for job in jobs_of(again) for attempt in job.attempts])
    assert JobRow.objects.count() - checks_told() == len(jobs_of(again))
    assert not [row for row in AttemptRow.objects.filter(end=None) if int(row.job_id) >= FIRST_CHECK]
    assert not AttemptRow.objects.filter(confirmed=False, end=None).exists()
    programs = again.programs(later)
    assert len(programs) == Goodput.objects.count() > 0
    for program in programs:
        row = Goodput.objects.get(job_id=str(program.attempt.job.id), number=program.attempt.number)
        happened = program.gpu_seconds()
        assert {part: getattr(row, part) / row.gpus for part in PARTS} == pytest.approx(
            {part: happened.get(part, 0) / row.gpus for part in PARTS}, abs=1
        )


def test_loading_again_changes_nothing(world: World) -> None:
    """As after a load that was cut short: the same world says the same."""
    before = head_position(), in_the_books()
    again = World(PLAN.pod, PLAN.seed, PLAN.begin)
    load(PLAN, again, LAST, stdout=io.StringIO(), stderr=io.StringIO(), step=lambda _text: None)
    assert (head_position(), in_the_books()) == before
    assert known_plan() == Plan("small", 2, BEGIN, whole=True)


def test_checks_are_functions_of_their_number() -> None:
    world = World("small", 1, BEGIN)
    for number in (0, 1, 4711):
        job = check(world, number)
        (attempt,) = job.attempts
        assert attempt.start == midnight(BEGIN) + (number + 1) * CHECK
        assert 10 <= (attempt.end or 0) - attempt.start <= 70
        assert job.id == FIRST_CHECK + number
