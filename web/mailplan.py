"""When the weekly mail is due, and to whom."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model

from fleet.queries import Site, site
from jobs.queries_over import people_with_grants
from web import mailkinds, mailout
from web.mailkinds import WEEKLY, Choice
from web.mailweek import week_before, week_name
from web.models import MailSent
from web.ranges import DAY

__all__ = ["LATEST", "due_at", "leads", "note_weekly", "too_late"]

LATEST: Final = timedelta(hours=24)
"""So long after its hour a week is still noted: when Hallbook stood still on Monday morning."""


def due_at(now: datetime, here: Site) -> datetime:
    """The instant of this ISO week at which the mail of the week before is due: Monday, the site's hour."""
    today = now.astimezone(here.zone).date()
    monday = today - DAY * today.weekday()
    return datetime.combine(monday, settings.WEEKLY_MAIL_AT, here.zone)


def leads() -> list[Any]:
    """People whose login works, who were granted a project and have an address."""
    people = get_user_model().objects.filter(pk__in=people_with_grants(), is_active=True)
    return list(people.exclude(email="").order_by("pk"))


def note_weekly(now: datetime) -> int:
    """Note the mail of the week before for everybody who has none yet, once its hour has come. Returns how many."""
    here = site()
    at = due_at(now, here)
    if not at <= now < at + LATEST:
        return 0
    ref = week_name(week_before(now, here))
    noted = set(MailSent.objects.filter(kind=WEEKLY.name, ref=ref).values_list("user_id", flat=True))
    wanted = [user for user in leads() if user.pk not in noted and _wants(user, at)]
    return sum(mailout.note(user, WEEKLY, ref, now) for user in wanted)


def _wants(user: Any, at: datetime) -> bool:
    """Whether the person was there and wanted it when the hour came: who comes later begins with the next week."""
    choice = mailkinds.choice_of(user, WEEKLY)
    return choice.wanted and too_late(user, choice, at) is None


def too_late(user: Any, choice: Choice, at: datetime) -> datetime | None:
    """When the person came or chose, where that was after the hour; None where it was in time."""
    late: datetime = max(user.date_joined, choice.since or user.date_joined)
    return late if late > at else None
