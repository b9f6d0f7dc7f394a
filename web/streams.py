"""The stream of one thing: everything the log holds about it, in order; for a job id also what it adds up to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.derive.attempts import Attempt, Job
from events.queries_log import of_stream
from fleet.queries import Site, site
from jobs.queries import scope_of
from jobs.queries_life import Life, Spoken, life
from web import figures
from web.eventwords import EventRow, rows_of, speaker_for
from web.frame import frame
from web.rights import RAW_LOG, link_to, page
from web.sentences import FIELDS, Speaker, in_order
from web.tables import Link

__all__ = ["stream"]

SHOWN: Final = 500
"""Rows shown before the older ones are folded away, with a link to all of them."""
_OWN: Final = frozenset({"submit", "eligible", "start", "end", "record", "restarts"})
"""What is another one for each attempt: no change worth telling when the next attempt begins."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Step:
    """One row: the event, which attempt it speaks of, and what it says otherwise than the one before."""

    row: EventRow
    attempt: str
    changes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all sightings say together about one job of the id."""

    title: str
    text: str
    href: str
    run: str


@page
def stream(request: HttpRequest, stream: str) -> HttpResponse:
    """The events of one stream, as known now or at an earlier position; ?format=csv gives them as a file."""
    scope, here, now = scope_of(request.user), site(), datetime.now(UTC)
    upto, wrong = _upto(request.GET.get("as_of", ""))
    told = _told(scope, stream, upto)
    if request.GET.get("format") == "csv" and not wrong:
        return _csv(told, here, stream)
    context = {
        **frame(request, "log" if scope.fleetwide else "jobs", log.as_of(now), here, known=upto is not None),
        "stream": stream,
        "name": _name(stream),
        "is_job": stream.startswith("job/"),
        "whole": scope.fleetwide,
        "as_of_given": request.GET.get("as_of", "")[:24],
        "wrong": wrong,
        "cut": told.cut,
        "tools": _tools(scope, stream),
    }
    if not wrong:
        context |= _steps(told, here, now, every=request.GET.get("all") == "1") | _sum_up(told, here, now)
        context["live"] = upto is None
    return render(request, "web/stream.html", context, status=400 if wrong else 200)


def _upto(text: str) -> tuple[int | None, str]:
    """Position to read up to, and what is wrong with it."""
    digits = text.replace(figures.THIN, "").replace(" ", "")
    if not digits:
        return None, ""
    if digits.isascii() and digits.isdecimal() and len(digits) < 19:
        return int(digits), ""
    return None, "A position is a whole number, such as 4182907."


def _told(scope: Scope, stream: str, upto: int | None) -> Life:
    """The stream as far as the caller may see it. Raises Http404 or PermissionDenied."""
    if stream.startswith("job/"):
        found = life(scope, stream, upto=upto)
        if found is None and upto is not None and life(scope, stream) is not None:
            return Life((), (), (), {}, cut=False)
        if found is None:
            raise Http404
        return found
    if not scope.fleetwide:
        raise PermissionDenied(RAW_LOG)
    events = of_stream(stream, upto=upto)
    if not events and not of_stream(stream, most=1):
        raise Http404
    return Life(events, [None] * len(events), (), {}, cut=False)


def _name(stream: str) -> str:
    """What a stream is about, in words."""
    noun, _, rest = stream.partition("/")
    words = {"job": "Job", "step": "Steps of job", "cluster": "Cluster", "project": "Project", "account": "Account",
             "rate": "Rate of", "site": "The site"}  # fmt: skip
    if noun in ("job", "step", "account") and "/" in rest:
        cluster, _, name = rest.partition("/")
        return f"{words[noun]} {name} on {cluster}"
    return f"{words.get(noun, noun)} {rest}".strip()


def _tools(scope: Scope, stream: str) -> list[Link]:
    own = [Link("CSV", "?format=csv")]
    if not scope.fleetwide:
        return own
    return [*own, Link("API", f"{reverse('api-events')}?{urlencode({'stream': stream})}")]


# --- rows ------------------------------------------------------------------------------------------------------


def _steps(told: Life, here: Site, now: datetime, *, every: bool) -> dict[str, Any]:
    first = 0 if every else max(0, len(told.events) - SHOWN)
    rows = rows_of(told.events[first:], here.zone, now)
    speaker = speaker_for(here.zone, told.events[max(0, first - 1) :], now)
    several = len(told.jobs) > 1
    steps = []
    for number, row in enumerate(rows, first):
        changes = _changes(told, number, speaker)
        steps.append(Step(row, _attempt(told.spoken[number], several=several), changes))
    return {"steps": steps, "folded": figures.thousands(first) if first else "", "number": len(told.events)}


def _attempt(spoken: Spoken | None, *, several: bool) -> str:
    if spoken is None:
        return ""
    words = f"attempt {spoken.attempt}" if spoken.attempt else "waiting"
    return f"job {spoken.seq}, {words}" if several else words


def _changes(told: Life, number: int, speaker: Speaker) -> list[str]:
    """What an event says otherwise than the last one of its type about the same job: 'State: RUNNING → FAILED'."""
    event, spoken = told.events[number], told.spoken[number]
    before = next((n for n in range(number - 1, -1, -1) if _comparable(told, n, number)), None)
    if before is None or spoken is None:
        return []
    old, new, other = told.events[before].data, event.data, told.spoken[before] != spoken
    names = [name for name in in_order(new) if new[name] != old.get(name) and not (other and name in _OWN)]
    return [_change(name, old, new, speaker) for name in names] or ([] if other else ["Says the same again."])


def _comparable(told: Life, one: int, other: int) -> bool:
    first, second = told.spoken[one], told.spoken[other]
    return (
        told.events[one].type == told.events[other].type == "job.reported"
        and first is not None and second is not None and first.seq == second.seq
    )  # fmt: skip


def _change(name: str, old: Mapping[str, Any], new: Mapping[str, Any], speaker: Speaker) -> str:
    after = speaker.value(name, new[name])
    word = FIELDS.get(name, name)
    if old.get(name) in (None, [], ""):
        return f"{word}: {after}"
    return f"{word}: {speaker.value(name, old[name])} → {after}"


# --- what it adds up to ----------------------------------------------------------------------------------------


def _sum_up(told: Life, here: Site, now: datetime) -> dict[str, Any]:
    """Key figures and a verdict for each job of the id."""
    if not told.events:
        return {"figs": [], "verdicts": []}
    first, last = told.events[0].position, told.events[-1].position
    span = f"at position {figures.thousands(first)}"
    if first != last:
        span = f"positions {figures.thousands(first)} to {figures.thousands(last)}"
    sources = sorted({event.source for event in told.events})
    figs = [
        {"name": "Events", "value": figures.thousands(len(told.events)), "note": span},
        {"name": "Sources", "value": figures.thousands(len(sources)), "note": ", ".join(sources[:4])},
    ]
    return {
        "figs": figs + (_job_figs(told, now) if told.jobs else []),
        "verdicts": [_verdict(job, told, here, now) for job in told.jobs],
    }


def _job_figs(told: Life, now: datetime) -> list[dict[str, str]]:
    attempts = [attempt for job in told.jobs for attempt in job.attempts]
    disputed = sum(attempt.disagree for attempt in attempts)
    gpus = max((segment.gpus or 0 for attempt in attempts for segment in attempt.segments), default=0)
    return [
        {"name": "Attempts", "value": str(len(attempts)), "note": _count(len(told.jobs), "job")},
        {"name": "Wall", "value": figures.duration(sum(_wall(one, now) for one in attempts)), "note": "all attempts"},
        {"name": "GPU-hours", "value": figures.hours(sum(_gpu(one, now) for one in attempts)),
         "note": f"at most {_count(gpus, 'GPU')}"},
        {"name": "Sources disagree", "value": str(disputed), "note": "attempts whose times differ by over 5 s"},
    ]  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{figures.thousands(number)} {noun}{'' if number == 1 else 's'}"


def _wall(attempt: Attempt, now: datetime) -> int:
    """Seconds from start to end, for a running attempt until now."""
    end = int(now.timestamp()) if attempt.end is None else attempt.end
    return max(0, end - attempt.start)


def _gpu(attempt: Attempt, now: datetime) -> int:
    """GPU-seconds of all segments, an open one until now."""
    ends = ((one, int(now.timestamp()) if one.end is None else one.end) for one in attempt.segments)
    return sum((one.gpus or 0) * max(0, end - one.start) for one, end in ends)


def _verdict(job: Job, told: Life, here: Site, now: datetime) -> Verdict:
    row = told.rows.get(job.seq)
    name = f"Job {job.seq} of this id" if len(told.jobs) > 1 else "Together"
    gpu = sum(_gpu(one, now) for one in job.attempts)
    text = f"{job.state}: {_ran(job, here, now)}"
    if gpu:
        text += f", {figures.hours(gpu)} GPU-h"
    last = job.attempts[-1] if job.attempts else None
    text += _doubts(last) if last else ""
    return Verdict(name, text + ".", link_to("job", row.id) if row else "", link_to("run", row.run) if row else "")


def _ran(job: Job, here: Site, now: datetime) -> str:
    if not job.attempts:
        return "it never started" if job.state not in ("PENDING", "REQUEUED") else "it waits"
    first, last = job.attempts[0], job.attempts[-1]
    since = figures.moment(datetime.fromtimestamp(first.start, UTC), here.zone)
    wall = figures.duration(sum(_wall(one, now) for one in job.attempts))
    tries = _count(len(job.attempts), "attempt")
    if last.end is None:
        return f"{tries} since {since}, the last still runs, {wall} of running so far"
    until = figures.moment(datetime.fromtimestamp(last.end, UTC), here.zone)
    return f"{tries} from {since} to {until}, {wall} of running"


def _doubts(last: Attempt) -> str:
    """What is not as sure as it looks about the last attempt."""
    doubts = [
        "; nobody told its end, it is charged until it was last seen" if last.lost else "",
        "; sources disagree on its times, the one believed most is shown" if last.disagree else "",
        "; a person corrected it" if last.corrected else "",
        "" if last.confirmed else "; the accounting has not confirmed it yet",
    ]
    return "".join(doubts)


# --- file ------------------------------------------------------------------------------------------------------


def _csv(told: Life, here: Site, stream: str) -> HttpResponse:
    """The rows as CSV: what the page shows, with instants in RFC 3339."""
    speaker = speaker_for(here.zone, told.events)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["position", "occurred_at", "recorded_at", "type", "source", "job", "attempt", "says"])
    for line in _lines(told, speaker):
        writer.writerow([_safe(value) for value in line])
    response = HttpResponse(file.getvalue(), content_type="text/csv; charset=utf-8")
    name = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in stream)
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _lines(told: Life, speaker: Speaker) -> Iterator[list[Any]]:
    for event, spoken in zip(told.events, told.spoken, strict=True):
        yield [
            event.position, event.occurred_at.isoformat(), event.recorded_at.isoformat(), event.type, event.source,
            spoken.seq if spoken else "", spoken.attempt if spoken else "",
            speaker.sentence(event.type, event.data),
        ]  # fmt: skip


def _safe(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a ' before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
