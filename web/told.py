"""Who said what about a job: the last word of each source on each attempt, beside what the books use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from events.types import REGISTRY
from events.types.jobs import JobReported
from jobs.queries_life import Life
from web import columns, figures, states
from web.history import counted
from web.lists import Seen
from web.tables import Cell, Head, Mark, Table, label

__all__ = ["heard", "sources_table"]

USED: Final = "the books"
NEAR: Final = 5
"""Seconds within which sources agree about a time."""
_DIFFERS: Final = Mark("differs", "Another source is believed before this one.")
_NAMES: Final = {
    "sacct": "accounting (sacct)", "slurmdbd": "accounting (slurmdbd)", "jobcomp": "job completion plugin",
    "slurmctld": "scheduler", "epilogslurmctld": "scheduler's epilog", "hook": "scripts on the nodes",
}  # fmt: skip
_HEADS: Final = (
    Head("Attempt"), Head("Source"), Head("Reports", "n"), Head("State"), Head("Start"), Head("End"),
    Head("GPUs", "n"), Head("Exit"),
)  # fmt: skip


def heard(life: Life, job: Any) -> list[tuple[str, str]]:
    """Each source that spoke of the job, and how much it said; nothing to compare is said in words."""
    counts: dict[str, list[int]] = {}
    for (_, source), (count, _) in _last_words(life, job.seq).items():
        counts.setdefault(source, []).append(count)
    found = [(_name(source), f"{counted(sum(each), 'report')}") for source, each in sorted(counts.items())]
    if len(found) == 1:
        found = [(found[0][0], f"{found[0][1]}; no other source spoke, so there is nothing to compare")]
    return found


def sources_table(life: Life, job: Any, attempts: Sequence[Any], seen: Seen) -> Table | None:
    """Of attempts with several sources one row per source, what the books use first. None where there are none."""
    said = _last_words(life, job.seq)
    rows: list[list[Cell]] = []
    known = {attempt.number: attempt for attempt in attempts}
    for number in sorted({each for each, _ in said}):
        sources = sorted(source for each, source in said if each == number)
        attempt = known.get(number)
        if len(sources) < 2 or attempt is None:
            continue
        rows.append(_used(attempt, seen))
        rows += [_row(source, *said[number, source], attempt, seen) for source in sources]
    caption = (
        "The last word of each source. The accounting is believed first, then the job completion plugin, the "
        "scheduler, its epilog, and scripts on the nodes; of times within 5 seconds none is said to differ."
    )
    return Table("sources", "Who said what", caption, _HEADS, rows, (), wide=True) if rows else None


def _name(source: str) -> str:
    kind, _, where = source.partition(":")
    return f"{_NAMES.get(kind, kind)}{f', {where}' if where else ''}"


def _last_words(life: Life, seq: int) -> dict[tuple[int, str], tuple[int, JobReported]]:
    """(attempt, source) -> how many reports, and the last one; attempt 0 is the time before the first start."""
    found: dict[tuple[int, str], tuple[int, JobReported]] = {}
    for row, spoken in zip(life.events, life.spoken, strict=True):
        if spoken is None or spoken.seq != seq or row.type != "job.reported":
            continue
        key = (spoken.attempt, row.source)
        count = found[key][0] if key in found else 0
        found[key] = (count + 1, _read(row))
    return found


def _read(row: Any) -> JobReported:
    """The report as its type has it now."""
    found: JobReported = REGISTRY.load(row.type, row.version, msgspec.json.encode(row.data))  # type: ignore[assignment]
    return found


def _used(attempt: Any, seen: Seen) -> list[Cell]:
    shown = states.of(attempt.state)
    return [
        label(str(attempt.number)), Cell(USED, "w"), Cell(), Cell(shown.word, "w", state=shown.css),
        seen.moment(attempt.start), seen.moment(attempt.end, columns.NOT_YET), columns.size(attempt.gpus),
        Cell(states.explain_exit(attempt.exit_code, attempt.exit_signal).partition(":")[0]),
    ]  # fmt: skip


def _row(source: str, count: int, data: JobReported, attempt: Any, seen: Seen) -> list[Cell]:
    return [
        Cell(),
        Cell(_name(source), "w"),
        columns.size(count),
        Cell(states.of(data.state).word, "w", marks=_differs(attempt.state != data.state)),
        _time(data.start, attempt.start, seen),
        _time(data.end, attempt.end, seen),
        _gpus(data.gpus, attempt),
        Cell(states.explain_exit(data.exit_code, data.exit_signal).partition(":")[0]),
    ]


def _differs(really: bool) -> Sequence[Mark]:
    return (_DIFFERS,) if really else ()


def _time(seconds: int | None, used: datetime | None, seen: Seen) -> Cell:
    """A time as told; marked where another one is used."""
    if seconds is None:
        return Cell("not told", "w nodata")
    when = datetime.fromtimestamp(seconds, UTC)
    other = used is not None and abs((used - when).total_seconds()) > NEAR
    cell = seen.moment(when)
    return Cell(cell.text, cell.css, iso=cell.iso, marks=_differs(other))


def _gpus(told: int | None, attempt: Any) -> Cell:
    if told is None:
        return Cell("not told", "n nodata")
    other = attempt.gpus is not None and attempt.gpus != told
    return Cell(figures.thousands(told), "n", marks=_differs(other))
