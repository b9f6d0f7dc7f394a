"""What the training programs of named runs do, to the millisecond, and what they tell of it.

An attempt: the first rank comes, then the others (the gang is ready), then a state is loaded, then steps are done until
something stops them. Every hour a state is saved: steps stand still for a minute, and the save is whole some minutes
later. Now and then steps wait for data. What stops them is noticed sooner or later, and taking down takes a while.

Programs of some teams tell nothing. Everything hangs on (seed, job, attempt) and on what was saved before. In 90 days
of a pod some 90 attempts tell about 61,000 events, most of them progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log2
from random import Random
from typing import Any, Final

from config.demo.hall import CLUSTER, GPUS
from config.demo.truth import Attempt, Job, Program, Save

__all__ = ["CONVENTION", "HELD_BACK", "PEAK_GFLOPS", "Programs", "events_of"]

SILENT: Final = frozenset({"vla-7b", "dream-5b"})
"""Bases of the runs whose programs tell nothing."""
SECOND: Final = 1000
HOUR_MS: Final = 3600 * SECOND
REPORT_MS: Final = 300 * SECOND
"""Progress is told about every five minutes."""
BLOCKING_MS: Final = 60 * SECOND
HELD_BACK: Final = 300
"""Seconds by which programs tell late. A fault is noticed faster, so that no step is told that was not done."""
SIZES: Final = {"atlas-70b": 840, "vit-22b": 264, "asr-xl": 96, "fold-3b": 36}
"""Gigabytes of a saved state: 12 bytes for each parameter."""
TOKENS_A_GPU: Final = {"atlas-70b": 32_768, "vit-22b": 65_536, "asr-xl": 131_072, "fold-3b": 131_072}
"""Tokens of a step for each GPU."""
FLOP: Final = {"atlas-70b": 420_000_000_000, "vit-22b": 132_000_000_000, "asr-xl": 48_000_000_000,
               "fold-3b": 18_000_000_000}  # fmt: skip
"""Floating point operations for each token: six for each parameter."""
PEAK_GFLOPS: Final = 989_400
CONVENTION: Final = "6N, dense BF16"
MFU: Final = (0.36, 0.52)
"""Use of the hardware on a node; each doubling of the nodes takes DOUBLED of it [assumed; 38 to 43 % are published]."""
DOUBLED: Final = 0.008
COMMUNICATION: Final = (12_000, 26_000)
"""Share of a stretch in communication on a node, parts per million; each doubling adds COMMUNICATED [assumed]."""
COMMUNICATED: Final = 7_000


@dataclass(slots=True)
class _Course:
    """The instants of one attempt (epoch milliseconds). stop: no step ends after it; None while it runs."""

    first_rank: int
    ready: int
    loaded: int
    step: int
    stop: int | None
    noticed: int | None


class Programs:
    """The programs of a world. Ended attempts are worked out once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._known: dict[tuple[int, int], Program] = {}

    def of(self, jobs: Iterable[Job], until: int) -> list[Program]:
        """Every program that tells of itself, as told at `until` (epoch seconds), run by run."""
        runs: dict[str, list[Attempt]] = {}
        for job in jobs:
            if job.ask.run and job.ask.run.rpartition("-r")[0] not in SILENT:
                runs.setdefault(job.ask.run, []).extend(job.attempts)
        return [program for attempts in runs.values() for program in self._run(attempts, until)]

    def _run(self, attempts: list[Attempt], until: int) -> list[Program]:
        """The attempts of one run, each from the last state that was saved before."""
        saved: Save | None = None
        found: list[Program] = []
        for attempt in sorted(attempts, key=lambda one: one.start):
            program = self._program(attempt, saved, until)
            saved = next((save for save in reversed(program.saves) if save.committed), saved)
            if found:
                found[-1].followed_from = program.took_up
            if program.told:
                found.append(program)
        return found

    def _program(self, attempt: Attempt, saved: Save | None, until: int) -> Program:
        key = (attempt.job.id or 0, attempt.number)
        if key not in self._known or attempt.end is None:
            program = _Telling(attempt, saved, Random(f"{self._seed}/program/{key[0]}/{key[1]}"), until).live()
            if attempt.end is None:
                return program
            self._known[key] = program
        return self._known[key]


class _Telling:
    """One attempt while its program is worked out: what was done, in order, and what was told."""

    def __init__(self, attempt: Attempt, saved: Save | None, random: Random, until: int) -> None:
        self._attempt, self._saved, self._random = attempt, saved, random
        self._base = attempt.job.ask.run.rpartition("-r")[0]
        self._gpus = attempt.sizes[0].gpus
        self._doubled = log2(max(1, self._gpus / GPUS))
        self._tokens = TOKENS_A_GPU[self._base] * self._gpus
        self._course = self._drawn()
        self._horizon = (until - HELD_BACK) * SECOND if attempt.end is None else attempt.end * SECOND
        self._program = Program(attempt, step_ms=self._course.step, tokens=self._tokens, flop=FLOP[self._base])
        self._step = saved.step if saved else 0

    def _drawn(self) -> _Course:
        """All that chance decides beforehand; drawn in one order, however it ends."""
        attempt, rng = self._attempt, self._random
        first = attempt.start * SECOND + rng.randrange(1 * SECOND, 8 * SECOND)
        ready = first + rng.randrange(10 * SECOND, 90 * SECOND)
        loaded = ready + rng.randrange(40 * SECOND, 120 * SECOND) + (75 * SECOND if self._saved else 0)
        step = self._step_ms(rng.uniform(*MFU))
        hang, crash = rng.randrange(60 * SECOND, 170 * SECOND), rng.randrange(5 * SECOND, 40 * SECOND)
        down = rng.randrange(5 * SECOND, 20 * SECOND)
        if attempt.end is None:
            return _Course(first, ready, loaded, step, None, None)
        noticed = attempt.end * SECOND - down
        late = {"NODE_FAIL": hang, "FAILED": crash, "OUT_OF_MEMORY": crash}.get(attempt.state, 0)
        return _Course(first, ready, loaded, step, noticed - late, noticed)

    def _step_ms(self, mfu: float) -> int:
        """How long a step takes: its operations over what the GPUs do of them in a second."""
        used = mfu - DOUBLED * self._doubled
        return round(self._tokens * FLOP[self._base] / (self._gpus * PEAK_GFLOPS * 1e9 * used) * SECOND)

    def live(self) -> Program:
        """The whole attempt, as far as it is told."""
        course, program = self._course, self._program
        begin = self._attempt.start * SECOND
        limit = self._horizon if course.stop is None else course.stop
        if course.ready > limit:
            return program
        self._say(course.first_rank, "run.declared", run=self._attempt.job.ask.run)
        self._say(course.ready, "gang.ready", ranks=self._attempt.sizes[0].gpus, first_ms=course.first_rank)
        program.did = [(begin, course.first_rank, "init_restore"), (course.first_rank, course.ready,
                       "partial_gang_wait")]  # fmt: skip
        if course.loaded <= limit:
            if self._saved:
                program.took_up = self._saved
                self._say(course.loaded, "checkpoint.restored", step=self._saved.step, state_ms=self._saved.state,
                          restore_ms=75 * SECOND)  # fmt: skip
            if self._work(limit):
                program.did.insert(2, (course.ready, course.loaded, "init_restore"))
        self._end()
        return program

    # --- steps and saves -----------------------------------------------------------------------------------

    def _work(self, limit: int) -> bool:
        """Stretches of steps and the saves between them, until `limit`. Whether any step was done."""
        course = self._course
        at = since = course.loaded
        steps = -(-REPORT_MS // course.step)
        while at + steps * course.step <= limit:
            at = self._stretch(at, steps)
            if at - since >= HOUR_MS:
                since, at = at, self._save(at, limit)
        rest = (limit - at) // course.step
        if course.stop is not None and rest > 0:
            at = self._stretch(at, rest)
        return self._step > (self._saved.step if self._saved else 0)

    def _stretch(self, at: int, steps: int) -> int:
        """So many steps; told at their end. Returns the end."""
        end, rng = at + steps * self._course.step, self._random
        waited = rng.randrange(5 * SECOND, 60 * SECOND) if rng.random() < 0.08 else rng.randrange(2 * SECOND)
        waited = min(waited, (end - at) // 2)
        communication = rng.randrange(*COMMUNICATION) + round(COMMUNICATED * self._doubled)
        self._step += steps
        self._program.did.append((at, end, "productive"))
        self._program.waited[end] = waited
        self._program.communicated[end] = communication
        self._program.last = end
        self._say(
            end, "run.progressed", day=f"{datetime.fromtimestamp(end // SECOND, UTC):%Y-%m-%d}", step=self._step,
            steps=steps, period_ms=end - at, data_ms=waited, tokens=steps * self._tokens,
            loss_micro=1_500_000 + 9_000_000_000 // (self._step + 900), communication_ppm=communication,
            flop_per_token=FLOP[self._base], peak_gflops=PEAK_GFLOPS, convention=CONVENTION,
        )  # fmt: skip
        return end

    def _save(self, at: int, limit: int) -> int:
        """A save of the state at `at`. Returns when steps go on."""
        total = BLOCKING_MS + self._random.randrange(60 * SECOND, 240 * SECOND)
        self._say(at, "checkpoint.started", step=self._step, path_class="pfs")
        if at + BLOCKING_MS > limit:
            return at + BLOCKING_MS
        whole = at + total <= limit - self._course.step  # before the last step ends, or it is not known to be whole
        self._program.did.append((at, at + BLOCKING_MS, "checkpoint_stall"))
        self._program.saves.append(Save(at, BLOCKING_MS, self._step, at + total if whole else None))
        if whole:
            self._say(
                at + total, "checkpoint.committed", step=self._step, state_ms=at, blocking_ms=BLOCKING_MS,
                total_ms=total, bytes=SIZES.get(self._base, 12) * 10**9, path_class="pfs",
            )  # fmt: skip
        return at + BLOCKING_MS

    def _end(self) -> None:
        """What comes after the last step, once it is over."""
        course, program = self._course, self._program
        if course.noticed is None or self._attempt.end is None:
            return
        for save in program.saves:
            if save.committed is None:
                self._say(course.noticed, "checkpoint.failed", step=save.step, state_ms=save.state,
                          blocking_ms=save.blocking)  # fmt: skip
        kind = {"COMPLETED": "finished", "CANCELLED": "signal", "TIMEOUT": "signal"}.get(self._attempt.state, "error")
        last = {} if program.last is None else {"last_ms": program.last}
        self._say(course.noticed, "run.interrupted", kind=kind, **last)
        program.noticed = course.noticed

    def _say(self, at: int, type_: str, **data: Any) -> None:
        attempt = self._attempt
        said = {"cluster": CLUSTER, "job_id": str(attempt.job.id), **data}
        self._program.told.append((at, type_, said))


def events_of(programs: Iterable[Program], after: int, until: int) -> Iterator[dict[str, Any]]:
    """What programs tell in (after, until], epoch seconds, as CloudEvents."""
    for program in programs:
        key = f"{program.attempt.job.id}.{program.attempt.number}"
        for at, type_, data in program.told:
            if after * SECOND < at <= until * SECOND:
                time = datetime.fromtimestamp(at // SECOND, UTC).replace(microsecond=at % SECOND * 1000)
                yield {"specversion": "1.0", "id": f"{key}/{type_}/{at}", "source": f"training:{CLUSTER}",
                       "type": type_, "time": time.isoformat(), "data": data}  # fmt: skip
