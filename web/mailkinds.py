"""The kinds of mail there are, and who wants which."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from web.models import MailChoice

__all__ = ["KINDS", "RECEIPT", "WEEKLY", "Choice", "Kind", "choice_of", "choose", "named", "wanting"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of mail. usual: whether it is sent to whoever said nothing. leads: only to people with a project."""

    name: str
    title: str
    about: str
    usual: bool
    leads: bool


WEEKLY: Final = Kind(
    "weekly", "Weekly report",
    "Each Monday morning, of the week before: what your projects used, waited for and held in vain.", usual=True,
    leads=True,
)  # fmt: skip
RECEIPT: Final = Kind(
    "receipt", "Receipt at the end of a job",
    "A few minutes after each of your jobs ended: how it ended, what it held and what of it was lost. One mail for "
    "each job, of an array one for each task.", usual=False, leads=False,
)  # fmt: skip
KINDS: Final = {kind.name: kind for kind in (WEEKLY, RECEIPT)}


@dataclass(frozen=True, slots=True)
class Choice:
    """Whether a kind is wanted. since: when that was chosen; None where nothing was."""

    wanted: bool
    since: datetime | None


def named(name: str) -> Kind:
    """A kind by its name. Raises LookupError."""
    return KINDS[name]


def choice_of(user: Any, kind: Kind) -> Choice:
    """What a person chose, or else what is usual."""
    row = MailChoice.objects.filter(user_id=user.pk, kind=kind.name).first()
    return Choice(row.wanted, row.since) if row else Choice(kind.usual, None)


def choose(user: Any, kind: Kind, now: datetime, *, wanted: bool) -> bool:
    """Switch a kind on or off; False when it was so already, and then nothing changes, not even since when."""
    if choice_of(user, kind).wanted == wanted:
        return False
    MailChoice.objects.update_or_create(user_id=user.pk, kind=kind.name, defaults={"wanted": wanted, "since": now})
    return True


def wanting(kind: Kind) -> list[tuple[Any, datetime]]:
    """People who asked for a kind and have an address and a login that works, each with since when."""
    rows = MailChoice.objects.filter(kind=kind.name, wanted=True, user__is_active=True).exclude(user__email="")
    return [(row.user, row.since) for row in rows.select_related("user").order_by("user_id")]
