"""What people say of runs: that a name is done with, or that saying so was a mistake. Commands that append events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.db.models import Value
from django.db.models.functions import Coalesce

from events import actions
from events.access import Scope
from events.append import StreamMoved
from events.derive.closings import standing_closings
from events.intake import now_us
from events.models import Event
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

    jobs: those that stand in the way, the first SHOWN. fields: of the command, that are wrong.
    """

    code: str
    text: str
    jobs: Sequence[Job] = ()
    fields: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Command:
    """What is said of a run, by whom; at: as of when, as far as that was asked."""

    saying: Saying
    type: str
    run: Run
    at: datetime | None = None


def closings_of(account: str, name: str) -> list[Closed]:
    """When runs of a name were closed and by whom, as the log has it now: the first is the closing of run #1."""
    return _standing(of_stream(f"run/{account}/{name}"))


def _standing(events: Sequence[Event]) -> list[Closed]:
    said = [(event.type, int(event.data["closed_s"]), event.actor) for event in events]
    return [Closed(datetime.fromtimestamp(at, UTC), actor) for at, actor in standing_closings(said)]


def close_run(saying: Saying, id_: UUID, at: datetime | None = None) -> Closed:
    """Close a named run, now or as of an earlier instant: jobs of its account that carry its name and are submitted
    later are a new run.

    Raises NotDone, and events.append.LogBusy.
    """
    command = _Command(saying, "run.closed", _run(saying, id_), at)
    return _once(command, lambda: _close(command))


def reopen_run(saying: Saying, id_: UUID) -> Closed:
    """Take the closing of a run back: jobs of its name that came since are part of it again. Gives the closing.

    Only the last closing of a name can be taken back: the runs after it would change their numbers. Raises NotDone,
    and events.append.LogBusy.
    """
    command = _Command(saying, "run.reopened", _run(saying, id_))
    return _once(command, lambda: _reopen(command))


def _once(command: _Command, act: Callable[[], Closed]) -> Closed:
    """What was said under the command's key, before or while it was done, and else what it says itself."""
    if (earlier := _said(command)) is not None:
        return earlier
    try:
        return act()
    except NotDone:
        # The same command under the same key may just have been done: that is what stands in the way of this one.
        if (same := _said(command)) is not None:
            return same
        raise


def _close(command: _Command) -> Closed:
    run, (closings, last) = command.run, _closings(command.run)
    if run.generation <= len(closings):
        raise NotDone("closed", f"it was closed already, at {closings[run.generation - 1].at:%Y-%m-%dT%H:%M:%SZ}")
    if run.generation > len(closings) + 1:
        raise NotDone("moved", "the closing of the run before it was just taken back: look again")
    closed_s = _instant(command.at, closings)
    if not _begun(run, closed_s):
        raise NotDone("at", "no job of the run was submitted by then: name a time after its first", fields=("at",))
    if (why := why_open(run, datetime.fromtimestamp(closed_s, UTC))) is not None:
        raise why
    return _say(command, RunClosed(account=run.account, run=run.name, closed_s=closed_s), last)


def _reopen(command: _Command) -> Closed:
    run, (closings, last) = command.run, _closings(command.run)
    if run.generation > len(closings):
        raise NotDone("not_closed", "it is not closed: there is nothing to take back")
    if run.generation < len(closings):
        raise NotDone("not_last", f"a later run of this name was closed too: take back the closing of #{len(closings)}")
    closed_s = int(closings[-1].at.timestamp())
    return _say(command, RunReopened(account=run.account, run=run.name, closed_s=closed_s), last)


def _closings(run: Run) -> tuple[list[Closed], int]:
    """The closings of a run's name, and the position up to which its stream was read for them."""
    said = of_stream(_stream(run))
    return _standing(said), said[-1].position if said else 0


def _begun(run: Run, at_s: int) -> bool:
    """Whether a job of a run came by an instant; without one every job would belong to the run after it."""
    came = Coalesce("submit", "eligible", "start", Value(datetime.fromtimestamp(0, UTC)))
    rows = Job.objects.filter(run=run.id).exclude(run_name="").annotate(came=came)
    return rows.filter(came__lte=datetime.fromtimestamp(at_s, UTC)).exists()


def _instant(at: datetime | None, closings: Sequence[Closed]) -> int:
    """Epoch seconds of a closing. Raises NotDone for one in the future, or before the closing before."""
    now = now_us() // 1_000_000
    closed_s = now if at is None else int(at.timestamp())
    if closed_s > now:
        raise NotDone("at", "a run cannot be closed as of a time that has not come", fields=("at",))
    if closings and closed_s <= int(closings[-1].at.timestamp()):
        before = f"{closings[-1].at:%Y-%m-%dT%H:%M:%SZ}"
        raise NotDone("at", f"the run before it was closed at {before}: name a later time", fields=("at",))
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


def _run(saying: Saying, id_: UUID) -> Run:
    """The named run. Raises NotDone."""
    run = run_named(saying.scope, id_)
    if run is None:
        raise NotDone("missing", "there is no such run that the caller may see")
    if not run.named:
        raise NotDone("unnamed", "nobody named this run: it is one job and ends with it, there is nothing to close")
    return run


def _stream(run: Run) -> str:
    return f"run/{run.account}/{run.name}"


def _said(command: _Command) -> Closed | None:
    """What was said under the same key before. Raises NotDone where it was something else."""
    event = actions.said_under(_key(command.saying)) if command.saying.key else None
    if event is None:
        return None
    if not _same(command, event):
        raise NotDone("key_used", "this Idempotency-Key was used for another command: choose a new one")
    return Closed(datetime.fromtimestamp(event.data["closed_s"], UTC), event.actor)


def _same(command: _Command, event: Event) -> bool:
    """Whether an event is what this command said: of this very run of the name, and as of the same instant."""
    if (event.type, event.stream) != (command.type, _stream(command.run)):
        return False
    before = len(_standing(of_stream(event.stream, upto=event.position - 1)))
    number = before + 1 if command.type == "run.closed" else before
    as_asked = command.at is None or int(command.at.timestamp()) == event.data["closed_s"]
    return number == command.run.generation and as_asked


def _key(saying: Saying) -> str:
    """Keys of one caller do not meet those of another."""
    return f"{saying.actor}/{saying.key}"


def _say(command: _Command, data: RunClosed | RunReopened, last: int) -> Closed:
    saying, expect = command.saying, {_stream(command.run): last}
    try:
        key = _key(saying) if saying.key else ""
        actions.say(data, type_=command.type, actor=saying.actor, key=key, expect=expect)
    except StreamMoved:
        raise NotDone("moved", "somebody said something else of this run at the same moment: look again") from None
    kept = _said(command)  # another command may have had the key meanwhile
    return kept or Closed(datetime.fromtimestamp(data.closed_s, UTC), saying.actor)
