"""What was measured of a cluster when it was accepted, grew or turned a year older."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from events.types.jobs import Name, Short, Size
from events.types.registry import PERSON, TEXT, EventStruct, event
from events.types.training import PartsPerMillion

__all__ = ["ScalingRecorded"]

Some = Annotated[int, Meta(ge=1, le=2**53)]
Convention = Annotated[str, Meta(min_length=1, max_length=160)]


@event("scaling.recorded", stream=lambda e: f"scaling/{e.cluster}/{e.model}")
class ScalingRecorded(EventStruct, frozen=True):
    """So fast did a model run on so many GPUs of a cluster, measured at the event's time, and somebody signed it.

    `model` names what was run so that it can be run again (size, precision, batch and length of a sequence, as far as
    they matter); only equal names are compared. `milli_tokens_per_second`: of all GPUs, a thousandth of a token;
    `step_us`: of one step, as a mean over `steps`. `flop_per_token`, `peak_gflops` (of one GPU, at the precision) and
    the `convention` they follow let the MFU be worked out: all three or none. `reference` leads to what was signed.
    `replaces`: position of an earlier record that was wrong; the new one is told whole, and counts instead.
    """

    cluster: Name
    model: Name
    kind: Literal["acceptance", "growth", "yearly"]
    gpus: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    milli_tokens_per_second: Some
    signed_by: Annotated[str, Meta(min_length=1, max_length=160, extra={"mark": PERSON})]
    step_us: Some | None = None
    steps: Size | None = None
    precision: Annotated[str, Meta(max_length=40)] = ""
    flop_per_token: Some | None = None
    peak_gflops: Some | None = None
    convention: Convention | None = None
    communication_ppm: PartsPerMillion | None = None
    note: Annotated[str, Meta(max_length=2000, extra={"mark": TEXT})] | None = None
    reference: Short = ""
    replaces: Some | None = None

    def __post_init__(self) -> None:
        told = [self.flop_per_token, self.peak_gflops, self.convention]
        if any(one is None for one in told) and any(one is not None for one in told):
            raise ValueError("an MFU needs flop_per_token, peak_gflops and convention: tell all three or none")
