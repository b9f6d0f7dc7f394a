"""Puts the demo hall into the books through the ordinary doors, once; what is there stays as it is.

The plan (pod, seed, first day) is kept as the key of the site's declaration, so that whoever comes later simulates
the same world. It is loaded once the cluster is declared with its GPUs, which is said last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from config.demo import alerts, commissioning, looks, nodes, people, posts
from config.demo.hall import CLUSTER
from config.demo.programs import events_of
from config.demo.tell import COLUMNS, rows
from config.demo.truth import Truth
from config.demo.world import World, midnight
from events import deliveries, projector
from events.actions import say
from events.adapters import Draft, cloudevents
from events.intake import Intake, now_us
from events.types.accounts import AssociationReported
from events.types.clusters import ClusterDeclared
from jobs import accounts

__all__ = ["VERSION", "Plan", "deliver", "known_plan", "last_recorded", "load"]

ACTOR: Final = "demo"
VERSION: Final = 4
"""Raised when the same seed gives another world: books of an older one are shown, but not gone on with."""
POSTED: Final = 2 * 86_400
"""Seconds before the end of the history of which jobcomp and prologs tell too, with the GPUs of each node."""
AT_ONCE: Final = 5_000
"""Events of training programs in one batch."""
MARGIN: Final = 120
"""Seconds by which telling may lag behind what happens."""
KINDS: Final = {"slurm-hook": "hook", "jobcomp": "jobcomp", "sacct-text": "sacct", "cloudevents": "training",
                "slurmctld-jobs": "slurmctld", "slurm-nodes": "slurmctld",
                "alertmanager": "alertmanager"}  # fmt: skip
"""Kind of a delivery -> first part of its source."""
UNREADABLE: Final = (
    "19987|19987|1|pod-a|vision|mdietz|train|normal|odd|name||{0}|{0}|{0}|{0}|COMPLETED|0:0|None|1|12||gpu003||60",
    "19988|19988|2|pod-a|speech|jxu|train|normal|asr-tune||{0}|{0}|{0}|{0}|OUT_OF_ME+|0:125|None|1|12||gpu004||60",
    "19989|19989|3|pod-a|evals|sthoma|train|normal|mmlu||{0}|{0}|{0}|12:30|FAILED|1:0|None|1|12||gpu004||60",
)
"""Rows that real exports hold and nobody can read: a bar in a job's name, a cut state, a time of another format.
They are of jobs before the first day; what is wrong shows on the page of rejections."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which world the books hold. whole: it is loaded to the end."""

    pod: str
    seed: int
    begin: date
    whole: bool = False
    version: int = VERSION

    @property
    def key(self) -> str:
        """Begin of the keys of all that is said for it."""
        return f"demo/{self.version}/{self.pod}/{self.seed}/{self.begin}"


def known_plan() -> Plan | None:
    """The world that is in these books, or half in them; None before the first load."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT source_key FROM events_event WHERE shard = %s AND stream = ANY(%s) AND source = 'hallbook'
               AND source_key LIKE 'demo/%%' ORDER BY position""",
            [settings.SHARD, ["site", f"cluster/{CLUSTER}"]],
        )
        keys = [str(row[0]) for row in cursor.fetchall()]
    if not keys:
        return None
    _, version, pod, seed, begin, _ = keys[0].split("/", 5)
    return Plan(pod, int(seed), date.fromisoformat(begin), whole=len(keys) > 1, version=int(version))


def last_recorded() -> int:
    """Epoch seconds MARGIN before the last event was recorded: what happened until then is told."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT extract(epoch FROM recorded_at)::bigint FROM events_block WHERE shard = %s
               ORDER BY upto DESC LIMIT 1""",
            [settings.SHARD],
        )
        return int(cursor.fetchone()[0]) - MARGIN


def load(plan: Plan, world: World, until: int, *, stdout: Any, stderr: Any, step: Callable[[str], None]) -> Truth:
    """Say what people say, simulate to `until`, import the accounting's text, project. Repeatable at any point."""
    say(people.SITE, type_="site.declared", actor=ACTOR, key=f"{plan.key}/site")
    for type_, data in people.statements(plan.begin):
        said = hashlib.sha256(repr(data).encode()).hexdigest()[:16]
        say(data, type_=type_, actor=ACTOR, key=f"{plan.key}/{type_}/{said}")
    say_measured(plan, world)
    accounts.report([_association(index, data) for index, data in enumerate(people.associations())], complete=False)
    truth = world.run(until)
    step(f"simulated {len(truth.known())} jobs on {world.hall.gpus} GPUs since {plan.begin}")
    path = write(world, truth)
    call_command("import_sacct", str(path), cluster=CLUSTER, timezone="UTC", stdout=stdout, stderr=stderr)
    post_recent(world, truth)
    for place in nodes.places(world.hall, plan.begin):
        say(place, type_="node.declared", actor=ACTOR, key=f"{plan.key}/node/{place.node}")
    tell_nodes(world, truth)
    step(f"told {tell_alerts(world, truth)} notifications of faults")
    step(f"told {tell_looks(truth)} looks at jobs that wait")
    truth.programs = world.programs(until)
    step(f"told {tell_programs(truth)} events of training programs")
    if found := people.correction(truth):
        attempt, corrected = found
        say(corrected, type_="record.corrected", actor=ACTOR, key=f"{plan.key}/record.corrected/{corrected.job_id}")
        attempt.account = corrected.new
    gpus = ClusterDeclared(cluster=CLUSTER, scheduler="slurm", gpus=world.hall.gpus)
    say(gpus, type_="cluster.declared", actor=ACTOR, key=f"{plan.key}/cluster")
    projector.catch_up()
    step("imported and projected")
    return truth


def say_measured(plan: Plan, world: World) -> None:
    """What was measured of the hall when it was accepted, before its first day."""
    door = Intake(source="hallbook", actor=ACTOR, origin="demo")
    told = commissioning.records(midnight(plan.begin), world.hall.gpus)
    drafts = [Draft("scaling.recorded", data, f"{plan.key}/scaling/{data.model}/{data.gpus}", at * 1_000_000, index,
                    by_content=False) for index, (at, data) in enumerate(told)]  # fmt: skip
    if refused := [one for one in door.take(drafts) if one.status == "rejected"]:
        raise ValueError(f"{refused[0].pointer}: {refused[0].text}")


def _association(index: int, data: AssociationReported) -> Draft:
    return Draft("association.reported", data, f"{data.account}/{data.user or ''}", now_us(), index)


def write(world: World, truth: Truth) -> Path:
    """The accounting's text of all jobs, in a file of the state directory."""
    path = settings.HALLBOOK_HOME / "demo.psv"
    with path.open("w", encoding="utf-8") as file:
        file.write("|".join(COLUMNS) + "\n")
        for line in UNREADABLE:
            file.write(line.format(midnight(world.begin) - 86_400) + "\n")
        for line in rows(world.hall, truth.jobs):
            file.write(line + "\n")
    return Path(path)


def post_recent(world: World, truth: Truth) -> None:
    """What Slurm posted by itself of late: prologs of all that runs or ran in the last days, jobcomp of what ended."""
    since = truth.until - POSTED
    with transaction.atomic():
        deliver("jobcomp", posts.BROKEN)
        for job in truth.jobs:
            if job.touched < since and job.end is not None:
                continue
            for attempt in job.attempts:
                if attempt.end is None or attempt.end >= since:
                    for body in posts.prologs(world.hall, attempt):
                        deliver("slurm-hook", body)
                if attempt.end is not None and attempt.end >= since:
                    for body in posts.ended(world.hall, job, attempt):
                        deliver("jobcomp", body)
    while deliveries.drain():
        pass


def tell_nodes(world: World, truth: Truth) -> None:
    """What asking the scheduler for its nodes would have shown each time that one changed."""
    with transaction.atomic():
        for at, body in nodes.bodies(world.hall, truth.faults, midnight(world.begin), 0, truth.until):
            deliver("slurm-nodes", body, looked=at)
    while deliveries.drain():
        pass


def tell_alerts(world: World, truth: Truth) -> int:
    """What Alertmanager posted of nodes that failed and came back. How many notifications."""
    found = list(alerts.bodies(world.hall, truth.faults, 0, truth.until))
    with transaction.atomic():
        for _, body in found:
            deliver("alertmanager", body)
    while deliveries.drain():
        pass
    return len(found)


def tell_looks(truth: Truth) -> int:
    """What asking the scheduler every 30 s would have shown of jobs that waited. How many things were new."""
    found = list(looks.looks(truth.jobs, 0, truth.until))
    with transaction.atomic():
        for body in looks.in_bulk(found):
            deliver("slurmctld-jobs", body, looked=0)
    while deliveries.drain():
        pass
    return len(found)


def tell_programs(truth: Truth) -> int:
    """What training programs told until now, as their events come in, by many at once. How many."""
    door = Intake(source="training", actor=ACTOR, origin="demo")
    said, told = events_of(truth.programs, 0, truth.until), 0
    while chunk := list(islice(said, AT_ONCE)):
        results = door.take(cloudevents.lines(b"\n".join(map(msgspec.json.encode, chunk))))
        if refused := [one for one in results if one.status == "rejected"]:
            raise ValueError(f"{refused[0].pointer}: {refused[0].text}")
        told += len(results)
    return told


def deliver(kind: str, body: bytes, looked: int | None = None) -> None:
    """Keep one body, as the webhooks do. looked: it holds what had changed then (0: when each job says)."""
    content_type = "text/plain" if kind == "sacct-text" else "application/json"
    headers = {"x-hallbook-cluster": CLUSTER, "x-hallbook-timezone": "UTC"}
    if looked is not None:
        headers["x-hallbook-changes"] = str(looked)
    deliveries.accept_delivery(source=f"{KINDS[kind]}:{CLUSTER}", kind=kind, content_type=content_type,
                               headers=headers, body=body, actor=ACTOR)  # fmt: skip
