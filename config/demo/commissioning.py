"""What was measured of the demo hall when it was accepted: two models on growing parts of it, signed by staff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from config.demo.hall import CLUSTER
from config.demo.programs import CONVENTION, PEAK_GFLOPS
from events.types.scaling import ScalingRecorded

__all__ = ["EFFICIENCY", "records"]

DAY: Final = 86_400


class _Model(NamedTuple):
    """batch: tokens of a step for each GPU. tokens: per second of each GPU on the smallest part, `base` GPUs."""

    name: str
    flop_per_token: int
    batch: int
    tokens: int
    base: int


MODELS: Final = (
    _Model("gpt-8b", 48_000_000_000, 131_072, 10_300, 8),
    _Model("gpt-70b", 420_000_000_000, 32_768, 1_130, 32),
)
EFFICIENCY: Final = {1: 1000, 2: 987, 4: 968, 8: 936, 16: 905, 32: 874}
"""Parts per thousand of the throughput per GPU that are left at so many times the base: above 90 % to 64 GPUs."""
COMMUNICATION: Final = {8: 11_000, 16: 19_000, 32: 34_000, 64: 47_000, 128: 62_000, 256: 81_000}
"""Share of the time between ranks by number of GPUs, parts per million: below 5 % at 32."""


def records(begin: int, gpus: int) -> Iterator[tuple[int, ScalingRecorded]]:
    """(when it was measured, record), of every size that the hall holds; begin: epoch seconds of its first day."""
    for at, model in enumerate(MODELS):
        for place, (times, thousandths) in enumerate(EFFICIENCY.items()):
            size = model.base * times
            if size > min(gpus, max(COMMUNICATION)):
                break
            rate = size * model.tokens * thousandths
            yield begin - (20 - at) * DAY + place * 5400 + 36_000, ScalingRecorded(
                cluster=CLUSTER, model=model.name, kind="acceptance", gpus=size, milli_tokens_per_second=rate,
                signed_by="svc-acceptance", step_us=size * model.batch * 10**9 // rate, steps=200, precision="bf16",
                flop_per_token=model.flop_per_token, peak_gflops=PEAK_GFLOPS, convention=CONVENTION,
                communication_ppm=COMMUNICATION[size], reference="Acceptance protocol, part 4",
            )  # fmt: skip
