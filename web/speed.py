"""What the page of a run shows of how fast its programs went, against what the hall was designed for."""

from __future__ import annotations

from typing import Any, Final

from django.urls import reverse

from jobs.queries_scaling import CHANGED, TARGETS, Line, RunSpeed, against, target
from web import figures
from web.tables import Cell, Head, Link, Mark, Table, absent, count, label, number

__all__ = ["TARGET", "aims", "decimals", "judged", "share", "speed_table", "targets_row"]

MISSED: Final = "missed"
MARKS: Final = {
    "scaling_efficiency": Mark("below target", "The design target is {words}."),
    "mfu": Mark("below target", "The design target is {words}."),
    "communication": Mark("above target", "The design target is {words}."),
}
IMPLAUSIBLE: Final = Mark("check the inputs", "It is better than the design target of {words}; look at its inputs.")
TARGET: Final = "design target"
NAMES: Final = {"scaling_efficiency": "scaling", "mfu": "MFU", "communication": "communication"}


def speed_table(run: Any, found: RunSpeed | None) -> Table | None:
    """By number of GPUs and convention; None where no program told how far it got."""
    if found is None:
        return None
    heads = (Head("GPUs"), Head("Steps", "n"), Head("Step s", "n"), Head("Tokens/s", "n"),
             Head("Tokens per GPU-s", "n"), Head("Scaling %", "n"), Head("MFU %", "n"), Head("Convention of the MFU"),
             Head("Communication %", "n"))  # fmt: skip
    caption = (
        "Each figure over the reports that tell it, as means over the time of their steps; steps that were lost later "
        "are in it. Scaling is throughput per GPU against the fewest GPUs of this run. "
    )
    blank = (Cell(), Cell(), Cell(), Cell())
    tools = [Link("API", reverse("api-run-speed", args=[run.id]))]
    foot = [label(TARGET), *blank, *targets_row()]
    return Table(
        "speed", "Speed", caption + aims(), heads, [_row(line) for line in found.lines], foot, tools, wide=True
    )


def _row(line: Line) -> list[Cell]:
    sums = line.sums
    return [
        label("while resized" if line.gpus == CHANGED else figures.thousands(line.gpus)),
        count(sums.steps),
        decimals(sums.step_seconds, 3),
        decimals(sums.tokens_per_second, 0),
        decimals(sums.tokens_per_gpu_second, 1),
        judged("scaling_efficiency", line.efficiency, line.gpus, absent("one size") if _alone(line) else None),
        judged("mfu", sums.mfu, line.gpus),
        _convention(line),
        judged("communication", sums.communication, line.gpus),
    ]


def _alone(line: Line) -> bool:
    """Its throughput is known, and there is no other size to compare it with."""
    return line.efficiency is None and line.sums.tokens_per_second is not None and line.gpus != CHANGED


def _convention(line: Line) -> Cell:
    if line.sums.mfu is None:
        return Cell(figures.NO_DATA, "nodata")
    return Cell(line.convention) if line.convention else Cell("not stated", "nodata")


def targets_row() -> list[Cell]:
    """Under scaling, MFU, its convention and communication."""
    scaling, mfu, communication = (target(name).brief for name in ("scaling_efficiency", "mfu", "communication"))
    return [Cell(scaling, "n"), Cell(mfu, "n"), Cell(), Cell(communication, "n")]


def aims() -> str:
    """The design targets in a sentence."""
    words = [f"{NAMES[one.measure]} {one.words}" for one in TARGETS]
    return f"Design targets: {', '.join(words)}."


def judged(measure: str, value: float | None, gpus: int, unknown: Cell | None = None) -> Cell:
    """A share in per cent, with a mark where it misses the target."""
    if value is None:
        return unknown or absent()
    verdict = against(measure, value, gpus)
    mark = MARKS[measure] if verdict == MISSED else IMPLAUSIBLE if verdict == "above" and measure == "mfu" else None
    marks = [Mark(mark.word, mark.meaning.format(words=target(measure).words))] if mark else []
    return Cell(share(value), "n", marks=marks)


def share(value: float) -> str:
    """A share in per cent with two decimals."""
    return f"{value * 100:.2f}"


def decimals(value: float | None, places: int) -> Cell:
    """A number with its thousands parted, or *no data*."""
    if value is None:
        return absent()
    whole, _, rest = f"{value:.{places}f}".partition(".")
    return number(figures.thousands(int(whole)) + (f".{rest}" if rest else ""))
