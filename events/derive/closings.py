"""Which closings of a run's name stand (pure)."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["standing_closings"]


def standing_closings(said: Iterable[tuple[str, int, str]]) -> list[tuple[int, str]]:
    """When runs of one name were closed (epoch seconds) and by whom, as far as nobody took it back; ascending.

    said: type, the closing it is about, and the actor of everything said of the name, the first of equal ones first.
    Two closings in one second are one.
    """
    closed: dict[int, str] = {}
    undone: set[int] = set()
    for type_, closed_s, actor in said:
        if type_ == "run.closed":
            closed.setdefault(closed_s, actor)
        else:
            undone.add(closed_s)
    return sorted((at, by) for at, by in closed.items() if at not in undone)
