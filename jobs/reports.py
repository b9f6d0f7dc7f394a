"""The reports `usage` and `waits`: what was used, and how long it was waited for."""

from __future__ import annotations

from typing import Any, Final

from django.db import connection

from events import queries as log
from events.access import Scope
from events.rebuild import read_at
from events.reports import BUCKETS, AsOf, Column, Definition, Params, Report, Row, register
from fleet.queries import site
from jobs import windows
from jobs.windows import DIMENSIONS, Window

GROUPINGS: Final = (*DIMENSIONS, *BUCKETS)
LABELS: Final[dict[str, str]] = {"user": "User", "organisation": "Organisation", "project": "Project"}

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
    coalesce(sum(gpu_seconds), 0)::bigint, coalesce(sum(node_seconds), 0)::bigint,
    coalesce(sum(cpu_seconds), 0)::bigint, coalesce(sum(wall_seconds), 0)::bigint,
    coalesce(sum(suspended_seconds), 0)::bigint, coalesce(sum({carried} + attempts_started), 0)::bigint,
    coalesce(sum(attempts_started), 0)::bigint, coalesce(sum(jobs_started), 0)::bigint,
    coalesce(sum(jobs_ended), 0)::bigint"""
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
    SELECT p.bucket, t.cluster, t.account, t.user_id, t.partition, t.number,
           coalesce(a.project, 'unmapped/' || t.account) AS project,
           coalesce(x.path, ARRAY[coalesce(a.project, 'unmapped/' || t.account)]) AS path,
           greatest(0, extract(epoch FROM t.start_at - t.eligible))::bigint AS wait,
           greatest(0, extract(epoch FROM t.start_at - t.submit))::bigint AS from_submit
    FROM jobs_attempt t
    CROSS JOIN LATERAL (
        SELECT (%(buckets)s::int[])[i] AS bucket, (%(days)s::date[])[i] AS day
        FROM (SELECT width_bucket(t.start_at, %(edges)s::timestamptz[]) AS i) w) p
    LEFT JOIN jobs_accountplace a
        ON a.cluster = t.cluster AND a.account = t.account AND p.day >= a.from_day AND p.day < a.to_day
    LEFT JOIN jobs_projectplace x ON x.project = a.project AND p.day >= x.from_day AND p.day < x.to_day
    WHERE t.start_at >= %(start)s AND t.start_at < %(end)s"""


def usage(scope: Scope, params: Params) -> Report:
    """GPU-, node-, CPU- and wall seconds of attempts inside the window, and what started and ended in it.

    Seconds are exact intervals [start, end) by overlap; running attempts count to the report's instant. Additive
    measures add up over any grouping; `attempts` counts those that touch a row's bucket, so it does not.
    """
    return _grouped("usage", scope, params, USAGE, windows.usage_facts, _USAGE_SUMS)


def waits(scope: Scope, params: Params) -> Report:
    """How long attempts that started in the window had waited: since eligible, and since submit."""
    return _grouped("waits", scope, params, WAITS, lambda _window: _STARTS, _WAIT_SUMS)


def _grouped(name: str, scope: Scope, params: Params, columns: tuple[Column, ...], facts: Any, sums: str) -> Report:
    with read_at(params.as_known_at):
        as_of = log.as_of(params.cut) if params.as_known_at is None else AsOf(params.as_known_at, params.cut_at)
        found = windows.window(params, site().zone)
        names = [column.name for column in columns]
        rows = _rows(scope, found, facts(found), sums.replace("{carried}", "carried"), names)
        whole = windows.window(_ungrouped(params), site().zone)
        total = _rows(scope, whole, facts(whole), sums.replace("{carried}", "carried"), names)[0]
    heads = tuple(_label(group) for group in params.group_by)
    return Report(name, params, (*heads, *columns), rows, total, as_of)


def _ungrouped(params: Params) -> Params:
    return Params(params.start, params.end, params.zone, (), params.as_known_at, params.view, params.cut)


def _label(group: str) -> Column:
    return Column(group, LABELS.get(group, group.capitalize()), "time" if group in BUCKETS else "label")


def _rows(scope: Scope, found: Window, facts: str, sums: str, names: list[str]) -> list[Row]:
    """Rows of one grouping; a bucket without use is a row of zeros when nothing else is grouped by."""
    arguments = found.arguments
    groups = [group for group in found.params.group_by if group not in BUCKETS]
    keys = [*(["bucket"] if found.params.bucket else []), *(DIMENSIONS[group] for group in groups)]
    grouping = f"GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}" if keys else ""
    condition = windows.scoped(scope, arguments)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join([*keys, sums])} FROM ({facts}) AS f WHERE {condition} {grouping}",  # noqa: S608
            arguments,
        )
        found_rows = cursor.fetchall()
    rows = sorted(found_rows, key=lambda row: row[: len(keys)])
    if keys == ["bucket"]:
        rows = _with_empty(rows, len(found.labels), len(names))
    return _named(found, groups, rows, names)


def _with_empty(rows: list[tuple[Any, ...]], buckets: int, width: int) -> list[tuple[Any, ...]]:
    known = {row[0]: row for row in rows}
    nothing = (0,) * width
    return [known.get(number, (number, *nothing)) for number in range(buckets)]


def _named(found: Window, groups: list[str], rows: list[tuple[Any, ...]], names: list[str]) -> list[Row]:
    """Rows as dictionaries in the order of the groupings, users by the name they are known under."""
    bucket = found.params.bucket
    people = log.people(row[_at("user", groups, bucket)] for row in rows) if "user" in groups else {}
    out: list[Row] = []
    for row in rows:
        keys: dict[str, Any] = {bucket: found.labels[row[0]]} if bucket else {}
        for group in groups:
            value = row[_at(group, groups, bucket)]
            keys[group] = people.get(value, value) if group == "user" else value
        values = dict(zip(names, row[len(keys) :], strict=True))
        out.append({**{group: keys[group] for group in found.params.group_by}, **values})
    return out


def _at(group: str, groups: list[str], bucket: str | None) -> int:
    return groups.index(group) + (1 if bucket else 0)


def declare() -> None:
    """Register the reports of jobs."""
    register(Definition("usage", "Use by project, user and time", GROUPINGS, ("project",), usage))
    register(Definition("waits", "Waiting before start", GROUPINGS, ("project",), waits))
