"""Reading where the GPU-time of attempts and runs went, their saves, and how often a run should save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import F, QuerySet

from events.access import Scope
from events.reports import Params
from jobs import checkpoints as rules
from jobs import windows
from jobs.goodput import PARTS
from jobs.models import Checkpoint, Goodput, Run
from jobs.places import inside, with_project
from jobs.report_goodput import HEADS, ettr, facts
from jobs.told import LOSING

__all__ = ["FAILURES", "HEADS", "PARTS", "Advice", "Loss", "RunGoodput", "checkpoints", "goodput", "of_run",
           "saves_of", "tails", "told_of"]  # fmt: skip

FAILURES: Final = ("NODE_FAIL", "BOOT_FAIL", "FAILED", "OUT_OF_MEMORY")
"""Ends of attempts that a program cannot foresee: failures of machines and programs.

Their rate is one per node and time, so that it can be believed from few of them and carried to another size. Other
ends are no failures: how often a run is preempted, stopped by its user or at its limit is not decided by the number of
nodes. But where they lose work, an interval between saves has to be weighed with both rates added: what a save is
worth does not depend on what takes the nodes away.
"""
FEWEST_SAVES: Final = 2
# An other end counts where work was rolled back: a program that saves when it is told to go loses none. Where its
# program told nothing, its state decides, as in the table of interruptions.
_RUN: Final = """
    SELECT count(*), coalesce(sum(x.held), 0), coalesce(sum(x.held) FILTER (WHERE NOT x.told), 0),
           coalesce(sum(x.nodes), 0), count(*) FILTER (WHERE x.state = ANY(%(failures)s) AND x.end_at IS NOT NULL),
           coalesce(array_agg(x.state::text) FILTER (WHERE x.state <> ALL(%(failures)s) AND x.end_at IS NOT NULL
                    AND CASE WHEN x.told THEN x.rolled_back > 0 ELSE x.state = ANY(%(losing)s) END), '{}'),
           coalesce(sum(x.gpu_seconds), 0), coalesce(sum(x.gpu_seconds) FILTER (WHERE NOT x.told), 0),
           coalesce(sum(x.wall), 0),
           (SELECT coalesce(extract(epoch FROM coalesce(%(end)s::timestamptz, %(cut)s)
                                               - min(coalesce(j.eligible, j.submit)))::bigint, 0)
            FROM jobs_job j WHERE j.id = %(run)s OR (j.run = %(run)s AND j.run_name <> ''))
    FROM (
        SELECT a.state, a.end_at, a.gpu_seconds, s.held, s.nodes, s.wall,
               g.attempt IS NOT NULL AS told, g.rolled_back_seconds AS rolled_back
        FROM jobs_attempt a
        LEFT JOIN jobs_goodput g ON g.attempt = a.id
        CROSS JOIN LATERAL (
            SELECT sum(q.seconds * q.gpus) AS held, sum(q.seconds * q.nodes) AS nodes, sum(q.seconds) AS wall
            FROM (SELECT greatest(0, extract(epoch FROM coalesce(y.end_at, %(cut)s) - y.start_at))::bigint AS seconds,
                         y.gpus, y.nodes
                  FROM jobs_segment y WHERE y.attempt = a.id) q) s
        WHERE a.run = %(run)s) x"""


_TOLD: Final = """
    SELECT coalesce(sum(productive), 0), coalesce(sum(allocated), 0) FROM ({facts}) AS f WHERE {condition}"""


@dataclass(frozen=True, slots=True)
class Loss:
    """What an interval between saves (seconds) is expected to cost: shares of the time. now: it is the run's own."""

    interval: float
    saving: float
    failing: float
    word: str

    @property
    def total(self) -> float:
        """Both together."""
        return self.saving + self.failing


@dataclass(frozen=True, slots=True)
class Advice:
    """How often a run should save, seconds throughout. refused: why none can be given; then the rest may be None.

    node_days, failures: what the rate was measured by. mttf: to a failure of the whole run, with the 90 % interval.
    others: state -> ends that are no failures and lost work, in `ran` seconds of time; mtto: to one of them, None where
    there was none. mtti: to a failure or one of them, which the interval is weighed with. young, daly: the intervals by
    both rules. saving: GPU-seconds that the best interval would have saved, where it is not now's.
    """

    refused: str
    failures: int = 0
    others: Mapping[str, int] = field(default_factory=dict)
    ran: int = 0
    node_days: float = 0.0
    mttf: float | None = None
    mttf_low: float | None = None
    mttf_high: float | None = None
    mtto: float | None = None
    mtti: float | None = None
    blocking: float | None = None
    interval: float | None = None
    young: float | None = None
    daly: float | None = None
    band: rules.Band | None = None
    restart: float = 0.0
    saving: int = 0
    losses: Sequence[Loss] = ()


@dataclass(frozen=True, slots=True)
class RunGoodput:
    """Where the GPU-seconds of a run went until an instant. parts add up to `told`; told and untold to `allocated`.

    attempts: how many there are; rows: of the instrumented ones. productive, rolled_back: seconds of time.
    """

    parts: Mapping[str, int]
    allocated: int
    told: int
    untold: int
    attempts: int
    rows: Sequence[Goodput]
    productive: int
    rolled_back: int
    ettr: float | None
    advice: Advice

    @property
    def goodput(self) -> float | None:
        """Productive over instrumented GPU-seconds; None where there are none."""
        return self.parts["productive"] / self.told if self.told else None


def goodput(scope: Scope) -> QuerySet[Goodput]:
    """Instrumented attempts with `project`: where their account belonged on the day they started."""
    return _placed(Goodput.objects.all(), scope).order_by("-start", "attempt")


def checkpoints(scope: Scope) -> QuerySet[Checkpoint]:
    """Saves and restores with the project of their attempt."""
    return _placed(Checkpoint.objects.all(), scope).order_by("-position")


def _placed(rows: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
    rows = with_project(rows, F("start"))
    return rows if scope.projects is None else inside(rows, F("start"), scope.projects)


def tails(rows: Collection[Goodput], cut: datetime) -> None:
    """Count running attempts until `cut`: what passed since their programs told something last is `other`."""
    for row in rows:
        if row.end is None and cut > row.until:
            more = int((cut - row.until).total_seconds()) * row.gpus
            row.other += more
            row.allocated += more


def saves_of(run: Run, most: int) -> list[Checkpoint]:
    """The saves of a run that can be restored, in order of their states; the first `most`."""
    return list(Checkpoint.objects.filter(run=run.id, kind="committed").order_by("state")[:most])


def told_of(scope: Scope, params: Params, zone: ZoneInfo) -> tuple[int, int]:
    """Productive and all GPU-seconds of instrumented attempts in a window, as the report `goodput` counts them."""
    window = windows.window(replace(params, group_by=()), zone)
    arguments = window.arguments
    condition = windows.scoped(scope, params, arguments)
    with connection.cursor() as cursor:
        cursor.execute(_TOLD.format(facts=facts(window, told=True), condition=condition), arguments)
        productive, allocated = cursor.fetchone()
    return int(productive), int(allocated)


def of_run(run: Run, cut: datetime) -> RunGoodput | None:
    """Of a run that the caller may see; None where no program of it told anything."""
    rows = list(Goodput.objects.filter(run=run.id).order_by("start", "attempt"))
    if not rows:
        return None
    tails(rows, cut)
    with connection.cursor() as cursor:
        cursor.execute(_RUN, {"run": run.id, "cut": cut, "end": run.end, "failures": list(FAILURES),
                              "losing": list(LOSING)})  # fmt: skip
        count, _, untold, nodes, failures, others, *sums = cursor.fetchone()
    parts: dict[str, int] = {part: sum(getattr(row, part) for row in rows) for part in PARTS}
    told, productive = sum(row.allocated for row in rows), sum(row.productive_seconds for row in rows)
    ended, untold_ended, wall, since = map(int, sums)
    ratio = ettr(productive, ended, untold_ended, since)
    advice = _advised(run, rows, _Broken(failures, Counter(others), int(nodes), wall))
    return RunGoodput(parts, told + int(untold), told, int(untold), count, rows, productive,
                      sum(row.rolled_back_seconds for row in rows), ratio, advice)  # fmt: skip


# --- advice ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Broken:
    """How often a run was interrupted, and in how many node-seconds and seconds of time."""

    failures: int
    others: Counter[str]
    node_seconds: int
    seconds: int

    @property
    def nodes(self) -> float:
        """On average."""
        return self.node_seconds / self.seconds

    @property
    def mtto(self) -> float | None:
        """Mean time to another end that loses work."""
        return self.seconds / self.others.total() if self.others else None

    def mtti(self, mttf: float) -> float:
        """Mean time to a failure or another end that loses work: both rates added."""
        return 1 / (1 / mttf + self.others.total() / self.seconds)


def _advised(run: Run, rows: Sequence[Goodput], broken: _Broken) -> Advice:
    saves = Checkpoint.objects.filter(run=run.id, kind="committed").order_by("state")
    told = list(saves.values_list("attempt", "state", "blocking_ms", "total_ms"))
    if len(told) < FEWEST_SAVES:
        return Advice("Fewer than two saves are known, so nothing is known of what saving costs.")
    if not broken.node_seconds or not broken.seconds:
        return Advice("It is not known on how many nodes it ran.")
    blocking = median(ms or 0 for _, _, ms, _ in told) / 1000
    if not blocking:
        return Advice("Saving does not stop its steps, so there is no time to weigh: save as often as storage allows.")
    floor = median(ms or 0 for *_, ms in told) / 1000
    restart = median((row.init_restore + row.partial_gang_wait + row.detect + row.teardown) / max(1, row.gpus)
                     for row in rows)  # fmt: skip
    return _weighed(blocking, floor, restart, broken, _intervals(told), sum(row.allocated for row in rows))


def _intervals(told: Sequence[tuple[UUID, Any, int | None, int | None]]) -> list[float]:
    """Seconds from the state of one save to that of the next, inside attempts."""
    return [(two[1] - one[1]).total_seconds() for one, two in pairwise(told) if one[0] == two[0] and two[1] > one[1]]


def _weighed(
    blocking: float, floor: float, restart: float, broken: _Broken, intervals: Sequence[float], allocated: int
) -> Advice:
    rate = rules.failure_rate(broken.failures, broken.node_seconds / 86_400)
    mttf, low, high = (86_400 * rules.job_mttf(broken.nodes, value) for value in (rate.mean, rate.high, rate.low))
    mtti, interval = broken.mtti(mttf), median(intervals) if intervals else None
    band = rules.advise(blocking, mtti, restart, floor)
    others = dict(sorted(broken.others.items(), key=lambda one: (-one[1], one[0])))
    known = Advice("", rate.failures, others, broken.seconds, rate.node_days, mttf, low, high, broken.mtto, mtti,
                   blocking, interval, restart=restart)  # fmt: skip
    try:
        rules.expected_ettr(1, 1 / mtti, restart, band.best, blocking)
    except rules.OutOfRange as error:
        return replace(known, refused=f"It is interrupted too often for these rules: {error}.")
    shown = [(band.best, "best")] + ([(interval, "now")] if interval else [])
    shown += [(2 * band.best, "twice the best")]
    losses = [Loss(one, blocking / (one + blocking), (one / 2 + restart) / mtti, word) for one, word in shown]
    saving = 0
    if interval and not band.low <= interval <= band.high:
        best, now = (rules.efficiency(one, blocking, mtti, restart) for one in (band.best, interval))
        saving = max(0, round((best - now) * allocated))
    young, daly = rules.young_interval(blocking, mtti), rules.daly_interval(blocking, mtti)
    return replace(known, young=young, daly=daly, band=band, saving=saving, losses=losses)
