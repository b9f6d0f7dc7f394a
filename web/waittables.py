"""The tables of what waits now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from jobs.queries_estimates import Error, Estimates
from jobs.queries_waiting import QUESTION, Question
from jobs.waiting_now import Depends, Full, OwnLimit, OwnShare, Partition, Waiting, WaitingJob
from jobs.waitsfor import Free, Holder
from web import columns, figures, states
from web.asked import project_address
from web.history import counted
from web.jobs import job_name
from web.lists import Seen
from web.tables import Cell, Head, Link, Table, absent, count, label, number
from web.waitparts import CAUSE_WORDS, SLOTS, asks
from web.waitwords import OTHERS, depends_on, limit, waits_for

__all__ = ["dependencies", "estimates", "fair_share", "limits", "rooms", "rows", "totals"]

MOST: Final = 200
"""Jobs that are shown; all of them are in the files."""


def rows(found: Waiting, asked: Question, seen: Seen, tools: Sequence[Link]) -> Table:
    """Who waits for whom, a row for each job."""
    shown, rest = found.rows[:MOST], len(found.rows) - MOST
    cells = [_job(row, seen) for row in shown]
    heads = (
        Head("Job"), _head("Waited", "waited", asked, "n"), _head("Why", "cause", asked), Head("Waits for"),
        _head("Expected", "expected", asked), _head("Asks for", "gpus", asked, "n"), _head("Project", "project", asked),
        Head("User"),
    )  # fmt: skip
    caption = (
        f"Times in {seen.site.timezone}. Waited is since the submission or the end of the last attempt. Expected is "
        "what the scheduler last said; where it says nothing there is a dash."
    )
    if seen.more.get("shares"):
        caption += " What waits for its turn leads to the fair share of its project."
    more = Link(f"{figures.thousands(rest)} more, all of them as CSV", tools[0].href) if rest > 0 else None
    return Table("waiting", "Who waits for whom", caption, heads, cells, (), tools, more, wide=True)


def _head(text: str, name: str, asked: Question, css: str = "") -> Head:
    """A head that sorts: first the largest, or the first of the alphabet; again the other way round."""
    words = name in ("project", "cause", "expected")
    first, second = (name, f"-{name}") if words else (f"-{name}", name)
    order = {name: "ascending", f"-{name}": "descending"}.get(asked.ordering, "")
    query = {each: getattr(asked, each) for each in QUESTION if each != "ordering" and getattr(asked, each)}
    target = second if asked.ordering == first else first
    return Head(text, css, f"{reverse('waiting')}?{urlencode({**query, 'ordering': target})}", order)


def _job(row: WaitingJob, seen: Seen) -> list[Cell]:
    words, kind = CAUSE_WORDS[row.cause], row.waits_for
    anchors = {
        Depends: "#dependencies", OwnLimit: "#limits", Full: f"#{_anchor(row.cluster, row.partition)}",
        OwnShare: fair_share(row) if row.cluster in seen.more.get("shares", ()) else "",
    }  # fmt: skip
    wanted = asks(row.gpus, row.cpus, None, None)
    reason = "" if row.reason in ("", "None") else row.reason

    def moment(at: datetime) -> str:
        return seen.minute(at).text

    return [
        label(job_name(row), href=reverse("job", args=[row.id]), tag="again" if row.attempts else ""),
        columns.span(row.waited_seconds),
        Cell(words.short, key=f"k-{SLOTS[row.cause]}", note=reason),
        Cell(waits_for(row, moment), "says", href=_linked(row, anchors.get(type(kind), ""))),
        seen.minute(row.expected, columns.NOT_YET),
        Cell(wanted, "n") if wanted else absent(),
        Cell(row.project, "w", href=project_address(row.project)),
        Cell(row.user, "w", href=columns.address("jobs", user=row.user, waiting="true")),
    ]


def fair_share(row: WaitingJob) -> str:
    """Where the standing of its project is, which says why others come first."""
    return f"{project_address(row.project)}#fairshare"


def _linked(row: WaitingJob, anchor: str) -> str:
    """Where more of what it waits for stands on the page; '' where nothing does."""
    kind = row.waits_for
    if isinstance(kind, Depends) and not kind.on:
        return ""
    return "" if isinstance(kind, OwnLimit) and not kind.running else anchor


def _anchor(cluster: str, partition: str) -> str:
    return f"room-{cluster}-{partition}".replace(",", "-").replace("_", "-").replace(".", "-")


def totals(found: Waiting) -> Table:
    """How many jobs of each project wait for each cause."""
    cells = [
        [
            label(one.project, href=project_address(one.project)),
            Cell(CAUSE_WORDS[one.cause].short, "w", key=f"k-{SLOTS[one.cause]}"), count(one.jobs), count(one.gpus),
            number(figures.hours(one.waited_seconds), zero=not one.waited_seconds),
        ]
        for one in found.totals
    ]  # fmt: skip
    jobs, gpus, waited = (
        sum(getattr(one, name) for one in found.totals) for name in ("jobs", "gpus", "waited_seconds")
    )
    foot = [label("all"), Cell(), count(jobs), count(gpus), number(figures.hours(waited), zero=not waited)]
    heads = (Head("Project"), Head("Cause"), Head("Jobs", "n"), Head("GPUs asked for", "n"), Head("Waited h", "n"))
    caption = "Each job has one cause now. Waited adds up what the jobs have waited so far, whatever for."
    return Table("totals", "By project and cause", caption, heads, cells, foot)


def dependencies(found: Waiting) -> Table | None:
    """The jobs that others depend on. None where none does."""
    cells = [
        [
            label(job_name(row), href=reverse("job", args=[row.id])), Cell(row.project, "w"),
            Cell(depends_on(on), href=reverse("job", args=[on.job]) if on.job else ""),
            _state(on.state),
            Cell(on.told or columns.NOT_YET),
        ]
        for row in found.rows if isinstance(row.waits_for, Depends)
        for on in row.waits_for.on
    ][:MOST]  # fmt: skip
    if not cells:
        return None
    heads = (Head("Job"), Head("Project"), Head("Waits for"), Head("State"), Head("Condition"))
    caption = "What each job depends on, as its scheduler tells it, and how that job stands."
    return Table("dependencies", "Jobs that are waited for", caption, heads, cells, ())


def _state(state: str) -> Cell:
    shown = states.of(state)
    return Cell(shown.word, "w", state=shown.css) if state else Cell("not told", "nodata")


def limits(found: Waiting) -> Table | None:
    """The running jobs that use up the limits of waiting ones, those of the same limit together. None without any."""
    grouped: dict[tuple[str, OwnLimit], list[WaitingJob]] = {}
    for row in found.rows:
        if isinstance(row.waits_for, OwnLimit) and row.waits_for.running:
            grouped.setdefault((row.reason, row.waits_for), []).append(row)
    cells = [cells for (reason, kind), some in grouped.items() for cells in _limit(reason, kind, some)]
    if not cells:
        return None
    heads = (Head("Waiting"), Head("Limit"), Head("Waits for"), Head("Running"), Head("GPUs", "n"))
    caption = "What runs and counts against the limit of a waiting job: the five largest."
    return Table("limits", "Limits that are used up", caption, heads, cells[:MOST], ())


def _limit(reason: str, kind: OwnLimit, some: Sequence[WaitingJob]) -> list[list[Cell]]:
    first, rest = some[0], len(some) - 1
    name = label(job_name(first), href=reverse("job", args=[first.id]))
    head = [replace(name, note=f"and {rest} more" if rest else ""), Cell(reason, "w"), Cell(limit(kind))]
    return [
        [*(head if not place else [Cell(), Cell(), Cell()]), label(one.job_id, href=reverse("job", args=[one.job])),
         count(one.gpus)]
        for place, one in enumerate(kind.running)
    ]  # fmt: skip


def rooms(found: Waiting, seen: Seen) -> list[tuple[Table, Table | None]]:
    """Of each partition for room in which somebody waits: who holds it, and when limits end."""
    return [(_held(room, seen), _ends(room, seen)) for room in found.partitions]


def _called(room: Partition) -> str:
    return f"{room.name} on {room.cluster}"


def _unit(room: Partition) -> str:
    return "GPUs" if room.unit == "gpus" else "CPUs"


def _held(room: Partition, seen: Seen) -> Table:
    heads = (Head("Project"), Head(_unit(room), "n"), Head("Jobs", "n"), Head("Next limit ends"))
    cells = [_holder(one, seen) for one in room.holders]
    foot = [label("all"), count(room.held), count(sum(one.attempts for one in room.holders)), Cell()]
    caption = f"What runs there now, by project; {_free(room)}."
    if room.without_limit:
        caption += f" {counted(room.without_limit, _unit(room)[:-1])} of it are held without a time limit."
    return Table(_anchor(room.cluster, room.name), f"Who holds {_called(room)}", caption, heads, cells, foot)


def _free(room: Partition) -> str:
    """GPUs that are free, in half a sentence."""
    if room.free is None:
        return f"how many {_unit(room)} are free: no data"
    return f"{counted(room.free, 'GPU')} of nodes in service {'is' if room.free == 1 else 'are'} free"


def _holder(one: Holder, seen: Seen) -> list[Cell]:
    return [_project(one.project), count(one.amount), count(one.attempts), seen.minute(one.next_end, columns.NOT_YET)]


def _project(code: str | None) -> Cell:
    return label(OTHERS) if code is None else label(code, href=project_address(code))


def _ends(room: Partition, seen: Seen) -> Table | None:
    if not room.ends:
        return None
    heads = (Head("By"), Head("Project"), Head(f"{_unit(room)} given back", "n"), Head("In all by then", "n"))
    free = room.free or 0
    cells = [[label("now"), Cell("free", "note"), count(free), count(free)]] if free else []
    cells += [_end(one, free, seen) for one in room.ends]
    caption = "At the latest: most jobs end before their limit. Nobody says who gets it then."
    if room.more:
        caption += f" {counted(room.more, 'later end')} are left out."
    anchor = f"{_anchor(room.cluster, room.name)}-ends"
    return Table(anchor, f"When limits end in {_called(room)}", caption, heads, cells, ())


def _end(one: Free, free: int, seen: Seen) -> list[Cell]:
    when = seen.minute(one.at)
    return [when, _project(one.project), count(one.amount), count(free + one.total)]


def estimates(found: Estimates) -> Table | None:
    """How well the scheduler guessed, by how far ahead. None without any estimate."""
    if not found.total.count:
        return None
    heads = (Head("Start expected"), Head("Estimates", "n"), Head("Half within", "n"), Head("Median", "n"),
             Head("90 % by", "n"))  # fmt: skip
    cells = [[label(_lead(one)), *_errors(one)] for one in found.by_lead]
    foot = [label("all"), *_errors(found.total)]
    caption = (
        "Attempts that started in the last 30 days: their start against what the scheduler last said while it lay so "
        "far ahead. Below zero it was earlier."
    )
    return Table("estimates", "How well the scheduler guesses", caption, heads, cells, foot)


def _lead(one: Error) -> str:
    if one.lead_to is None:
        return f"more than {one.lead_from // 3600} h ahead"
    return f"up to {one.lead_to // 3600} h ahead"


def _errors(one: Error) -> list[Cell]:
    within = absent() if one.half_within is None else number(figures.duration(one.half_within))
    return [count(one.count), within, _signed(one.median), _signed(one.p90)]


def _signed(seconds: int | None) -> Cell:
    if seconds is None:
        return absent()
    if not seconds:
        return number("on time")
    return number(f"{figures.MINUS if seconds < 0 else ''}{figures.duration(abs(seconds))}")
