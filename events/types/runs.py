"""What people say of runs: a name is done with, and jobs that carry it from then on are another run."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from events.types.jobs import Epoch, Name
from events.types.registry import EventStruct, event

__all__ = ["RunClosed", "RunReopened"]

Account = Annotated[str, Meta(max_length=160, pattern=r"^[^/\x00-\x1f]*$")]
"""Of a scheduler; empty where jobs carry none."""


def _of_name(one: EventStruct) -> str:
    return f"run/{one.account}/{one.run}"  # type: ignore[attr-defined]


@event("run.closed", stream=_of_name)
class RunClosed(EventStruct, frozen=True):
    """The jobs of an account under a name are complete; those submitted after `closed_s` are a new run of that name."""

    account: Account
    run: Name
    closed_s: Epoch

    def happened(self) -> tuple[str, int] | None:
        """When it was closed."""
        return ("closed_s", self.closed_s)


@event("run.reopened", stream=_of_name)
class RunReopened(EventStruct, frozen=True):
    """The closing of `closed_s` was a mistake and counts no more: jobs before and after it are one run again."""

    account: Account
    run: Name
    closed_s: Epoch

    def happened(self) -> tuple[str, int] | None:
        """When it had been closed."""
        return ("closed_s", self.closed_s)
