"""How often to save: what failures and saving cost, and the band of intervals that cost least. Pure rules.

Sources: J. W. Young, 1974 (first order); J. T. Daly, 2006 (higher order, and the run time from which the
efficiency follows); the expected ratio of productive time from "Revisiting Reliability in Large-Scale Machine
Learning Research Clusters" (HPCA 2025). Times are in one unit throughout a call, whichever the caller uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Band", "OutOfRange", "Rate", "advise", "daly_interval", "efficiency", "expected_ettr", "failure_rate",
           "job_mttf", "storage_floor", "young_interval"]  # fmt: skip

FLAT: Final = 0.002
"""Intervals whose efficiency lies within this of the best are as good: the optimum is flat."""
MOST_LOSS: Final = 0.25
"""The linear expectation of productive time holds only while failures take less than this."""
PRIOR_FAILURES: Final = 1
PRIOR_NODE_DAYS: Final = 200.0
"""What is believed before anything was seen: one failure in 200 node-days, a rate of 5 per 1,000."""


def young_interval(blocking: float, mttf: float) -> float:
    """sqrt(2 x blocking x mttf): the interval between saves by Young. Both greater than 0; raises ValueError."""
    _positive(blocking=blocking, mttf=mttf)
    return math.sqrt(2 * blocking * mttf)


def daly_interval(blocking: float, mttf: float) -> float:
    """Daly's higher-order interval; the mttf itself where saving takes half of it or more. Raises ValueError."""
    _positive(blocking=blocking, mttf=mttf)
    if blocking >= 2 * mttf:
        return mttf
    ratio = blocking / (2 * mttf)
    return math.sqrt(2 * blocking * mttf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - blocking


def efficiency(interval: float, blocking: float, mttf: float, restart: float) -> float:
    """Part of the time that is productive: interval / (mttf e^(restart/mttf) (e^((interval+blocking)/mttf) - 1)).

    0 where the interval is so long against the mttf that no piece of work is ever finished. Raises ValueError.
    """
    _positive(interval=interval, mttf=mttf)
    try:
        return interval / (mttf * math.exp(restart / mttf) * math.expm1((interval + blocking) / mttf))
    except OverflowError:
        return 0.0


def storage_floor(size: float, bandwidth: float) -> float:
    """Seconds that `size` bytes take at `bandwidth` bytes a second: no save may start before the last one ended."""
    _positive(bandwidth=bandwidth)
    return size / bandwidth


class Band(NamedTuple):
    """Intervals that are as good as the best: low to high, the best between them. floor: what storage allows.

    limited: the storage floor lies above the best interval, so that storage decides.
    """

    low: float
    best: float
    high: float
    best_efficiency: float
    floor: float
    limited: bool


def advise(blocking: float, mttf: float, restart: float, floor: float = 0.0) -> Band:
    """The band of intervals within 0.2 points of the best efficiency, none below `floor`. Raises ValueError."""
    optimum = daly_interval(blocking, mttf)
    best = max(optimum, floor)
    top = efficiency(best, blocking, mttf, restart)

    def good(interval: float) -> bool:
        return efficiency(interval, blocking, mttf, restart) >= top - FLAT

    low = max(floor, _edge(best, best / 1024, good)) if best > floor else best
    return Band(low, best, _edge(best, best * 1024, good), top, floor, floor > optimum)


def _edge(inside: float, outside: float, good: Callable[[float], bool]) -> float:
    """The last good interval on the way from `inside` to `outside`, to a thousandth."""
    if good(outside):
        return outside
    while abs(outside - inside) > inside / 1000:
        middle = math.sqrt(inside * outside)
        inside, outside = (middle, outside) if good(middle) else (inside, middle)
    return inside


def job_mttf(nodes: float, rate: float) -> float:
    """Mean time to failure of a job on so many nodes: 1 / (nodes x rate); rate in failures per node and time."""
    _positive(nodes=nodes, rate=rate)
    return 1 / (nodes * rate)


class Rate(NamedTuple):
    """Failures per node-day: the mean of what is believed, and the interval that holds it with the given chance."""

    mean: float
    low: float
    high: float
    failures: int
    node_days: float


def failure_rate(failures: int, node_days: float, chance: float = 0.9) -> Rate:
    """What so many failures in so many node-days say of the rate, with a prior of one in 200 node-days.

    The prior is a Gamma of shape 1; with counts the belief is a Gamma of whole shape, whose distribution function
    is a Poisson sum, so that its quantiles are exact. Raises ValueError.
    """
    if failures < 0 or node_days < 0:
        raise ValueError(f"{failures} failures in {node_days} node-days; give 0 or more of both")
    if not 0 < chance < 1:
        raise ValueError(f"an interval with a chance of {chance}; give more than 0 and less than 1")
    shape, exposure = PRIOR_FAILURES + failures, PRIOR_NODE_DAYS + node_days
    tail = (1 - chance) / 2
    low, high = (_gamma_quantile(shape, part) / exposure for part in (tail, 1 - tail))
    return Rate(shape / exposure, low, high, failures, node_days)


def _gamma_quantile(shape: int, part: float) -> float:
    """x with P(Gamma(shape, 1) <= x) = part, by halving."""
    low, high = 0.0, shape + 10 * math.sqrt(shape) + 40
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        if 1 - _poisson_below(shape, middle) < part:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _poisson_below(count: int, mean: float) -> float:
    """P(Poisson(mean) < count)."""
    if not mean:
        return 1.0
    return math.fsum(math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(count))


class OutOfRange(ValueError):
    """The linear expectation does not hold here: failures would take more than a quarter of the time."""

    def __init__(self, loss: float) -> None:
        super().__init__(
            f"failures would take {loss:.0%} of the time; the expectation holds below {MOST_LOSS:.0%}: "
            "give fewer nodes, a lower rate, or a shorter restart and interval"
        )


def expected_ettr(nodes: float, rate: float, restart: float, interval: float, blocking: float) -> float:
    """Expected productive part of a run: (1 - nodes rate (restart + interval/2)) / (1 + blocking/interval).

    rate: failures per node and day; restart, interval, blocking: days. Raises OutOfRange above a loss of 0.25.
    """
    _positive(interval=interval)
    loss = nodes * rate * (restart + interval / 2)
    if loss > MOST_LOSS:
        raise OutOfRange(loss)
    return (1 - loss) / (1 + blocking / interval)


def _positive(**given: float) -> None:
    for name, value in given.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; give more than 0")
