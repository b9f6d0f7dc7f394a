"""import: sacct text to a finished usage report, end to end, against COPY of the same log rows."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management import call_command

from bench import data
from bench.base import Measured, empty_log, empty_tables, median, own_database, seconds, settle
from bench.ingest import _copy, _stored_rows
from events import projector
from events.actions import declare_site
from events.types.clusters import SiteDeclared


def run(*, quick: bool) -> Measured:
    """100,000 jobs (quick: 3,000)."""
    count, repeats = (3_000, 1) if quick else (100_000, 3)
    with own_database(), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sacct.txt"
        file.write_text("".join(lines(count)))
        tenth = Path(folder) / "tenth.txt"
        tenth.write_text("".join(lines(count // 10)))
        declared = seconds(lambda: _imported(tenth))
        short = [_imported(tenth) for _ in range(repeats)]
        totals: list[float] = []
        copies: list[float] = []
        for _ in range(repeats):
            totals.append(_imported(file))
            copies.append(_copy(_stored_rows()))
        parts = [_imported_parts(file)]
    runs = [copy / total for copy, total in zip(copies, totals, strict=True)]
    figures = {
        "jobs": count,
        "jobs_per_s": count / median(totals),
        "intake_jobs_per_s": count / median([part["intake"] for part in parts]),
        "project_jobs_per_s": count / median([part["project"] for part in parts]),
        "report_s": median([part["report"] for part in parts]),
        "copy_jobs_per_s": count / median(copies),
        f"jobs_per_s_at_{count // 10}": count / 10 / median(short),
        "growth": median(short) * 10 / median(totals),
        "first_run_s": declared,
    }
    return Measured("import", median(runs), figures, runs)


def _imported(file: Path) -> float:
    """Seconds of the command as people run it (it projects ahead in a second process) and of the report."""
    _emptied()
    with redirect_stdout(io.StringIO()):
        return seconds(lambda: _command("import_sacct", str(file))) + seconds(_report)


def _emptied() -> None:
    empty_log()
    empty_tables([model._meta.db_table for group in projector.groups() for model in group.tables])
    declare_site(SiteDeclared(name="Bench", timezone="Europe/Berlin", currency="EUR"), actor="bench")
    settle()


def _imported_parts(file: Path) -> dict[str, float]:
    """Seconds of intake, projection and report one after the other, in one process."""
    _emptied()
    with redirect_stdout(io.StringIO()):
        return {
            "intake": seconds(lambda: _command("import_sacct", str(file), no_project=True)),
            "project": seconds(projector.catch_up),
            "report": seconds(_report),
        }


def _command(name: str, *args: str, **options: Any) -> None:
    if name == "import_sacct":
        options |= {"cluster": "pod-a", "timezone": "UTC"}
    call_command(name, *args, stdout=io.StringIO(), **options)


def _report() -> None:
    out = io.StringIO()
    call_command(
        "report", "usage", stdout=out, start="2026-01-01", end="2026-07-01", group_by="project,month", format="json"
    )
    if '"gpu_seconds"' not in out.getvalue():
        raise RuntimeError("the report is empty")


def lines(count: int) -> Iterator[str]:
    """The 26-column form of sacct -P without a header."""
    for number, job in enumerate(data.jobs(count, seed=11)):
        gpus, cpus, nodes = job["gpus"], job["cpus"], job["nodes"]
        tres = f"billing={cpus},cpu={cpus},gres/gpu:h100={gpus},gres/gpu={gpus},mem={gpus * 100}G,node={nodes}"
        spent = job["end"] - job["start"]
        yield "|".join((
            job["job_id"], job["job_id"], "pod-a", job["partition"], job["qos"], job["account"], job["account"],
            "1200", job["user"], str(5000 + number % 300), _local(job["submit"]), _local(job["eligible"]),
            _local(job["start"]), _local(job["end"]), _elapsed(spent), "0:0", _state(job["state"], number),
            str(nodes), str(cpus), str(cpus), f"{gpus * 100}G", tres, tres, "1-00:00:00", job["node_list"],
            job.get("name", "train.sh"),
        )) + "\n"  # fmt: skip


def _local(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _elapsed(spent: int) -> str:
    days, rest = divmod(spent, 86_400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def _state(state: str, number: int) -> str:
    return f"CANCELLED by {5000 + number % 300}" if state == "CANCELLED" else state
