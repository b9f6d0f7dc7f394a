"""Reading how fast runs went, and how fast clusters were measured to be, against what they were designed for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from events.access import Scope
from jobs import scaling as rules
from jobs.models import Run, ScalingRecord, Speed
from jobs.placement import scaling_efficiency
from jobs.scaling import TARGETS, Target, against, target
from jobs.speed import CHANGED, Sums, added

__all__ = ["CHANGED", "TARGETS", "UNTOLD", "AttemptSpeed", "Judged", "Line", "RunSpeed", "Target", "against",
           "by_attempt", "judged", "of_run", "records", "target"]  # fmt: skip

_SUMMED: Final = tuple(Sums.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Line:
    """How fast a run went at one number of GPUs, by one convention ('' for none). efficiency: per GPU against the
    fewest GPUs on which it ran; None where that is not known."""

    gpus: int
    convention: str
    sums: Sums
    efficiency: float | None


@dataclass(frozen=True, slots=True)
class RunSpeed:
    """lines: by number of GPUs and convention. whole: of all, for what depends on neither. mfu: by convention."""

    lines: Sequence[Line]
    whole: Sums
    mfu: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AttemptSpeed:
    """How fast an attempt went. mfu, convention: None where it told no inputs, or by more than one convention."""

    tokens_per_second: float | None
    tokens_per_gpu_second: float | None
    mfu: float | None
    convention: str | None
    communication: float | None


UNTOLD: Final = AttemptSpeed(None, None, None, None, None)
"""Of an attempt whose program told nothing of how far it got."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a record comes to: against its base, and at its convention. base: position of the record it is held to."""

    base: int
    base_gpus: int
    efficiency: float
    mfu: float | None
    communication: float | None


# --- runs --------------------------------------------------------------------------------------------------------


def of_run(run: Run) -> RunSpeed | None:
    """Of a run that the caller may see; None where no program of it told how far it got."""
    rows = list(Speed.objects.filter(run=run.id))
    if not rows:
        return None
    kept: dict[tuple[int, str], Sums] = {}
    for row in rows:
        key = (row.gpus, row.convention)
        kept[key] = kept.get(key, Sums()) + _sums(row)
    by_gpus = {gpus: added(sums for (count, _), sums in kept.items() if count == gpus) for gpus, _ in kept}
    lines = [Line(gpus, convention, sums, _efficiency(gpus, by_gpus))
             for (gpus, convention), sums in sorted(kept.items(), key=_in_order)]  # fmt: skip
    return RunSpeed(lines, added(kept.values()), _mfu([(line.convention, line.sums) for line in lines]))


def by_attempt(attempts: Collection[UUID]) -> dict[UUID, AttemptSpeed]:
    """Of attempts that the caller may see; those of which nothing was told are left out."""
    found: dict[UUID, list[tuple[str, Sums]]] = {}
    for row in Speed.objects.filter(attempt__in=list(attempts)):
        found.setdefault(row.attempt, []).append((row.convention, _sums(row)))
    return {attempt: _speed(parts) for attempt, parts in found.items()}


def _speed(parts: Sequence[tuple[str, Sums]]) -> AttemptSpeed:
    whole, mfu = added(sums for _, sums in parts), _mfu(parts)
    convention, value = next(iter(mfu.items())) if len(mfu) == 1 else (None, None)
    return AttemptSpeed(whole.tokens_per_second, whole.tokens_per_gpu_second, value, convention, whole.communication)


def _mfu(parts: Sequence[tuple[str, Sums]]) -> dict[str, float]:
    """MFU by convention, over what was told in it."""
    sums: dict[str, Sums] = {}
    for convention, one in parts:
        sums[convention] = sums.get(convention, Sums()) + one
    return {convention: one.mfu for convention, one in sorted(sums.items()) if one.mfu is not None}


def _in_order(item: tuple[tuple[int, str], Sums]) -> tuple[bool, int, str]:
    """By number of GPUs, what was resized meanwhile last."""
    gpus, convention = item[0]
    return gpus == CHANGED, gpus, convention


def _efficiency(gpus: int, by_gpus: Mapping[int, Sums]) -> float | None:
    told = {count: sums.tokens_per_second for count, sums in by_gpus.items() if count != CHANGED}
    known = {count: tokens for count, tokens in told.items() if tokens}
    if len(known) < 2 or gpus not in known:
        return None
    base = min(known)
    return scaling_efficiency(gpus, known[gpus], base, known[base])


def _sums(row: Speed) -> Sums:
    return Sums(**{name: int(getattr(row, name)) for name in _SUMMED})


# --- records -----------------------------------------------------------------------------------------------------


def records(_scope: Scope) -> QuerySet[ScalingRecord]:
    """Every record, replaced ones too: what a cluster can do is no secret to any caller."""
    return ScalingRecord.objects.order_by("cluster", "model", "gpus", "measured", "position")


def judged(rows: Collection[Any]) -> dict[int, Judged]:
    """What records come to, by position. One that was replaced is held to those that count, and to itself."""
    counting = list(ScalingRecord.objects.filter(replaced_by=None)) if rows else []
    return {row.position: _judged(row, counting) for row in rows}


def _judged(row: ScalingRecord, counting: Sequence[ScalingRecord]) -> Judged:
    compared = counting if row.replaced_by is None else [*counting, row]
    base = rules.base_of(row, compared)
    told = row.communication_ppm
    communication = None if told is None else told / 1_000_000
    return Judged(base.position, base.gpus, rules.efficiency(row, base), rules.mfu_of(row), communication)
