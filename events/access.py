"""What a caller may see: every query asks for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the books a caller may see.

    projects: codes of the projects (and what hangs below them) it may see; None means all.
    money: may see prices and costs. fleetwide: may see the raw log, deliveries and rejections.
    """

    projects: frozenset[str] | None = None
    money: bool = True
    fleetwide: bool = True

    @classmethod
    def everything(cls) -> Scope:
        """The scope of the command line, of auditors and of admins."""
        return cls()

    @classmethod
    def only(cls, projects: frozenset[str] | set[str], *, money: bool = True) -> Scope:
        """A scope of some projects: their use and, with `money`, their cost; nothing of the raw log."""
        return cls(frozenset(projects), money, False)


class Forbidden(PermissionError):
    """The caller's scope does not reach what it asks for."""
