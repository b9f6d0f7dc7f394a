"""Short ways for tests to say things to the log and to ask reports; expected values are worked out in the tests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from django.db import connection

from events import projector, reports
from events.access import Scope
from events.append import Fact, Outcome, append, fact
from events.reports import Report, Row
from events.types import REGISTRY, EventStruct
from events.types.clusters import SiteDeclared
from events.types.corrections import RecordCorrected
from events.types.jobs import JobReported
from events.types.projects import AccountMapped, ProjectDeclared
from events.types.rates import RatePublished
from fleet.queries import site
from tests import clones

HOUR: Final = 3600
DAY: Final = 24 * HOUR
SOURCE: Final = "sacct:pod-a"
_TYPES: Final = {kind.struct: kind.name for kind in REGISTRY}


def at(text: str) -> int:
    """Epoch seconds of a time in UTC: `at("2026-03-01 12:30")`."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def instant(text: str) -> datetime:
    """The same as a datetime."""
    return datetime.fromtimestamp(at(text), UTC)


def job(job_id: str, start: int | None, end: int | None, **fields: Any) -> JobReported:
    """A record of the accounting: ended, running (end None) or waiting (start None); 1 node, account `a`, user `u`."""
    state = "PENDING" if start is None else "RUNNING" if end is None else "COMPLETED"
    said = {"state": state, "submit": start, "eligible": start, "account": "a", "user": "u", "partition": "train",
            "nodes": 1, **fields}  # fmt: skip
    return JobReported(cluster="pod-a", job_id=job_id, start=start, end=end, **said)


def gpus(number: int, kind: str = "") -> dict[str, Any]:
    """Fields of a job with GPUs, typed or not."""
    return {"gpus": number, "gpu_types": (f"{kind}={number}",) if kind else ()}


def corrected(job_id: str, start: int, field: str, new: str, old: str = "") -> RecordCorrected:
    """A person corrects one field of the attempt that starts at `start`."""
    return RecordCorrected("pod-a", job_id, start, field, old, new, "as agreed")  # type: ignore[arg-type]


def place(zone: str = "UTC", currency: str = "EUR") -> SiteDeclared:
    """The site in a zone."""
    return SiteDeclared(name="Hall", timezone=zone, currency=currency)


def project(code: str, parent: str | None = None, kind: str = "project") -> ProjectDeclared:
    """A node of the tree."""
    return ProjectDeclared(project=code, parent=parent, kind=kind)


def mapped(account: str, to: str | None, from_day: str = "2000-01-01") -> AccountMapped:
    """An account of pod-a belongs to a project from a day on."""
    return AccountMapped(cluster="pod-a", account=account, from_day=from_day, project=to)


def rate(kind: str, micro_per_hour: int, from_day: str = "2000-01-01", currency: str = "EUR") -> RatePublished:
    """A price of one hour of one unit."""
    return RatePublished(resource_class=kind, currency=currency, micro_per_hour=micro_per_hour, from_day=from_day)


def facts(items: Iterable[EventStruct], *, source: str = SOURCE, key: str = "") -> list[Fact]:
    """Facts keyed by their content, so that the same said again is a duplicate."""
    return [_fact(item, source, key) for item in items]


def _fact(item: EventStruct, source: str, key: str) -> Fact:
    said = hashlib.sha256(msgspec.json.encode(item, order="sorted")).hexdigest()
    times = (getattr(item, name, None) for name in ("end", "start", "submit"))
    when = next((time for time in times if time is not None), 0)
    return fact(
        item, type_=_TYPES[type(item)], source=source, source_key=f"{key}{type(item).__name__}{said}",
        occurred_us=when * 1_000_000, actor="test",
    )  # fmt: skip


def say(*items: EventStruct, source: str = SOURCE, key: str = "") -> list[Outcome]:
    """Append; `key` tells facts of equal content apart."""
    return append(facts(items, source=source, key=key))


def tell(*items: EventStruct, key: str = "") -> int:
    """Append, project everything, and give the last position."""
    last = say(*items, key=key)[-1].position
    projector.catch_up()
    return last


def ask(name: str, start: str, end: str, by: str = "", scope: Scope | None = None, **options: Any) -> Report:
    """A report, asked as people ask it."""
    params = reports.parse(name, zone=site().zone, start=start, end=end, group_by=by, **options)
    return reports.run(name, scope or Scope.everything(), params)


def column(report: Report, key: str, value: str) -> dict[Any, Any]:
    """One column of a report's rows by one of its groupings."""
    return {row[key]: row[value] for row in report.rows}


def total(name: str, start: str, end: str, measure: str, **options: Any) -> Any:
    """One figure of a report's total."""
    return ask(name, start, end, **options).total[measure]


def summed(rows: Sequence[Row], measures: Iterable[str]) -> dict[str, int]:
    """Sums over rows."""
    return {name: sum(row[name] for row in rows) for name in measures}


def table(name: str, leave_out: Sequence[str] = ()) -> list[str]:
    """Every row of a table as JSON text, sorted, without some columns."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT (to_jsonb(t) - %s::text[])::text FROM {name} t ORDER BY 1", [list(leave_out)])
        return [row[0] for row in cursor.fetchall()]


def read_models(leave_out: Sequence[str] = ()) -> dict[str, list[str]]:
    """All read models of all groups."""
    return {
        model._meta.db_table: table(model._meta.db_table, leave_out)
        for group in projector.groups()
        for model in group.tables
    }


@contextmanager
def own_database(blocker: Any) -> Iterator[None]:
    """The fixture `hall` for a whole module, or for a second database inside a test: commits are real."""
    with blocker.unblock(), clones.own_database():
        yield
