"""The site and its clusters."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from events.types.jobs import Count, Name
from events.types.registry import EventStruct, event


@event("site.declared", stream=lambda _: "site")
class SiteDeclared(EventStruct, frozen=True):
    """The site this instance keeps the books of: its name, time zone (tz database) and currency (ISO 4217)."""

    name: Name
    timezone: Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9_+/-]+$")]
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}$")]


@event("cluster.declared", stream=lambda e: f"cluster/{e.cluster}")
class ClusterDeclared(EventStruct, frozen=True):
    """A cluster under one scheduler. Its name is the one the scheduler uses."""

    cluster: Name
    scheduler: Annotated[str, Meta(pattern=r"^(slurm|kubernetes|other)$")] = "slurm"
    gpus: Count | None = None
