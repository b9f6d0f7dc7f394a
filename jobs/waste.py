"""Which GPU-seconds were held in vain, and by what. Pure rules; `sql/report_waste.sql` follows them row by row.

Judged are attempts that ended. Each second of an attempt has one cause at most, so that no sum over causes is larger
than what was allocated. How it is judged depends on whether its program told where the time went:

* Instrumented attempts by their partition alone, however they ended. `rollback_replay` was rolled back,
  `partial_gang_wait` is partial gang, `idle_held` idle. `restart` is what a fault costs besides the lost work:
  detecting and taking down of an attempt that lost work, and init and restore of the attempt that follows one in its
  run. An attempt follows the latest to start of those that had ended when it began. An end at the time limit is no
  fault, since many trainings go on from limit to limit by plan: work lost there is rolled back, but starting again is
  no waste. What was productive is kept work and never waste, also where the attempt failed later.
* Other attempts by telemetry first, then by their end: GPUs never used > idle stretches > failed, cancelled or timed
  out. What telemetry does not judge is wasted whole where an attempt of more than 1 GPU-hour did not complete, since
  nothing tells what it kept. Ends at the limit stand apart: many are planned.
* Preempted and requeued attempts that told nothing are not judged, since most of their work may have been saved, nor
  are those whose end nobody told. They are counted as not known, never as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from jobs.told import LOSING

__all__ = ["AT_LIMIT", "CAUSES", "ENDS", "FAULTS", "HEADS", "LEAST_GPU_SECONDS", "NOT_JUDGED", "UNSEEN", "Cause",
           "ppm"]  # fmt: skip

Cause = Literal[
    "rolled_back", "partial_gang", "restart", "never_used", "idle", "failed", "cancelled", "timed_out"
]  # fmt: skip
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
"""Causes in their precedence: a second that several would fit has the first."""
HEADS: Final[Mapping[Cause, str]] = {
    "rolled_back": "Rolled back", "partial_gang": "Partial gang", "restart": "Restart after a fault",
    "never_used": "Never used", "idle": "Idle", "failed": "Failed", "cancelled": "Cancelled",
    "timed_out": "Ended at its limit",
}  # fmt: skip
"""What causes are called on pages and in mails."""
LEAST_GPU_SECONDS: Final = 3600
"""An attempt that told nothing is judged by its end only where it held more than this."""
ENDS: Final[Mapping[Cause, tuple[str, ...]]] = {
    "failed": ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"),
    "cancelled": ("CANCELLED",),
    "timed_out": ("TIMEOUT",),
}
"""States of ended attempts that are wasted whole when their program told nothing."""
NOT_JUDGED: Final = ("PREEMPTED", "REQUEUED")
"""States of which nobody knows what was lost unless the program tells."""
AT_LIMIT: Final = ENDS["timed_out"]
FAULTS: Final = tuple(sorted(LOSING.difference(AT_LIMIT)))
"""States after which the next attempt of a run starts again because of a fault; where programs tell, they decide."""
UNSEEN: Final[tuple[Cause, ...]] = ("never_used", "idle")
"""Causes that only telemetry of the GPUs shows."""


def ppm(part: int | None, whole: int | None) -> int | None:
    """A share in parts per million, halves up; None where a part is not known or there is no whole."""
    if part is None or not whole:
        return None
    return (part * 2_000_000 + whole) // (2 * whole)
