"""Whether what Hallbook showed of a rig's jobs is what Slurm says, and how soon it was."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tests.rigs.slurm_rig import Attempt, Record, Rig, attempts_of
from tests.rigs.watching import Shown, Watch

__all__ = ["Stop", "Verdict", "judge"]

SOON: Final = 2.0
"""Seconds after a job's end within which it must be right.

Slurm tells whole seconds: a job that ended "at 5" did so before 6, so the count begins at 6. What is printed is the
plain difference, and the figures also say how many were within SOON of it.
"""
History = list[tuple[float, Shown]]


class Stop(NamedTuple):
    """Hallbook was stopped, started again, and answered again; epoch seconds."""

    gone: float
    started: float
    ready: float


@dataclass(slots=True)
class Line:
    """One attempt of the rig, or a job that never started. late: seconds from the second of its end to being right.

    away: Hallbook was stopped when it ended or within SOON before; then late counts from its new start.
    """

    label: str
    job_id: str
    state: str
    end: int
    gpu_seconds: int
    late: float | None = None
    away: bool = False
    wrong: str = ""
    told: float = 0.0

    @property
    def slow(self) -> bool:
        """Not right soon enough, although Hallbook was there."""
        return self.end > 0 and not self.away and (self.late is None or self.late > SOON + 1)


@dataclass
class Verdict:
    """All lines, what differs between reports, and the figures."""

    lines: list[Line]
    differing: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Everything is so."""
        return not self.differing and not any(line.wrong or line.slow for line in self.lines)

    def table(self) -> str:
        """One line each, the slow and the wrong ones marked."""
        rows = [f"{'job':>6}  {'label':<18} {'state':<12} {'GPU-s':>7} {'right after':>11}"]
        for line in self.lines:
            late = "" if line.late is None else f"{line.late:.2f} s"
            mark = ["WRONG " + line.wrong] * bool(line.wrong) + ["SLOW"] * line.slow + ["(was away)"] * line.away
            rows.append(
                f"{line.job_id:>6}  {line.label[:18]:<18} {line.state:<12} {line.gpu_seconds:>7} {late:>11} "
                f"{' '.join(mark)}".rstrip()
            )
        return "\n".join([*rows, *(f"DIFFERS {text}" for text in self.differing)])


def judge(
    rig: Rig,
    watch: Watch,
    records: Sequence[Record],
    attempts: Mapping[str, Shown],
    jobs: Mapping[str, Shown],
    stops: Sequence[Stop],
) -> Verdict:
    """Compare the rig's records with what is shown now, and with when it was shown first."""
    labels = rig.labels()
    lines = [
        line
        for job_id, expected in attempts_of(records).items()
        for line in _of_job(labels.get(job_id, ""), job_id, expected, attempts, watch, stops)
    ]
    lines += _never_started(labels, records, jobs, watch, stops)
    differing = [*_unknown(records, jobs), *_sreport(rig, watch, records)]
    return Verdict(lines, differing, _figures(lines, records, attempts, differing, watch, stops))


def _of_job(
    label: str, job_id: str, expected: Sequence[Attempt], attempts: Mapping[str, Shown], watch: Watch,
    stops: Sequence[Stop],
) -> Iterable[Line]:  # fmt: skip
    found = sorted(((one.start, key) for key, one in attempts.items() if one.job_id == job_id), key=lambda pair: pair)
    for number, one in enumerate(expected):
        line = Line(label, job_id, one.state, one.end, one.gpu_seconds, told=one.told - one.end)
        wanted = Shown(job_id, one.state, one.start, one.end, one.gpu_seconds)
        shown = attempts[found[number][1]] if number < len(found) else None
        if shown != wanted:
            line.wrong = f"shown {_text(shown)}, Slurm says {_text(wanted)}"
        elif one.end:
            _time(line, watch.attempts.get(found[number][1], []), wanted, stops)
        yield line
    for _, key in found[len(expected) :]:
        shown = attempts[key]
        yield Line(label, job_id, shown.state, 0, 0, wrong=f"Slurm knows no such attempt: {_text(shown)}")


def _never_started(
    labels: Mapping[str, str], records: Sequence[Record], jobs: Mapping[str, Shown], watch: Watch,
    stops: Sequence[Stop],
) -> Iterable[Line]:  # fmt: skip
    last = {record.job_id: record for record in records}
    by_id = {shown.job_id: key for key, shown in jobs.items()}
    for job_id, record in last.items():
        key = by_id.get(job_id)
        if record.start or key is None:
            continue
        line = Line(labels.get(job_id, ""), job_id, record.state, record.end, 0)
        shown = jobs[key]
        if (shown.state, shown.end) != (record.state, record.end) and record.end:
            line.wrong = f"shown {_text(shown)}, Slurm says {record.state} at {record.end}"
        elif record.end:
            _time(line, watch.jobs.get(key, []), shown, stops)
        yield line


def _time(line: Line, history: History, wanted: Shown, stops: Sequence[Stop]) -> None:
    """Since when it has been right without a break, counted from its end, or from when Hallbook was back."""
    since = None
    for at, shown in history:
        since = (since or at) if shown == wanted else None
    away = [stop.started for stop in stops if stop.gone - SOON - 1 <= line.end <= stop.ready]
    line.away = bool(away)
    line.late = None if since is None else since - (max(away) if away else line.end)


def _text(shown: Shown | None) -> str:
    if shown is None:
        return "nothing"
    end = f"{shown.end - shown.start} s" if shown.end else "no end"
    return f"{shown.state} from {datetime.fromtimestamp(shown.start, UTC):%H:%M:%S}, {end}, {shown.gpu_seconds} GPU-s"


def _unknown(records: Sequence[Record], jobs: Mapping[str, Shown]) -> list[str]:
    known, expected = {shown.job_id for shown in jobs.values()}, {record.job_id for record in records}
    return [f"job {job_id} of the rig is not shown" for job_id in sorted(expected - known, key=int)]


def _sreport(rig: Rig, watch: Watch, records: Sequence[Record]) -> list[str]:
    """GPU-seconds by account and user in the rolled-up hour, against the report `usage` of the same hour.

    What the records of a resized job count twice is taken off; apart from it they may differ by a second of each
    job at an edge of the hour.
    """
    start, end = rig.midnight - 3600, rig.midnight
    ours, theirs = _usage(watch, start, end), rig.sreport()
    table = _of_table(records, start, end)
    twice = _twice(records, start, end)
    edges = _edges(records, start, end)
    found = []
    for key in sorted(set(ours) | set(theirs)):
        one, other = ours.get(key, 0), theirs.get(key, 0) - twice.get(key, 0)
        if abs(one - other) > edges[key]:
            own = table[key] - twice.get(key, 0)
            found.append(
                f"{'/'.join(key)}: usage {one} GPU-s, sreport {other} (at most {edges[key]} apart), Slurm's own "
                f"job table {own}"
            )
    return found


def _of_table(records: Sequence[Record], start: int, end: int) -> dict[tuple[str, str], int]:
    """GPU-seconds inside the hour by Slurm's job table, as sreport should have them."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for one in records:
        if one.start:
            found[one.account, one.user] += max(0, min(one.end or end, end) - max(one.start, start)) * one.gpus
    return found


def _edges(records: Sequence[Record], start: int, end: int) -> dict[tuple[str, str], int]:
    """One second of the GPUs of each record at an edge of the hour."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for one in records:
        last = one.end or end
        if one.start and (one.start <= end <= last + 1 or one.start - 1 <= start <= last):
            found[one.account, one.user] += one.gpus
    return found


def _twice(records: Sequence[Record], start: int, end: int) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = defaultdict(int)
    for expected in attempts_of(records).values():
        for one in expected:
            if one.overlap and start <= one.start and one.end <= end:
                found[one.account, one.user] += one.overlap
    return found


def _usage(watch: Watch, start: int, end: int) -> dict[tuple[str, str], int]:
    first, last = (f"{datetime.fromtimestamp(at, UTC):%FT%TZ}" for at in (start, end))
    answer = watch.get(f"/api/v1/reports/usage?from={first}&to={last}&group_by=account,user")
    return {(row["account"], row["user"]): row["gpu_seconds"] for row in answer["rows"] if row["gpu_seconds"]}


def _figures(
    lines: Sequence[Line], records: Sequence[Record], attempts: Mapping[str, Shown], differing: Sequence[str],
    watch: Watch, stops: Sequence[Stop],
) -> dict[str, Any]:  # fmt: skip
    late = sorted(line.late for line in lines if line.late is not None and not line.away)
    caught = [line.late for line in lines if line.late is not None and line.away]
    return {
        "name": "slurm_live",
        "jobs": len({record.job_id for record in records}),
        "records": len(records),
        "attempts_ended": sum(1 for line in lines if line.end),
        "right_within_2s": sum(1 for line in lines if line.end and not line.away and not line.slow),
        "right_within_2s_of_the_second": sum(1 for each in late if each <= SOON),
        "slow": sum(1 for line in lines if line.slow),
        "wrong": sum(1 for line in lines if line.wrong),
        "gpu_seconds": sum(shown.gpu_seconds for shown in attempts.values()),
        "gpu_seconds_of_slurm": sum(one.gpu_seconds for each in attempts_of(records).values() for one in each),
        "late_p50_s": round(statistics.median(late), 2) if late else None,
        "late_p95_s": round(late[len(late) * 95 // 100], 2) if late else None,
        "late_most_s": round(late[-1], 2) if late else None,
        "ended_while_away": sum(1 for line in lines if line.away and line.end),
        "caught_up_s": round(max(caught), 2) if caught else None,
        "sreport_differs": sum(1 for text in differing if "sreport" in text),
        "stopped_s": round(sum(stop.started - stop.gone for stop in stops), 1),
        "start_s": round(sum(stop.ready - stop.started for stop in stops), 1),
        "looks": watch.looks,
        "load": round(os.getloadavg()[0], 1),
    }
