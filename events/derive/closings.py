"""Which closings of a run's name stand (pure)."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["standing_closings"]


def standing_closings(said: Iterable[tuple[str, int, str]]) -> list[tuple[int, str]]:
    """When runs of one name were closed (epoch seconds) and by whom, as far as nobody took it back; ascending.

    said: type, the closing it is about, and the actor of everything said of the name, in the order of the log: of one
    second the later word holds, so that what was taken back can be said again. Two closings in one second are one, of
    whoever said it first.
    """
    closed: dict[int, str] = {}
    for type_, closed_s, actor in said:
        if type_ == "run.closed":
            closed.setdefault(closed_s, actor)
        else:
            closed.pop(closed_s, None)
    return sorted(closed.items())
