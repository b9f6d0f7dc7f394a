"""What the receipt at the end of a job says, and which jobs get one.

A receipt is about the person's own job, which its scheduler tells it too; so it needs no grant. What it costs is told,
and pages are named, only to whoever may see the project of the job (web.rights, jobs.queries.scope_of).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.urls import reverse

from billing.queries import RunCost, cost_of_job
from events import queries as log
from events.access import Scope
from fleet.queries import Site, site
from jobs import queries_over, queries_runs
from jobs.queries import scope_of
from jobs.queries_over import InVain, Over
from jobs.queries_runs import Totals
from web import columns, figures, states
from web.frame import as_of_words
from web.jobs import job_name
from web.mailkinds import RECEIPT, wanting
from web.mailparts import Part, at, headed
from web.mailtext import one_line
from web.models import MailSent
from web.state import one_state
from web.tables import Link

__all__ = ["LONGEST", "Gone", "Receipt", "find", "read"]

LONGEST: Final = timedelta(hours=24)
"""A job that ended longer ago gets no receipt: so an import of history sends nothing."""
_LOCK: Final = 7_240_011


class Gone(LookupError):
    """The job is no longer in the books; the text says so."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The whole mail."""

    job: str
    cluster: str
    name: str
    run: str
    state: str
    why: str
    css: str
    value: str
    unit: str
    parts: Sequence[Part]
    lost: Sequence[Part]
    unknown: Sequence[str]
    links: Sequence[Link]
    site: Site
    as_of: dict[str, str]
    url: str

    @property
    def subject(self) -> str:
        """Which job, how it ended, and the figure."""
        name = f" ({self.name})" if self.name else ""
        return one_line(f"Job {self.job}{name} {self.state}: {self.value} {self.unit}", 150)


# --- which jobs --------------------------------------------------------------------------------------------------


def find(now: datetime) -> int:
    """Put a receipt into the outbox for every job end that has none. Returns how many.

    Once per end: one process at a time looks, and sees what the one before it has noted. An end counts only after the
    person asked for receipts and within LONGEST. A job has another end when an attempt of it began after the last one;
    a corrected end is not another one.
    """
    people = {user.get_username(): (user, since) for user, since in wanting(RECEIPT)}
    if not people:
        return 0
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        ended = queries_over.over(people.keys(), now - LONGEST, now)
        before = _before([one.job for one in ended])
        rows = [
            _row(one, people[one.user][0].pk, len(before.get((people[one.user][0].pk, one.job), ())), now)
            for one in ended
            if one.end >= people[one.user][1] and _new(one, before.get((people[one.user][0].pk, one.job), ()))
        ]
        MailSent.objects.bulk_create(rows)
    return len(rows)


def _before(jobs: Sequence[UUID]) -> dict[tuple[int, UUID], list[datetime]]:
    """(person, job) -> the ends that were told of already."""
    found: dict[tuple[int, UUID], list[datetime]] = {}
    rows = MailSent.objects.filter(kind=RECEIPT.name, job__in=jobs).values_list("user_id", "job", "ended")
    for user, job, ended in rows:
        if job is not None and ended is not None:
            found.setdefault((user, job), []).append(ended)
    return found


def _new(one: Over, told: Sequence[datetime]) -> bool:
    return not told or one.last_start >= max(told)


def _row(one: Over, user: int, number: int, now: datetime) -> MailSent:
    return MailSent(
        user_id=user, kind=RECEIPT.name, ref=f"{one.job}/{number + 1}", job=one.job, ended=one.end, created_at=now,
        next_try=now,
    )  # fmt: skip


# --- reading -----------------------------------------------------------------------------------------------------


def read(user: Any, key: UUID, cut: datetime) -> Receipt:
    """What a person is told of one of its jobs. Raises Gone."""
    with one_state():
        own = scope_of(user)
        job = queries_runs.job_named(own, key)
        seen = job is not None
        job = job or queries_runs.job_named(Scope(money=False), key)
        if job is None or job.user not in log.ids_of_person(user.get_username()):
            raise Gone("the job is no longer in the books as one of this person")
        totals, attempts = queries_runs.totals_of_job(job, cut), list(queries_runs.attempts_of_job(job))
        cost = cost_of_job(own, job.id, totals.start, cut) if seen and totals.start else None
        vain, here = queries_over.in_vain(job.id), site()
        return _receipt(job, totals, attempts, cost, vain, here, as_of_words(log.as_of(cut), here), linked=seen)


def _receipt(
    job: Any, totals: Totals, attempts: Sequence[Any], cost: RunCost | None, vain: InVain, here: Site,
    as_of: dict[str, str], *, linked: bool,
) -> Receipt:  # fmt: skip
    last = attempts[-1] if attempts else None
    shown = states.of(last.state if last else job.state)
    seconds, unit = (totals.gpu_seconds, "GPU-h") if totals.gpus else (totals.cpu_seconds, "CPU-h")
    name = log.texts([job.name]).get(job.name, "")
    return Receipt(
        one_line(job_name(job)), one_line(job.cluster), one_line(name), one_line(job.run_name), shown.word,
        _why(last), "fault" if shown.css in ("s-fail", "s-node") else "", figures.hours(seconds), unit,
        _parts(job, totals, attempts, cost, here), _lost(vain), _unknown(vain, attempts, totals),
        _links(job) if linked else (), here, as_of, settings.SITE_URL,
    )  # fmt: skip


def _why(last: Any) -> str:
    """What ended it, in a sentence or two."""
    if last is None:
        return ""
    words = [states.cause(last.state)]
    if last.exit_code or last.exit_signal:
        words.append(f"Exit code {states.explain_exit(last.exit_code, last.exit_signal)}.")
    return " ".join(word for word in words if word)


def _parts(job: Any, totals: Totals, attempts: Sequence[Any], cost: RunCost | None, here: Site) -> list[Part]:
    first = attempts[0] if attempts else None
    since = (first.eligible if first else job.eligible) or job.submit
    wait = columns.seconds_between(since, first.start if first else job.end)
    held = f"{figures.thousands(totals.gpus)} GPUs at most" if totals.gpus else "no GPU was held"
    parts = [
        Part("Wait before start", figures.NO_DATA, "no source tells since when", "none") if wait is None
        else Part("Wait before start", figures.duration(wait), "from when it could start"),
        Part("Wall time", figures.duration(totals.wall_seconds), _attempts(totals)),
        Part("GPU-hours", figures.hours(totals.gpu_seconds), held),
        *_cost(cost),
    ]  # fmt: skip
    if totals.start:
        parts.append(Part("Started", figures.moment(totals.start, here.zone)))
    if job.end:
        parts.append(Part("Ended", figures.moment(job.end, here.zone)))
    return parts


def _attempts(totals: Totals) -> str:
    return "in one attempt" if totals.attempts == 1 else f"in {figures.thousands(totals.attempts)} attempts"


def _cost(cost: RunCost | None) -> list[Part]:
    if cost is None:
        return []
    if cost.amount is None:
        return [Part("Cost", figures.NO_PRICE, "nothing of it has a price", "none")]
    note = "at list price, without what has no price" if cost.unpriced else "at list price"
    return [Part("Cost", f"{figures.money(cost.amount)} {cost.currency}", note)]


def _lost(vain: InVain) -> list[Part]:
    return [
        Part(headed(cause), f"{figures.hours(seconds)} GPU-h")
        for cause, seconds in sorted(vain.causes.items(), key=lambda one: -one[1])
    ]


def _unknown(vain: InVain, attempts: Sequence[Any], totals: Totals) -> list[str]:
    """What is not known: never told as zero."""
    told = []
    if not vain.told and totals.gpus:
        told.append("Its program did not tell where its time went, so what was rolled back is not known.")
    elif vain.told < len(attempts) and totals.gpus:
        told.append(f"The programs of {len(attempts) - vain.told} of its {len(attempts)} attempts told nothing.")
    if vain.not_judged:
        told.append("It was preempted or requeued and told nothing: how much of its work was lost is not known.")
    if totals.unconfirmed:
        told.append("Only scripts on the nodes or the completion plugin spoke of it, no accounting: it may change yet.")
    if totals.disagree:
        told.append("Its sources contradict each other on times by more than 5 seconds.")
    return told


def _links(job: Any) -> list[Link]:
    return [
        Link("The job", at(reverse("job", args=[job.id]))), Link("Its run", at(reverse("run", args=[job.run]))),
        Link("The project", at(reverse("project", args=[job.project]))),
    ]  # fmt: skip
