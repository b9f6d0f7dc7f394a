"""Writers that dawdle and roll back, and a reader who follows them: nothing is skipped."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from events.append import Fact, append, fact
from events.seal import verify_chain
from events.types.clusters import ClusterDeclared
from tests.conftest import url

pytestmark = pytest.mark.faults

SECONDS = 8
WRITERS = 8
SHARED = 4000


class Undone(Exception):
    """Stands for a crash after the append."""


def said(key: str) -> Fact:
    data = ClusterDeclared(cluster=key)
    return fact(data, type_="cluster.declared", source="race", source_key=key, occurred_us=5_000_000, actor="t")


class Writer(threading.Thread):
    """Appends small batches; one key in five may be another writer's too."""

    def __init__(self, number: int, end: float) -> None:
        super().__init__()
        self.number, self.end, self.luck = number, end, random.Random(number)
        self.rollbacks, self.written = 0, 0
        self.keys: set[str] = set()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self.end:
                self.batch()
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.error = error
        finally:
            connection.close()

    def batch(self) -> None:
        keys = [self.key() for _ in range(self.luck.randint(1, 20))]
        try:
            with transaction.atomic():
                self.dawdle(0.3)
                outcomes = append([said(key) for key in keys])
                self.dawdle(0.1)
                if self.luck.random() < 0.05:
                    raise Undone
        except Undone:
            self.rollbacks += 1
            return
        self.keys.update(keys)
        self.written += sum(outcome.status == "accepted" for outcome in outcomes)
        assert all(outcome.status != "conflict" for outcome in outcomes)

    def key(self) -> str:
        if self.luck.random() < 0.2:
            return f"shared-{self.luck.randrange(SHARED)}"
        return f"own-{self.number}-{self.luck.getrandbits(60)}"

    def dawdle(self, chance: float) -> None:
        if self.luck.random() < chance:
            time.sleep(self.luck.random() * 0.02)


class Reader(threading.Thread):
    """Follows the log by position and never looks back."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address, self.done = address, threading.Event()
        self.seen: list[int] = []
        self.keys: Counter[str] = Counter()
        self.looks = 0

    def run(self) -> None:
        with psycopg.connect(self.address, autocommit=True) as line:
            while True:
                ended = self.done.is_set()
                if not self.look(line) and ended:
                    return

    def look(self, line: psycopg.Connection[Any]) -> bool:
        last = self.seen[-1] if self.seen else 0
        rows = line.execute(
            "SELECT position, source_key FROM events_event WHERE position > %s ORDER BY position LIMIT 1000", [last]
        ).fetchall()
        self.seen += [row[0] for row in rows]
        self.keys.update(row[1] for row in rows)
        self.looks += 1
        return bool(rows)


def test_a_reader_misses_nothing_of_eight_writers(hall: dict[str, str]) -> None:
    reader = Reader(url("default"))
    writers = [Writer(number, time.monotonic() + SECONDS) for number in range(WRITERS)]
    try:
        for thread in (reader, *writers):
            thread.start()
    finally:
        for writer in writers:
            writer.join()
        reader.done.set()
        reader.join()
    assert [writer.error for writer in writers if writer.error] == []
    with connection.cursor() as cursor:
        cursor.execute("SELECT position, source_key FROM events_event ORDER BY position")
        rows = cursor.fetchall()
    missed = {row[0] for row in rows} - set(reader.seen)
    rollbacks = sum(writer.rollbacks for writer in writers)
    print(f"\nrace: {len(rows)} events, {rollbacks} rollbacks, {len(missed)} missed in {reader.looks} looks")
    assert len(rows) > 1000
    assert rollbacks > 10
    assert missed == set()
    assert reader.seen == [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert set(reader.keys.values()) == {1}
    assert reader.keys.keys() == set().union(*(writer.keys for writer in writers))
    assert sum(writer.written for writer in writers) == len(rows)
    assert verify_chain().position == len(rows)
