"""Books of a site as large as asked for: log and read models filled by COPY, by the rules of the projection.

The rows come from the fold and the row makers of the projection, the sums from its SQL, so that the tables are what
the projection would have made of the same log (tests/test_bench.py compares); only the way is shorter: no reading
of the log, no lookup of streams, indexes made afterwards.
"""

from __future__ import annotations

import hashlib
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import msgspec
from django.db import connection, transaction

from bench import data
from bench.base import owner_sql
from bench.ingest import copy_into
from events import actions, projector
from events.adapters import Draft
from events.copying import copying
from events.derive.attempts import Sighting, fold
from events.privacy import pseudonymise
from events.projector import Batch
from events.queries import head_position
from events.sqlfiles import statements
from events.types import REGISTRY, EventStruct
from events.types.accounts import AssociationReported
from events.types.clusters import SiteDeclared
from events.types.jobs import JobReported
from events.types.projects import AccountMapped, ProjectDeclared
from events.types.rates import RatePublished
from events.types.shares import FairshareConfigured
from jobs import accounts, balances, projections, rows

PROJECTS: Final = 40
TEAMS: Final = 8
USERS: Final = 300
GREAT_RUN: Final = "flagship"
"""A run of GREAT_JOBS jobs in the last GREAT_DAYS days, whatever the size of the books."""
GREAT_JOBS: Final = 1_000
GREAT_DAYS: Final = 60
ACCOUNTS: Final = (7, 3)
"""A person works in the account of this many times the own number, mostly of the first, sometimes of the second."""
FAIRSHARE: Final = FairshareConfigured("pod-a", "2020-01-01", 7 * 86_400, weights=("*=cpu:125,gpu:10000",))
"""Half of what was used counts after a week, added up in the slices of Slurm's thread."""
RUNNING: Final = 40
"""Jobs that run at the end of the books."""
CHUNK: Final = 20_000
"""Jobs held in memory at a time."""
ZONE: Final = "Europe/Berlin"
TABLES: Final = ("jobs_job", "jobs_attempt", "jobs_segment", "jobs_run", "jobs_usageday", "jobs_classday",
                 "jobs_balance")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Size:
    """How large books are: attempts in all, over days up to now."""

    attempts: int
    days: int


Row = tuple[Any, ...]
Record = tuple[int, str, JobReported]
"""Position, source key and what an accounting says of one attempt."""


def declare() -> None:
    """Site, tree of projects, one account each, prices, shares: the same for every size."""
    actions.declare_site(SiteDeclared(name="Bench", timezone=ZONE, currency="EUR"), actor="bench")
    said: list[tuple[str, EventStruct]] = [
        ("project.declared", ProjectDeclared(project="lab", title="Lab", kind="organisation"))
    ]
    for team in range(TEAMS):
        made = ProjectDeclared(project=f"team{team}", title=f"Team {team}", kind="team", parent="lab")
        said.append(("project.declared", made))
    for number in range(PROJECTS):
        code = f"proj{number:02d}"
        made = ProjectDeclared(project=code, title=f"Project {number}", parent=f"team{number % TEAMS}")
        mapped = AccountMapped(cluster="pod-a", account=f"acc{number:02d}", from_day="2020-01-01", project=code)
        said += [("project.declared", made), ("account.mapped", mapped)]
    for name, price in (("h100", 2_500_000), ("h200", 3_100_000), ("cpu", 40_000)):
        rate = RatePublished(resource_class=name, currency="EUR", micro_per_hour=price, from_day="2020-01-01")
        said.append(("rate.published", rate))
    said.append(("fairshare.configured", FAIRSHARE))
    for type_, struct in said:
        actions.say(struct, type_=type_, actor="bench")
    accounts.report([Draft("association.reported", one, "", 0, 0) for one in _associations()], complete=False)
    projector.catch_up()


def _associations() -> Iterator[AssociationReported]:
    """Shares as Slurm would have them: teams, their accounts, and in these whoever works there."""
    choose = random.Random(PROJECTS)
    yield AssociationReported("pod-a", "root", shares=1)
    for team in range(TEAMS):
        yield AssociationReported("pod-a", f"team{team}", parent="root", shares=choose.randint(1, 9))
    for number in range(PROJECTS):
        parent, shares = f"team{number % TEAMS}", choose.randint(1, 9)
        yield AssociationReported("pod-a", f"acc{number:02d}", parent=parent, shares=shares)
    for person, account in sorted({(p, p * step % PROJECTS) for p in range(USERS) for step in ACCOUNTS}):
        yield AssociationReported("pod-a", f"acc{account:02d}", user=f"user{person:03d}", shares=1)


def fill(size: Size, now: int | None = None) -> None:
    """Declare the site and fill log and read models; tables are analysed and all groups at the head afterwards."""
    declare()
    indexes = _without_indexes()
    jobs = _jobs(size, now or int(time.time()), head_position())
    while chunk := list(islice(jobs, CHUNK)):
        _enter([record for job in chunk for record in job], [len(job) for job in chunk])
    owner_sql(*indexes)
    owner_sql(*(f"ANALYZE {table}" for table in (*TABLES, "events_event", "events_text")))
    _roll_up()
    owner_sql(*(f"VACUUM ANALYZE {table}" for table in (*TABLES, "events_event", "events_text")))


def _without_indexes() -> list[str]:
    """Drop what can be made afterwards, and give the statements that do so."""
    found = owner_sql(
        f"""SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename IN {TABLES[:4]}
            AND indexname NOT IN (SELECT conname FROM pg_constraint)"""
    )
    owner_sql(*(f"DROP INDEX {name}" for name, _ in found))
    return [definition for _, definition in found]


# --- what ran --------------------------------------------------------------------------------------------------


def _jobs(size: Size, now: int, position: int) -> Iterator[list[Record]]:
    """The records of one job after the other, in order of submission but for the great run."""
    choose = random.Random(size.attempts)
    left, number, span = size.attempts, 0, size.days * 86_400
    great = [now - GREAT_DAYS * 86_400 + n * GREAT_DAYS * 86_400 // GREAT_JOBS for n in range(GREAT_JOBS)]
    while left > 0:
        found = _job(number, choose, now - span + int(span * (size.attempts - left) / size.attempts))
        if number < min(GREAT_JOBS, size.attempts // 10):
            found |= _moved(found, great[number]) | {"account": "acc00", "user": "user000", "run": GREAT_RUN}
        job = _attempts(found, choose, now, running=left <= RUNNING)[:left]
        yield [(position + n + 1, f"{found['job_id']}-{n}", record) for n, record in enumerate(job)]
        position, number, left = position + len(job), number + 1, left - len(job)


def _job(number: int, choose: random.Random, submit: int) -> dict[str, Any]:
    """One job; a person works in one account, some in two, and names the runs of a week."""
    found = data.job(number, choose)
    person = choose.randrange(USERS)
    account = person * ACCOUNTS[choose.random() >= 0.8] % PROJECTS
    found |= _moved(found, submit) | {"user": f"user{person:03d}", "account": f"acc{account:02d}"}
    found["gpu_types"] = [f"{choose.choice(('h100', 'h200'))}={found['gpus']}"]
    if choose.random() < 0.3:
        found["run"] = f"{choose.choice(('sft', 'pretrain'))}-{submit // 604_800}-{person:03d}"
    return found


def _moved(found: dict[str, Any], submit: int) -> dict[str, int]:
    shift = submit - int(found["submit"])
    return {name: int(found[name]) + shift for name in ("submit", "eligible", "start", "end")}


def _attempts(found: dict[str, Any], choose: random.Random, now: int, *, running: bool) -> list[JobReported]:
    """One record, or in one of twenty two: the first ended by a node's failure or a preemption, after half the time."""
    if running or found["end"] > now:
        found |= {"state": "RUNNING", "end": None, "start": min(found["start"], now - 60), "exit_code": None}
        found["submit"] = found["eligible"] = min(found["submit"], found["start"])
    records = [found]
    if choose.random() < 0.05 and found["end"]:
        broken = found["start"] + (found["end"] - found["start"]) // 2
        first = {**found, "state": choose.choice(("NODE_FAIL", "PREEMPTED")), "end": broken}
        again = {**found, "submit": broken, "eligible": broken, "start": broken + 20, "record": found["record"] + 10**9}
        records = [first, {**again, "end": max(found["end"], broken + 60)}]
    return [msgspec.convert({key: value for key, value in one.items() if value is not None}, JobReported)
            for one in records]  # fmt: skip


# --- into the tables -------------------------------------------------------------------------------------------


def _enter(records: Sequence[Record], sizes: Sequence[int]) -> None:
    """Log rows and read-model rows of some jobs; sizes: how many records each has."""
    named = pseudonymise([("job.reported", record) for _, _, record in records])
    encode = msgspec.json.Encoder(order="sorted").encode
    sightings: list[Sighting] = []
    log: list[Row] = []
    for (position, key, _), struct in zip(records, named, strict=True):
        assert isinstance(struct, JobReported)
        occurred = _occurred(struct)
        log.append(_log_row(position, key, struct, occurred, encode(struct)))
        sightings.append(Sighting(position, "sacct:pod-a", key, "job.reported", occurred, struct))
    copy_into("events_event", log)
    found = _folded(sightings, sizes)
    with transaction.atomic(), connection.cursor() as cursor:
        for table, columns, types in (
            ("jobs_job", rows.JOB, rows.JOB_TYPES),
            ("jobs_attempt", rows.ATTEMPT, rows.ATTEMPT_TYPES),
            ("jobs_segment", rows.SEGMENT, rows.SEGMENT_TYPES),
            ("jobs_run", rows.RUN, rows.RUN_TYPES),
        ):
            with copying(cursor, table, columns, types) as write:
                for row in found[table]:
                    write(row)


def _occurred(struct: JobReported) -> int:
    """Microseconds of the epoch, as the intake takes them from the record."""
    return int(struct.end or struct.start or 0) * 1_000_000


def _log_row(position: int, key: str, struct: JobReported, occurred: int, body: bytes) -> Row:
    id_ = uuid.UUID(bytes=hashlib.sha256(key.encode()).digest()[:16])
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=occurred)
    stream = REGISTRY.get("job.reported").stream(struct)
    return (0, position, id_, "sacct:pod-a", key, "job.reported", 1, stream, at, at, "token:bench", None,
            b"\x01" + body)  # fmt: skip


def _folded(sightings: Sequence[Sighting], sizes: Sequence[int]) -> dict[str, list[Row]]:
    """Rows by table, as `jobs.projections` makes them of touched streams."""
    found: dict[str, list[Row]] = {table: [] for table in TABLES}
    at = 0
    for count in sizes:
        mine, at = sightings[at : at + count], at + count
        stream = REGISTRY.get("job.reported").stream(mine[0].data)
        _, cluster, raw = stream.split("/", 2)
        for job in fold(mine):
            found["jobs_job"].append(rows.job_row(stream, cluster, raw, job))
            if not job.run:
                found["jobs_run"].append(rows.run_row(stream, cluster, job))
            for attempt in job.attempts:
                row = rows.attempt_row(stream, cluster, raw, job, attempt)
                found["jobs_attempt"].append(row)
                found["jobs_segment"] += rows.segment_rows(row[0], stream, cluster, job, attempt)
    return found


def _roll_up() -> None:
    """Sums by day and named runs by the projection's own SQL, over everything; all groups stand at the head."""
    ((head,),) = owner_sql("SELECT max(position) FROM events_event")
    *_, by_zone = statements("jobs", "touch")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(projections.TOUCHED)
        cursor.execute(by_zone, {"zone": ZONE})
        cursor.execute("INSERT INTO touched_runs SELECT DISTINCT run FROM jobs_job WHERE run_name <> ''")
        for statement in statements("jobs", "runs"):
            cursor.execute(statement)
        batch = Batch(cursor, "jobs", 0, head)
        balances.begin(batch)
        balances.forget(batch, balances.configured(cursor))
        balances.recompute(batch, ZONE)
        projections._roll_up(batch, ZONE)
        cursor.execute("UPDATE events_head SET position = %s", [head])
        cursor.execute("UPDATE events_progress SET position = %s", [head])
