"""For those who watch the machine: alive, ready, and a few figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse

from events import queries as log
from events.access import Scope
from events.deliveries import pending

__all__ = ["healthz", "metrics", "readyz"]

_COUNT_MOST: Final = 1_000_000


def healthz(_: HttpRequest) -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(_: HttpRequest) -> HttpResponse:
    """200 when the database answers, every migration is applied and no projection lags too far; else 503."""
    try:
        state = _readiness()
    except DatabaseError as error:
        state = {"ready": False, "database": type(error).__name__}
    return HttpResponse(
        msgspec.json.encode(state), status=200 if state["ready"] else 503, content_type="application/json"
    )


def _readiness() -> dict[str, Any]:
    missing = _unapplied()
    if missing:
        return {"ready": False, "database": "ok", "migrations": missing}
    lags = _lags()
    most = int(getattr(settings, "READY_MAX_LAG", 1_000_000))
    stopped = sorted(group.group for group in log.groups() if group.state != "live")
    return {
        "ready": max(lags.values(), default=0) <= most,
        "database": "ok",
        "migrations": [],
        "lag": lags,
        "stopped": stopped,
    }


def _unapplied() -> list[str]:
    return [] if _all_applied() else _missing()


@lru_cache(maxsize=1)
def _all_applied() -> bool:
    """Looked up until it is true: a running process's own migrations stay applied."""
    if _missing():
        _all_applied.cache_clear()
        return False
    return True


def _missing() -> list[str]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def _lags() -> dict[str, int]:
    """Events that each projection group has yet to apply."""
    head = log.head_position()
    return {group.group: max(head - group.position, 0) for group in log.groups()}


def metrics(_: HttpRequest) -> HttpResponse:
    """Prometheus text format 0.0.4. Names no source, project or person, so it needs no token."""
    try:
        lines = list(_metrics())
    except DatabaseError:
        lines = ["# TYPE hallbook_up gauge", "hallbook_up 0"]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4; charset=utf-8")


def _metrics() -> Iterator[str]:
    everything = Scope.everything()
    yield from _metric("up", "gauge", "The database answers.", {"": 1})
    yield from _metric("events_total", "counter", "Events in the log (its last position).", {"": log.head_position()})
    open_ = log.rejections(everything).filter(state="open").count()
    yield from _metric("rejections_open", "gauge", "Rejections that nobody settled.", {"": open_})
    yield from _metric("deliveries_pending", "gauge", "Deliveries not yet in the log.", {"": pending(_COUNT_MOST)})
    lags = {f'{{group="{group}"}}': lag for group, lag in _lags().items()}
    yield from _metric("projection_lag_events", "gauge", "Events a group has yet to apply.", lags)
    yield from _metric(
        "events_parked", "gauge", "Events that a group could not apply.", {"": log.parked(everything).count()}
    )


def _metric(name: str, kind: str, text: str, values: dict[str, int]) -> Iterator[str]:
    yield f"# HELP hallbook_{name} {text}"
    yield f"# TYPE hallbook_{name} {kind}"
    for labels, value in values.items():
        yield f"hallbook_{name}{labels} {value}"
