"""Dated dimensions of use: which project an account belonged to, and where projects hung in the tree.

Pure rules: from the declared facts to intervals of days [from_day, to_day) at the site's midnights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

FIRST_DAY: Final = date(1, 1, 1)
"""From the beginning of time."""
LAST_DAY: Final = date(9999, 12, 31)
"""For ever."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value that held on the days [from_day, to_day)."""

    from_day: date
    to_day: date
    value: str | None


def intervals(points: Iterable[tuple[date, int, str | None]]) -> list[Interval]:
    """Values by day from points (from_day, position, value).

    Of two points with one day the later position wins; an earlier day is fitted in before the days after it.
    Neighbours with the same value are joined.
    """
    latest: dict[date, tuple[int, str | None]] = {}
    for day, position, value in points:
        if day not in latest or latest[day][0] < position:
            latest[day] = (position, value)
    days = sorted(latest)
    out: list[Interval] = []
    for index, day in enumerate(days):
        until = days[index + 1] if index + 1 < len(days) else LAST_DAY
        value = latest[day][1]
        if out and out[-1].value == value:
            out[-1] = Interval(out[-1].from_day, until, value)
        else:
            out.append(Interval(day, until, value))
    return out


def paths(parents: Mapping[str, Sequence[Interval]]) -> dict[str, list[tuple[date, date, tuple[str, ...]]]]:
    """Dated paths of every project: (from_day, to_day, ancestors from the root with itself last).

    parents: project -> dated parents. A circle is cut where it closes: the project met again ends the path.
    """
    days = sorted({FIRST_DAY} | {part.from_day for parts in parents.values() for part in parts})
    result: dict[str, list[tuple[date, date, tuple[str, ...]]]] = {}
    for project in parents:
        pieces: list[tuple[date, date, tuple[str, ...]]] = []
        for index, day in enumerate(days):
            until = days[index + 1] if index + 1 < len(days) else LAST_DAY
            path = _path(project, day, parents)
            if pieces and pieces[-1][2] == path:
                pieces[-1] = (pieces[-1][0], until, path)
            else:
                pieces.append((day, until, path))
        result[project] = pieces
    return result


def _path(project: str, day: date, parents: Mapping[str, Sequence[Interval]]) -> tuple[str, ...]:
    path = [project]
    while (above := _at(parents.get(path[0], ()), day)) and above not in path:
        path.insert(0, above)
    return tuple(path)


def _at(parts: Sequence[Interval], day: date) -> str | None:
    return next((part.value for part in parts if part.from_day <= day < part.to_day), None)
