"""Why something waited, on the pages of a job and of a run: in words, on the timeline, and second by second."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from events.access import Scope
from jobs import queries_estimates, queries_waiting
from jobs.queries_estimates import Error
from jobs.queries_fairshare import clusters_of
from jobs.waiting import CAUSES
from jobs.waiting_now import Stretch, Unknown, Waited, WaitingJob
from web import figures
from web.history import counted
from web.lists import Seen
from web.tables import Cell, Head, Table, label, number
from web.timeline import Bar, Timeline
from web.usagecharts import Key
from web.waitwords import waits_for

__all__ = ["CAUSE_WORDS", "SLOTS", "Words", "asks", "drawn", "guessed", "legend", "of_job", "of_run", "sentence",
           "stretches_table"]  # fmt: skip

MOST: Final = 200
"""Stretches that are shown one by one."""


class Words(NamedTuple):
    """A cause in a word or two, and as what follows "waits because"."""

    short: str
    because: str


CAUSE_WORDS: Final = {
    "dependency_or_hold": Words("dependency or hold", "it has to wait for another job, for a time or for a release"),
    "own_limit": Words("own limit", "a limit of its user, account, QOS or array is reached"),
    "own_share": Words("own share", "others come first"),
    "full": Words("full", "there is no room for it"),
    "fragmented": Words("fragmented", "enough GPUs are free, but not where it needs them"),
    "nodes_held": Words("nodes held", "nodes that it needs take no work"),
    "reserved": Words("reserved", "nodes that it needs are kept for others"),
    "unknown": Words("unknown", "nobody tells why"),
}
SLOTS: Final = {
    "dependency_or_hold": "fragmented", "own_limit": "variance", "own_share": "maintenance", "full": "held",
    "fragmented": "overhead", "nodes_held": "fault", "reserved": "spare", "unknown": "unallocated",
}  # fmt: skip
"""Colours of causes: names in the theme's scale `owner`, but for the blue of what runs and the teal of saves."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a job or a run waited.

    Of a job that waits now also its scheduler's last look, how well it guesses, and what the job waits for.
    shares: its cluster has a fair share.
    """

    told: Waited
    look: Any = None
    errors: Error | None = None
    now: WaitingJob | None = None
    shares: bool = False


def of_job(scope: Scope, job: Any, cut: datetime, *, waits: bool) -> Waits:
    """What is known of the waits of a job. waits: it waits now."""
    told = queries_waiting.waits_of_job(scope, job.id, cut, MOST)
    if not waits:
        return Waits(told)
    look = queries_waiting.last_look(scope, job)
    guesses = look is not None and look.expected is not None
    errors = queries_estimates.last_month(scope, cut, job.cluster).total if guesses else None
    return Waits(told, look, errors, queries_waiting.waiting_job(scope, job.id, cut), job.cluster in clusters_of(scope))


def of_run(scope: Scope, run: Any, cut: datetime) -> Waits:
    """What is known of the waits of all jobs of a run."""
    return Waits(queries_waiting.waits_of_run(scope, run.id, cut, MOST))


# --- words -------------------------------------------------------------------------------------------------------


def sentence(job: Any, waits: Waits, seen: Seen, ended: datetime | None = None) -> str:
    """What follows the word "waiting": since when, why, by when it is expected, and what it asks for.

    ended: when its last attempt did, if it had any: it waits since then.
    """
    zone, told, since = seen.site.zone, waits.told.stretches, ended or job.submit
    now = told[-1] if told and told[-1].open else None
    begun = f"since {figures.moment(since, zone)}" if since else ""
    after = f" after {counted(job.attempts, 'attempt')}" if job.attempts else ""
    said = [f"{begun}{after}{_because(job, now)}"]
    if waits.now is not None and not isinstance(waits.now.waits_for, Unknown):
        said.append(f"It waits for {waits_for(waits.now, lambda at: figures.moment(at, zone))}.")
    if waits.look is not None and waits.look.expected is not None:
        said.append(f"Its scheduler expects it to start by {figures.moment(waits.look.expected, zone)}{_error(waits)}.")
    if wanted := asks(job.asked_gpus, job.asked_cpus, job.asked_nodes, job.limit_seconds):
        said.append(f"It asks for {wanted}.")
    return " ".join(said).lstrip(",. ")


def _because(job: Any, now: Stretch | None) -> str:
    """Why it waits now; where nobody looked at it, what the accounting says of it."""
    if now is None:
        return f". Reason: {job.reason}." if job.reason not in ("", "None") else "."
    word = f" (its scheduler says {now.reason})" if now.reason else ""
    return f", now because {CAUSE_WORDS[now.cause].because}{word}."


def _error(waits: Waits) -> str:
    told = guessed(waits.errors) if waits.errors is not None else ""
    return f"; {told}" if told else ""


def guessed(error: Error) -> str:
    """How well a scheduler guessed, in half a sentence; '' where it did not."""
    if error.p90 is None or error.half_within is None:
        return ""
    late = f"no later than {_short(error.p90)} after" if error.p90 > 0 else f"at least {_short(-error.p90)} before"
    return (
        f"of its {counted(error.count, 'estimate')} in the last 30 days half were within "
        f"{_short(error.half_within)}, and 90 % of the starts came {late} the time it gave"
    )


def _short(seconds: int) -> str:
    return figures.duration(abs(seconds))


def asks(gpus: int | None, cpus: int | None, nodes: int | None, limit: int | None) -> str:
    """What a waiting job asks for: '64 GPUs on 8 nodes for up to 24 h 00 min'; '' where nobody tells."""
    size = counted(gpus, "GPU") if gpus else counted(cpus, "CPU") if cpus else ""
    if size and nodes:
        size += f" on {counted(nodes, 'node')}"
    return f"{size} for up to {figures.duration(limit)}" if size and limit else size


# --- the timeline ------------------------------------------------------------------------------------------------


def drawn(line: Timeline, waits: Waits, names: Mapping[UUID, str]) -> Timeline:
    """The timeline with causes in place of bare waits, for as far as they are known. names: of jobs, their lanes."""
    lanes = set(line.lanes)
    bars = [
        Bar(lane, "why", one.start, one.end, CAUSE_WORDS[one.cause].short, one.reason, slot=SLOTS[one.cause])
        for one in waits.told.stretches
        if (lane := _lane(names.get(one.job, ""), lanes))
    ]
    if not bars:
        return line
    kept = [bar for bar in line.bars if bar.kind != "wait" or not any(_covers(one, bar) for one in bars)]
    first = min(bar.start for bar in bars)
    start = min(line.start, first - (line.end - first) / 60) if first < line.start else line.start
    order = {lane: place for place, lane in enumerate(line.lanes)}
    return replace(line, bars=sorted([*bars, *kept], key=lambda bar: order[bar.lane]), start=start)


def _lane(name: str, lanes: Collection[str]) -> str:
    """The lane of a job; '' where it is not drawn."""
    return name if name in lanes else "Attempts" if "Attempts" in lanes else ""


def _covers(one: Bar, wait: Bar) -> bool:
    return one.lane == wait.lane and one.start < wait.end and wait.start < one.end


def legend(waits: Waits) -> list[Key]:
    """The causes with how long they lasted, in their order."""
    lasted = {one.cause: one.seconds for one in waits.told.sums}
    return [
        Key(f"k-{SLOTS[cause]}", f"waits: {CAUSE_WORDS[cause].short}", figures.duration(lasted[cause]))
        for cause in CAUSES
        if lasted.get(cause)
    ]


# --- the table ---------------------------------------------------------------------------------------------------


def stretches_table(waits: Waits, names: Mapping[UUID, str], seen: Seen, *, several: bool) -> Table | None:
    """Stretch by stretch, with the sums. names: of jobs, shown where they are of `several`. None without any."""
    told, number_of = waits.told, sum(one.stretches for one in waits.told.sums)
    if not told.stretches:
        return None
    rows = [_row(one, names.get(one.job, "") if several else "", seen) for one in told.stretches]
    whole = sum(one.since_eligible for one in told.sums), sum(one.since_submit for one in told.sums)
    if rest := number_of - len(rows):
        shown = [sum(one.seconds for one in told.stretches if one.since_eligible),
                 sum(one.seconds for one in told.stretches if one.since_submit)]  # fmt: skip
        rows.append(_sums(f"{figures.thousands(rest)} more", whole[0] - shown[0], whole[1] - shown[1]))
    heads = (Head("Job, attempt" if several else "Attempt"), Head("Cause"), Head("Scheduler's word"), Head("From"),
             Head("To"), Head("Wait s", "n"), Head("From submit s", "n"))  # fmt: skip
    caption = (
        "Why each attempt waited: a look at the scheduler stands until the next one says something else; what nobody "
        "looked at is unknown. Wait is from eligible to start; both columns add up to the second."
    )
    foot = _sums(f"{figures.thousands(number_of)} {'stretch' if number_of == 1 else 'stretches'}", *whole)
    return Table("waits", "Why it waited", caption, heads, rows, foot)


def _row(one: Stretch, job: str, seen: Seen) -> list[Cell]:
    return [
        label(f"{job}, {_wait_of(one)}" if job else _wait_of(one)),
        Cell(CAUSE_WORDS[one.cause].short, "w", key=f"k-{SLOTS[one.cause]}"), Cell(one.reason or "—", "any"),
        seen.moment(one.start), Cell("goes on", "w note") if one.open else seen.moment(one.end),
        *_seconds(one.seconds * one.since_eligible, one.seconds * one.since_submit),
    ]  # fmt: skip


def _wait_of(one: Stretch) -> str:
    """The attempt that it was a wait of; where none came of it, which wait it was."""
    if one.begun:
        return str(one.number)
    return "first wait" if one.number == 1 else f"wait after {one.number - 1}"


def _sums(first: str, eligible: int, submit: int) -> list[Cell]:
    return [label(first), Cell(), Cell(), Cell(), Cell(), *_seconds(eligible, submit)]


def _seconds(*values: int) -> list[Cell]:
    return [number(figures.thousands(value), zero=not value) for value in values]
