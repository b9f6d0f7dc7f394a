"""What the page of a run shows of its programs' words: where the GPU-time went, what was lost, how often to save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from jobs import queries_goodput, queries_interruptions, queries_scaling
from jobs.queries_goodput import HEADS, PARTS, Advice, RunGoodput
from jobs.queries_interruptions import RunInterruptions
from jobs.queries_scaling import RunSpeed
from web import figures, history, states
from web.tables import Bar, Cell, Head, Table, absent, count, label, number
from web.timeline import Bar as Stretch
from web.timeline import Timeline
from web.usagefigs import Figure

__all__ = ["Told", "advice_table", "attempts_table", "drawn", "key_figures", "parts_table", "read"]

MOST_SAVES: Final = 2_000
"""More saves are not drawn one by one."""
MOST: Final = 200
LOST, SAVES = "Lost", "Checkpoints"


@dataclass(frozen=True, slots=True)
class Told:
    """What programs told of a run: its sums, its saves in order, at most MOST_SAVES + 1 of them, how fast it went and
    what interrupted it."""

    sums: RunGoodput
    saves: Sequence[Any]
    speed: RunSpeed | None
    interruptions: RunInterruptions | None

    @property
    def per_attempt(self) -> dict[UUID, int]:
        """Saves of each attempt."""
        found: dict[UUID, int] = {}
        for save in self.saves:
            found[save.attempt] = found.get(save.attempt, 0) + 1
        return found


def read(run: Any, cut: datetime) -> Told | None:
    """What its programs told; None where they told nothing."""
    sums = queries_goodput.of_run(run, cut)
    if sums is None:
        return None
    saves = queries_goodput.saves_of(run, MOST_SAVES + 1)
    return Told(sums, saves, queries_scaling.of_run(run), queries_interruptions.of_run(run))


def key_figures(told: Told | None) -> list[Figure]:
    """Productive of instrumented GPU-time, and beside it productive of wall time (ETTR)."""
    if told is None:
        return []
    sums = told.sums
    value = figures.percent(sums.parts["productive"], sums.told)
    ettr = f"{sums.ettr * 100:.1f} % of the time since it could start" if sums.ettr is not None else "of its GPU-time"
    return [Figure("Goodput", value.removesuffix(" %"), "%" if sums.told else "", ettr, "#goodput")]


# --- tables ------------------------------------------------------------------------------------------------------


def parts_table(run: Any, told: Told) -> Table:
    """The partition: each instrumented GPU-second has one part."""
    sums = told.sums
    wasted = sums.told - sums.parts["productive"]
    before, rows = 0, []
    for part in PARTS:
        seconds = sums.parts[part]
        bar = None
        if part != "productive":
            bar, before = _bar(part, before, seconds, wasted), before + seconds
        rows.append(
            [label(HEADS[part].lower(), key=f"k-{part}"), *_amounts(seconds, sums.told), Cell("", "viz", bar=bar)]
        )
    caption = "Each allocated GPU-second has one part; the parts add up to the second. Productive is not drawn."
    if sums.untold:
        caption += f" {figures.hours(sums.untold)} GPU-h are not in it: the programs of those attempts told nothing."
    if any(row.end is None for row in sums.rows):
        caption += " What a running program has not told yet is other."
    width = f"Not productive, {figures.hours(wasted)} GPU-h = full width"
    heads = (Head("Part"), Head("GPU-s", "n"), Head("GPU-h", "n"), Head("Share %", "n"), Head(width, "viz"))
    foot = [label("allocated" if not sums.untold else "allocated and told of"), *_amounts(sums.told, sums.told),
            Cell("", "viz")]  # fmt: skip
    tools = history.tools_of("api-goodput", run=run.id)
    return Table("goodput", "Where the GPU-time went", caption, heads, rows, foot, tools)


def _bar(part: str, before: int, seconds: int, whole: int) -> Bar | None:
    if not seconds:
        return None
    return Bar(f"{seconds * 100 / whole:.2f}", f"k-{part}", f"{before * 100 / whole:.2f}")


def _amounts(seconds: int, whole: int) -> list[Cell]:
    zero = not seconds
    return [
        number(figures.thousands(seconds), zero=zero),
        number(figures.hours(seconds), zero=zero),
        number(_share(seconds, whole), zero=zero),
    ]


def _share(part: int, whole: int) -> str:
    """Per cent with three decimals, halves up."""
    if not whole:
        return "—"
    thousandths = (part * 200_000 + whole) // (2 * whole)
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"


def attempts_table(run: Any, told: Told, names: Mapping[UUID, str], numbers: Mapping[UUID, tuple[UUID, int]]) -> Table:
    """What each attempt lost; those beyond MOST in one row. numbers: attempt -> its job and its number."""
    counts, shown, rest = told.per_attempt, told.sums.rows[:MOST], told.sums.rows[MOST:]
    whole = len(told.saves) <= MOST_SAVES
    rows = []
    for row in shown:
        job, known = numbers.get(row.attempt, (None, row.number))
        name = names.get(job, row.job_id) if job else row.job_id
        rows.append([label(f"{name}, {known}"), *_losses([row], counts.get(row.attempt, 0) if whole else None)])
    if rest:
        saved = sum(counts.get(row.attempt, 0) for row in rest) if whole else None
        rows.append([label(f"{figures.thousands(len(rest))} more"), *_losses(rest, saved)])
    heads = (Head("Job, attempt"), Head("Checkpoints", "n"), Head("Rolled back min", "n"),
             Head("Detect and stop min", "n"), Head("Start and restore min", "n"), Head("Data stall GPU-h", "n"),
             Head("Goodput %", "n"))  # fmt: skip
    foot = [label(history.counted(len(told.sums.rows), "attempt")),
            *_losses(told.sums.rows, len(told.saves) if whole else None)]  # fmt: skip
    caption = (
        "Minutes of time, not of GPUs; they add up in seconds. Work is lost when an attempt fails, or when the run "
        "goes on from before its last step."
    )
    tools = history.tools_of("api-checkpoints", run=run.id)
    return Table("lost", "What each attempt lost", caption, heads, rows, foot, tools, wide=True)


def _losses(rows: Sequence[Any], saves: int | None) -> list[Cell]:
    rolled = sum(row.rolled_back_seconds for row in rows)
    stopping = sum(round((row.detect + row.teardown) / max(1, row.gpus)) for row in rows)
    starting = sum(round((row.init_restore + row.partial_gang_wait) / max(1, row.gpus)) for row in rows)
    allocated, stalled = sum(row.allocated for row in rows), sum(row.data_stall for row in rows)
    return [
        count(saves), _minutes(rolled), _minutes(stopping), _minutes(starting),
        number(figures.hours(stalled), zero=not stalled),
        number(figures.percent(sum(row.productive for row in rows), allocated).removesuffix(" %")),
    ]  # fmt: skip


def _minutes(seconds: int) -> Cell:
    """Minutes with one decimal, halves up."""
    tenths = (seconds * 10 + 30) // 60
    return number(f"{figures.thousands(tenths // 10)}.{tenths % 10}", zero=not seconds)


# --- advice ------------------------------------------------------------------------------------------------------


def advice_table(told: Told) -> Table:
    """How often the run should save; where nothing can be advised, why."""
    advice = told.sums.advice
    heads = (Head("Interval"), Head("Checkpoints %", "n"), Head("Interruptions %", "n"), Head("Sum %", "n"))
    rows = [
        [label(f"{_as_minutes(loss.interval)}, {loss.word}"), _percent(loss.saving), _percent(loss.failing),
         _percent(loss.total)]
        for loss in advice.losses
    ] or [[label("no advice"), absent(), absent(), absent()]]  # fmt: skip
    return Table("interval", "Checkpoint interval", _sentence(advice), heads, rows, ())


def _sentence(advice: Advice) -> str:
    if advice.refused or advice.band is None or advice.young is None or advice.daly is None:
        return advice.refused
    band = advice.band
    seen = f"{history.counted(advice.failures, 'failure')} in {advice.node_days:,.1f} node-days and one in 200 believed"
    often = f"one in {_as_hours(advice.mttf)} for this run (90 % interval {_as_hours(advice.mttf_low)} to"
    both = _others(advice)
    good = f"Intervals from {_as_minutes(band.low)} to {_as_minutes(band.high)} are as good as the best,"
    rules = f"Young gives {_as_minutes(advice.young)}, Daly {_as_minutes(advice.daly)}."
    decides = ", and decides" if band.limited else ""
    said = [
        "" if advice.interval is None else _verdict(advice, advice.interval),
        f"{seen} before: {often} {_as_hours(advice.mttf_high)}).{both} Saving blocks for {advice.blocking:,.0f} s.",
        f"{good} {_as_minutes(band.best)}; {rules} Storage takes {band.floor:,.0f} s to hold a save{decides}.",
    ]
    return " ".join(said).strip()


def _others(advice: Advice) -> str:
    """Other ends are no failures, but lose work all the same: the interval is weighed with both."""
    if not advice.others:
        return ""
    number = sum(advice.others.values())
    states_ = ", ".join(f"{figures.thousands(many)} {states.of(name).word}" for name, many in advice.others.items())
    lost = f"{history.counted(number, 'other end')} that lost work ({states_}) in {_as_hours(advice.ran)} of running"
    return f" {lost}: one in {_as_hours(advice.mtto)}. Together one in {_as_hours(advice.mtti)}, which is weighed here."


def _verdict(advice: Advice, interval: float) -> str:
    band = advice.band
    if band is None or band.low <= interval <= band.high:
        return f"The interval of {_as_minutes(interval)} is inside the band."
    worth = f"the best one would have saved {figures.hours(advice.saving)} GPU-h"
    where = "below" if interval < band.low else "above"
    return f"The interval of {_as_minutes(interval)} is {where} the band: {worth}."


def _as_minutes(seconds: float) -> str:
    return f"{seconds / 60:,.0f} min".replace(",", figures.THIN) if seconds >= 60 else f"{seconds:.0f} s"


def _as_hours(seconds: float | None) -> str:
    return figures.NO_DATA if seconds is None else f"{seconds / 3600:,.0f} h".replace(",", figures.THIN)


def _percent(share: float) -> Cell:
    return number(f"{share * 100:.3f}")


# --- lanes -------------------------------------------------------------------------------------------------------


def drawn(line: Timeline, told: Told | None, zone: ZoneInfo) -> Timeline:
    """The timeline with lanes of saves and of lost work, where there are any and not too many."""
    if told is None or not line.bars:
        return line
    more = [_saved(save) for save in told.saves] if len(told.saves) <= MOST_SAVES else []
    more += [_lost(row, zone) for row in told.sums.rows if row.rolled_back_seconds]
    return replace(line, bars=[*line.bars, *more])


def _saved(save: Any) -> Stretch:
    blocking = timedelta(milliseconds=save.blocking_ms or 0)
    return Stretch(
        SAVES, "saved", save.state, save.state + blocking, f"checkpoint at step {figures.thousands(save.step)}"
    )


def _lost(row: Any, zone: ZoneInfo) -> Stretch:
    """The work that was lost ends where its last step did."""
    end = row.until.astimezone(zone) - timedelta(seconds=(row.detect + row.teardown) / max(1, row.gpus))
    text = f"rolled back {figures.duration(row.rolled_back_seconds)} of attempt {row.number} of job {row.job_id}"
    return Stretch(LOST, "lost", end - timedelta(seconds=row.rolled_back_seconds), end, text)
