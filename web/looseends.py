"""What wants attention: each thing with how much of it there is and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.reports import AsOf
from fleet.queries import Site
from jobs import queries_now
from web import figures, mailout
from web.asked import project_address
from web.sources import concerns

__all__ = ["End", "found"]

LATE_SECONDS: Final = 60
NAMED: Final = 3
MAIL_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class End:
    """One loose end. state: class of its shape; href: where it is listed; code: a command that mends it."""

    state: str
    what: str
    do: str
    href: str = ""
    code: str = ""


def found(scope: Scope, here: Site, as_of: AsOf, now: datetime) -> list[End]:
    """What wants attention of what the caller may see, the gravest first."""
    ends = [*_projections(as_of, now), *_sources(scope, now), *_mails(now)] if scope.fleetwide else []
    return [*ends, *_rejections(scope), *_lost(scope), *_unmapped(scope), *_site(scope, here)]


def _projections(as_of: AsOf, now: datetime) -> Iterator[End]:
    for group in log.groups():
        if group.state != "live":
            yield End("down", f"The figures of {group.group} stand still: {group.error or group.state}",
                      "Mend the cause, then compute them anew:", code=f"manage.py rebuild {group.group}")  # fmt: skip
    since = log.recorded_after(as_of.position)
    if since is not None and (now - since).total_seconds() > LATE_SECONDS:
        late = figures.duration(int((now - since).total_seconds()))
        do = "The worker may not run: manage.py serve starts it. To catch up now:"
        yield End("draining", f"Figures are {late} behind the log", do, code="manage.py project")
    parked = log.parked(Scope.everything()).count()
    if parked:
        yield End("down", f"{_many(parked, 'event')} could not be applied, and what follows on their streams waits",
                  "See the error, mend it, then compute anew:", reverse("log"), "manage.py rebuild")  # fmt: skip


def _sources(scope: Scope, now: datetime) -> Iterator[End]:
    for one in concerns(scope, now):
        if not one.href:  # refused records are counted below, over all sources
            yield End("draining", f"Source {one.source} {one.what}", one.do, reverse("sources"))


def _mails(now: datetime) -> Iterator[End]:
    """Mails of the last week that did not arrive, or not yet."""
    errors = list(mailout.troubles().filter(created_at__gte=now - MAIL_WEEK).values_list("error", flat=True))
    if errors:
        what = f"{_many(len(errors), 'mail')} did not arrive: {errors[0]}".rstrip(". ")
        yield End("draining", what, "See which, mend the cause, try it:", f"{reverse('mail')}#troubles",
                  "manage.py mail test ADDRESS")  # fmt: skip


def _rejections(scope: Scope) -> Iterator[End]:
    number = log.rejections(scope).filter(state="open").count()
    if number:
        do = "Read why, mend the sender, take them again."
        yield End("draining", f"{_many(number, 'record')} refused and open", do, reverse("rejections") + "?state=open")


def _lost(scope: Scope) -> Iterator[End]:
    number = queries_now.lost_attempts(scope)
    if number:
        yield End("drained", f"{_many(number, 'attempt')} without an end that anybody told",
                  "They are charged until they were last seen. Settle each, or wait for the scheduler's record.",
                  reverse("attempts") + "?lost=true")  # fmt: skip


def _unmapped(scope: Scope) -> Iterator[End]:
    names = queries_now.unmapped_accounts(scope)
    if names:
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        shown = ", ".join(name or "not named" for name in names[:NAMED]) + rest
        href = project_address(f"unmapped/{names[0]}") if len(names) == 1 else project_address("")
        yield End("planned", f"{_many(len(names), 'account')} without project: {shown}",
                  "Say where they belong, also for the past:", href, "manage.py import_accounts FILE")  # fmt: skip


def _site(scope: Scope, here: Site) -> Iterator[End]:
    if scope.projects is None and not here.declared:
        yield End("planned", "The site has no name, zone and currency yet", "Days start at midnight UTC until then:",
                  code="manage.py init --site NAME --timezone ZONE --currency EUR")  # fmt: skip


def _many(number: int, noun: str) -> str:
    return f"{figures.thousands(number)} {noun}{'' if number == 1 else 's'}"
