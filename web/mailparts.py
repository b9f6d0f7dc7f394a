"""The parts of a project's section in the weekly mail: its figures, causes of waiting, waste, standing, and gaps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse

from events import reports
from events.access import Scope
from events.reports import Report, Row
from jobs import queries_fairshare as shares
from jobs.standing import NoFairshare
from web import figures, ranges
from web.book import Book
from web.causes import cause_text
from web.history import counted
from web.mailtext import one_line
from web.ranges import DAY
from web.sharetables import level
from web.tables import Link
from web.usagefigs import costs_gaps

__all__ = ["Part", "at", "causes", "figures_of", "headed", "links", "report", "standing", "unknown", "waste", "wasting"]

MOST_RUNS: Final = 3
MOST_ACCOUNTS: Final = 6


@dataclass(frozen=True, slots=True)
class Part:
    """A row: what, how much, and a remark. css: `none` where it is unknown. href: where it is made of."""

    name: str
    value: str
    note: str = ""
    css: str = ""
    href: str = ""
    share: str = ""


def report(found: Book, name: str, *groups: str) -> Report:
    """A report over the days and the project of a book."""
    view = found.asked
    return reports.run(name, found.scope, view.days.params(found.shelf.zone, found.cut, *groups, project=view.project))


def at(address: str) -> str:
    """An address of the site as a mail needs it: whole."""
    return f"{settings.SITE_URL}{address}"


def figures_of(found: Book, wasted: Report) -> list[Part]:
    """Runs, waits, goodput, what was in vain, and the cost for whoever may see it."""
    view, total = found.asked, found.total
    runs = found.runs.number
    return [
        Part("Runs", figures.thousands(runs), f"{counted(total['jobs_started'], 'job')} started",
             href=at(f"{view.project_link(view.project)}#runs")),
        *_waits(found), _goodput(found), _in_vain(found, wasted), *_cost(found),
    ]  # fmt: skip


def _waits(found: Book) -> list[Part]:
    row, href = found.waits.total, at(f"{found.asked.project_link(found.asked.project)}#waits")
    if row["wait_seconds_p50"] is None:
        return [Part("Wait, median", figures.NO_DATA, "no start with a known wait", "none")]
    starts = row["attempts_started"]
    note = f"of {counted(starts, 'start')}"
    median, p95 = (figures.duration(row[name]) for name in ("wait_seconds_p50", "wait_seconds_p95"))
    return [Part("Wait, median", median, note, href=href), Part("Wait, 95 of 100 are shorter", p95, "p95", href=href)]


def _goodput(found: Book) -> Part:
    productive, told = found.told
    if not told:
        return Part("Goodput", figures.NO_DATA, "no program told where its time went", "none")
    note = f"productive of {figures.hours(told)} instrumented GPU-h of attempts that ended"
    return Part("Goodput", f"{figures.percent(productive, told)} %", note)


def _in_vain(found: Book, wasted: Report) -> Part:
    total = wasted.total
    if not total["attempts_ended"]:
        return Part("Held in vain", figures.NO_DATA, "no attempt ended", "none")
    note = f"{figures.percent(total['gpu_seconds'], total['allocated_gpu_seconds'])} % of what ended attempts held"
    return Part("Held in vain", f"{figures.hours(total['gpu_seconds'])} GPU-h", note, href=_report_page(found, "waste"))


def _report_page(found: Book, name: str) -> str:
    """The page of a report by cause over the same days."""
    days, project = found.asked.days, found.asked.project
    query = {"from": days.first.isoformat(), "to": days.last.isoformat(), "group_by": "cause", "project": project}
    return at(f"{reverse('report', args=[name])}?{urlencode(query)}")


def _cost(found: Book) -> list[Part]:
    if found.costs is None:
        return []
    amount, currency = found.costs.total["amount"]["amount"], found.shelf.site.currency
    href = at(found.asked.project_link(found.asked.project))
    if amount is None:
        return [Part("Cost", figures.NO_PRICE, "nothing of it has a price", "none", href)]
    return [Part("Cost", f"{figures.money(amount)} {currency}", "at list price", href=href)]


def causes(found: Book) -> list[Part]:
    """Why it waited, the longest first; the seconds add up to the whole wait."""
    rows = report(found, "waits", "cause").rows
    whole = sum(row["wait_seconds"] for row in rows)
    ordered = sorted((row for row in rows if row["wait_seconds"]), key=lambda row: (-row["wait_seconds"], row["cause"]))
    return [
        Part(headed(row["cause"]), figures.hours(row["wait_seconds"]),
             share=figures.percent(row["wait_seconds"], whole), css="none" if row["cause"] == "unknown" else "")
        for row in ordered
    ]  # fmt: skip


def waste(wasted: Report) -> list[Part]:
    """GPU-hours held in vain by cause, the most first."""
    sums: dict[str, int] = defaultdict(int)
    for row in wasted.rows:
        sums[row["cause"]] += row["gpu_seconds"]
    whole = sum(sums.values())
    return [
        Part(headed(cause), figures.hours(seconds), share=figures.percent(seconds, whole))
        for cause, seconds in sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    ]


def headed(cause: str) -> str:
    """A cause as the name of a row."""
    text = cause_text(cause)
    return f"{text[:1].upper()}{text[1:]}"


def wasting(wasted: Report) -> list[Part]:
    """The runs that held the most in vain, of whom, and by what."""
    names: dict[str, str] = {}
    sums: Counter[str] = Counter()
    users: dict[str, Counter[str]] = defaultdict(Counter)
    causes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in wasted.rows:
        key, seconds = str(row["run_id"]), row["gpu_seconds"]
        names[key] = row["run"]
        sums[key] += seconds
        users[key][one_line(row["user"])] += seconds
        causes[key][cause_text(row["cause"])] += seconds
    largest = sorted(sums, key=lambda key: (-sums[key], names[key]))[:MOST_RUNS]
    return [
        Part(one_line(names[key]), figures.hours(sums[key]), f"{_most_first(users[key])}: {_most_first(causes[key])}",
             href=at(reverse("run", args=[key])))
        for key in largest
    ]  # fmt: skip


def _most_first(sums: Counter[str]) -> str:
    return ", ".join(sorted(sums, key=lambda name: (-sums[name], name)))


def standing(scope: Scope, found: Book) -> list[Part]:
    """Level and ranks of the accounts of a project, as they are now."""
    parts: list[Part] = []
    for cluster in shares.clusters_of(scope):
        try:
            seen = shares.seen(scope, cluster, found.cut.replace(microsecond=0), found.asked.project)
        except NoFairshare:
            continue
        classic = seen.config.algorithm == "classic"
        parts += [_account(seen.rows, row, cluster, classic=classic) for row in seen.rows if not row["user"]]
    return parts[:MOST_ACCOUNTS]


def _account(rows: Sequence[Row], row: Row, cluster: str, *, classic: bool) -> Part:
    ranks = [one["rank"] for one in rows if one["account"] == row["account"] and one["user"] and one["rank"]]
    share = "its parent's share" if row["shares"] is None else f"share {row['norm_shares']:.3f}"
    best = f"; best rank of its {len(ranks)} user{'' if len(ranks) == 1 else 's'}: {min(ranks)}" if ranks else ""
    note = f"{share}, use {row['effective_usage']:.3f}{best}"
    href = at(f"{reverse('fairshare')}?cluster={cluster}")
    return Part(one_line(row["account"]), f"level {level(row, classic=classic).text}", note, href=href)


def unknown(found: Book, wasted: Report, standing: Sequence[Part]) -> list[str]:
    """What is not known of this week: never told as zero."""
    told = [*_silent(found)]
    if number := found.waits.total["wait_unknown"]:
        told.append(f"Of {counted(number, 'start')} the wait is not known.")
    untold = report(found, "goodput").total["not_instrumented_gpu_seconds"]
    if untold:
        told.append(f"Goodput: {figures.hours(untold)} GPU-h of ended attempts are not instrumented.")
    told += [_gap(gap) for gap in wasted.gaps]
    if not standing:
        told.append("Fair share: no shares are known for the accounts of this project.")
    told += [f"Cost: {one_line(text, 200)}." for text in costs_gaps(found)]
    return told


def _gap(gap: Row) -> str:
    name = str(gap["cause"])
    held = f" ({figures.hours(gap['gpu_seconds'])} GPU-h)" if gap.get("gpu_seconds") else ""
    number = f"{counted(gap['attempts'], 'attempt')}{held} " if gap.get("attempts") else ""
    return f"Held in vain, {cause_text(name)}: {number}{one_line(str(gap['reason']), 300)}."


def _silent(found: Book) -> list[str]:
    """Days into which the books do not reach."""
    days = [found.asked.days.first + DAY * number for number in range(7)]
    silent = [day for day in days if not ranges.reached(day, found.used_days)]
    if not silent:
        return []
    named = ", ".join(f"{day:%a} {figures.day(day)}" for day in silent)
    return [f"No data of {named}: nothing is known of those days."]


def links(found: Book) -> list[Link]:
    """Pages with the same figures and what they are made of."""
    view = found.asked
    return [
        Link("All of this week", at(view.project_link(view.project))), Link("Its runs", at(view.listed("runs"))),
        Link("Its jobs", at(view.listed("jobs"))),
        Link("Why it waited", _report_page(found, "waits")),
        Link("What was in vain", _report_page(found, "waste")), Link("Fair share", at(reverse("fairshare"))),
        Link("As PDF", at(view.document("a4"))),
    ]  # fmt: skip
