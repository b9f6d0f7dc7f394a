"""The site and its clusters."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import available_timezones

from msgspec import Meta

from events.types.jobs import Name, Size
from events.types.registry import EventStruct, event


@event("site.declared", stream=lambda _: "site")
class SiteDeclared(EventStruct, frozen=True):
    """The site this instance keeps the books of: its name, time zone (tz database) and currency (ISO 4217)."""

    name: Name
    timezone: Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9_+/-]+$")]
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}$")]

    def __post_init__(self) -> None:
        # Names that only some copies of the tz database have (posix/..., localtime) would stop another program.
        if self.timezone not in available_timezones() or self.timezone in ("localtime", "posixrules", "Factory"):
            raise ValueError(f"timezone {self.timezone!r} is not in the tz database (such as Europe/Berlin)")


@event("cluster.declared", stream=lambda e: f"cluster/{e.cluster}")
class ClusterDeclared(EventStruct, frozen=True):
    """A cluster under one scheduler. Its name is the one the scheduler uses."""

    cluster: Name
    scheduler: Annotated[str, Meta(pattern=r"^(slurm|kubernetes|other)$")] = "slurm"
    gpus: Size | None = None
