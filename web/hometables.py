"""The tables of Home: runs that are active, who waits, use by project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from django.urls import reverse

from jobs import queries_now
from web import figures
from web.asked import project_address
from web.tables import Bar, Cell, Head, Link, Table, absent, count, in_hours, label, number
from web.usagefigs import change_of
from web.usagetables import KEYS, group_name, number_of

if TYPE_CHECKING:
    from web.home import Hall

__all__ = ["active", "by_project", "waiting"]

MOST_ACTIVE: Final = 12


def active(hall: Hall) -> Table | None:
    """The largest runs that hold something now; None where nothing runs."""
    rows = queries_now.active_runs(hall.scope, MOST_ACTIVE)
    if not rows:
        return None
    cells = [
        [
            label(run.name, href=reverse("run", args=[run.id])),
            Cell(group_name(run.project), href=project_address(run.project)), Cell(run.user, "mono note"),
            count(run.gpus), count(run.attempts),
            number(figures.duration(max(0, int((hall.cut - run.since).total_seconds())))),
        ]
        for run in rows
    ]  # fmt: skip
    rest = hall.standing.runs - len(rows)
    gpus, attempts = sum(run.gpus for run in rows), sum(run.attempts for run in rows)
    if rest:
        cells.append([label(f"{figures.thousands(rest)} others"), Cell(), Cell(), count(hall.standing.gpus - gpus),
                      count(hall.standing.attempts - attempts), absent("—")])  # fmt: skip
    return Table(
        "active", "Active runs", "Runs that hold something now; since the start of the oldest attempt that runs.",
        [Head("Run"), Head("Project"), Head("User"), Head("GPUs", "n"), Head("Attempts", "n"), Head("For", "n")],
        cells,
        [label(number_of(hall.standing.runs, "run")), Cell(), Cell(), count(hall.standing.gpus),
         count(hall.standing.attempts), Cell(css="n")],
        more=Link("All active runs", reverse("runs") + "?running=true"),
    )  # fmt: skip


def waiting(hall: Hall) -> Table | None:
    """Projects whose jobs wait, and for what; None where nobody waits."""
    if not hall.waiting:
        return None
    rows = [
        [
            Cell(group_name(one.project), href=project_address(one.project)),
            Cell(figures.thousands(one.jobs), "n", href=_jobs(one.project)),
            number(figures.duration(max(0, int((hall.cut - one.since).total_seconds())))) if one.since else absent(),
            Cell(one.reason or "not told"),
        ]
        for one in hall.waiting
    ]  # fmt: skip
    return Table(
        "who-waits", "Who waits", "Longest: since the job could have started. The reason is the commonest one told.",
        [Head("Project"), Head("Jobs", "n"), Head("Longest", "n"), Head("Reason")],
        rows, [label("all"), count(sum(one.jobs for one in hall.waiting)), Cell(css="n"), Cell()],
    )  # fmt: skip


def _jobs(project: str) -> str:
    return f"{reverse('jobs')}?{urlencode({'waiting': 'true', 'project': project})}"


def by_project(hall: Hall) -> Table:
    """GPU-hours of the 30 days and of the last seven full ones, by project."""
    sums, week, before = hall.by_project, hall.used(hall.week(0)), hall.used(hall.week(1))
    total, most = sum(sums.values()), max(sums.values(), default=0)
    used = [name for name, seconds in sums.items() if seconds]
    rows = []
    for at, name in enumerate(used):
        key = KEYS[str(at + 1)] if at < 5 else KEYS["other"]
        tag = "no project" if name.startswith("unmapped/") else ""
        rows.append([
            label(group_name(name), href=_project(hall, name), key=key, tag=tag),
            Cell(css="viz", bar=Bar(f"{100 * sums[name] / most:.2f}", key)), in_hours(sums[name]),
            number(figures.percent(sums[name], total)), in_hours(week.get(name, 0)),
            _change(week.get(name, 0), before.get(name, 0)),
        ])  # fmt: skip
    now, then = sum(week.values()), sum(before.values())
    return Table(
        "by-project", "By project", f"GPU-hours, {hall.days.text}; the last 7 full days beside the 7 before them.",
        [Head("Project"), Head("", "viz"), Head("GPU-h", "n", order="descending"), Head("Share %", "n"),
         Head("7 days GPU-h", "n"), Head("Change", "n")],
        rows,
        [label(number_of(len(used), "project")), Cell(css="viz"), in_hours(total),
         number(figures.percent(total, total)), in_hours(now), _change(now, then)],
    )  # fmt: skip


def _project(hall: Hall, name: str) -> str:
    query = {"from": hall.days.first.isoformat(), "to": hall.days.last.isoformat()}
    return f"{project_address(name)}?{urlencode(query)}"


def _change(now: int, before: int) -> Cell:
    found = change_of(now, before)
    if found is None:
        return absent("—" if not now else "new")
    sign = {"more": "+", "less": figures.MINUS}.get(found.href, "")
    return number(f"{sign}{found.text}")
