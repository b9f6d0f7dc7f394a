"""Samples staged: durable, once whatever comes at once, and gone by whole days after two."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, connections

from bench.base import dsn
from events.adapters.samples import Samples, make_series
from events.intake import Voice
from events.models import Sample, SampleSeries, Tally
from events.sampledays import ensure_day, forget_samples, keep_up
from events.staging import Staged, stage
from events.tasks import upkeep

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
VOICE = Voice("prometheus:pod-a", "token:t")
HOUR = 3_600_000


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def some(*samples: tuple[str, int, float | None], start_ms: int = 0) -> Samples:
    """Samples of (node, t_ms, value)."""
    found = Samples()
    for node, t_ms, value in samples:
        found.add(make_series(["__name__", "power", "node", node]), t_ms, value, start_ms)
    return found


def keep(found: Samples, at: datetime = NOW) -> Staged:
    return stage(found, VOICE, "remote-write", ms(at) * 1000)


def times() -> list[int]:
    return sorted(Sample.objects.values_list("t_ms", flat=True))


@pytest.mark.django_db
class TestStage:
    """What of a body is kept."""

    def test_values_stale_markers_and_starts_are_kept_as_they_are(self) -> None:
        now = ms(NOW)
        assert keep(some(("a", now, 412.5), ("a", now + 1, None), ("b", now, float("inf")))) == (3, 0, 0)
        assert keep(some(("a", now + 2, 1e-300), ("b", now + 2, None), start_ms=now - HOUR)) == (2, 0, 0)
        rows = Sample.objects.order_by("t_ms", "value").values_list("t_ms", "value", "start_ms")
        assert list(rows) == [
            (now, 412.5, None), (now, float("inf"), None), (now + 1, None, None),
            (now + 2, 1e-300, now - HOUR), (now + 2, None, now - HOUR),
        ]  # fmt: skip
        series = SampleSeries.objects.order_by("labels__node")
        assert [(one.metric, one.labels, one.source) for one in series] == [
            ("power", {"node": node}, "prometheus:pod-a") for node in ("a", "b")
        ]

    def test_twice_in_one_body_and_in_two_is_once(self) -> None:
        now = ms(NOW)
        assert keep(some(("a", now, 1.0), ("a", now, 1.0), ("b", now, float("nan")))) == (2, 1, 0)
        assert keep(some(("b", now, float("nan")), ("a", now, 1.0), ("a", now + 1, 2.0))) == (1, 2, 0)
        assert times() == [now, now, now + 1]

    def test_an_end_where_a_value_is_kept_is_another_value(self) -> None:
        now = ms(NOW)
        keep(some(("a", now, 1.0), ("b", now, None)))
        assert keep(some(("a", now, None), ("b", now, 0.0))) == (0, 0, 2)
        assert sorted(Sample.objects.values_list("value", flat=True), key=str) == [1.0, None]

    def test_a_series_is_noted_as_seen_by_our_clock_once_an_hour(self) -> None:
        for minutes, seen in ((0, 0), (59, 0), (61, 61), (60, 61)):
            keep(some(("a", ms(NOW) - HOUR + minutes, 1.0)), NOW + timedelta(minutes=minutes))
            one = SampleSeries.objects.get()
            assert (one.first_seen, one.last_seen) == (NOW, NOW + timedelta(minutes=seen))


@pytest.fixture
def committed(hall: Any) -> Iterator[None]:
    yield
    connections.close_all()


def test_the_same_at_once_is_kept_once_and_counted(committed: None) -> None:
    """Four senders, each with the samples in another order: nobody waits for ever and nothing is there twice."""
    now = ms(NOW)
    samples = [(f"gpu{number:03}", now + step, float(step)) for number in range(20) for step in range(20)]
    failed: list[BaseException] = []

    def work(turn: int) -> None:
        try:
            for _ in range(5):
                keep(some(*samples[turn * 100 :], *samples[: turn * 100]))
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert (Sample.objects.count(), SampleSeries.objects.count()) == (400, 20)
    row = Tally.objects.get()
    assert (row.deliveries, row.accepted, row.duplicate, row.rejected) == (20, 400, 20 * 400 - 400, 0)


def test_a_writer_that_stopped_in_the_middle_holds_nobody_for_long(committed: None) -> None:
    """Its sample is not committed: who brings the same is told to come again, and has kept nothing."""
    with psycopg.connect(dsn()) as stopped:
        stopped.execute("INSERT INTO events_sampleseries (shard, id, metric, labels, source, first_seen, last_seen) "
                        "VALUES (0, %s, 'power', '{}', '', now(), now())",
                        [make_series(["__name__", "power", "node", "a"]).id.hex()])  # fmt: skip
        began = time.monotonic()
        with pytest.raises(OperationalError, match="lock timeout"):
            keep(some(("b", ms(NOW), 1.0), ("a", ms(NOW), 1.0)))
        assert 4 < time.monotonic() - began < 20
        assert not Sample.objects.exists()
        stopped.rollback()
    assert keep(some(("b", ms(NOW), 1.0), ("a", ms(NOW), 1.0))) == (2, 0, 0)


def test_days_go_whole_when_two_days_have_passed(committed: None) -> None:
    forget_samples(datetime(2099, 11, 1, tzinfo=UTC))  # those that the migration made
    for day in (27, 28, 30):
        ensure_day(datetime(2099, 11, day, tzinfo=UTC).date())
    begins = {day: ms(datetime(2099, 11, day, tzinfo=UTC)) for day in (27, 28, 29, 30)}
    at = datetime(2099, 11, 29, 12, tzinfo=UTC)
    kept = [begins[27] + 12 * HOUR, begins[28] - 1, begins[28], begins[29], begins[29] + 1]
    assert keep(some(*(("a", t_ms, 1.0) for t_ms in kept)), at) == (5, 0, 0)
    assert forget_samples(at) == []
    assert times() == kept
    assert forget_samples(datetime(2099, 11, 29, 23, 59, 59, tzinfo=UTC)) == []
    assert forget_samples(datetime(2099, 11, 30, tzinfo=UTC)) == ["events_sample_20991127"]
    assert times() == kept[2:]
    assert forget_samples(datetime(2099, 12, 1, tzinfo=UTC) + timedelta(milliseconds=1)) == ["events_sample_20991128"]
    assert times() == [begins[29] + 1]  # of the rest, row by row: that day has no table
    assert SampleSeries.objects.count() == 1
    forget_samples(at + timedelta(days=3, seconds=1))
    assert (times(), SampleSeries.objects.count()) == ([], 0)


def test_upkeep_makes_the_days_ahead_and_may_run_again(committed: None) -> None:
    for _ in range(2):
        keep_up(NOW)
        upkeep()
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid "
                       "WHERE inhparent = 'events_sample'::regclass ORDER BY 1")  # fmt: skip
        names = [name for (name,) in cursor.fetchall()]
    assert set(names) >= {"events_sample_20261130", "events_sample_20261203", "events_sample_rest"}
    assert keep(some(("a", ms(NOW), 1.0))) == (1, 0, 0)  # the application's role may write into a new day


def test_an_installed_hall_has_the_tables_of_the_days_around(committed: None) -> None:
    """The day of receipt has a table of its own from the start: the rest stays empty, and days go by being dropped."""
    now = datetime.now(UTC)
    keep(some(("a", ms(now), 1.0), ("a", ms(now) - 40 * HOUR, 1.0), ("a", ms(now) + 1000, 1.0)), now)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), (SELECT count(*) FROM events_sample_rest) FROM events_sample")
        assert cursor.fetchone() == (3, 0)
