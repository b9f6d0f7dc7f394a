"""What the pages of a run and of a job have in common: figures, attempts with proven totals, where they ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.urls import reverse

from jobs.queries_runs import Totals
from jobs.waiting import cause_of
from web import columns, figures, states
from web.lists import Seen
from web.tables import Cell, Head, Link, Table, absent, label, number
from web.usagefigs import Figure

__all__ = ["alerts", "attempts_table", "counted", "gpu_seconds", "held_figures", "places_table", "stream_of",
           "tools_of", "wait_figure", "wall_hours", "wall_seconds"]  # fmt: skip

SHORT: Final = 3600
"""What was allocated for less than this many seconds in all is written in seconds: in hours it would read 0.0."""
_SILENT: Final = frozenset({"", "None", "NONE", "none"})


def counted(count: int, noun: str) -> str:
    """A number with its noun: '1 attempt', '5 attempts'."""
    return f"{figures.thousands(count)} {noun}{'' if count == 1 else 's'}"


def stream_of(job: Any) -> str:
    """Address of everything that was said about a job id."""
    return reverse("stream", args=[job.stream])


def held_figures(totals: Totals) -> list[Figure]:
    """GPU-hours and node-hours, set against the size and the time."""
    short = 0 < totals.wall_seconds < SHORT
    most = f"{counted(totals.gpus, 'GPU')} at most" if totals.gpus else "no GPU was held"
    href = "#attempts" if totals.attempts else ""
    wall = f"{figures.key_hours(totals.wall_seconds)} h allocated, {figures.key_hours(totals.cpu_seconds)} CPU-h"
    if short:
        most = f"{figures.thousands(totals.gpu_seconds)} GPU-s, {most}" if totals.gpu_seconds else most
        wall = f"{figures.thousands(totals.node_seconds)} node-s, {figures.thousands(totals.cpu_seconds)} CPU-s"
    return [
        Figure("GPU-hours", figures.key_hours(totals.gpu_seconds), "", most, href),
        Figure("Node-hours", figures.key_hours(totals.node_seconds), "", wall, href),
    ]


def wait_figure(since: datetime | None, until: datetime | None, seen: Seen) -> Figure:
    """A wait from when it could start; until now where `until` is None."""
    seconds = columns.seconds_between(since, until or seen.cut)
    if seconds is None or since is None:
        return Figure("Wait before start", figures.NO_DATA, "", "no source tells since when", css="nodata")
    at = seen.minute(since).text
    note = f"could start {at}" if until else f"so far, since {at}"
    value, _, unit = figures.duration(seconds).partition(" ")
    return Figure("Wait before start", value, unit, note) if " " not in unit else Figure(
        "Wait before start", figures.duration(seconds), "", note
    )  # fmt: skip


def alerts(totals: Totals, **which: Any) -> list[tuple[str, str, str]]:
    """What one should know before believing the figures: head, sentence, address of the attempts meant."""
    said = (
        (totals.lost, "Lost", "nobody told the end; charged until last seen", {"lost": "true"}),
        (totals.disagree, "Sources disagree", "times differ by more than 5 seconds; the accounting's word is used",
         {"disagree": "true"}),
        (totals.unconfirmed, "Unconfirmed", "only scripts on the nodes speak of it so far", {"confirmed": "false"}),
        (totals.corrected, "Corrected", "a person corrected what the sources say", {"corrected": "true"}),
    )  # fmt: skip
    return [
        (head, f"{counted(count, 'attempt')}: {text}.", columns.address("attempts", **which, **query))
        for count, head, text, query in said
        if count
    ]


def wall_seconds(attempt: Any, seen: Seen) -> int:
    """Seconds from start to end, until now where it still runs."""
    return columns.seconds_between(attempt.start, attempt.end or seen.cut) or 0


def gpu_seconds(attempt: Any, segments: Sequence[Any], seen: Seen) -> int:
    """GPU-seconds over all stretches, until now where it still runs."""
    if attempt.gpu_seconds is not None:
        return int(attempt.gpu_seconds)
    spans = [(columns.seconds_between(part.start, part.end or seen.cut) or 0, part.gpus) for part in segments]
    return sum(seconds * gpus for seconds, gpus in spans)


def wall_hours(seconds: int) -> str:
    """Seconds as hours with two decimals, halves up."""
    hundredths = (seconds * 100 + 1800) // 3600
    return f"{figures.thousands(hundredths // 100)}.{hundredths % 100:02d}"


def tools_of(api: str, **query: Any) -> list[Link]:
    """A REST list with filters as files and for programs."""
    found = columns.address(api, **query)
    return [Link("CSV", f"{found}&format=csv"), Link("XLSX", f"{found}&format=xlsx"), Link("API", found)]


def attempts_table(
    attempts: Sequence[Any], segments: Mapping[UUID, Sequence[Any]], names: Mapping[UUID, str], seen: Seen,
    totals: Totals, tools: Sequence[Link], everything: str, *, several: bool,
) -> Table:  # fmt: skip
    """Attempts in order; those beyond the given ones in one row.

    names: of jobs, shown where they are of `several`; everything: address of all.
    """
    short = totals.wall_seconds < SHORT
    rows = [_row(one, segments.get(one.id, ()), names[one.job] if several else "", seen, short) for one in attempts]
    rest = totals.attempts - len(attempts)
    if rest > 0:
        wall = totals.wall_seconds - sum(wall_seconds(one, seen) for one in attempts)
        gpu = totals.gpu_seconds - sum(gpu_seconds(one, segments.get(one.id, ()), seen) for one in attempts)
        rows.append(_sums(label(f"{figures.thousands(rest)} more", href=everything), wall, gpu, short))
    first = Cell(counted(totals.attempts, "attempt"), "w")
    foot = _sums(first, totals.wall_seconds, totals.gpu_seconds, short)
    caption = f"Times in {seen.site.timezone}. Wait is from eligible to start. Columns add up in seconds."
    if totals.running:
        caption += f" What runs is counted until {figures.moment(seen.cut, seen.site.zone)}."
    return Table("attempts", "Attempts", caption, _heads(short), rows, foot, tools, wide=True)


def _heads(short: bool) -> list[Head]:
    wall, gpu = ("Wall s", "GPU-s") if short else ("Wall h", "GPU-h")
    return [Head("Attempt"), Head("State"), Head("Start"), Head("End"), Head("Wait", "n"), Head(wall, "n"),
            Head("GPUs", "n"), Head(gpu, "n"), Head("Ended by"), Head("Exit"), Head("Sources")]  # fmt: skip


def _row(attempt: Any, segments: Sequence[Any], job: str, seen: Seen, short: bool) -> list[Cell]:
    shown = states.of(attempt.state)
    name = f"{job}, {attempt.number}" if job else str(attempt.number)
    href = f"{reverse('job', args=[attempt.job])}#attempt-{attempt.number}" if job else ""
    wall = wall_seconds(attempt, seen)
    return [
        Cell(name, href=href, anchor="" if job else f"attempt-{attempt.number}"),
        Cell(shown.word, "w", state=shown.css, marks=columns.marks(attempt)),
        seen.moment(attempt.start),
        seen.moment(attempt.end) if attempt.end else Cell("runs", "w note"),
        columns.span(columns.seconds_between(attempt.eligible, attempt.start)),
        _wall(wall, short),
        _sizes(attempt, segments),
        _gpu(gpu_seconds(attempt, segments, seen), short),
        Cell(_ended_by(attempt), "says"),
        Cell(states.explain_exit(attempt.exit_code, attempt.exit_signal) if attempt.end else ""),
        Cell(", ".join(source.partition(":")[0] for source in attempt.source_list)),
    ]


def _wall(seconds: int, short: bool) -> Cell:
    """How long it was allocated; exact below the pointer."""
    text = figures.thousands(seconds) if short else wall_hours(seconds)
    return Cell(text, "n" if seconds else "n zero", title=f"{figures.thousands(seconds)} s")


def _gpu(seconds: int, short: bool) -> Cell:
    """What it held; exact below the pointer."""
    text = figures.thousands(seconds) if short else figures.hours(seconds)
    return Cell(text, "n" if seconds else "n zero", title=f"{figures.thousands(seconds)} GPU-s")


def _sizes(attempt: Any, segments: Sequence[Any]) -> Cell:
    """GPUs at the start, and after each resize."""
    if attempt.gpus is None and not segments:
        return absent()
    sizes = [part.gpus for part in segments] or [attempt.gpus]
    if attempt.gpus is None and not any(sizes):
        return absent()
    return number(" → ".join(figures.thousands(size) for size in sizes), zero=not any(sizes))


def _ended_by(attempt: Any) -> str:
    """How it ended, and how long of it the program stood still."""
    held = attempt.suspended_seconds
    paused = f"Suspended for {figures.duration(held)} of it." if held else ""
    if attempt.end is None:
        return paused
    if attempt.lost:
        return "Nobody told its end; it is charged until it was last seen."
    # What the accounting keeps of a wait before it is no reason for its end.
    silent = attempt.reason in _SILENT or cause_of(attempt.reason) != "unknown"
    reason = "" if silent else f"Reason given: {attempt.reason}."
    return " ".join(part for part in (states.cause(attempt.state), reason, paused) if part)


def _sums(first: Cell, wall: int, gpu: int, short: bool) -> list[Cell]:
    return [first, Cell(), Cell(), Cell(), Cell(), _wall(wall, short), Cell(), _gpu(gpu, short), Cell(), Cell(),
            Cell()]  # fmt: skip


def places_table(
    attempts: Sequence[Any], segments: Mapping[UUID, Sequence[Any]], names: Mapping[UUID, str], *, several: bool
) -> Table:
    """Which nodes, as last told, and which GPUs of them as far as a source tells. names: as above."""
    grouped: dict[tuple[str, str], list[Any]] = {}
    for one in attempts:
        grouped.setdefault((one.node_list, one.gpu_indices), []).append(one)
    rows = []
    for (nodes, _), held in grouped.items():
        which = [f"{names[one.job]}, {one.number}" if several else str(one.number) for one in held]
        shown = ", ".join(which[:8]) + (f" and {len(which) - 8} more" if len(which) > 8 else "")
        parts = segments.get(held[0].id, ())
        size = columns.size(parts[-1].nodes if parts else held[0].nodes)
        rows.append([label(nodes or "not told"), size, _indices(held[0]), label(shown)])
    heads = (Head("Nodes"), Head("Number", "n"), Head("GPUs of each"), Head("Attempts"))
    caption = "As the scheduler last told. Where nobody tells which GPUs were held, they count as evenly split."
    return Table("nodes", "Where it ran", caption, heads, rows, ())


def _indices(attempt: Any) -> Cell:
    """Which GPUs it held, as far as a source tells."""
    if attempt.gpu_indices:
        return Cell(attempt.gpu_indices)
    return Cell("not told", "nodata") if attempt.gpus else Cell("none", "zero")
