"""Sources: who tells us things, when they last did, what was refused of it, and how to connect another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from events import queries as log
from events.access import Scope
from events.queries_log import Rhythm, Voice, open_rejections, rhythms, voices
from fleet.queries import Site, SourceState, site
from fleet.queries import sources as states
from jobs.queries import scope_of
from web import figures
from web.eventwords import when
from web.frame import frame
from web.rights import staff_page
from web.tables import Cell, Head, Link, Table, absent, count, label

__all__ = ["SILENT_SECONDS", "quiet_after", "sources"]

SILENT_SECONDS: Final = 600
"""Silence is told after this long, for a source that usually speaks more often than every 200 s."""
TIMES_USUAL: Final = 3
"""For one that speaks more rarely: after this many of its usual gaps."""
STEADY: Final = ("remote-write", "otlp-metrics")
"""Kinds that speak all the time and keep no deliveries to learn a habit from."""
WAITING_MUCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Concern:
    """What is wrong with a source, and what to do about it."""

    source: str
    what: str
    do: str
    href: str = ""


@staff_page
def sources(request: HttpRequest) -> HttpResponse:
    """Every source with its last delivery and lag; what is wrong with which; how to connect."""
    scope, here, now = scope_of(request.user), site(), datetime.now(UTC)
    found, usual, refused = states(scope, now), rhythms(scope), open_rejections(scope)
    posted, pulled = _heard([one for one in found if not one.pulled]), [one for one in found if one.pulled]
    said = voices(scope)
    context = {
        **frame(request, "sources", log.as_of(now), here),
        "concerns": [c for one in found if (c := _concern(one, usual, refused))],
        "tables": [
            *([_posted(posted, usual, refused, here, now)] if posted else []),
            *([_pulled(pulled, here, now)] if pulled else []),
            *([_voices(said, here, now)] if said else []),
        ],
        "nothing": not found and not said,
        "base": request.build_absolute_uri("/").rstrip("/"),
        "live": True,
    }
    return render(request, "web/sources.html", context)


def concerns(scope: Scope, now: datetime) -> list[Concern]:
    """What is wrong with which source."""
    usual, refused = rhythms(scope), open_rejections(scope)
    return [found for one in states(scope, now) if (found := _concern(one, usual, refused))]


def _heard(posted: list[SourceState]) -> list[SourceState]:
    """Without those that were only set up, once anything of their cluster has been heard: that stands for itself."""
    heard = {one.cluster for one in posted if one.last_received is not None}
    return [one for one in posted if one.last_received is not None or not one.name or one.cluster not in heard]


def quiet_after(rhythm: Rhythm | None) -> float | None:
    """Seconds of silence after which a source is silent beyond its habit; None while its habit is not known."""
    if rhythm is None or rhythm.gap_seconds is None:
        return None
    return max(SILENT_SECONDS, TIMES_USUAL * rhythm.gap_seconds)


def _silent(one: SourceState, usual: Mapping[tuple[str, str], Rhythm]) -> bool:
    if one.pulled:
        limit: float | None = max(SILENT_SECONDS, TIMES_USUAL * (one.every_seconds or 0))
    elif one.kind in STEADY:
        limit = SILENT_SECONDS if one.accepted else None
    else:
        limit = quiet_after(usual.get((one.source, one.kind)))
    return limit is not None and one.silent_seconds is not None and one.silent_seconds > limit and not one.paused


def _concern(one: SourceState, usual: Mapping[tuple[str, str], Rhythm], refused: Mapping[str, int]) -> Concern | None:
    """The most pressing thing about a source, if there is any."""
    name = one.name or one.source
    if one.pulled and one.failing:
        do = "Look whether slurmrestd runs and whether the token is still valid. It is asked again by itself."
        return Concern(name, f"cannot be asked: {one.last_error}", do)
    if one.pulled and one.last_try is None and not one.paused:
        return Concern(name, "has not been asked yet", "It is asked as soon as the worker and beat run.")
    if _silent(one, usual):
        return Concern(name, _silence(one, usual), _break(one))
    if one.waiting >= WAITING_MUCH:
        waits = f"{figures.thousands(one.waiting)} of its deliveries wait"
        return Concern(name, waits, "Look whether the worker runs: manage.py serve, or the worker's service.")
    if number := 0 if one.pulled else refused.get(one.source, 0):
        href = f"{reverse('rejections')}?{urlencode({'state': 'open', 'source': one.source})}"
        return Concern(name, f"{_number(number, 'record')} refused and open", "Take them again or let them go.", href)
    return None


def _silence(one: SourceState, usual: Mapping[tuple[str, str], Rhythm]) -> str:
    rhythm = usual.get((one.source, one.kind))
    every = one.every_seconds or (rhythm.gap_seconds if rhythm else None)
    habit = f"; usually it speaks every {figures.duration(max(1, round(every)))}" if every else ""
    return f"has been silent for {figures.duration(one.silent_seconds or 0)}{habit}"


def _break(one: SourceState) -> str:
    """Where to look when a source falls silent."""
    kind = one.kind.partition("-")[0]
    return {
        "jobcomp": "Nothing may have ended meanwhile. Else look into slurmctld's log, and at JobCompLoc.",
        "slurm": "Nothing may have started or ended meanwhile. Else look at the hooks' spool on the nodes.",
        "slurmrestd": "Look whether the worker and beat run.",
        "remote": "Look whether Prometheus runs, and into its log: it says what it was answered.",
        "otlp": "Look whether the collector runs, and into its log: it says what it was answered.",
    }.get(kind, "Nothing may have happened meanwhile. Else look whether it still sends, and with a valid token.")


def _number(number: int, noun: str) -> str:
    return f"{figures.thousands(number)} {noun}{'' if number == 1 else 's'}"


# --- tables ----------------------------------------------------------------------------------------------------


def _posted(
    rows: list[SourceState], usual: Mapping[tuple[str, str], Rhythm], refused: Mapping[str, int], here: Site,
    now: datetime,
) -> Table:  # fmt: skip
    heads = [Head(text, css) for text, css in (
        ("Source", ""), ("Kind", ""), ("State", ""), ("Last delivery", "w"), ("Ago", "n"), ("Lag s", "n"),
        ("Deliveries", "n"), ("Accepted", "n"), ("Duplicate", "n"), ("Rejected", "n"), ("Open", "n"), ("Waiting", "n"),
    )]  # fmt: skip
    return Table(
        "posted", "They send", f"Counted since the beginning. Times in {here.timezone}. Lag: from receipt to log.",
        heads, [_posted_row(row, usual, refused, here, now) for row in rows], (),
        [Link("Deliveries", reverse("deliveries")), Link("API", "/api/v1/sources")], wide=True,
    )  # fmt: skip


def _posted_row(
    one: SourceState, usual: Mapping[tuple[str, str], Rhythm], refused: Mapping[str, int], here: Site, now: datetime
) -> list[Cell]:
    lag = absent() if one.lag_seconds is None else Cell(f"{one.lag_seconds:.1f}", "n")
    return [
        label(
            one.name or one.source or "not named", href=f"{reverse('deliveries')}?{urlencode({'source': one.source})}"
        ),
        Cell(one.kind, "w"),
        _state(one, usual),
        _time(one.last_received, here, now),
        _ago(one.silent_seconds),
        lag,
        *(count(value) for value in (one.deliveries, one.accepted, one.duplicate, one.rejected)),
        count(refused.get(one.source, 0)),
        count(one.waiting),
    ]


def _state(one: SourceState, usual: Mapping[tuple[str, str], Rhythm]) -> Cell:
    if one.paused:
        return Cell("paused", "w", state="maintenance")
    if one.pulled and one.failing:
        return Cell("fails", "w", state="down")
    if _silent(one, usual):
        return Cell("silent", "w", state="draining")
    if one.silent_seconds is None:
        return Cell("not heard yet", "w", state="planned")
    return Cell("speaks", "w", state="in_service")


def _time(at: datetime | None, here: Site, now: datetime) -> Cell:
    if at is None:
        return absent("never")
    return Cell(when(at, here.zone, now), "w", iso=at.astimezone(UTC).isoformat(timespec="seconds"))


def _ago(seconds: int | None) -> Cell:
    return absent("—") if seconds is None else Cell(figures.duration(seconds), "n")


def _pulled(rows: list[SourceState], here: Site, now: datetime) -> Table:
    heads = [Head(text, css) for text, css in (
        ("Source", ""), ("State", ""), ("Address", ""), ("Every", "n"), ("Last answer", "w"), ("Fetched up to", "w"),
        ("Pulls", "n"), ("Records", "n"), ("Last error", ""),
    )]  # fmt: skip
    return Table(
        "pulled", "Hallbook asks them", f"Fetched up to: accounting until then is in the log. {here.timezone}.",
        heads, [_pulled_row(row, here, now) for row in rows], (), [Link("API", "/api/v1/sources")], wide=True,
    )  # fmt: skip


def _pulled_row(one: SourceState, here: Site, now: datetime) -> list[Cell]:
    error = f"{one.last_error} ({when(one.last_error_at, here.zone, now)})" if one.last_error_at else ""
    version = f"{one.kind} {one.api_version}".strip()
    return [
        label(one.name, tag=version),
        _state(one, {}),
        label(one.url),
        absent("—") if one.every_seconds is None else Cell(figures.duration(one.every_seconds), "n"),
        _time(one.last_success, here, now),
        _time(one.watermark, here, now),
        count(one.pulls),
        count(one.records),
        label(error),
    ]


def _voices(found: list[Voice], here: Site, now: datetime) -> Table:
    """Who speaks in the newest part of the log: also imports and Hallbook itself, which send no deliveries."""
    rows = [_voice(one, here, now) for one in found]
    total = sum(one.events for one in found)
    return Table(
        "voices", "Who speaks in the log",
        f"The latest {figures.thousands(total)} events by source; also imports, which send no deliveries.",
        [Head("Source"), Head("Last recorded", "w"), Head("Ago", "n"), Head("Events", "n")], rows,
        [label(_number(len(found), "source")), Cell(), Cell(css="n"), count(total)],
        [Link("Event log", reverse("log"))],
    )  # fmt: skip


def _voice(one: Voice, here: Site, now: datetime) -> list[Cell]:
    name: Any = label(one.source, href=f"{reverse('log')}?{urlencode({'source': one.source})}")
    ago = max(0, int((now - one.last_recorded).total_seconds()))
    return [name, _time(one.last_recorded, here, now), _ago(ago), count(one.events)]
