"""How a cluster's fair share is computed: half-life, algorithm and what an allocation weighs, from a day on."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta

from events.types.jobs import Count, Name
from events.types.projects import Day, check_day
from events.types.registry import EventStruct, event

__all__ = ["ANY_PARTITION", "FairshareConfigured", "Weights", "weights_of"]

Weight = Annotated[str, Meta(min_length=1, max_length=240)]
ANY_PARTITION: Final = "*"
"""Names the partitions that have no weights of their own."""
LONGEST_PERIOD: Final = 3600
_WEIGHT: Final = re.compile(r"(?P<partition>[^=\x00-\x1f]{1,120})=(?P<parts>[a-z]+:\d{1,9}(,[a-z]+:\d{1,9})*)")


class Weights(NamedTuple):
    """What a second of one CPU, one GPU and one node weighs, in thousandths of a billing unit."""

    cpu: int = 0
    gpu: int = 0
    node: int = 0


@event("fairshare.configured", stream=lambda e: f"fairshare/{e.cluster}")
class FairshareConfigured(EventStruct, frozen=True):
    """From this day the cluster's fair share is computed so; use before the first such day does not count.

    mode: `slurm` adds up in the slices of its decay thread (`calc_period_seconds`, one of them ending at
    `phase_seconds` after a whole number of periods); `continuous` is the closed form. half_life_seconds: 0 is no
    decay, in slurm mode only. ties: whether equal accounts rank as Slurm's code or as its document says.
    dampening: FairShareDampeningFactor of the classic algorithm. reset: PriorityUsageResetPeriod at the site's
    midnights. weights: `train=cpu:125,gpu:10000,node:0` per partition in thousandths, `*` for the others; a
    partition without weights is billed by CPU, as Slurm does. Of two with the same day the later position wins.
    """

    cluster: Name
    from_day: Day
    half_life_seconds: Count
    mode: Literal["slurm", "continuous"] = "slurm"
    algorithm: Literal["fair_tree", "classic"] = "fair_tree"
    ties: Literal["coded", "documented"] = "coded"
    calc_period_seconds: Annotated[int, Meta(ge=1, le=LONGEST_PERIOD)] = 300
    phase_seconds: Annotated[int, Meta(ge=0, lt=LONGEST_PERIOD)] = 0
    dampening: Annotated[int, Meta(ge=1, le=1000)] = 1
    reset: Literal["none", "daily", "weekly", "monthly", "quarterly", "yearly"] = "none"
    weights: tuple[Weight, ...] = ()

    def __post_init__(self) -> None:
        check_day(self.from_day)
        if self.mode == "continuous" and not self.half_life_seconds:
            raise ValueError(
                "half_life_seconds is 0; continuous fair share needs more than 0 seconds (such as 604800, a week; "
                "use that never decays is the undecayed balance, and `mode` slurm takes 0)"
            )
        if self.phase_seconds >= self.calc_period_seconds:
            raise ValueError(
                f"phase_seconds {self.phase_seconds} is not within a period of {self.calc_period_seconds} s"
            )
        weights_of(self.weights)


def weights_of(texts: tuple[str, ...] | list[str]) -> dict[str, Weights]:
    """Weights by partition from their texts. Raises ValueError with the text and what is expected."""
    found: dict[str, Weights] = {}
    for text in texts:
        match = _WEIGHT.fullmatch(text)
        parts = dict(part.split(":") for part in match["parts"].split(",")) if match else {"": "0"}
        if match is None or set(parts) - set(Weights._fields):
            raise ValueError(f"weights {text!r}: expected PARTITION=cpu:125,gpu:10000,node:0 in thousandths")
        if match["partition"] in found:
            raise ValueError(f"weights name the partition {match['partition']} twice")
        found[match["partition"]] = Weights(**{name: int(value) for name, value in parts.items()})
    return found
