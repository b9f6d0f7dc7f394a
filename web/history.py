"""What the pages of a run and of a job have in common: figures, attempts with proven totals, where they ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.urls import reverse

from jobs.queries_runs import Totals
from web import columns, figures, states
from web.lists import Seen
from web.tables import Cell, Head, Link, Table, absent, label, number
from web.usagefigs import Figure

__all__ = ["HEADS", "alerts", "attempts_table", "counted", "gpu_seconds", "held_figures", "places_table", "stream_of",
           "tools_of", "wait_figure", "wall_hours", "wall_seconds"]  # fmt: skip

HEADS: Final = (
    Head("Attempt"), Head("State"), Head("Start"), Head("End"), Head("Wait", "n"), Head("Wall h", "n"),
    Head("GPUs", "n"), Head("GPU-h", "n"), Head("Ended by"), Head("Exit"), Head("Sources"),
)  # fmt: skip
_SILENT: Final = frozenset({"", "None", "NONE", "none"})


def counted(count: int, noun: str) -> str:
    """A number with its noun: '1 attempt', '5 attempts'."""
    return f"{figures.thousands(count)} {noun}{'' if count == 1 else 's'}"


def stream_of(job: Any) -> str:
    """Address of everything that was said about a job id."""
    return reverse("stream", args=[job.stream])


def held_figures(totals: Totals) -> list[Figure]:
    """GPU-hours and node-hours, set against the size and the time."""
    most = f"{counted(totals.gpus, 'GPU')} at most" if totals.gpus else "no GPU was held"
    href = "#attempts" if totals.attempts else ""
    wall = f"{figures.key_hours(totals.wall_seconds)} h allocated, {figures.key_hours(totals.cpu_seconds)} CPU-h"
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
    rows = [_row(one, segments.get(one.id, ()), names[one.job] if several else "", seen) for one in attempts]
    rest = totals.attempts - len(attempts)
    if rest > 0:
        wall = totals.wall_seconds - sum(wall_seconds(one, seen) for one in attempts)
        gpu = totals.gpu_seconds - sum(gpu_seconds(one, segments.get(one.id, ()), seen) for one in attempts)
        rows.append(_sums(label(f"{figures.thousands(rest)} more", href=everything), wall, gpu))
    noun = "attempt" if totals.attempts == 1 else "attempts"
    foot = _sums(label(f"{figures.thousands(totals.attempts)} {noun}"), totals.wall_seconds, totals.gpu_seconds)
    caption = f"Times in {seen.site.timezone}. Wait is from eligible to start. Columns add up in seconds."
    if totals.running:
        caption += f" What runs is counted until {figures.moment(seen.cut, seen.site.zone)}."
    return Table("attempts", "Attempts", caption, HEADS, rows, foot, tools, wide=True)


def _row(attempt: Any, segments: Sequence[Any], job: str, seen: Seen) -> list[Cell]:
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
        number(wall_hours(wall), zero=wall == 0),
        _sizes(attempt, segments),
        columns.gpu_hours(gpu_seconds(attempt, segments, seen)),
        Cell(_ended_by(attempt), "says"),
        Cell(states.explain_exit(attempt.exit_code, attempt.exit_signal) if attempt.end else ""),
        Cell(", ".join(source.partition(":")[0] for source in attempt.source_list), "w"),
    ]


def _sizes(attempt: Any, segments: Sequence[Any]) -> Cell:
    """GPUs at the start, and after each resize."""
    if attempt.gpus is None and not segments:
        return absent()
    sizes = [part.gpus for part in segments] or [attempt.gpus]
    if attempt.gpus is None and not any(sizes):
        return absent()
    return number(" → ".join(figures.thousands(size) for size in sizes), zero=not any(sizes))


def _ended_by(attempt: Any) -> str:
    if attempt.end is None:
        return ""
    reason = "" if attempt.reason in _SILENT else f" Reason given: {attempt.reason}."
    if attempt.lost:
        return "Nobody told its end; it is charged until it was last seen."
    return f"{states.cause(attempt.state)}{reason}"


def _sums(first: Cell, wall: int, gpu: int) -> list[Cell]:
    return [first, Cell(), Cell(), Cell(), Cell(), number(wall_hours(wall)), Cell(), number(figures.hours(gpu)),
            Cell(), Cell(), Cell()]  # fmt: skip


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
