"""Configuring a cluster's fair share as people write it, and giving its shares back to Slurm as commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from events import queries as log
from events.actions import declare_cluster, say
from events.types.shares import FairshareConfigured
from jobs.fairshare import ROOT
from jobs.standing import Member

__all__ = ["BadSetting", "configure", "sacctmgr_commands", "seconds_of", "weights_from"]

_UNITS: Final = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NAMES: Final = {"cpu": "cpu", "gpu": "gpu", "gres/gpu": "gpu", "node": "node"}
_CLOCK: Final = re.compile(r"(?:(\d{1,5})-)?(\d{1,3})(?::(\d{1,2}))?(?::(\d{1,2}))?")


class BadSetting(ValueError):
    """A setting that cannot be used: which, and what is expected."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


def seconds_of(name: str, text: str) -> int:
    """Seconds from `604800`, `7d`, `12h`, `5min`, or as Slurm writes them: `7-0`, `00:05:00`. Raises BadSetting."""
    if (match := re.fullmatch(r"(\d{1,12})\s*(s|min|h|d|w)?", text)) is not None:
        return int(match[1]) * _UNITS[match[2] or ""]
    match = _CLOCK.fullmatch(text)
    if match is None or ("-" not in text and text.count(":") != 2):
        raise BadSetting(name, f"{text!r} is no length of time; write 604800, 7d, 12h, 5min, 7-0 or 00:05:00")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def weights_from(texts: Iterable[str]) -> tuple[str, ...]:
    """Weights per partition from `train=CPU=0.125,GRES/gpu=10`, as in TRESBillingWeights, `*` for all others.

    Raises BadSetting, also for what Hallbook does not count (memory, licenses).
    """
    found = []
    for text in texts:
        partition, _, parts = text.partition("=")
        weights: dict[str, int] = {}
        for part in parts.split(","):
            unit, _, value = part.rpartition("=")
            kind = _NAMES.get(unit.strip().lower())
            if kind is None or kind in weights:
                raise BadSetting("weights", f"{text!r}: {part!r} is not one of CPU=, GRES/gpu= and node=, once each")
            weights[kind] = _thousandths(text, value)
        found.append(f"{partition}=" + ",".join(f"{name}:{weights[name]}" for name in sorted(weights)))
    return tuple(found)


def _thousandths(text: str, value: str) -> int:
    try:
        exact = Decimal(value.strip()) * 1000
    except InvalidOperation:
        exact = Decimal("0.5")
    if exact != exact.to_integral_value() or exact < 0 or exact > 10**8:
        raise BadSetting("weights", f"{text!r}: {value!r} is no weight of 0 or more with at most three decimals")
    return int(exact)


def configure(config: FairshareConfigured, *, actor: str) -> int:
    """Append a configuration and declare its cluster; its position. Raises BadSetting."""
    declare_cluster(config.cluster, actor=actor)
    try:
        return say(config, type_="fairshare.configured", actor=actor)
    except ValueError as error:
        raise BadSetting("", str(error)) from None


def sacctmgr_commands(cluster: str, members: Sequence[Member]) -> list[str]:
    """One `sacctmgr` command per account and user that gives it the share it has here. Parents come first."""
    names = log.people(one.user for one in members)
    accounts = [one for one in members if not one.user and one.account != ROOT]
    users = [one for one in members if one.user]
    of = f"cluster={_word(cluster)} set fairshare"
    found = [f"sacctmgr -i modify account where name={_word(one.account)} {of}={_share(one)}"
             for one in _parents_first(accounts)]  # fmt: skip
    for one in sorted(users, key=lambda one: (one.account, names[one.user], one.partition)):
        where = f"name={_word(names[one.user])} account={_word(one.account)} cluster={_word(cluster)}"
        partition = f" partition={_word(one.partition)}" if one.partition else ""
        found.append(f"sacctmgr -i modify user where {where}{partition} set fairshare={_share(one)}")
    return found


def _share(one: Member) -> str:
    return "parent" if one.shares is None else str(one.shares)


def _word(text: str) -> str:
    return shlex.quote(text)


def _parents_first(accounts: Sequence[Member]) -> list[Member]:
    parents = {one.account: one.parent for one in accounts}

    def way(one: Member) -> list[str]:
        found = [one.account]
        while (above := parents.get(found[0])) and above not in found:
            found.insert(0, above)
        return found

    return sorted(accounts, key=way)
