"""Tells Hallbook how a training goes. One file to copy into a training image: Python 3.8 or newer, no packages.

    import hallbook_run

    run = hallbook_run.start(run="atlas-70b")         # url, token and job from the environment
    run.gang_ready()                                  # all ranks are there
    for step, batch in enumerate(run.data(loader)):   # times the wait for data
        loss = train(batch)
        run.step(step, tokens=batch.numel(), loss=loss)
        if step % 1000 == 0:
            with run.checkpoint(step):
                save(...)
    run.finish()

No call raises or waits for a disk or a network. Reports go through memory to a spool on disk, from there to Hallbook,
each by a thread of its own. What cannot be sent now is sent later, by this process or by the next one that starts,
under the same ids, so that Hallbook takes each report once. Only rank 0 speaks. README.md beside this file says more.
"""

# One file and old Python on purpose: it is copied into images that others make.
# ruff: noqa: ARG002, BLE001, UP006, UP035

from __future__ import annotations

import argparse
import atexit
import collections
import contextlib
import email.utils
import functools
import http.client
import importlib.util
import json
import logging
import os
import queue
import random
import re
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, TypeVar, cast

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Checkpoint", "HallbookLightning", "HallbookTrainer", "Run", "start"]  # noqa: F822 - made when asked for

EVERY_SECONDS = 300.0
"""Steps are told together, at most this often; at a save, an interruption and the end also before."""
OPEN_SECONDS = 10.0
"""How often steps are noted on disk, told or not, for the case that the process is killed."""
SPOOL_BYTES = 16 * 1024 * 1024
SEGMENT_BYTES = 256 * 1024
REFUSED_BYTES = 4 * 1024 * 1024
MOST_WAITING = 10_000
"""Reports in memory, where neither a disk nor Hallbook takes them."""
BATCH = 500
POST_SECONDS = 10.0
EXIT_SECONDS = 5.0
LONGEST_WAIT = 300.0
PROGRESS = "run.progressed"

_log = logging.getLogger("hallbook_run")
_chance = random.Random()  # noqa: S311 - its own, so that a training's seeded numbers stay as they are
_runs: weakref.WeakSet[Run] = weakref.WeakSet()
_Event = Dict[str, Any]  # a CloudEvent
_F = TypeVar("_F", bound=Callable[..., Any])


def start(
    run: str | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    cluster: str | None = None,
    job: str | None = None,
    rank: int | None = None,
    speaks: bool | None = None,
    spool: str | os.PathLike[str] | None = None,
    signals: bool = True,
    every_seconds: float = EVERY_SECONDS,
    exit_seconds: float = EXIT_SECONDS,
    spool_bytes: int = SPOOL_BYTES,
    flop_per_token: int | None = None,
    peak_gflops: int | None = None,
    convention: str | None = None,
) -> Run:
    """Begin to report. What is not given comes from the environment (README.md); without a job it reports nothing.

    run: name of the training effort. cluster, job: as the scheduler names them. speaks: whether this process reports
    (default: rank 0 does). flop_per_token, peak_gflops (of one GPU), convention: for the use of the hardware (MFU).
    Never raises.
    """
    made = Run(every_seconds, exit_seconds)
    try:
        number = _rank() if rank is None else rank
        if number == 0 if speaks is None else speaks:
            found = _settings(run, url, token, cluster, job)
            said = {"flop_per_token": _count(flop_per_token), "peak_gflops": _count(peak_gflops),
                    "convention": _cut(convention, 160)}  # fmt: skip
            made._begin(found, spool, spool_bytes, {key: value for key, value in said.items() if value is not None})
            if signals:
                made.watch_signals()
    except _Unset as error:
        _log.warning("nothing is reported: %s", error)
    except Exception:
        _log.exception("nothing is reported")
    return made


# ---- settings ------------------------------------------------------------------------------------------------------


class _Unset(Exception):
    """What is missing to report anything."""


class _Settings(NamedTuple):
    run: str | None
    url: str
    token: Callable[[], str]
    cluster: str
    job: str
    restart: int


def _settings(run: str | None, url: str | None, token: str | None, cluster: str | None, job: str | None) -> _Settings:
    env = os.environ.get
    cluster = cluster or env("HALLBOOK_CLUSTER") or env("SLURM_CLUSTER_NAME")
    job = job or env("HALLBOOK_JOB") or env("SLURM_JOB_ID")
    if not cluster or not job:
        raise _Unset("no cluster and job: give cluster= and job=, or HALLBOOK_CLUSTER and HALLBOOK_JOB")
    url = (url or env("HALLBOOK_URL") or "").rstrip("/")
    if url and not url.startswith(("http://", "https://")):
        raise _Unset("the address of Hallbook must begin with http:// or https://")
    if not url:
        _log.warning("HALLBOOK_URL is not set: reports stay in the spool until `hallbook_run.py send`")
    restart = env("SLURM_RESTART_COUNT") or "0"
    number = int(restart) if restart.isdigit() else 0
    return _Settings(run or env("HALLBOOK_RUN") or None, url, _token(token), cluster, str(job), number)


def _token(given: str | None) -> Callable[[], str]:
    """Gives the token; a file is read anew each time, as it may be replaced while the training runs."""

    def read() -> str:
        if given or os.environ.get("HALLBOOK_TOKEN"):
            return given or os.environ["HALLBOOK_TOKEN"]
        path = os.environ.get("HALLBOOK_TOKEN_FILE")
        return Path(path).read_text(encoding="utf-8").strip() if path else ""

    return read


def _rank() -> int:
    """Rank of this process. A launcher inside a task (torchrun, mpirun) knows better than the task."""
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def _ranks() -> int:
    for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 1


def _root(given: str | os.PathLike[str] | None) -> Path | None:
    """Folder of all spools of this user: as told, else in the home, else in the folder for temporary files."""
    told = given or os.environ.get("HALLBOOK_SPOOL")
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    temporary = os.path.join(tempfile.gettempdir(), f"hallbook-{os.getuid() if hasattr(os, 'getuid') else ''}")
    for path in [told] if told else [os.path.join(state, "hallbook"), temporary]:
        with contextlib.suppress(OSError):
            os.makedirs(path, mode=0o700, exist_ok=True)
            seen = os.lstat(path)
            if told or not hasattr(os, "getuid") or seen.st_uid == os.getuid():
                return Path(path)
    _log.warning("no folder for the spool can be made: reports wait in memory only")
    return None


# ---- values --------------------------------------------------------------------------------------------------------


def _now() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


def _iso(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


def _cut(text: object, most: int) -> str | None:
    return None if text is None else str(text).replace("\0", " ")[:most]


def _count(value: Any) -> int | None:
    """A whole number that Hallbook can hold, of a number or a tensor of one; else None."""
    try:
        whole = round(float(value))
    except Exception:
        return None
    return whole if -(2**53) <= whole <= 2**53 else None


def _why(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _quietly(method: _F) -> _F:
    """Whatever goes wrong inside is logged once and never reaches the training."""

    @functools.wraps(method)
    def quiet(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except Exception:
            _trouble(method.__name__)
            return None

    return cast("_F", quiet)


_told: set[str] = set()


def _trouble(name: str) -> None:
    if name not in _told:
        _told.add(name)
        _log.warning("a report failed; further ones of this kind are not logged", exc_info=True)


# ---- what the training calls ---------------------------------------------------------------------------------------


class _Stretch:
    """Steps that are not told yet. Its id is that of the report it becomes."""

    __slots__ = ("data", "end", "id", "loss", "start", "step", "steps", "talk", "tokens")

    def __init__(self, id_: str, start: int, step: int | None) -> None:
        self.id, self.start, self.end, self.step = id_, start, start, step
        self.steps, self.data, self.talk = 0, 0.0, 0.0
        self.tokens: Any = None
        self.loss: Any = None


class Run:
    """The reports of one process of a job. Made by `start`; its methods may be called from any thread."""

    def __init__(self, every_seconds: float = EVERY_SECONDS, exit_seconds: float = EXIT_SECONDS) -> None:
        self._every, self._exit = int(every_seconds * 1000), exit_seconds
        self._courier: _Courier | None = None
        self._lock = threading.Lock()
        self._deferred: list[int] = []
        self._previous: dict[int, Any] = {}
        self._open: _Stretch | None = None
        self._last: int | None = None
        self._waited = 0.0
        self._ended = False
        self._number = 0
        self._began = _now()

    @property
    def speaks(self) -> bool:
        """Whether this process reports anything."""
        return self._courier is not None

    def _begin(self, found: _Settings, spool: Any, most: int, said: dict[str, Any]) -> None:
        self._who = {"cluster": found.cluster, "job_id": found.job}
        self._source, self._said = f"training:{found.cluster}", said
        self._mark = f"{found.job}.{found.restart}-{uuid.uuid4().hex[:12]}"
        root = _root(spool)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{found.cluster}-{self._mark}")
        self._courier = _Courier(_Spool(root and root / name, most), _Door(found.url, found.token, root), self._sketch)
        self._courier.begin()
        if found.run:
            self._tell("run.declared", self._began, run=found.run)
        self._hook, sys.excepthook = sys.excepthook, self._on_exception
        atexit.register(self._at_exit)
        _runs.add(self)

    def step(
        self, step: int, *, tokens: Any = None, loss: Any = None, data_seconds: float = 0.0,
        communication_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        """A step has ended. Costs about a microsecond; call it after each step, or after every so many.

        tokens: of all ranks in the steps since the last call. loss: a number or a tensor, which is looked at once per
        report only. data_seconds, communication_seconds: how long this step waited for data, or for other ranks.
        """
        if self._courier is None:
            return
        try:
            with self._lock:
                self._step(step, tokens, loss, data_seconds, communication_seconds)
        except Exception:
            _trouble("step")
        if self._deferred:
            self._redeliver()

    def _step(self, step: int, tokens: Any, loss: Any, data: float, talk: float) -> None:
        now, at, step = time.time_ns() // 1_000_000, self._open, int(step)
        if at is None:  # nobody said when the steps began: they do now
            self._open = self._stretch(now, step)
            self._last = now
            return
        done = 1 if at.step is None else step - at.step
        at.steps += done if done >= 0 else 1
        at.step, at.end = step, now if now > at.end else at.end
        at.data += data + self._waited
        at.talk += talk
        self._waited, self._ended = 0.0, False
        if tokens is not None:
            at.tokens = tokens if at.tokens is None else at.tokens + tokens
        if loss is not None:
            at.loss = loss.detach() if hasattr(loss, "detach") else loss
        self._last = at.end
        if at.end - at.start >= self._every:
            self._close()

    def data(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same batches; the time that each is waited for counts as `data_seconds` of the next step."""
        clock, ahead = time.perf_counter, iter(batches)
        while True:
            began = clock()
            try:
                batch = next(ahead)
            except StopIteration:
                return
            self._waited += clock() - began
            yield batch

    @_quietly
    def gang_ready(self, ranks: int | None = None, first: float | None = None) -> None:
        """All ranks are there. first: epoch seconds when the first one was (default: when this one started)."""
        with self._calm():
            first_ms = self._began if first is None else int(first * 1000)
            self._tell("gang.ready", _now(), ranks=_ranks() if ranks is None else int(ranks), first_ms=first_ms)

    @_quietly
    def restored(self, step: int, state_time: float | None = None, seconds: float | None = None) -> None:
        """The training goes on from a checkpoint. state_time: epoch seconds of its state, if known.

        seconds: how long loading took. The steps begin now, unless `begin` is called later.
        """
        with self._calm():
            state = None if state_time is None else int(state_time * 1000)
            self._tell("checkpoint.restored", _now(), step=int(step), state_ms=state, restore_ms=_ms(seconds))
            self._resume(_now(), int(step))

    @_quietly
    def begin(self, step: int | None = None) -> None:
        """The steps begin now, after the one numbered `step`. Without this they begin with the end of the first."""
        with self._calm():
            self._resume(_now(), None if step is None else int(step))

    def checkpoint(self, step: int, path_class: str | None = None, *, later: bool = False) -> Checkpoint:
        """A save, as a context around the part in which the steps stand still. Its state is that of now.

        later: the save goes on when the context ends; call `committed` or `failed` of what the context gives then.
        """
        return Checkpoint(self, step, path_class, later)

    @_quietly
    def saved(self, step: int, began: float, path_class: str | None = None, bytes: int | None = None) -> None:  # noqa: A002
        """A save has ended that began at `began` (epoch seconds), where no context can be put around it."""
        with self._calm():
            at, now = min(int(began * 1000), _now()), _now()
            self._stop(at)
            self._tell("checkpoint.started", at, step=int(step), path_class=_cut(path_class, 80))
            more = {"bytes": _count(bytes), "path_class": _cut(path_class, 80)}
            self._tell("checkpoint.committed", now, step=int(step), state_ms=at, blocking_ms=now - at,
                       total_ms=now - at, **more)  # fmt: skip
            self._resume(now, int(step))

    @_quietly
    def interrupted(self, kind: str = "error", why: object = "") -> None:
        """The training cannot go on, or was told to stop. kind: error, signal, hang, finished or exited."""
        with self._calm():
            self._end(kind, why)

    @_quietly
    def finish(self) -> None:
        """The training is done. Waits up to `exit_seconds` for the reports to be sent; what is left stays spooled."""
        self._leave("finished", "")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is None:
            self.finish()
        elif isinstance(error, Exception):
            self._leave("error", _why(error))
        else:
            self._leave("signal" if isinstance(error, KeyboardInterrupt) else "exited", _why(error))

    @_quietly
    def flush(self, seconds: float = EXIT_SECONDS) -> bool:
        """Wait until all is on disk and one try to send it was made. True if nothing is left."""
        courier = self._courier
        return courier is None or courier.flush(seconds)

    # ---- inside, under the lock ----

    def _calm(self) -> _Calm:
        return _Calm(self)

    def _stretch(self, start: int, step: int | None) -> _Stretch:
        return _Stretch(self._id(), start, step)

    def _id(self) -> str:
        self._number += 1
        return f"{self._mark}-{self._number}"

    def _tell(self, type_: str, at: int, **data: Any) -> None:
        if self._courier is not None:
            self._courier.put(self._cloud(self._id(), type_, at, data))

    def _cloud(self, id_: str, type_: str, at: int, data: dict[str, Any]) -> _Event:
        said = {**self._who, **{key: value for key, value in data.items() if value is not None}}
        return {"specversion": "1.0", "id": id_, "source": self._source, "type": type_, "time": _iso(at), "data": said}

    def _close(self) -> None:
        """Tell the steps so far; the next ones begin where they end."""
        at = self._open
        if self._courier is None or at is None or not at.steps:
            return
        self._open = self._stretch(at.end, at.step)
        self._courier.put(self._progressed(at), wake=False)

    def _resume(self, now: int, step: int | None) -> None:
        """Steps begin now."""
        if self._courier is not None:
            self._close()
            self._open = self._stretch(now, step)

    def _stop(self, now: int) -> None:
        """Tell the steps so far, with what the loop did after them; none are done until it is said."""
        if self._open is not None:
            self._open.end = max(self._open.end, now)
        self._close()
        self._open, self._ended = None, False

    def _progressed(self, at: _Stretch, sketch: bool = False) -> _Event:
        """The report of a stretch. A sketch is made beside the training and looks at no tensor."""
        end, period = at.end, max(0, at.end - at.start)
        plain = not sketch or isinstance(at.tokens, (int, float))
        data = {"day": _iso(end)[:10], "step": max(0, int(at.step or 0)), "steps": at.steps, "period_ms": period,
                "data_ms": min(period, round(at.data * 1000))}  # fmt: skip
        if at.talk and period:
            data["communication_ppm"] = min(1_000_000, round(at.talk * 1e9 / period))
        if plain and (tokens := _count(at.tokens)) is not None and tokens >= 0:
            data["tokens"] = tokens
        if not sketch and at.loss is not None:
            with contextlib.suppress(Exception):
                data["loss_micro"] = _count(float(at.loss) * 1e6)
        return self._cloud(at.id, PROGRESS, end, {**data, **self._said})

    def _sketch(self) -> _Event | None:
        """The report of the steps not told yet, as far as they got; read beside the training."""
        at = self._open
        return None if at is None or not at.steps else self._progressed(at, sketch=True)

    def _end(self, kind: str, why: object) -> None:
        self._close()
        self._tell("run.interrupted", _now(), kind=kind, last_ms=self._last, why=_cut(why, 400) or None)
        self._ended = True

    def _leave(self, kind: str, why: str) -> None:
        """Say how it ended, unless that is said already, and wait a moment for the reports to be sent."""
        if self._courier is None:
            return
        with self._calm():
            if not self._ended:
                self._end(kind, why)
        self.flush(self._exit)
        self._courier.rest()
        self._courier = None
        atexit.unregister(self._at_exit)
        for number, previous in self._previous.items():
            if threading.current_thread() is threading.main_thread() and signal.getsignal(number) == self._on_signal:
                signal.signal(number, previous)
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._hook

    # ---- ends that nobody announced ----

    @_quietly
    def watch_signals(self, *names: str) -> None:
        """Report SIGTERM and SIGUSR1, or the named signals, then do what was done about them before.

        Call it after a framework has set handlers of its own: some set none where they find one.
        """
        if self._courier is None or threading.current_thread() is not threading.main_thread():
            return
        for name in names or ("SIGTERM", "SIGUSR1"):
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) in (None, self._on_signal):
                continue
            self._previous[number] = signal.getsignal(number)
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._courier is not None:
            if not self._lock.acquire(False):  # it came inside one of our calls, which sends it again
                self._deferred.append(number)
                return
            try:
                self._end("signal", signal.Signals(number).name)
            except Exception:
                _trouble("signal")
            finally:
                self._lock.release()
        previous = self._previous.get(number)
        if callable(previous):
            previous(number, frame)
        elif previous == signal.SIG_DFL:
            self.flush(self._exit)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _redeliver(self) -> None:
        while self._deferred:
            os.kill(os.getpid(), self._deferred.pop())

    def _on_exception(self, kind: Any, error: BaseException, trace: Any) -> None:
        if not self._ended:
            self.interrupted("signal" if isinstance(error, KeyboardInterrupt) else "error", _why(error))
        self._hook(kind, error, trace)

    @_quietly
    def _at_exit(self) -> None:
        self._leave("exited", "the program ended without saying how")

    def _fall_silent(self) -> None:
        """In a fork: it has none of the threads, and the reports are its parent's."""
        self._courier, self._lock = None, threading.Lock()


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else max(0, round(seconds * 1000))


class _Calm:
    """Holds a run's lock; a signal that came meanwhile is sent again afterwards."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._run._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._run._lock.release()
        if self._run._deferred:
            self._run._redeliver()


def _silence() -> None:
    for run in list(_runs):
        run._fall_silent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence)


class Checkpoint:
    """A save. Leaving its context commits it, or fails it if an exception does; with `later` its end is told apart."""

    def __init__(self, run: Run, step: int, path_class: str | None, later: bool) -> None:
        self._run, self._later, self._done = run, later, False
        self._said: dict[str, Any] = {"step": step, "path_class": _cut(path_class, 80)}
        self._state = self._blocked = 0
        self._whole: int | None = None
        self.bytes: int | None = None
        """Size of what is saved; may be set inside the context."""

    def __enter__(self) -> Checkpoint:
        self._start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _trace: Any) -> None:
        self._unblock(error)

    @_quietly
    def committed(self, bytes: int | None = None) -> None:  # noqa: A002
        """The save is whole and can be restored from now on."""
        with self._run._calm():
            self.bytes = self.bytes if bytes is None else bytes
            self._whole = self._whole or _now()
            self._commit()

    @_quietly
    def failed(self, why: object = "") -> None:
        """The save was given up."""
        with self._run._calm():
            self._fail(why)

    @_quietly
    def _start(self) -> None:
        with self._run._calm():
            self._said["step"] = int(self._said["step"])
            self._state = _now()
            self._run._stop(self._state)
            self._run._tell("checkpoint.started", self._state, **self._said)

    @_quietly
    def _unblock(self, error: BaseException | None) -> None:
        with self._run._calm():
            now = _now()
            self._blocked = max(1, now - self._state)
            self._run._resume(now, self._said["step"])
            if error is not None:
                self._fail(_why(error))
                return
            self._whole = self._whole or (None if self._later else now)
            self._commit()

    def _commit(self) -> None:
        """Once the steps go on and the save is whole, whichever comes last."""
        if self._done or self._whole is None or not self._blocked:
            return
        self._done = True
        times = {"state_ms": self._state, "blocking_ms": self._blocked, "total_ms": max(0, self._whole - self._state)}
        self._run._tell("checkpoint.committed", self._whole, bytes=_count(self.bytes), **self._said, **times)

    def _fail(self, why: object) -> None:
        if self._done:
            return
        self._done, now = True, _now()
        blocked = self._blocked or now - self._state
        self._run._tell("checkpoint.failed", now, step=self._said["step"], state_ms=self._state, blocking_ms=blocked,
                        why=_cut(why, 400) or None)  # fmt: skip


# ---- the spool -----------------------------------------------------------------------------------------------------


class _Spool:
    """Folder of one process: numbered segments of reports, a lock held while it lives, a sketch of the open stretch.

    Each write is on disk (fsync) before it is sent. The sketch is not: it is for a process that is killed.
    Over `most` bytes the oldest run.progressed are left out and counted; other reports never are.
    """

    def __init__(self, folder: Path | None, most: int = SPOOL_BYTES, lock: int | None = None) -> None:
        self.folder, self.most, self._lock = folder, most, lock
        self.sizes: dict[Path, int] = {}
        self.memory: list[_Event] = []
        self.dropped = 0
        self.mutex = threading.RLock()
        self._active: Path | None = None
        self._taken: Path | None = None
        self._next = 0

    def open(self) -> None:
        """Make the folder and take its lock."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(mode=0o700)
            draft = self.folder / "lock.new"  # locked before another process can see it
            self._lock = os.open(str(draft), os.O_RDWR | os.O_CREAT, 0o600)
            _locked(self._lock)
            draft.rename(self.folder / "lock")
        except OSError as error:
            _log.warning("no spool at %s (%s): reports wait in memory only", self.folder, error)
            self.folder = None

    @classmethod
    def adopt(cls, folder: Path) -> _Spool | None:
        """The spool that a process left; None while it lives."""
        try:
            lock = os.open(str(folder / "lock"), os.O_RDWR)
        except OSError:
            return None
        if not _locked(lock) or not folder.is_dir():
            os.close(lock)
            return None
        found = cls(folder, lock=lock)
        found.sizes = {path: path.stat().st_size for path in sorted(folder.glob("*.ndjson"))}
        found._next = 1 + max((int(path.stem) for path in found.sizes), default=-1)
        with contextlib.suppress(OSError):
            found._settle_sketch(folder / "open.json")
        return found

    def _settle_sketch(self, sketch: Path) -> None:
        """The steps that a killed process had not told become a report, unless it was telling them just then."""
        told = {event["id"] for path in self.sizes for event in _read(path)}
        events = [event for event in _read(sketch) if event["id"] not in told]
        if events:
            self.append(events)
            self._active = None
        if not self.memory:
            sketch.unlink()

    def append(self, events: list[_Event]) -> None:
        """Write reports; those that no disk takes wait in memory."""
        with self.mutex:
            for event in events:
                if event["type"] == PROGRESS and self.dropped:
                    event["data"]["dropped"] = event["data"].get("dropped", 0) + self.dropped
                    self.dropped = 0
            try:
                self._write(self._segment(), b"".join(_line(event) for event in events))
            except OSError:
                self._active = None
                self.memory += events
            self._bound()

    def _segment(self) -> Path:
        """The segment that is written to. Raises OSError where there is no folder."""
        if self.folder is None:
            raise OSError("no folder")
        if self._active is None or self.sizes.get(self._active, 0) >= min(SEGMENT_BYTES, self.most // 8):
            self._active = self.folder / f"{self._next:06d}.ndjson"
            self._next += 1
        return self._active

    def _write(self, path: Path, body: bytes) -> None:
        file = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        size = self.sizes.get(path, 0)
        try:
            if os.write(file, body) != len(body):
                raise OSError("the disk is full")
            os.fsync(file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            raise
        finally:
            os.close(file)
        self.sizes[path] = size + len(body)

    def sketch(self, event: _Event | None) -> None:
        """Note the open stretch, or forget it; called after the reports before it are written."""
        if self.folder is None:
            return
        path = self.folder / "open.json"
        with contextlib.suppress(OSError):
            if event is None:
                path.unlink()
                return
            if self.dropped:
                event["data"]["dropped"] = self.dropped
            draft = path.with_suffix(".new")
            draft.write_bytes(_line(event))
            draft.replace(path)

    def take(self) -> tuple[Path | None, list[_Event]]:
        """The oldest reports and the segment they are in, which is written to no more. Raises OSError."""
        with self.mutex:
            if not self.sizes:
                return None, self.memory[:BATCH]
            self._taken = min(self.sizes)
            if self._taken == self._active:
                self._active = None
            try:
                return self._taken, _read(self._taken)
            except FileNotFoundError:  # another process took this spool for left, and has sent it
                return self._taken, []

    def sent(self, segment: Path | None, events: list[_Event]) -> None:
        """These are Hallbook's now."""
        with self.mutex:
            if segment is None:
                gone = {event["id"] for event in events}
                self.memory = [event for event in self.memory if event["id"] not in gone]
                return
            with contextlib.suppress(OSError):
                segment.unlink()
            self.sizes.pop(segment, None)

    def let_go(self) -> None:
        """Nothing is on its way any more."""
        self._taken = None

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self.sizes and not self.memory

    def close(self) -> None:
        """Let go of the folder, and remove it if nothing is left in it."""
        if self.folder is not None and self.empty:
            with contextlib.suppress(OSError):
                for name in ("open.json", "lock"):
                    with contextlib.suppress(FileNotFoundError):
                        (self.folder / name).unlink()
                self.folder.rmdir()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _bound(self) -> None:
        for path in sorted(self.sizes):
            if sum(self.sizes.values()) <= self.most:
                break
            if path != self._taken:
                self._thin(path)
        if len(self.memory) > MOST_WAITING:
            kept, gone = _without_progress(self.memory)
            over = max(0, len(kept) - MOST_WAITING)
            self.memory, self.dropped = kept[over:], self.dropped + gone + over

    def _thin(self, path: Path) -> None:
        """Rewrite a segment without its progress."""
        draft = path.with_suffix(".new")
        with contextlib.suppress(OSError):
            kept, gone = _without_progress(_read(path))
            if not gone:
                return
            body = b"".join(_line(event) for event in kept)
            draft.write_bytes(body)
            draft.replace(path)
            self.sizes[path] = len(body)
            self.dropped += gone
            if path == self._active:
                self._active = None
            if not body:
                path.unlink()
                del self.sizes[path]


def _line(event: _Event) -> bytes:
    return json.dumps(event, separators=(",", ":"), allow_nan=False, default=str).encode() + b"\n"


def _read(path: Path) -> list[_Event]:
    """The reports of a file. A line that a crash cut off was not whole when it happened, and is passed over."""
    found = []
    for line in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and {"id", "type", "data"} <= event.keys():
                found.append(event)
    return found


def _without_progress(events: list[_Event]) -> tuple[list[_Event], int]:
    kept = [event for event in events if event["type"] != PROGRESS]
    gone = [event for event in events if event["type"] == PROGRESS]
    return kept, sum(1 + event["data"].get("dropped", 0) for event in gone)


def _locked(file: int) -> bool:
    """Take the lock of a spool; where the file system has none, a spool untouched for two minutes counts as left."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        except OSError:
            pass
    return time.time() - os.fstat(file).st_mtime > 120


# ---- the way to Hallbook -------------------------------------------------------------------------------------------


class _Later(Exception):
    """Hallbook does not take it now. wait: seconds that it asked for; slow: it will not be different soon."""

    def __init__(self, why: str, wait: float = 0.0, slow: bool = False) -> None:
        super().__init__(why)
        self.wait, self.slow = wait, slow


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the address it was given for and nowhere else."""

    def redirect_request(self, *_args: Any, **_options: Any) -> None:
        return None


class _Door:
    """POST /api/v1/events. What Hallbook refuses for good is kept in refused.ndjson and logged once per reason."""

    def __init__(self, url: str, token: Callable[[], str], root: Path | None) -> None:
        self.url, self._token, self.root = url, token, root
        self._opener = urllib.request.build_opener(_NoRedirect)
        self.refused = 0

    def offer(self, events: list[_Event]) -> None:
        """Send reports. Raises _Later unless each was taken, known already or refused for good."""
        status, headers, answer = self._post(b"".join(_line(event) for event in events))
        if status in (200, 422) and self._settled(events, answer):
            return
        if status in (400, 413, 422):
            self._halve(events, status, answer)
            return
        if status == 200:
            raise _Later("what answers at this address is not Hallbook", slow=True)
        reason = {401: "the token is not valid", 403: "the token may not write events (events:write)"}.get(status)
        slow = status < 500 and status != 429
        raise _Later(reason or f"the answer was {status}", _retry_after(headers.get("Retry-After")), slow)

    def _post(self, body: bytes) -> tuple[int, Any, bytes]:
        try:
            request = urllib.request.Request(  # noqa: S310 - the scheme is checked when it is set
                f"{self.url}/api/v1/events?results=rejected", body, method="POST",
                headers={"Authorization": f"Bearer {self._token()}", "Content-Type": "application/x-ndjson",
                         "User-Agent": "hallbook_run/1"},
            )  # fmt: skip
            with self._opener.open(request, timeout=POST_SECONDS) as answer:
                return answer.status, answer.headers, answer.read(SPOOL_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read(65536)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _Later(f"{type(error).__name__}: {error}") from None

    def _settled(self, events: list[_Event], answer: bytes) -> bool:
        """Whether the answer accounts for each report; those that were refused are kept apart."""
        try:
            said = json.loads(answer)
            counted = said["accepted"] + said["duplicate"] + said["rejected"]
            refused = [one for one in said["results"] if one["status"] == "rejected"]
            if counted != len(events) or len(refused) != said["rejected"]:
                return False
            for one in refused:
                self._set_aside(events[one["index"]], one.get("code", ""), one.get("pointer"), one.get("text", ""))
        except (ValueError, KeyError, TypeError, IndexError):
            return False
        return True

    def _halve(self, events: list[_Event], status: int, answer: bytes) -> None:
        if len(events) == 1:
            self._set_aside(events[0], str(status), None, answer[:400].decode("utf-8", "replace"))
            return
        half = len(events) // 2
        self.offer(events[:half])
        self.offer(events[half:])

    def _set_aside(self, event: _Event, code: str, pointer: str | None, text: str) -> None:
        self.refused += 1
        path = self.root / "refused.ndjson" if self.root else None
        key = f"{event['type']} {code} {pointer}"
        if key not in _told:
            _told.add(key)
            _log.warning("Hallbook refused a %s (%s at %s: %s); kept in %s", event["type"], code, pointer, text, path)
        with contextlib.suppress(OSError):
            if path and (not path.exists() or path.stat().st_size < REFUSED_BYTES):
                line = _line({"code": code, "pointer": pointer, "text": text, "event": event})
                file = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                try:
                    os.write(file, line)
                finally:
                    os.close(file)


def _retry_after(text: str | None) -> float:
    """Seconds that an answer asks to wait, an hour at most."""
    if not text:
        return 0.0
    try:
        asked = float(text)
    except ValueError:
        try:
            asked = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, IndexError):
            return 0.0
    return min(max(asked, 0.0), 3600.0)


class _Courier:
    """Two threads: one takes reports from the training to the spool, the other from the spool to Hallbook."""

    def __init__(self, spool: _Spool, door: _Door, sketch: Callable[[], _Event | None]) -> None:
        self._spool, self._door, self._sketch = spool, door, sketch
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()  # its put may be called inside a signal handler
        self._quiet: collections.deque[_Event] = collections.deque()
        self._wake = threading.Event()
        self._flushes: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()
        self._lost = 0
        self._failures, self._not_before, self._asked = 0, 0.0, 0.0
        self._left: list[_Spool] = []
        self._over, self._closed = False, threading.Event()
        self._sketched: Any = None

    def begin(self) -> None:
        """Start both threads: the second one once the spool is open."""
        threading.Thread(target=self._write, name="hallbook_run to disk", daemon=True).start()

    def put(self, event: _Event, wake: bool = True) -> None:
        """Hand over a report. Never waits; what is too much is left out and counted.

        wake: it is written at once, else within OPEN_SECONDS: to wake a thread can cost a busy node's step a slice.
        """
        if self._queue.qsize() + len(self._quiet) >= MOST_WAITING * (1 if event["type"] == PROGRESS else 2):
            self._lost += 1
        elif wake:
            self._queue.put(event)
        else:
            self._quiet.append(event)

    def flush(self, seconds: float) -> bool:
        """Wait until what was handed over is written and one try to send it was made. True if all is sent."""
        done = threading.Event()
        self._queue.put(done)
        return done.wait(seconds) and self._spool.empty

    def rest(self) -> None:
        """End both threads and let go of the spool, if that is soon; a lock ends with its process anyhow."""
        self._queue.put(None)
        self._closed.wait(0.5)

    # ---- from memory to disk ----

    def _write(self) -> None:
        self._spool.open()
        threading.Thread(target=self._send, name="hallbook_run to Hallbook", daemon=True).start()
        while not self._over:
            try:
                self._write_some()
            except Exception:
                _trouble("write")

    def _write_some(self) -> None:
        items = self._waiting(OPEN_SECONDS)
        events = [item for item in items if isinstance(item, dict)]
        lost, self._lost = self._lost, 0
        with self._spool.mutex:  # what a sketch tells is never sent under the same id before the sketch is gone
            self._spool.dropped += lost
            if events:
                self._spool.append(events)
            self._note_open()
        for item in items:
            if isinstance(item, threading.Event):
                self._flushes.put(item)
        self._over = None in items
        if items:
            self._wake.set()

    def _waiting(self, seconds: float) -> list[Any]:
        """What was handed over, after waiting for one that wakes."""
        items: list[Any] = []
        with contextlib.suppress(queue.Empty):
            items.append(self._queue.get(timeout=seconds))
            while len(items) < BATCH:
                items.append(self._queue.get_nowait())
        quiet = [self._quiet.popleft() for _ in range(len(self._quiet))]
        events = sorted(quiet + [item for item in items if isinstance(item, dict)], key=lambda event: event["time"])
        return events + [item for item in items if not isinstance(item, dict)]

    def _note_open(self) -> None:
        event = self._sketch()
        seen = event and (event["id"], event["time"], event["data"]["steps"])
        if seen != self._sketched:
            self._spool.sketch(event)
            self._sketched = seen
        elif self._spool._lock is not None:
            with contextlib.suppress(OSError):
                os.utime(self._spool._lock)

    # ---- from disk to Hallbook ----

    def _send(self) -> None:
        try:
            self._left = _orphans(self._door.root)
        except Exception:
            _trouble("adopt")
        while not self._closed.is_set():
            over = self._over
            try:
                self._send_some(over)
            except Exception:
                _trouble("send")
                time.sleep(1.0)
            if over:
                self._spool.close()
                self._closed.set()

    def _send_some(self, over: bool) -> None:
        waits = (not self._spool.empty or bool(self._left)) and bool(self._door.url)
        if not over:
            self._wake.wait(max(0.01, self._not_before - time.monotonic()) if waits else 3600.0)
        self._wake.clear()
        flushes = [self._flushes.get() for _ in range(self._flushes.qsize())]
        now = time.monotonic()
        if self._door.url and (now >= self._not_before or (flushes and now >= self._asked)):
            self._try()
        for done in flushes:
            done.set()

    def _try(self) -> None:
        """Send all there is, the own reports first; after a failure wait longer each time, and not all alike."""
        try:
            for spool in [self._spool, *self._left]:
                _deliver(spool, self._door)
                if spool is not self._spool:
                    spool.close()
                    self._left.remove(spool)
        except _Later as later:
            self._postpone(later)
        except OSError as error:
            self._postpone(_Later(f"the spool cannot be read: {error}"))
        else:
            if self._failures:
                _log.warning("reports arrive again")
            self._failures, self._not_before, self._asked = 0, 0.0, 0.0

    def _postpone(self, later: _Later) -> None:
        self._failures += 1
        wait = min(LONGEST_WAIT, (60.0 if later.slow else 1.0) * 2 ** min(self._failures - 1, 12))
        now = time.monotonic()
        self._asked = now + later.wait
        self._not_before = now + max(later.wait, wait * _chance.uniform(0.5, 1.0))
        if self._failures == 1:
            _log.warning("reports wait in %s: %s", self._spool.folder, later)


def _deliver(spool: _Spool, door: _Door) -> int:
    """Send all of a spool, oldest first; gives how many. Raises _Later."""
    count = 0
    while True:
        segment, events = spool.take()
        if segment is None and not events:
            return count
        try:
            for begin in range(0, len(events), BATCH):
                door.offer(events[begin : begin + BATCH])
            spool.sent(segment, events)
        finally:
            spool.let_go()
        count += len(events)


def _orphans(root: Path | None) -> list[_Spool]:
    """Spools that processes of this user left with something in them, now ours."""
    if root is None:
        return []
    return [found for path in sorted(root.glob("*/lock")) if (found := _Spool.adopt(path.parent)) is not None]


# ---- frameworks: made when asked for, so that importing this file needs neither ------------------------------------


class _Hooks:
    """What both have in common. run: one that was started by the caller, who finishes it; options: of `start`."""

    def __init__(self, run: Run | None = None, tokens: Callable[[Any], Any] | None = None, **options: Any) -> None:
        super().__init__()
        self._given, self._options, self._tokens = run, options, tokens
        self._began = time.time()
        self._run: Any = None  # started where the training runs: a callback may be pickled on its way there
        self._mark = time.time()
        self._waited = 0.0
        self._loss: Any = None

    def _start(self, rank: int, ranks: int, signals: bool) -> None:
        self._run = self._given or start(rank=rank, signals=signals, **self._options)
        self._run.gang_ready(ranks, self._began)

    def _finish(self) -> None:
        if self._given is None:
            self._run.finish()

    def _touch(self) -> None:
        self._mark = time.time()

    def _fetched(self) -> None:
        self._waited = max(0.0, time.time() - self._mark)


class _LightningHooks(_Hooks):
    """Methods of a Lightning callback. tokens: gives the tokens of a batch, of all ranks.

    Saves are seen by standing around `trainer.save_checkpoint`; those of weights alone are none one can go on from.
    """

    _restored = False
    _undo: Callable[[], None] | None = None

    @_quietly
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """All ranks are there."""
        if stage == "fit":
            self._start(trainer.global_rank, trainer.world_size, signals=False)
            self._stand_around(trainer)

    def _stand_around(self, trainer: Any) -> None:
        save, inner = trainer.save_checkpoint, getattr(trainer.strategy.checkpoint_io, "checkpoint_io", None)
        pending: list[Any] = []
        """Saves that go on in a thread of Lightning's (AsyncCheckpointIO), which does one after another."""

        def around(filepath: Any, weights_only: Any = None, *args: Any, **options: Any) -> None:
            if weights_only:
                save(filepath, weights_only, *args, **options)
                return
            with self._run.checkpoint(trainer.global_step, later=inner is not None) as saved:
                if inner is not None:
                    pending.append((saved, str(filepath)))
                save(filepath, weights_only, *args, **options)
                saved.bytes = _size(str(filepath))
            self._touch()

        def written(*args: Any, **options: Any) -> None:
            saved, path = pending.pop(0) if pending else (None, "")
            try:
                write(*args, **options)
            except BaseException as error:
                if saved:
                    saved.failed(_why(error))
                raise
            if saved:
                saved.committed(_size(path))

        def undo() -> None:
            trainer.__dict__.pop("save_checkpoint", None)
            if inner is not None:
                inner.__dict__.pop("save_checkpoint", None)

        trainer.save_checkpoint, self._undo = around, undo
        if inner is not None:
            write, inner.save_checkpoint = inner.save_checkpoint, written

    @_quietly
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """A checkpoint is loaded; told once the steps begin."""
        self._restored = True

    @_quietly
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Lightning has set its signal handlers by now; it sets none where it finds one."""
        if self._given is None:
            self._run.watch_signals()
        if self._restored:
            self._run.restored(trainer.global_step)
        self._run.begin(trainer.global_step)
        self._touch()

    @_quietly
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """The batch is there."""
        self._fetched()

    @_quietly
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A step has ended, or a part of one where gradients are accumulated."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        tokens = self._tokens(batch) if self._tokens else None
        self._run.step(trainer.global_step, tokens=tokens, loss=loss, data_seconds=self._waited)
        self._touch()

    @_quietly
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Waiting for data begins anew."""
        self._touch()

    @_quietly
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The training ends by an exception."""
        kind = "error" if isinstance(exception, Exception) else "signal"
        self._run.interrupted(kind, _why(exception))

    @_quietly
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """The training is done."""
        if stage == "fit":
            if self._undo is not None:
                self._undo()
            self._finish()


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path) if os.path.isfile(path) else None
    except OSError:
        return None


class _TrainerHooks(_Hooks):
    """Methods of a callback for the Trainer of transformers.

    Tokens are those that it counts itself (include_num_input_tokens_seen), the loss is the last that it logged. A save
    is told when it has ended: it began when the last thing before it was done. `on_save` alone is not told its size.
    """

    _seen = 0

    @_quietly
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All ranks are there, and a checkpoint is loaded if there is one to go on from."""
        self._start(args.process_index, args.world_size, signals=True)
        if state.global_step:
            self._run.restored(state.global_step)
        self._seen = int(getattr(state, "num_input_tokens_seen", 0) or 0)
        self._run.begin(state.global_step)
        self._touch()

    @_quietly
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The batches of a step are there."""
        self._fetched()

    @_quietly
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step has ended."""
        seen = int(getattr(state, "num_input_tokens_seen", 0) or 0)
        tokens, self._seen = seen - self._seen or None, seen
        self._run.step(state.global_step, tokens=tokens, loss=self._loss, data_seconds=self._waited)
        self._touch()

    @_quietly
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """The mean loss since the last time."""
        self._loss = (logs or {}).get("loss", self._loss)
        self._touch()

    @_quietly
    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A save begins after this, if there is one."""
        self._touch()

    @_quietly
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A save has ended."""
        if not getattr(args, "save_only_model", False):
            self._run.saved(state.global_step, self._mark)
        self._touch()

    @_quietly
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The training is done."""
        self._finish()


def __getattr__(name: str) -> Any:
    """HallbookLightning and HallbookTrainer, made of the frameworks' own classes on first use."""
    if name == "HallbookLightning":
        lightning = importlib.util.find_spec("lightning")
        base = importlib.import_module("lightning.pytorch" if lightning else "pytorch_lightning").Callback
        hooks: type = _LightningHooks
    elif name == "HallbookTrainer":
        base, hooks = importlib.import_module("transformers").TrainerCallback, _TrainerHooks
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = type(name, (hooks, base), {"__module__": __name__, "__doc__": hooks.__doc__})
    globals()[name] = made
    return made


# ---- by hand -------------------------------------------------------------------------------------------------------


def main(words: list[str] | None = None) -> int:
    """`hallbook_run.py send`: send what ended processes left in the spool, from a machine that reaches Hallbook."""
    parser = argparse.ArgumentParser(description="Send the reports that ended trainings left in the spool.")
    parser.add_argument("command", choices=["send"])
    parser.add_argument("--spool", help="folder (default: HALLBOOK_SPOOL, else the one in the home)")
    parser.add_argument("--url", default=os.environ.get("HALLBOOK_URL", ""))
    given = parser.parse_args(words)
    if not given.url.startswith(("http://", "https://")):
        parser.error("give --url or HALLBOOK_URL, beginning with http:// or https://")
    root = _root(given.spool)
    door, count, left = _Door(given.url.rstrip("/"), _token(None), root), 0, 0
    for spool in _orphans(root):
        try:
            count += _deliver(spool, door)
        except (_Later, OSError) as later:
            left += 1
            print(f"{spool.folder}: {later}", file=sys.stderr)
        spool.close()
    print(f"{count} reports sent, {door.refused} of them refused; spools left: {left}")
    return 1 if left or door.refused else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    sys.exit(main())
