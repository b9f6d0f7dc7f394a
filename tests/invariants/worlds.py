"""Small made-up worlds for the invariants: a site, its tree, accounts, prices and jobs, with all that may go wrong.

What is said is chosen so that the order of saying does not matter: no two statements about the same thing on the
same day, and no two final records of one source that contradict each other. (Those are tested one by one.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from events.append import Fact
from events.types.jobs import JobReported
from events.types.projects import ProjectMoved
from events.types.rates import RateWithdrawn
from tests.hand import DAY, HOUR, at, corrected, facts, gpus, job, mapped, place, project, rate

FEW = settings(
    max_examples=12, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Havana", "Atlantic/Azores", "Africa/Cairo",
         "Pacific/Apia", "Australia/Lord_Howe")  # fmt: skip
"""Zones with their midnights at odd places: half hours, and midnights that come twice or not at all."""
FIRST = date(2026, 3, 20)
DAYS = 250
"""20 March to 24 November 2026: both changes of the clocks, north and south."""
# Moments near which something happens: midnights and changes of the clocks of the zones, and any other.
EDGES = [at(text) for text in (
    "2026-03-29 00:00", "2026-03-29 01:00", "2026-03-31 22:00", "2026-04-04 15:00", "2026-04-23 22:00",
    "2026-10-03 15:30", "2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 23:00", "2026-10-31 23:00",
    "2026-11-01 04:00", "2026-11-01 05:00")]  # fmt: skip


@contextmanager
def forgotten() -> Iterator[None]:
    """What happens inside is rolled back: each example starts with an empty log."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def moments() -> st.SearchStrategy[int]:
    """Epoch seconds, often within two hours of an edge."""
    near = st.builds(lambda edge, off: edge + off * 600, st.sampled_from(EDGES), st.integers(-12, 12))
    anywhere = st.integers(at("2026-03-20 00:00"), at("2026-11-24 00:00"))
    return st.one_of(near, near, anywhere)


def days() -> st.SearchStrategy[str]:
    """Days of the site as events write them."""
    return st.integers(0, DAYS).map(lambda number: (FIRST + timedelta(number)).isoformat())


@dataclass(frozen=True)
class Run:
    """One job of a world as it really was; `end` None while it runs."""

    number: int
    start: int
    end: int | None
    gpus: int
    cpus: int
    nodes: int
    account: str
    user: str
    waited: int
    suspended: int
    called: str | None

    @property
    def record(self) -> JobReported:
        """What the accounting says of it."""
        kind = ("h100", "", "a100")[self.number % 3]
        return job(
            str(self.number), self.start, self.end, account=self.account, user=self.user, cpus=self.cpus,
            nodes=self.nodes, submit=self.start - 2 * self.waited, eligible=self.start - self.waited,
            record=self.number, suspended_seconds=self.suspended, run=self.called, **gpus(self.gpus, kind),
        )  # fmt: skip


@st.composite
def runs(draw: st.DrawFn, most: int = 8) -> list[Run]:
    """Jobs of all sizes and lengths, some of no length, some still running."""
    made = []
    for number in range(1, draw(st.integers(1, most)) + 1):
        start = draw(moments())
        length = draw(st.one_of(st.just(0), st.integers(1, 7200), st.integers(1, 40 * DAY)))
        end = None if draw(st.integers(0, 5)) == 0 else start + length
        made.append(Run(
            number, start, end, draw(st.integers(0, 16)), draw(st.integers(0, 64)), draw(st.integers(1, 4)),
            draw(st.sampled_from("ab")), draw(st.sampled_from("uv")), draw(st.integers(0, 2 * HOUR)),
            draw(st.integers(0, length)) if end else 0, draw(st.sampled_from([None, "big", "small"])),
        ))  # fmt: skip
    return made


@st.composite
def ground(draw: st.DrawFn) -> list[Any]:
    """Site, tree, mapping and prices, all dated."""
    said: list[Any] = [place(draw(st.sampled_from(ZONES)))]
    said += [project("org", kind="organisation"), project("team1", "org", "team"), project("team2", "org", "team")]
    said += [project("p", "team1"), project("q", "team2")]
    said += [ProjectMoved(project="p", from_day=day, parent=draw(st.sampled_from(["team2", "q", None])))
             for day in draw(st.lists(days(), max_size=2, unique=True))]  # fmt: skip
    for account in "ab":
        said += [mapped(account, draw(st.sampled_from(["p", "q", "elsewhere", None])), day)
                 for day in draw(st.lists(days(), max_size=3, unique=True))]  # fmt: skip
    for kind in ("h100", "gpu", "cpu"):
        said += [rate(kind, draw(st.integers(1, 10**7)), day, draw(st.sampled_from(["EUR", "EUR", "USD"])))
                 if draw(st.booleans()) else RateWithdrawn(resource_class=kind, from_day=day)
                 for day in draw(st.lists(days(), max_size=2, unique=True))]  # fmt: skip
    return said


@st.composite
def tellings(draw: st.DrawFn) -> list[Fact]:
    """Everything that is said of a world, by several sources, in some order of no importance."""
    said = facts(draw(ground()))
    for run in draw(runs(5)):
        ended, before, jobcomp, again, fixed = (run.end is not None and draw(st.booleans()) for _ in range(5))
        final = changed(run.record, state="REQUEUED") if again else run.record
        said += facts([final])
        if before:  # it was seen waiting and running before
            said += facts([changed(run.record, state="PENDING", start=None, end=None, gpus=None, gpu_types=()),
                           changed(run.record, state="RUNNING", end=None, suspended_seconds=None)])  # fmt: skip
        if jobcomp:  # another source told it too, a second later
            said += facts([changed(final, record=None, end=(run.end or 0) + 1)], source="jobcomp:pod-a")
        if again:  # it was requeued and ran for another hour
            start = (run.end or 0) + 120
            said += facts([changed(run.record, record=1000 + run.number, submit=run.end, eligible=start,
                                   start=start, end=start + HOUR, suspended_seconds=0)])  # fmt: skip
        if ended and fixed:
            said += facts([draw(corrections(run))], source="person")
    return said


@st.composite
def corrections(draw: st.DrawFn, run: Run) -> Any:
    """A person's correction of a run."""
    later = str((run.end or 0) + HOUR)
    choices = [("account", "b"), ("account", ""), ("gpus", "3"), ("end", later), ("end", ""), ("partition", "z")]
    field, new = draw(st.sampled_from(choices))
    return corrected(str(run.number), run.start, field, new)


def changed(data: JobReported, **fields: Any) -> JobReported:
    """The same report with other fields."""
    return replace(data, **fields)
