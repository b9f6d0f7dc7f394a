"""What Hallbook's REST shows of jobs and attempts, asked again and again, with the time of every change."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.faults.rig import Hall

__all__ = ["Shown", "Watch"]

PAUSE_SECONDS: Final = 0.15
NEWEST: Final = 60
"""Rows asked for each time: those that changed last."""


class Shown(NamedTuple):
    """One attempt, or one job, as the API shows it. Times are epoch seconds; gpu_seconds 0 while it runs."""

    job_id: str
    state: str
    start: int
    end: int
    gpu_seconds: int


class Watch:
    """Histories by key of the row: (time, what was shown from then on)."""

    def __init__(self, hall: Hall, token: str, cluster: str) -> None:
        self.hall, self.cluster = hall, cluster
        self.headers = {"Authorization": f"Bearer {token}"}
        self.attempts: dict[str, list[tuple[float, Shown]]] = {}
        self.jobs: dict[str, list[tuple[float, Shown]]] = {}
        self.looks = 0
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look while the block runs. Hallbook may be away meanwhile."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            try:
                self._look("attempts", self.attempts)
                self._look("jobs", self.jobs)
                self.looks += 1
            except (OSError, ValueError):
                time.sleep(0.3)

    def _look(self, name: str, histories: dict[str, list[tuple[float, Shown]]]) -> None:
        rows = self.get(f"/api/v1/{name}?cluster={self.cluster}&ordering=-position&limit={NEWEST}")["results"]
        now = time.time()
        for row in rows:
            history, shown = histories.setdefault(row["id"], []), _shown(row)
            if not history or history[-1][1] != shown:
                history.append((now, shown))

    def get(self, path: str) -> Any:
        """One answer. Raises OSError when there is none, ValueError when it is no 200."""
        status, _, body = self.hall.call("GET", path, headers=self.headers)
        if status != 200:
            raise ValueError(f"GET {path}: {status} {body[:300]!r}")
        return json.loads(body)

    def all(self, name: str) -> dict[str, Shown]:
        """Every attempt or job of the cluster by key, now."""
        found: dict[str, Shown] = {}
        path = f"/api/v1/{name}?cluster={self.cluster}&limit=200"
        while path:
            page = self.get(path)
            found |= {row["id"]: _shown(row) for row in page["results"]}
            path = (page["next"] or "").partition(f":{self.hall.port}")[2]
        return found


def _shown(row: dict[str, Any]) -> Shown:
    ended = row["end"] is not None
    return Shown(
        row["job_id"], row["state"], _epoch(row["start"]), _epoch(row["end"]), row["gpu_seconds"] if ended else 0
    )


def _epoch(text: str | None) -> int:
    return int(datetime.fromisoformat(text).timestamp()) if text else 0
