"""States of what ran as people read them: a word, a shape with a colour, and what an exit code means."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

__all__ = ["STATES", "Shown", "cause", "explain_exit", "of"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A state: its word, the class of its shape and colour, and what ended an attempt in it."""

    word: str
    css: str
    cause: str


STATES: Final = {
    "PENDING": Shown("waiting", "s-wait", ""),
    "RUNNING": Shown("running", "s-run", ""),
    "COMPLETED": Shown("completed", "s-done", "The program ended by itself with exit code 0."),
    "FAILED": Shown("failed", "s-fail", "The program ended with an error."),
    "NODE_FAIL": Shown("node failed", "s-node", "A node of it failed or stopped to answer."),
    "OUT_OF_MEMORY": Shown("out of memory", "s-fail", "It used more memory than it was given."),
    "TIMEOUT": Shown("timed out", "s-limit", "It reached its time limit."),
    "DEADLINE": Shown("missed deadline", "s-limit", "It reached the deadline that its user set."),
    "CANCELLED": Shown("cancelled", "s-stop", "A person or a program cancelled it."),
    "PREEMPTED": Shown("preempted", "s-again", "A job of higher priority took its place."),
    "REQUEUED": Shown("requeued", "s-again", "It was put back into the queue."),
    "REQUEUE_HOLD": Shown("requeued, held", "s-again", "It was put back into the queue and is held there."),
    "REQUEUE_FED": Shown("requeued elsewhere", "s-again", "It was put back into the queue of the federation."),
    "RESV_DEL_HOLD": Shown("held", "s-wait", "Its reservation was deleted."),
    "SPECIAL_EXIT": Shown("held after exit", "s-again", "It ended with the exit code that holds it in the queue."),
    "BOOT_FAIL": Shown("boot failed", "s-node", "A node did not start."),
    "REVOKED": Shown("revoked", "s-stop", "Another cluster of the federation took it over."),
    "SUSPENDED": Shown("suspended", "s-pause", ""),
    "STOPPED": Shown("stopped", "s-pause", ""),
    "CONFIGURING": Shown("starting", "s-run", ""),
    "SIGNALING": Shown("being signalled", "s-run", ""),
    "COMPLETING": Shown("ending", "s-run", ""),
    "STAGE_OUT": Shown("staging out", "s-run", ""),
    "RESIZING": Shown("resized", "s-again", "It was given another size."),
    "UNKNOWN": Shown("unknown", "s-odd", ""),
}
"""Slurm's state words, as the books hold them."""
_SIGNALS: Final = {
    "SIGKILL": "it was killed at once, by the scheduler or for want of memory",
    "SIGTERM": "it was asked to end",
    "SIGINT": "it was interrupted",
    "SIGABRT": "the program gave up by itself",
    "SIGSEGV": "the program touched memory that is not its own",
    "SIGBUS": "a memory access failed",
    "SIGFPE": "an arithmetic error",
    "SIGILL": "an instruction that the processor does not know",
    "SIGUSR1": "a signal that its user asked for, often before the time limit",
    "SIGUSR2": "a signal that its user asked for, often before the time limit",
    "SIGXCPU": "its CPU time limit was reached",
}
_COMMON: Final = {126: "the command could not be run", 127: "the command was not found"}


def of(state: str) -> Shown:
    """How a state is shown; one that is not known by its own word."""
    return STATES.get(state) or Shown(state.lower().replace("_", " ") or "unknown", "s-odd", "")


def cause(state: str) -> str:
    """What ended an attempt in this state, as a sentence; '' where that says nothing."""
    return of(state).cause


def explain_exit(code: int | None, number: int | None) -> str:
    """An exit code and signal in words: '1', '0 with signal 9 (SIGKILL): it was killed at once, ...'.

    A code above 128 is what shells make of a program that a signal ended. '' where no source tells.
    """
    if code is None and number is None:
        return ""
    if number:
        return f"{code or 0} with signal {number}{_signal(number)}"
    value = code or 0
    if value in _COMMON:
        return f"{value}: {_COMMON[value]}"
    return f"{value}, as of signal {value - 128}{_signal(value - 128)}" if 128 < value < 128 + 65 else str(value)


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    meaning = _SIGNALS.get(name)
    return f" ({name})" + (f": {meaning}" if meaning else "")
