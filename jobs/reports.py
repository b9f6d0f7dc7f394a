"""The reports of jobs: what was used, how long it was waited for, where the GPU-time went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.db import connection

from events import queries as log
from events.access import Scope
from events.answers import kept
from events.rebuild import read_at
from events.reports import BUCKETS, AsOf, Column, Definition, Params, Report, register
from fleet.queries import site
from jobs import report_goodput, report_utilisation, report_waste, windows
from jobs.report_fairshare import GROUPS as FAIRSHARE_GROUPS
from jobs.report_fairshare import fairshare
from jobs.windows import DIMENSIONS, Grouping, Window

SIZE: Final = """CASE WHEN f.gpus IS NULL THEN 'unknown' WHEN f.gpus = 0 THEN '0' WHEN f.gpus <= 8 THEN '1-8'
    WHEN f.gpus <= 32 THEN '9-32' WHEN f.gpus <= 128 THEN '33-128' ELSE '129+' END"""
USAGE_DIMENSIONS: Final = {**DIMENSIONS, "run": "f.run"}
WAIT_DIMENSIONS: Final = {**DIMENSIONS, "size": SIZE, "cause": "f.cause"}
"""Waits also by how many GPUs were held, and by why they lasted (jobs.waiting.CAUSES)."""

USAGE: Final = (
    Column("gpu_seconds", "GPU-seconds", "seconds", "GPU-s"),
    Column("node_seconds", "Node-seconds", "seconds", "node-s"),
    Column("cpu_seconds", "CPU-seconds", "seconds", "CPU-s"),
    Column("wall_seconds", "Wall seconds", "seconds", "s"),
    Column("suspended_seconds", "Suspended", "seconds", "s"),
    Column("attempts", "Attempts", "integer"),
    Column("attempts_started", "Attempts started", "integer"),
    Column("jobs_started", "Jobs started", "integer"),
    Column("jobs_ended", "Jobs ended", "integer"),
)
WAITS: Final = (
    Column("attempts_started", "Attempts started", "integer"),
    Column("jobs_started", "Jobs started", "integer"),
    Column("wait_seconds", "Wait", "seconds", "s"),
    Column("wait_seconds_mean", "Mean", "seconds", "s"),
    Column("wait_seconds_p50", "Median", "seconds", "s"),
    Column("wait_seconds_p90", "p90", "seconds", "s"),
    Column("wait_seconds_p95", "p95", "seconds", "s"),
    Column("wait_seconds_max", "Longest", "seconds", "s"),
    Column("wait_from_submit_seconds", "From submit", "seconds", "s"),
    Column("wait_from_submit_seconds_mean", "From submit, mean", "seconds", "s"),
    Column("wait_from_submit_seconds_p50", "From submit, median", "seconds", "s"),
    Column("wait_from_submit_seconds_p95", "From submit, p95", "seconds", "s"),
    Column("wait_unknown", "Wait unknown", "integer"),
)

_USAGE_SUMS: Final = """
    coalesce(sum(gpu_seconds), 0), coalesce(sum(node_seconds), 0),
    coalesce(sum(cpu_seconds), 0), coalesce(sum(wall_seconds), 0),
    coalesce(sum(suspended_seconds), 0), coalesce(sum(carried + attempts_started), 0),
    coalesce(sum(attempts_started), 0), coalesce(sum(jobs_started), 0),
    coalesce(sum(jobs_ended), 0)"""
# Wait of an attempt: start - eligible, and start - submit; a source that tells a later submit waits 0.
# Mean is cut to whole seconds; percentiles are observed values (percentile_disc).
_WAIT_SUMS: Final = """
    count(*), count(*) FILTER (WHERE number = 1),
    coalesce(sum(wait), 0)::bigint, floor(avg(wait))::bigint,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY wait), percentile_disc(0.9) WITHIN GROUP (ORDER BY wait),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY wait), max(wait),
    coalesce(sum(from_submit), 0)::bigint, floor(avg(from_submit))::bigint,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY from_submit),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY from_submit), count(*) FILTER (WHERE wait IS NULL)"""
_STARTS: Final = """
    SELECT t.id, p.bucket, t.cluster, t.account, t.user_id, t.partition, t.number, t.gpus,
           coalesce(a.project, 'unmapped/' || t.account) AS project,
           coalesce(x.path, ARRAY[coalesce(a.project, 'unmapped/' || t.account)]) AS path,
           (CASE WHEN t.eligible > t.start_at THEN 0 ELSE extract(epoch FROM t.start_at - t.eligible) END)::bigint
               AS wait,
           (CASE WHEN t.submit > t.start_at THEN 0 ELSE extract(epoch FROM t.start_at - t.submit) END)::bigint
               AS from_submit
    FROM (SELECT * FROM jobs_attempt x WHERE x.start_at >= %(start)s AND x.start_at < %(end)s {only}) t
    CROSS JOIN LATERAL (
        SELECT (%(buckets)s::int[])[i] AS bucket, (%(days)s::date[])[i] AS day
        FROM (SELECT width_bucket(t.start_at, %(edges)s::timestamptz[]) AS i) w) p
    LEFT JOIN jobs_accountplace a
        ON a.cluster = t.cluster AND a.account = t.account AND p.day >= a.from_day AND p.day < a.to_day
    LEFT JOIN jobs_projectplace x ON x.project = a.project AND p.day >= x.from_day AND p.day < x.to_day"""


# Who was not looked at while waiting: before it was eligible it waited for a dependency, a hold or a time, by the
# meaning of the word; of the rest nobody knows the cause.
_CAUSES: Final = """
    SELECT s.bucket, s.cluster, s.account, s.user_id, s.partition, s.number, s.gpus, s.project, s.path, c.cause, c.wait,
           c.from_submit
    FROM ({starts}) AS s
    CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM jobs_wait x WHERE x.attempt = s.id) AS is_told OFFSET 0) k
    CROSS JOIN LATERAL (
        SELECT w.cause,
               (CASE WHEN s.wait IS NOT NULL THEN sum(w.seconds * w.since_eligible::int) END)::bigint AS wait,
               (CASE WHEN s.from_submit IS NOT NULL THEN sum(w.seconds * w.since_submit::int) END)::bigint
                   AS from_submit
        FROM (SELECT x.cause, x.since_eligible, x.since_submit,
                     extract(epoch FROM x.end_at - x.start_at)::bigint AS seconds
              FROM jobs_wait x WHERE k.is_told AND x.attempt = s.id) w
        GROUP BY w.cause
        UNION ALL
        SELECT 'unknown', s.wait, CASE WHEN s.from_submit > s.wait THEN s.wait ELSE s.from_submit END
        WHERE NOT k.is_told AND (s.wait IS NULL OR s.wait > 0)
        UNION ALL
        SELECT 'dependency_or_hold', 0, s.from_submit - s.wait WHERE NOT k.is_told AND s.from_submit > s.wait
    ) c"""


def usage(scope: Scope, params: Params) -> Report:
    """GPU-, node-, CPU- and wall seconds of attempts inside the window, and what started and ended in it.

    Seconds are exact intervals [start, end) by overlap; running attempts count to the report's instant. Additive
    measures add up over any grouping; `attempts` counts those that touch a row's bucket, so it does not.
    """
    return _grouped("usage", scope, params, USAGE, windows.usage_facts, _USAGE_SUMS, USAGE_DIMENSIONS)


def waits(scope: Scope, params: Params) -> Report:
    """How long attempts that started in the window had waited: since eligible, and since submit.

    By cause each row counts the attempts that waited for it, and how long for it: the seconds of all causes add up to
    the whole wait, the attempts do not.
    """
    return _grouped("waits", scope, params, WAITS, _starts, _WAIT_SUMS, WAIT_DIMENSIONS)


def goodput(scope: Scope, params: Params) -> Report:
    """Where the allocated GPU-seconds went of attempts that ended in the window, and of those that run now."""
    found = _grouped("goodput", scope, params, report_goodput.COMPUTED, report_goodput.facts, report_goodput.SUMS,
                     report_goodput.GROUPS)  # fmt: skip
    return report_goodput.finish(found)


def waste(scope: Scope, params: Params) -> Report:
    """GPU-seconds that attempts which ended in the window held in vain, each once, the most first."""
    found = _grouped("waste", scope, report_waste.without_cause(params), report_waste.COMPUTED, report_waste.facts,
                     report_waste.SUMS, report_waste.GROUPS)  # fmt: skip
    return report_waste.finish(found, params)


def utilisation(scope: Scope, params: Params) -> Report:
    """How much was allocated, and how much of what is instrumented was productive; one state of the books."""
    whole = replace(params, cut=params.cut_at)
    with read_at(params.as_known_at):
        now = replace(whole, as_known_at=None)
        used = usage(scope, now)
        of = report_utilisation.room(scope, now)
        told = _grouped("goodput", scope, now, report_goodput.COMPUTED, partial(report_goodput.facts, told=True),
                        report_goodput.SUMS, DIMENSIONS)  # fmt: skip
    as_of = used.as_of if params.as_known_at is None else AsOf(params.as_known_at, whole.cut_at)
    return report_utilisation.joined(replace(used, as_of=as_of), told, of, params)


def _starts(found: Window) -> str:
    starts = _STARTS.format(only=f"AND {windows.ACCOUNTS}" if found.params.project else "")
    return _CAUSES.format(starts=starts) if "cause" in found.params.group_by else starts


def _grouped(
    name: str, scope: Scope, params: Params, columns: tuple[Column, ...], facts: Callable[[Window], str], sums: str,
    dimensions: Mapping[str, str],
) -> Report:  # fmt: skip
    names = [column.name for column in columns]
    with read_at(params.as_known_at):
        as_of = log.as_of(params.cut) if params.as_known_at is None else AsOf(params.as_known_at, params.cut_at)
        zone = site().zone
        by = windows.grouping(windows.window(params, zone), dimensions)
        at_once = params.bucket is None and bool(by.keys) and not {"branch", "cause"} & set(by.keys)
        found, total = _rows(scope, by, facts(by.window), sums, at_once=at_once)
        keys, rows = by.in_order(found)
        if total is None and not by.keys:  # the one row is over everything
            [total] = found
        if total is None:  # counts of attempts are per bucket, so the whole window is asked by itself
            total = _total(scope, replace(params, group_by=()), zone, facts, sums)
        if not any(total):
            windows.check_project(scope, params.project)
    shown = [{**key, **dict(zip(names, row[by.width :], strict=True))} for key, row in zip(keys, rows, strict=True)]
    return Report(name, params, (*by.heads(), *columns), shown, dict(zip(names, total, strict=True)), as_of)


@kept
def _total(scope: Scope, params: Params, zone: ZoneInfo, facts: Callable[[Window], str], sums: str) -> tuple[Any, ...]:
    """The one row over everything; several reports of a page share it."""
    whole = windows.grouping(windows.window(params, zone))
    [total], _ = _rows(scope, whole, facts(whole.window), sums)
    return total


def _rows(
    scope: Scope, by: Grouping, facts: str, sums: str, *, at_once: bool = False
) -> tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]:
    """Sums by key, and over all keys when asked for in the same pass.

    A bucket without use is a row of zeros when nothing else is grouped by.
    """
    arguments = by.window.arguments
    condition = windows.scoped(scope, by.window.params, arguments)
    grouped, last = (by.with_total, f", GROUPING({', '.join(by.columns)})") if at_once else (by.sql, "")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {by.select(sums)}{last} FROM ({facts}) AS f WHERE {condition} {grouped}", arguments)
        rows = [_whole(row) for row in cursor.fetchall()]
        width = len(cursor.description) - by.width
    if at_once:
        return [row[:-1] for row in rows if not row[-1]], next(row[by.width : -1] for row in rows if row[-1])
    if by.columns != ("f.bucket",):
        return rows, None
    known: dict[int, tuple[Any, ...]] = {row[0]: row for row in rows}
    return [known.get(number, (number, *(0,) * width)) for number in range(len(by.window.labels))], None


def _whole(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums come as numeric, which holds any of them; in a report they are whole numbers."""
    return tuple(int(value) if isinstance(value, Decimal) else value for value in row)


def declare() -> None:
    """Register the reports of jobs."""
    register(Definition(
        "usage", "Use by project, user and time", (*USAGE_DIMENSIONS, *BUCKETS), ("project",), usage,
        about="Who held how many GPU-, node- and CPU-hours, and when?", measure="gpu_seconds", attempts="ran",
        note="Attempts count for the part of them that lies inside these days.",
    ))  # fmt: skip
    register(Definition(
        "waits", "Waiting before start", (*WAIT_DIMENSIONS, *BUCKETS), ("project",), waits,
        about="How long did jobs wait before they started?", measure="wait_seconds", attempts="started",
        note="By cause an attempt stands in the row of each cause that it waited for: attempts do not add up, and the "
        "longest of the total, which is of whole waits, can be longer than that of any cause.",
    ))  # fmt: skip
    groups = (*FAIRSHARE_GROUPS, *BUCKETS)
    register(Definition(
        "fairshare", "Standing by shares and use", groups, ("account",), fairshare,
        about="Who has used more or less than its share, and who is served first at the end of these days?",
        mend="Where it says that no fair share is configured, `manage.py fairshare set CLUSTER` does it.",
    ))  # fmt: skip
    parted = (*report_goodput.GROUPS, *BUCKETS)
    register(Definition(
        "goodput", "Where the allocated GPU-time went", parted, ("project",), goodput,
        about="How much of the allocated GPU-time did training use, and what was the rest spent on?",
        measure="allocated_gpu_seconds", parts=report_goodput.STACKED, attempts="ended",
        note="An attempt counts whole where it ends, a running one where these figures end: allocated differs from "
        "the use of the same days, which is cut at their edges.",
    ))  # fmt: skip
    causes = (report_waste.CAUSE, *report_waste.GROUPS, *BUCKETS)
    register(Definition(
        "waste", "GPU-time held in vain", causes, ("project",), waste,
        about="Which GPU-hours were held in vain, by whom, and why?", measure="gpu_seconds", attempts="ended",
        mend="hallbook_run.py in a training program tells what it loses.",
        note="Counted are attempts that ended in these days, each whole: allocated differs from the use of the same "
        "days, which is cut at their edges and holds running attempts too.",
    ))  # fmt: skip
    whole = (*DIMENSIONS, *BUCKETS)
    register(Definition(
        "utilisation", "How much of the GPUs was used", whole, ("project",), utilisation,
        about="How much of the GPUs was allocated, and how much of that was productive?",
        measure="allocated_gpu_seconds", attempts="ran",
        note="Installed and available are of the whole hall, also where only some projects are seen or asked for: "
        "allocated is then their part of it. Allocated is cut at the edges of these days, as use is; instrumented and "
        "productive are of attempts that count whole where they end.",
    ))  # fmt: skip
