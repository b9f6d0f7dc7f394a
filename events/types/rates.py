"""Prices: dated rates per resource class."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from events.types.jobs import Count, Short
from events.types.projects import Day, check_day
from events.types.registry import EventStruct, event

Class = Annotated[str, Meta(min_length=1, max_length=160, pattern=r"^[a-z0-9][^/A-Z\x00-\x1f]*$")]
"""A resource class is lower case, as classes of use are: another spelling would price nothing."""


@event("rate.published", stream=lambda e: f"rate/{e.resource_class}")
class RatePublished(EventStruct, frozen=True):
    """From this day one hour of one unit of the class costs `micro_per_hour` micro-units of the currency.

    The class of a GPU is its type in lower case (`h100`; `gpu` where the scheduler gives no type), of a
    CPU-only allocation `cpu`, whose unit is one CPU. Of two rates with the same class and day the later
    position wins: that is how a price is corrected. `card` names the rate card it belongs to.
    """

    resource_class: Class
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}$")]
    micro_per_hour: Count
    from_day: Day
    card: Short = ""
    note: Short = ""

    def __post_init__(self) -> None:
        check_day(self.from_day)


@event("rate.withdrawn", stream=lambda e: f"rate/{e.resource_class}")
class RateWithdrawn(EventStruct, frozen=True):
    """From this day the class has no price: its use is a visible gap until a rate is published."""

    resource_class: Class
    from_day: Day

    def __post_init__(self) -> None:
        check_day(self.from_day)
