"""What the scheduler and the nodes make of what is submitted: one clock, one queue, gangs, faults.

First fit by priority with backfill around one reservation (EASY): the first gang that finds no place gets the nodes
that will be free first; others may use them only if they end before. A gang that has waited for long keeps its nodes
free. Preemption is by requeue, as in the partition `scavenge` of the real capture in tests/payloads/slurm.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from config.demo.hall import GPUS, Hall
from config.demo.load import DAY, HOUR, Ask
from config.demo.machines import Machines
from config.demo.truth import Array, Attempt, Fault, Job, Size, Why

__all__ = ["Queue"]

FIRST_JOB: Final = 20_001
DEPTH: Final = 120
"""Waiting jobs looked at in one pass (Slurm's bf_max_job_test is 100 by default)."""
PATIENCE: Final = 2 * HOUR
"""After this long a waiting gang keeps the nodes of its reservation free."""
REQUEUE_SECONDS: Final = 121
"""A requeued job may start after so long: the life of Slurm's credentials (reason BeginTime)."""
ARRAY_TASKS: Final = 20
"""Tasks of an array that its user lets run at once in a pod of 256 GPUs [assumed]."""
TIERS: Final = {"high": 0, "normal": 1, "low": 2}
FAULTS_A_DAY: Final = 0.004
"""Job-stopping faults a day of an 8-GPU node: 0.5 per 1,000 GPU-days (Llama 3: 0.47, B200 report: 0.36)."""
LEMONS, WORSE = 0.03, 12.0
"""Share of nodes that fail 12 times as often: LANL's worst 5 % of nodes have 22 to 25 % of the failures."""
REFAULT, SOON = 0.31, 7 * DAY
"""Share of returned nodes that fail again within a week (InfiniteHBD's trace)."""
OUTAGE: Final = (4.25, 1.15)
"""ln(minutes) of an outage (LANL, big clusters: median 57 to 75 min, p90 277 to 310)."""


class Queue:
    """The machines and who waits for them. `later` is called with each job that ends and gives further asks."""

    def __init__(self, hall: Hall, seed: int, begin: int, later: Callable[[Job, int], Iterable[Ask]]) -> None:
        self.hall, self.now, self._seed, self._later = hall, begin, seed, later
        self.jobs: list[Job] = []
        self.faults: list[Fault] = []
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count, self._next_id, self._next_record, self._due = 0, FIRST_JOB, 1, False
        self._waiting: list[tuple[int, int, int, Job]] = []
        self._machines = Machines(hall)
        self._of_user: defaultdict[str, int] = defaultdict(int)
        self._yielding = 0
        self._plan: tuple[int, frozenset[int], bool] | None = None
        self._top: Job | None = None
        self._noted: set[int] = set()
        self._start_faults(begin)

    # --- time ----------------------------------------------------------------------------------------------

    def at(self, time: int, what: Callable[..., None], *arguments: Any) -> None:
        """Do something at a time (epoch seconds), in the order of asking where times are equal."""
        self._count += 1
        heapq.heappush(self._heap, (max(time, self.now), self._count, what, arguments))

    def run(self, until: int) -> None:
        """Let everything before `until` happen. In pieces or at once: the same happens."""
        while self._heap and self._heap[0][0] < until:
            self.now, _, what, arguments = heapq.heappop(self._heap)
            what(*arguments)
        self.now = until

    def _wake(self) -> None:
        """A pass is due in 1 to 3 seconds, as Slurm's loop takes it."""
        if not self._due:
            self._due = True
            self.at(self.now + 1 + self.now % 3, self._pass)

    # --- submission ----------------------------------------------------------------------------------------

    def submit(self, ask: Ask) -> None:
        """Take an ask at its time."""
        self.at(ask.at, self._submit, ask)

    def _submit(self, ask: Ask) -> None:
        if ask.tasks:
            jobs = self._array(ask)
        else:
            jobs = [self._job(ask)]
            jobs[0].id, jobs[0].record = self._number(), self._record()
        if ask.part:
            self._two_parts(jobs[0], ask.part)
        delay = ask.held or ask.later
        for job in jobs:
            if delay:
                job.eligible = None if ask.held else self.now + delay
                self._note(job, "JobHeldUser" if ask.held else "BeginTime")
                self.at(self.now + delay, self._release, job)
            else:
                self._enqueue(job)
            if ask.gives_up:
                self.at(self.now + ask.gives_up, self._give_up, job)

    def _job(self, ask: Ask) -> Job:
        job = Job(ask, self.now, self.now, left=ask.work, outcome=ask.end, touched=self.now)
        self.jobs.append(job)
        return job

    def _array(self, ask: Ask) -> list[Job]:
        jobs = [self._job(ask) for _ in ask.tasks]
        most = max(4, self.hall.gpus * ARRAY_TASKS // 256)
        array = Array(self._number(), self._record(), jobs, len(jobs), most)
        for task, (job, (work, end)) in enumerate(zip(jobs, ask.tasks, strict=True)):
            job.left, job.outcome, job.array, job.task = work, end, array, task
        jobs[-1].id, jobs[-1].record = array.id, array.record
        return jobs

    def _two_parts(self, job: Job, ask: Ask) -> None:
        part = self._job(ask)
        part.id, part.record = self._number(), self._record()
        job.part, job.het, part.het = part, (job.id or 0, 0), (job.id or 0, 1)

    def _number(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _record(self) -> int:
        self._next_record += 1
        return self._next_record - 1

    def _release(self, job: Job) -> None:
        if job.end is None:
            job.eligible = job.touched = self.now
            self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        self._note(job, "Priority")
        self._count += 1
        insort(self._waiting, (TIERS[job.ask.qos], job.eligible or self.now, self._count, job))
        self._wake()

    def _give_up(self, job: Job) -> None:
        """Its user cancels it while it waits (never a task of an array: those are cancelled as a whole)."""
        if job.attempts or job.end is not None:
            return
        self._waiting = [entry for entry in self._waiting if entry[3] is not job]
        job.state, job.end, job.touched = "CANCELLED", self.now, self.now

    def _note(self, job: Job, reason: str) -> None:
        """It waits for this from now on; both parts of a job wait for the same.

        Only of the first that finds no room is it worked out when it will start, by the limits of what runs.
        """
        whys = job.whys
        shadow = self._plan[0] if self._plan and job is self._top else 0
        why = Why(self.now, reason, shadow if shadow > self.now else None)
        if whys and whys[-1].at == self.now:
            whys.pop()
        if not whys or whys[-1][1:] != why[1:]:
            whys.append(why)
        if job.part:
            self._note(job.part, reason)

    # --- the pass ------------------------------------------------------------------------------------------

    def _pass(self) -> None:
        self._due, self._plan, self._top = False, None, None
        full: set[int] = set()
        started: set[int] = set()
        self._noted.clear()
        tried = 0
        for entry in self._waiting:
            job = entry[3]
            if job.ask.gpus in full:
                self._waits(job, "Priority")
            elif limit := self._limit(job):
                self._waits(job, limit)
            elif tried == DEPTH:
                break
            else:
                tried += 1
                if self._try(job, full):
                    started.add(entry[2])
        if started:
            self._waiting = [entry for entry in self._waiting if entry[2] not in started]
            if tried == DEPTH:
                self._wake()

    def _waits(self, job: Job, reason: str) -> None:
        """What a pass says of a job that it leaves; of an array's tasks the first one left speaks for all."""
        if job.array is None or job.attempts:
            self._note(job, reason)
        elif job.array.id not in self._noted:
            self._noted.add(job.array.id)
            self._note(job, reason)

    def _limit(self, job: Job) -> str:
        """The rule that keeps a job waiting: its array's own, or a quarter of the hall for a user's normal jobs."""
        if job.array and job.array.running >= job.array.most:
            return "JobArrayTaskLimit"
        most = max(GPUS, self.hall.gpus // 4)
        over = job.ask.qos == "normal" and job.ask.gpus and self._of_user[job.ask.user] + job.ask.gpus > most
        return "QOSMaxGRESPerUser" if over else ""

    def _try(self, job: Job, full: set[int]) -> bool:
        """Start a job if there is room, also by sending off others; else note why it waits."""
        ask = job.ask
        core = self._machines.core_node((ask.part or ask).cpus)
        nodes: tuple[int, ...] | None = None if core is None or ask.gpus else (core,)
        if ask.gpus:
            nodes = self._machines.fit(ask.gpus, lambda node: self._open(node, ask.limit))
            if nodes is None and self._yielding and ask.qos != "low":
                nodes = self._take(ask.gpus)
        if nodes is None or (ask.part and core is None):
            self._wait(job, full, placed=nodes is not None)
            return False
        self._start(job, nodes)
        if job.part and core is not None:
            self._start(job.part, (core,))
        return True

    def _wait(self, job: Job, full: set[int], *, placed: bool) -> None:
        ask = job.ask
        if self._plan is None and ask.gpus >= GPUS and ask.qos != "low":
            self._reserve(job)
        self._waits(job, "Resources" if self._plan is None or job is self._top else "Priority")
        if ask.gpus and not placed and (ask.gpus < GPUS or self._machines.empty * GPUS < ask.gpus):
            full.add(ask.gpus)

    def _open(self, node: int, limit: int) -> bool:
        """Whether the reservation leaves a node to a job with such a limit."""
        if self._plan is None or node not in self._plan[1]:
            return True
        shadow, _, strict = self._plan
        return not strict and self.now + limit <= shadow

    def _reserve(self, job: Job) -> None:
        """The nodes that will be free first, by the limits of what runs there."""
        count = job.ask.gpus // GPUS
        if count > self.hall.gpu_nodes:
            return
        machines = self._machines
        ends = [(machines.drained(node, self.now), node) for node, up in enumerate(machines.up) if up]
        chosen = heapq.nsmallest(count, ends)
        if len(chosen) == count:
            strict = self.now - (job.eligible or self.now) > PATIENCE
            self._plan = chosen[-1][0], frozenset(node for _, node in chosen), strict
            self._top = job

    def _take(self, gpus: int) -> tuple[int, ...] | None:
        """Nodes for a request, after sending off jobs that yield to all others."""
        machines, need = self._machines, min(gpus, GPUS)
        fits = machines.with_room(need)
        one = (min(fits, key=machines.room),) if fits else None
        nodes = one if gpus < GPUS else machines.near(fits, gpus // GPUS)
        for node in nodes or ():
            for attempt in list(machines.on[node]):
                if attempt.job.ask.qos == "low" and machines.free(node) < need:
                    self._finish(attempt, "PREEMPTED")
        return nodes

    # --- start and end -------------------------------------------------------------------------------------

    def _start(self, job: Job, nodes: tuple[int, ...]) -> None:
        ask = job.ask
        attempt = self._begin(job, nodes, self._machines.masks(nodes, ask.gpus) if ask.gpus else (0,))
        self._machines.hold(attempt)
        self._count_use(ask, 1)
        if ask.shrink and ask.shrink < job.left:
            self.at(self.now + ask.shrink, self._shrink, attempt)

    def _count_use(self, ask: Ask, by: int) -> None:
        self._of_user[ask.user] += by * ask.gpus if ask.qos == "normal" else 0
        self._yielding += by if ask.qos == "low" else 0

    def _begin(self, job: Job, nodes: tuple[int, ...], masks: tuple[int, ...]) -> Attempt:
        if job.array:
            job.array.running += 1
            if not job.attempts:
                self._number_task(job, job.array)
        size = Size(self.now, nodes, masks, job.ask.cpus, job.record, job.submit)
        attempt = Attempt(job, len(job.attempts) + 1, job.submit, job.eligible or self.now, [size],
                          account=job.ask.account)  # fmt: skip
        pause = job.ask.pause[1] if job.ask.pause and job.ask.pause[0] < job.left else 0
        attempt.suspended = pause
        job.attempts.append(attempt)
        job.state, job.touched = "RUNNING", self.now
        self.at(self.now + job.left + pause, self._over, attempt)
        return attempt

    def _number_task(self, job: Job, array: Array) -> None:
        """A task gets a number of its own when it starts; the last one that waits keeps the array's."""
        array.waiting -= 1
        last = array.tasks[-1]
        if array.waiting == 0:
            if job is not last and last.id == array.id:
                raise AssertionError("the last task of an array starts last")
        else:
            job.id, job.record = self._number(), self._record()

    def _over(self, attempt: Attempt) -> None:
        if attempt.end is None:
            self._finish(attempt, attempt.job.outcome)

    def _finish(self, attempt: Attempt, state: str) -> None:
        """An attempt ends: its GPUs are free, and what follows from it is asked for."""
        job = attempt.job
        self._machines.release(attempt, attempt.sizes[-1])
        self._count_use(job.ask, -1)
        if job.array:
            job.array.running -= 1
        attempt.end, attempt.state, job.touched = self.now, state, self.now
        attempt.suspended = min(attempt.suspended, max(0, self.now - attempt.start - 1))
        job.state, job.end = state, self.now
        if job.part and job.part.attempts and job.part.attempts[-1].end is None:
            self._finish(job.part.attempts[-1], "COMPLETED" if state == "COMPLETED" else "CANCELLED")
        if state == "PREEMPTED" or (state == "NODE_FAIL" and job.het is None):
            self._requeue(job, attempt)
        for following in self._later(job, self.now):
            self.submit(following)
        self._wake()

    def _requeue(self, job: Job, attempt: Attempt) -> None:
        """The same job again; a run goes on from its last checkpoint, at most an hour back.

        Jobs that yield save what they have; all others begin again.
        """
        ran = self.now - attempt.start
        kept = ran - ran % HOUR if job.ask.run else ran if job.ask.qos == "low" else 0
        job.left = max(60, job.left - kept)
        job.submit, job.eligible, job.record = self.now, self.now + REQUEUE_SECONDS, self._record()
        job.state, job.end = "PENDING", None
        self._note(job, "BeginTime")
        self.at(job.eligible, self._enqueue, job)

    def _shrink(self, attempt: Attempt) -> None:
        """Half of the nodes are given back; the attempt goes on under a new accounting record."""
        size = attempt.sizes[-1]
        if attempt.end is not None or len(size.nodes) < 2:
            return
        keep = len(size.nodes) // 2
        given = Size(self.now, size.nodes[keep:], size.masks[keep:], 0, size.record, size.opened)
        self._machines.release(attempt, given)
        record = self._record()
        attempt.sizes.append(Size(self.now, size.nodes[:keep], size.masks[:keep], size.cpus // 2, record, self.now))
        attempt.job.record, attempt.job.touched = record, self.now
        self._wake()

    # --- faults --------------------------------------------------------------------------------------------

    def _start_faults(self, begin: int) -> None:
        """Each node has a random source of its own; the share of lemons raises the mean, which stays as published."""
        lemons = Random(f"{self._seed}/lemons").sample(
            range(self.hall.gpu_nodes), max(1, round(self.hall.gpu_nodes * LEMONS))
        )
        share = len(lemons) / self.hall.gpu_nodes
        rate = FAULTS_A_DAY * (1 - REFAULT) / (1 + share * (WORSE - 1))
        for node in range(self.hall.gpu_nodes):
            source = Random(f"{self._seed}/node/{node}")
            own = rate * (WORSE if node in lemons else 1)
            self.at(begin + int(source.expovariate(own) * DAY), self._fail, node, source, own)

    def _fail(self, node: int, source: Random, rate: float) -> None:
        self._machines.fail(node)
        back = self.now + max(120, int(source.lognormvariate(*OUTAGE) * 60))
        self.faults.append(Fault(node, self.now, back))
        for attempt in list(self._machines.on[node]):
            self._finish(attempt, "NODE_FAIL")
        self.at(back, self._return, node)
        soon = source.random() < REFAULT
        gap = source.random() * SOON if soon else source.expovariate(rate) * DAY
        self.at(back + 60 + int(gap), self._fail, node, source, rate)

    def _return(self, node: int) -> None:
        self._machines.back(node)
        self._wake()
