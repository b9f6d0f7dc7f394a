"""What people say of runs: that a name is done with, or that saying so was a mistake. Commands that append events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from events import actions
from events.access import Scope
from events.append import StreamMoved
from events.derive.closings import standing_closings
from events.intake import now_us
from events.queries_log import of_stream
from events.types.runs import RunClosed, RunReopened
from jobs.models import Job, Run
from jobs.queries_runs import run_named

__all__ = ["Closed", "NotDone", "Saying", "close_run", "closings_of", "reopen_run", "why_open"]

SHOWN: Final = 20
"""Open jobs that are named."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A run of a name was closed, by an actor."""

    at: datetime
    actor: str


@dataclass(frozen=True, slots=True)
class Saying:
    """Who says it, what they may see, and the key under which they say the same again without effect, if any."""

    scope: Scope
    actor: str
    key: str = ""


@dataclass(frozen=True)
class NotDone(Exception):
    """A command that cannot be done. code: missing, unnamed, at, open, closed, not_closed, not_last, moved,
    key_used.

    jobs: those that stand in the way, the first SHOWN.
    """

    code: str
    text: str
    jobs: Sequence[Job] = ()


def closings_of(account: str, name: str) -> list[Closed]:
    """When runs of a name were closed and by whom, as the log has it now: the first is the closing of run #1."""
    events = sorted(of_stream(f"run/{account}/{name}"), key=lambda one: (one.occurred_at, one.actor))
    said = [(event.type, int(event.data["closed_s"]), event.actor) for event in events]
    return [Closed(datetime.fromtimestamp(at, UTC), actor) for at, actor in standing_closings(said)]


def close_run(saying: Saying, id_: UUID, at: datetime | None = None) -> Closed:
    """Close a named run, now or as of an earlier instant: jobs of its account that carry its name and are submitted
    later are a new run.

    Raises NotDone, and events.append.LogBusy.
    """
    run, last = _run(saying, id_)
    if (earlier := _said(saying, "run.closed", run)) is not None:
        return earlier
    closings = closings_of(run.account, run.name)
    if run.generation <= len(closings):
        raise NotDone("closed", f"it was closed already, at {closings[run.generation - 1].at:%Y-%m-%dT%H:%M:%SZ}")
    closed_s = _instant(at, closings)
    if (why := why_open(run, datetime.fromtimestamp(closed_s, UTC))) is not None:
        raise why
    data = RunClosed(account=run.account, run=run.name, closed_s=closed_s)
    return _say(saying, "run.closed", run, data, last)


def reopen_run(saying: Saying, id_: UUID) -> Closed:
    """Take the closing of a run back: jobs of its name that came since are part of it again. Gives the closing.

    Only the last closing of a name can be taken back: the runs after it would change their numbers. Raises NotDone,
    and events.append.LogBusy.
    """
    run, last = _run(saying, id_)
    if (earlier := _said(saying, "run.reopened", run)) is not None:
        return earlier
    closings = closings_of(run.account, run.name)
    if run.generation > len(closings):
        raise NotDone("not_closed", "it is not closed: there is nothing to take back")
    if run.generation < len(closings):
        raise NotDone("not_last", f"a later run of this name was closed too: take back the closing of #{len(closings)}")
    closed_s = int(closings[-1].at.timestamp())
    return _say(saying, "run.reopened", run, RunReopened(account=run.account, run=run.name, closed_s=closed_s), last)


def _instant(at: datetime | None, closings: Sequence[Closed]) -> int:
    """Epoch seconds of a closing. Raises NotDone for one in the future, or before the closing before."""
    now = now_us() // 1_000_000
    closed_s = now if at is None else int(at.timestamp())
    if closed_s > now:
        raise NotDone("at", "a run cannot be closed as of a time that has not come")
    if closings and closed_s <= int(closings[-1].at.timestamp()):
        raise NotDone("at", f"the run before it was closed at {closings[-1].at:%Y-%m-%dT%H:%M:%SZ}: name a later time")
    return closed_s


def why_open(run: Run, at: datetime | None = None) -> NotDone | None:
    """What keeps a run from being closed (as of an instant): jobs of it, submitted by then, that wait or run."""
    rows = Job.objects.filter(run=run.id, end=None).exclude(run_name="").order_by("submit", "id")
    if at is not None:
        rows = rows.exclude(submit__gt=at)
    count = rows.count()
    if not count:
        return None
    jobs = list(rows[:SHOWN])
    names = ", ".join(job.job_id for job in jobs) + (f" and {count - SHOWN} more" if count > SHOWN else "")
    which = f"job {names} waits or runs" if count == 1 else f"{count} jobs wait or run: {names}"
    return NotDone("open", f"{which}; close it when they have ended", jobs)


def _run(saying: Saying, id_: UUID) -> tuple[Run, int]:
    """The run and the last position of what was said of its name. Raises NotDone."""
    run = run_named(saying.scope, id_)
    if run is None:
        raise NotDone("missing", "there is no such run that the caller may see")
    if not run.named:
        raise NotDone("unnamed", "nobody named this run: it is one job and ends with it, there is nothing to close")
    said = of_stream(_stream(run))
    return run, said[-1].position if said else 0


def _stream(run: Run) -> str:
    return f"run/{run.account}/{run.name}"


def _said(saying: Saying, type_: str, run: Run) -> Closed | None:
    """What was said under the same key before. Raises NotDone where it was something else."""
    event = actions.said_under(_key(saying)) if saying.key else None
    if event is None:
        return None
    if (event.type, event.stream) != (type_, _stream(run)):
        raise NotDone("key_used", "this Idempotency-Key was used for another command: choose a new one")
    return Closed(datetime.fromtimestamp(event.data["closed_s"], UTC), event.actor)


def _key(saying: Saying) -> str:
    """Keys of one caller do not meet those of another."""
    return f"{saying.actor}/{saying.key}"


def _say(saying: Saying, type_: str, run: Run, data: RunClosed | RunReopened, last: int) -> Closed:
    try:
        key = _key(saying) if saying.key else ""
        actions.say(data, type_=type_, actor=saying.actor, key=key, expect={_stream(run): last})
    except StreamMoved:
        if (same := _said(saying, type_, run)) is not None:
            return same
        raise NotDone("moved", "somebody said something else of this run at the same moment: look again") from None
    kept = _said(saying, type_, run) if saying.key else None  # another command may have had the key meanwhile
    return kept or Closed(datetime.fromtimestamp(data.closed_s, UTC), saying.actor)
