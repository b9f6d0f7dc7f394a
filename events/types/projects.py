"""Projects: who is charged. A tree with dated places, and the dated accounts that map to it."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from msgspec import Meta

from events.types.jobs import Name, Short
from events.types.registry import EventStruct, event

Code = Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
"""A calendar day of the site, YYYY-MM-DD; as the start of something it means the site's midnight."""


def check_day(text: str) -> None:
    """Raise ValueError unless the calendar has this day (years 1 to 9999)."""
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"from_day {text!r} is no day of the calendar; expected YYYY-MM-DD") from None


@event("project.declared", stream=lambda e: f"project/{e.project}", rank=10)
class ProjectDeclared(EventStruct, frozen=True):
    """A project, team or organisation: a node of the tree. Without a parent it is a root."""

    project: Code
    title: Short = ""
    parent: Code | None = None
    kind: Annotated[str, Meta(pattern=r"^(organisation|team|project)$")] = "project"


@event("project.moved", stream=lambda e: f"project/{e.project}", rank=20)
class ProjectMoved(EventStruct, frozen=True):
    """From this day the project hangs under another parent (none: it is a root)."""

    project: Code
    from_day: Day
    parent: Code | None = None

    def __post_init__(self) -> None:
        check_day(self.from_day)


@event("account.mapped", stream=lambda e: f"account/{e.cluster}/{e.account}")
class AccountMapped(EventStruct, frozen=True):
    """From this day the scheduler's account belongs to a project (none: unmapped), also retroactively.

    Of two mappings with the same day the later position wins; one with an earlier day than those known is
    fitted in before them, it does not replace them.
    """

    cluster: Name
    account: Name
    from_day: Day
    project: Code | None = None

    def __post_init__(self) -> None:
        check_day(self.from_day)
