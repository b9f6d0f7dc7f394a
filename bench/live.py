"""live: from the acceptance of a single event to its sight in the API, at a steady rate of them.

The whole of `manage.py serve` runs: web, worker, beat, broker. Jobs are told twice, as schedulers do: when they
start and when they have ended. Of some, chosen by chance, the API is asked again and again until it shows them.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

import psycopg

from api import tokens
from bench import data, load
from bench.base import Figures, Measured, dsn, empty_log, empty_tables, median, own_database, owner_sql, settle
from bench.project import fill
from bench.server import cpu_seconds, serving
from events import projector
from events.actions import declare_cluster, declare_site
from events.types.clusters import SiteDeclared

RATE: Final = 500
"""Events a second."""
SAMPLES_PER_S: Final = 5
"""Jobs a second whose sight is waited for."""
LOOKERS: Final = 6
"""Clients of the API, each with one job in its eye."""
POLL_SECONDS: Final = 0.03
"""Pause between two looks at one job: what is measured is longer than the truth by up to this and a look's time."""
WATCH_SECONDS: Final = 0.01
"""Pause between two questions to the database how far the log and the read models have come."""
GIVE_UP_SECONDS: Final = 30.0
TOLD_AGAIN: Final = 5
"""Seconds after which a job that was told as running is told as ended."""


@dataclass(frozen=True, slots=True)
class Told:
    """One request, and the state in which the API must show its job afterwards."""

    request: bytes
    job_id: str
    state: str


@dataclass(slots=True)
class Sample:
    """One event that is waited for; instants of perf_counter, 0 while it has not come so far."""

    number: int
    told: Told
    accepted: float
    seen: float = 0.0
    logged: float = 0.0
    projected: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """What one run gave. cpu: seconds of processor of `serve` and what is below it, over `seconds`."""

    sent: load.Paced
    samples: Sequence[Sample]
    cpu: float
    seconds: float


def run(*, quick: bool) -> Measured:
    """500 events a second for 40 s, three times (quick: 100 a second for 3 s), over 100,000 events of history."""
    seconds, rate, repeats, history = (3, 100, 1, 2_000) if quick else (40, RATE, 3, 100_000)
    with own_database():
        rounds = [_round(f"r{again}", rate, seconds, history) for again in range(repeats)]
    runs = [_spread([one.seen - one.accepted for one in found.samples], "visible")["visible_p95_s"] for found in rounds]
    figures = {"rate_per_s": rate, "seconds": seconds, "events_before": history, **_figures(rounds)}
    return Measured("live", median(runs), figures, runs)


def _round(tag: str, rate: int, seconds: int, history: int) -> Round:
    _prepare(history)
    _, secret = tokens.create(f"bench-{tag}", ["events:write", "read"])
    with serving() as (port, pid):
        _warm(port, secret)
        told = list(_events(rate * seconds, rate, 30_000_000, secret))
        before, begin = cpu_seconds(pid), time.perf_counter()
        with _watching() as reached, _lookers(port, secret) as (wanted, samples):
            sent = load.paced(port, [each.request for each in told], rate, partial(_choose, told, rate, wanted))
        used, took = cpu_seconds(pid) - before, time.perf_counter() - begin
        _until_idle()
    ((refused,),) = owner_sql("SELECT count(*) FROM events_rejection")
    if not sent.good or refused:
        raise RuntimeError(f"not every event was taken: {sent.statuses}, {refused} refused")
    if missing := [one.told.job_id for one in samples if not one.seen]:
        raise RuntimeError(f"not shown within {GIVE_UP_SECONDS:g} s: {', '.join(missing[:5])}")
    _stages(samples, reached)
    return Round(sent, samples, used, took)


def _prepare(history: int) -> None:
    """A site with a history that is projected."""
    empty_log()
    empty_tables([model._meta.db_table for group in projector.groups() for model in group.tables])
    fill(0, history)
    declare_site(SiteDeclared(name="Bench", timezone="Europe/Berlin", currency="EUR"), actor="bench")
    declare_cluster("pod-a", actor="bench")  # Slurm may post for a declared cluster only
    projector.catch_up()
    settle()


def _warm(port: int, secret: str) -> None:
    """Some events first, so that processes have connected and know the token."""
    told = list(_events(100, 50, 20_000_000, secret))
    load.paced(port, [each.request for each in told], 50, lambda _number: None)
    _until_idle()
    for _ in range(20):  # a new connection each time, so that every web process has shown a list
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        _shown(line, secret, told[0])
        line.close()


def _until_idle() -> None:
    for _ in range(600):
        ((left,),) = owner_sql(
            """SELECT (SELECT count(*) FROM events_delivery WHERE state = 'pending')
                    + (SELECT position FROM events_head) - (SELECT min(position) FROM events_progress)"""
        )
        if not left:
            return
        time.sleep(0.1)
    raise RuntimeError("the events were not projected within a minute")


# --- what is sent ----------------------------------------------------------------------------------------------


def _events(count: int, rate: int, first: int, secret: str) -> Iterator[Told]:
    """By turns a job that runs, as CloudEvent, and one that has ended, as Slurm's jobcomp posts it.

    The ended one was told as running TOLD_AGAIN seconds before; at first they are others. Ids from `first` on.
    """
    choose, now = random.Random(first), int(time.time())
    jobs = [_recent(data.job(number, choose), first + number, now + number % 60) for number in range(count)]
    lag = TOLD_AGAIN * rate // 2
    for number in range(count):
        place = number // 2
        ended = jobs[place - lag] if place >= lag else jobs[-1 - place]
        yield _ended(ended, secret) if number % 2 else _running(jobs[place], secret)


def _recent(found: dict[str, Any], number: int, end: int) -> dict[str, Any]:
    """The job with an id of its own, moved to this end."""
    shift = end - found["end"]
    moved = {name: found[name] + shift for name in ("submit", "eligible", "start", "end")}
    return {**found, **moved, "job_id": str(number), "record": number}


def _running(found: dict[str, Any], secret: str) -> Told:
    said = {name: value for name, value in found.items() if name not in ("end", "exit_code")} | {"state": "RUNNING"}
    body = data.cloud_event(said, f"{found['job_id']}-RUNNING", "slurmctld:pod-a")
    request = load.request("/api/v1/events", secret, "application/cloudevents+json", body)
    return Told(request, found["job_id"], "RUNNING")


def _ended(found: dict[str, Any], secret: str) -> Told:
    request = load.request("/api/v1/ingest/slurm/jobcomp", secret, "application/json", data.jobcomp(found))
    return Told(request, found["job_id"], found["state"])


# --- who looks -------------------------------------------------------------------------------------------------


def _choose(told: Sequence[Told], rate: int, wanted: SimpleQueue[Sample | None], number: int) -> None:
    """At an answer: wait for this event with the chance that gives SAMPLES_PER_S."""
    if random.random() * rate < SAMPLES_PER_S:
        wanted.put(Sample(number, told[number], time.perf_counter()))


@contextmanager
def _lookers(port: int, secret: str) -> Iterator[tuple[SimpleQueue[Sample | None], list[Sample]]]:
    """Clients that look for what is put into the queue; all have looked when the block has ended."""
    wanted: SimpleQueue[Sample | None] = SimpleQueue()
    samples: list[Sample] = []
    threads = [threading.Thread(target=_look, args=(port, secret, wanted, samples)) for _ in range(LOOKERS)]
    for thread in threads:
        thread.start()
    try:
        yield wanted, samples
    finally:
        for _ in threads:
            wanted.put(None)
        for thread in threads:
            thread.join()


def _look(port: int, secret: str, wanted: SimpleQueue[Sample | None], samples: list[Sample]) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while (sample := wanted.get()) is not None:
        samples.append(sample)
        until = sample.accepted + GIVE_UP_SECONDS
        while time.perf_counter() < until:
            if _shown(line, secret, sample.told):
                sample.seen = time.perf_counter()
                break
            time.sleep(POLL_SECONDS)
    line.close()


def _shown(line: http.client.HTTPConnection, secret: str, told: Told) -> bool:
    """Whether the API shows the job in the state told, or in one that came after."""
    line.request(
        "GET", f"/api/v1/jobs?cluster=pod-a&job_id={told.job_id}", headers={"Authorization": f"Bearer {secret}"}
    )
    answer = line.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"the API answered {answer.status}: {body[:200]!r}")
    return any(told.state in ("RUNNING", row["state"]) for row in json.loads(body)["results"])


# --- where the time goes ---------------------------------------------------------------------------------------

Reached = list[tuple[float, int, int]]
"""(instant, head of the log, least position of the read models), whenever one of them changed."""


@contextmanager
def _watching() -> Iterator[Reached]:
    """How far the log and the read models have come, while the block runs and until they are at one."""
    reached: Reached = []
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(reached, ended))
    thread.start()
    try:
        yield reached
    finally:
        ended.set()
        thread.join()


def _watch(reached: Reached, ended: threading.Event) -> None:
    query = "SELECT (SELECT position FROM events_head), (SELECT min(position) FROM events_progress)"
    with psycopg.connect(dsn(), autocommit=True, prepare_threshold=0) as peer:
        while True:
            done = ended.is_set()
            row = peer.execute(query).fetchone()
            if row and (not reached or reached[-1][1:] != row):
                reached.append((time.perf_counter(), *row))
            if done and row and row[0] == row[1]:
                return
            time.sleep(WATCH_SECONDS)


def _stages(samples: Sequence[Sample], reached: Reached) -> None:
    """When each sample was in the log, and when in the read models."""
    query = """SELECT stream, source LIKE 'jobcomp%%', max(position) FROM events_event
               WHERE stream = ANY(%s) GROUP BY 1, 2"""
    streams = [f"job/pod-a/{one.told.job_id}" for one in samples]
    with psycopg.connect(dsn()) as peer:
        positions = {(stream, ended): at for stream, ended, at in peer.execute(query, [streams]).fetchall()}
    for sample, stream in zip(samples, streams, strict=True):
        at = positions[stream, sample.told.state != "RUNNING"]
        sample.logged = next(when for when, head, _ in reached if head >= at)
        sample.projected = next(when for when, _, least in reached if least >= at)


def _figures(rounds: Sequence[Round]) -> Figures:
    """Over all runs together."""
    samples = [one for found in rounds for one in found.samples]
    accept = [found.sent.answered[number] - sent for found in rounds for number, sent in enumerate(found.sent.sent)]
    return {
        "samples": len(samples),
        **_spread([one.seen - one.accepted for one in samples], "visible"),
        **_spread(accept, "accept"),
        **_spread([max(0.0, one.logged - one.accepted) for one in samples], "log"),
        **_spread([one.projected - one.logged for one in samples], "project"),
        **_spread([max(0.0, one.seen - one.projected) for one in samples], "look"),
        "serve_cores": sum(found.cpu for found in rounds) / sum(found.seconds for found in rounds),
        "most_behind_schedule_s": max(found.sent.late for found in rounds),
    }


def _spread(values: Sequence[float], name: str) -> dict[str, float]:
    """p50, p95, p99 and the most, in seconds."""
    return {f"{name}_p{part}_s": percentile(values, part) for part in (50, 95, 99)} | {f"{name}_most_s": max(values)}


def percentile(values: Sequence[float], part: int) -> float:
    """The observed value below which `part` in a hundred lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * part // 100)]
