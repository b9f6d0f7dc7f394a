"""What a token may do: the one list of scopes, and what each brings along."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["ADMIN", "EVENTS_WRITE", "LOG_READ", "MONEY_READ", "READ", "RUNS_WRITE", "SCOPES", "granted"]

EVENTS_WRITE: Final = "events:write"
READ: Final = "read"
MONEY_READ: Final = "money:read"
LOG_READ: Final = "log:read"
RUNS_WRITE: Final = "runs:write"
ADMIN: Final = "admin"

SCOPES: Final = {
    EVENTS_WRITE: "send events",
    READ: "read jobs, attempts, projects, accounts, clusters and reports of use",
    MONEY_READ: "read, with prices and costs",
    RUNS_WRITE: "read, and close runs so that their names can be used again",
    LOG_READ: "read, with the raw log, deliveries and rejections (not together with a project)",
    ADMIN: "everything, and settle rejections and manage tokens (not together with a project)",
}
_BRINGS: Final = {MONEY_READ: {READ}, LOG_READ: {READ}, RUNS_WRITE: {READ}, ADMIN: set(SCOPES)}


def granted(scopes: Iterable[str]) -> frozenset[str]:
    """The given scopes and all that they bring along."""
    held = set(scopes)
    return frozenset(held.union(*(_BRINGS.get(scope, set()) for scope in held)))
