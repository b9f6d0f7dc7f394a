"""What people of the demo hall say: the site, projects and accounts, prices, a move and a correction."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from config.demo.hall import CLUSTER, ORGANISATION, PROJECTS, TEAMS, UNMAPPED, ZONE, Project, users_of
from config.demo.truth import Attempt, Truth
from events.types import EventStruct
from events.types.accounts import AssociationReported
from events.types.clusters import SiteDeclared
from events.types.corrections import RecordCorrected
from events.types.projects import AccountMapped, ProjectDeclared, ProjectMoved
from events.types.rates import RatePublished
from events.types.shares import FairshareConfigured

__all__ = ["SITE", "associations", "correction", "moved_on", "statements"]

SITE: Final = SiteDeclared(name="Vellmar hall", timezone=ZONE, currency="EUR")
PRICES: Final = (("h100", 2_400_000), ("h200", 3_100_000), ("cpu", 30_000))
"""Micro-EUR an hour of a GPU, of a core."""
DEARER: Final = ("h200", 3_250_000)
HALF_LIFE: Final = 7 * 86_400
"""Seconds after which use weighs half in fair share: Slurm's own default."""
MOVED: Final = ("world", "perception")
"""A project that changes teams in the middle of the first ninety days."""


def moved_on(begin: date) -> date:
    """The day of the move and of the new price."""
    return begin + timedelta(days=45)


def statements(begin: date) -> Iterator[tuple[str, EventStruct]]:
    """(type, event) of everything people say before the first job."""
    organisation, title = ORGANISATION
    yield "project.declared", ProjectDeclared(project=organisation, title=title, kind="organisation")
    for code, name in TEAMS.items():
        yield "project.declared", ProjectDeclared(project=code, title=name, parent=organisation, kind="team")
        yield "account.mapped", AccountMapped(CLUSTER, code, begin.isoformat(), code)
    for project in PROJECTS:
        yield "project.declared", ProjectDeclared(project=project.code, title=project.title, parent=project.team)
        for account in project.all_accounts:
            yield "account.mapped", AccountMapped(CLUSTER, account, begin.isoformat(), project.code)
    yield "project.moved", ProjectMoved(MOVED[0], moved_on(begin).isoformat(), MOVED[1])
    for name, price in PRICES:
        yield "rate.published", RatePublished(name, "EUR", price, begin.isoformat())
    yield "rate.published", RatePublished(DEARER[0], "EUR", DEARER[1], moved_on(begin).isoformat())
    yield (
        "fairshare.configured",
        FairshareConfigured(CLUSTER, begin.isoformat(), HALF_LIFE, mode="continuous", weights=("*=gpu:1000",)),
    )


def associations() -> Iterator[AssociationReported]:
    """The scheduler's accounts and their users with their shares: of teams, of projects in them, one each of users."""
    for team in TEAMS:
        shares = sum(_percent(project) for project in PROJECTS if project.team == team)
        yield AssociationReported(CLUSTER, team, parent="root", shares=shares)
    for project in (*PROJECTS, UNMAPPED):
        for account in project.all_accounts:
            shares = max(1, _percent(project) // len(project.all_accounts))
            yield AssociationReported(CLUSTER, account, parent=project.team or "root", shares=shares)
            for user in (*users_of(project), f"svc-{project.code}"):
                yield AssociationReported(CLUSTER, account, user, shares=1)


def _percent(project: Project) -> int:
    return round(project.share * 100)


def correction(truth: Truth) -> tuple[Attempt, RecordCorrected] | None:
    """The first long job of a visitor was for the speech team: finance books it there. None while there is none."""
    for attempt in truth.attempts():
        job = attempt.job
        if job.ask.account == "visitors" and attempt.end and attempt.end - attempt.start > 3600 and job.ask.gpus:
            said = RecordCorrected(CLUSTER, str(job.id), attempt.start, "account", "visitors", "speech",
                                   "Guest of the speech team, agreed with both")  # fmt: skip
            return attempt, said
    return None
