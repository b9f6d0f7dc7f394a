"""Reading what we own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from events import tally
from events.access import Scope
from events.answers import kept
from events.models import Tally
from fleet.models import Cluster, Source
from fleet.models import Site as SiteRow


@dataclass(frozen=True, slots=True)
class Site:
    """The site of this instance. Before it is declared: no name, UTC, EUR."""

    name: str
    timezone: str
    currency: str
    declared: bool = True

    @property
    def zone(self) -> ZoneInfo:
        """The time zone that decides when the site's days start."""
        return ZoneInfo(self.timezone)


@kept
def site() -> Site:
    """The site as last declared."""
    row = SiteRow.objects.first()
    return Site(row.name, row.timezone, row.currency) if row else Site("", "UTC", "EUR", declared=False)


def clusters(_scope: Scope) -> QuerySet[Cluster]:
    """Every cluster; their names are no secret to any caller."""
    return Cluster.objects.order_by("name")


@dataclass(frozen=True, slots=True)
class SourceState:
    """One source of records, as set up, or as it has posted: how much came, when last, and what is wrong.

    `name` is empty for a source that nobody set up (what posts with a token needs no set-up). deliveries to
    rejected: counts since the beginning. lag_seconds: receipt to log of the newest delivery. silent_seconds: since
    the last delivery or successful pull. The fields from `url` on are those of a source that is pulled.
    """

    name: str
    source: str
    kind: str
    cluster: str
    deliveries: int = 0
    refused: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    waiting: int = 0
    last_received: datetime | None = None
    lag_seconds: float | None = None
    silent_seconds: int | None = None
    last_error: str = ""
    last_error_at: datetime | None = None
    url: str = ""
    paused: bool = False
    every_seconds: int | None = None
    last_try: datetime | None = None
    last_success: datetime | None = None
    watermark: datetime | None = None
    api_version: str = ""
    pulls: int = 0
    records: int = 0
    """Changed records that its pulls brought; they are counted as deliveries of their own source too."""

    @property
    def pulled(self) -> bool:
        """Whether we ask it, rather than it posting to us."""
        return bool(self.url)

    @property
    def failing(self) -> bool:
        """Whether its last pull failed."""
        return self.last_error_at is not None and (self.last_success or self.last_error_at) <= self.last_error_at


def sources(scope: Scope, now: datetime | None = None) -> list[SourceState]:
    """Every source that was set up or has ever delivered, by name; nothing without the right to see the raw log.

    Cost: a row per (source, kind) and one per delivery that waits, however many there have been.
    """
    if not scope.fleetwide:
        return []
    now = now or datetime.now(UTC)
    waiting = tally.waiting(scope)
    counted = {(row.source, row.kind): row for row in tally.tallies(scope)}
    keys = sorted({*counted, *waiting})
    posted = [_posted(key, counted.get(key), waiting.get(key), now) for key in keys]
    return [*(_set_up(row, now) for row in Source.objects.order_by("name")), *posted]


def _posted(key: tuple[str, str], row: Tally | None, waits: tuple[int, datetime] | None, now: datetime) -> SourceState:
    source, kind = key
    seen = [at for at in (row.last_received if row else None, waits[1] if waits else None) if at is not None]
    last = max(seen, default=None)
    return SourceState(
        name="",
        source=source,
        kind=kind,
        cluster=source.partition(":")[2],
        deliveries=row.deliveries if row else 0,
        refused=row.refused if row else 0,
        accepted=row.accepted if row else 0,
        duplicate=row.duplicate if row else 0,
        rejected=row.rejected if row else 0,
        waiting=waits[0] if waits else 0,
        last_received=last,
        lag_seconds=row.lag_us / 1_000_000 if row else None,
        silent_seconds=_since(last, now),
        last_error=row.last_error if row else "",
        last_error_at=row.last_error_at if row else None,
    )


def _set_up(row: Source, now: datetime) -> SourceState:
    return SourceState(
        name=row.name,
        source=f"{row.kind}:{row.cluster}",
        kind=row.kind,
        cluster=row.cluster,
        silent_seconds=_since(row.last_success, now),
        last_error=row.last_error,
        last_error_at=row.last_error_at,
        url=row.url,
        paused=row.paused,
        every_seconds=row.every_seconds if row.url else None,
        last_try=row.last_try,
        last_success=row.last_success,
        watermark=row.watermark,
        api_version=row.api_version,
        pulls=row.pulls,
        records=row.records,
    )


def _since(at: datetime | None, now: datetime) -> int | None:
    return None if at is None else max(0, int((now - at).total_seconds()))
