"""What Slurm says of a node: one base state and any number of flags, never one word (pure).

Numbers: `slurm/slurm.h`, enum node_states (the low four bits) and NODE_STATE_* (the flags), as of 22.05 to 25.11.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from events.adapters.sacct_values import Bad, shown
from events.types.nodes import HoldOwner

__all__ = ["NodeState", "of_number", "of_words", "owner_of"]

_BASE_MASK: Final = 0xF
_BASES: Final = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
_FLAGS: Final = {
    0x10: "NET", 0x20: "RESERVED", 0x40: "UNDRAIN", 0x80: "CLOUD", 0x100: "RESUME", 0x200: "DRAIN",
    0x400: "COMPLETING", 0x800: "NOT_RESPONDING", 0x1000: "POWERED_DOWN", 0x2000: "FAIL", 0x4000: "POWERING_UP",
    0x8000: "MAINTENANCE", 0x10000: "REBOOT_REQUESTED", 0x20000: "REBOOT_CANCELED", 0x40000: "POWERING_DOWN",
    0x80000: "DYNAMIC_FUTURE", 0x100000: "REBOOT_ISSUED", 0x200000: "PLANNED", 0x400000: "INVALID_REG",
    0x800000: "POWER_DOWN", 0x1000000: "POWER_UP", 0x2000000: "POWER_DRAIN", 0x4000000: "DYNAMIC_NORM",
    0x8000000: "BLOCKED", 0x20000000: "EXTERNAL",
}  # fmt: skip
_KNOWN: Final = frozenset(_FLAGS.values())
_ALIASES: Final = {
    "MAINT": "MAINTENANCE", "NO_RESPOND": "NOT_RESPONDING", "RES": "RESERVED", "RESV": "RESERVED", "ALLOC": "ALLOCATED",
    "MIX": "MIXED", "UNK": "UNKNOWN", "COMP": "COMPLETING", "PLND": "PLANNED", "FUTR": "FUTURE", "INVALID": "UNKNOWN",
    "REBOOT": "REBOOT_REQUESTED", "PERFCTRS": "NET", "NETWORK_PERF_CTRS": "NET", "FAILING": "FAIL", "PERFCNTRS": "NET",
}  # fmt: skip
_WHOLE: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "DRAINED": ("IDLE", ("DRAIN",)), "DRAINING": ("MIXED", ("DRAIN",)), "DRAIN": ("", ("DRAIN",)),
    "DRNG": ("MIXED", ("DRAIN",)), "FAIL": ("", ("FAIL",)), "FAILING": ("MIXED", ("FAIL",)),
    "FAILG": ("MIXED", ("FAIL",)), "PLANNED": ("IDLE", ("PLANNED",)), "MAINT": ("IDLE", ("MAINTENANCE",)),
    "RESERVED": ("IDLE", ("RESERVED",)), "COMPLETING": ("IDLE", ("COMPLETING",)), "INVAL": ("", ("INVALID_REG",)),
    "POWERED_DOWN": ("IDLE", ("POWERED_DOWN",)), "POWERING_DOWN": ("IDLE", ("POWERING_DOWN",)),
    "POWERING_UP": ("IDLE", ("POWERING_UP",)), "REBOOT": ("IDLE", ("REBOOT_REQUESTED",)),
    "REBOOT_ISSUED": ("IDLE", ("REBOOT_ISSUED",)), "BLOCKED": ("IDLE", ("BLOCKED",)),
}  # fmt: skip
"""What stands for a base and a flag together where one word is all there is (sinfo, sacctmgr show events)."""
_MARKS: Final = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip
"""Marks that sinfo and scontrol put behind a state (sinfo, "NODE STATE CODES")."""


OWN_PREFIX: Final = "hallbook:"
"""Reasons that begin so are Hallbook's own; all others are never touched."""
_SCHEDULERS: Final = (
    "not responding", "node unexpectedly rebooted", "low realmemory", "low cpus", "low socket", "low tmpdisk", "gres/",
    "kill task failed", "prolog error", "epilog error", "batch job complete failure", "duplicate jobid", "cold-start",
    "resumetimeout", "none", "no reason", "invalid",
)  # fmt: skip
"""How reasons begin that slurmctld and slurmd give by themselves."""


class NodeState(NamedTuple):
    """base: one of UNKNOWN, DOWN, IDLE, ALLOCATED, ERROR, MIXED, FUTURE. flags: names of NODE_STATE_*, sorted."""

    base: str
    flags: tuple[str, ...]

    @property
    def works(self) -> bool:
        """Whether jobs still hold something of it, or are being cleaned up."""
        return self.base in ("ALLOCATED", "MIXED") or "COMPLETING" in self.flags


def of_number(value: int) -> NodeState:
    """The state behind the number that slurmdbd keeps: 514 is an idle node that is drained. Raises Bad `bad_state`."""
    base = value & _BASE_MASK
    if not 0 <= value < 1 << 32 or base >= len(_BASES):
        raise Bad("bad_state", f"{value} is no state of a node")
    return NodeState(_BASES[base], tuple(sorted(name for bit, name in _FLAGS.items() if value & bit)))


@lru_cache(maxsize=1024)
def of_words(words: tuple[str, ...]) -> NodeState:
    """The state behind words: `("idle", "DRAIN")`, `("IDLE+DRAIN",)`, `("draining",)`, `("idle*",)`.

    Flags that Slurm may have besides the known ones say nothing here. Raises Bad `bad_state` without a base state.
    """
    base, flags = "", set[str]()
    for place, word in enumerate(_split(words)):
        name, marks = _unmarked(word)
        flags |= marks
        name = name if place == 0 and name in _WHOLE else _ALIASES.get(name, name)
        if name in _BASES:
            base = base or name
        elif place == 0 and name in _WHOLE:
            base, more = _WHOLE[name]
            flags |= set(more)
        elif name in _KNOWN:
            flags.add(name)
        elif place == 0:
            raise Bad("bad_state", f"{shown(word)} is no state of a node")
    if not base and not flags:
        raise Bad("bad_state", "the node has no state")
    return NodeState(base or "IDLE", tuple(sorted(flags)))


def _split(words: Iterable[str]) -> list[str]:
    return [part.strip().upper() for word in words for part in word.split("+") if part.strip()]


def _unmarked(word: str) -> tuple[str, set[str]]:
    marks = set()
    while word and word[-1] in _MARKS:
        marks.add(_MARKS[word[-1]])
        word = word[:-1]
    return word, marks


def owner_of(reason: str, by: str) -> HoldOwner:
    """Who gave a reason, by how it begins and who set it."""
    text = reason.strip().lower()
    if text.startswith(OWN_PREFIX):
        return "policy"
    if by == "slurm" or not text or text.startswith(_SCHEDULERS):
        return "scheduler"
    return "operator"
