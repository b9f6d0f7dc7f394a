"""`manage.py import_sacct FILE... --cluster NAME --timezone ZONE`: accounting records of Slurm become events.

With `--json` the files are what `sacct --json` or slurmrestd gives; its times are epoch seconds and need no zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import CommandError, CommandParser

from events.actions import declare_cluster
from events.adapters import Draft, Refusal
from events.adapters.sacct import open_sacct
from events.adapters.sacct_values import Bad
from events.adapters.slurm_json import Jobs
from events.adapters.slurm_stream import read_jobs
from events.adapters.textfiles import TextFile
from events.management.importing import ImportCommand, first_line
from events.types.jobs import JobReported


class Command(ImportCommand):
    """Import sacct text or JSON, streamed."""

    help = (
        "Import `sacct -P` text (with header, or the 26-column form without), or with --json the JSON of sacct or "
        "slurmrestd: a record becomes an event, a duplicate or a Rejection. Run sacct with -D, or requeued runs "
        "are missing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Options."""
        super().add_arguments(parser)
        parser.add_argument("--cluster", required=True, help="the cluster's name; declared when it is new")
        parser.add_argument("--timezone", metavar="ZONE", help="zone of the local times of text (Europe/Berlin)")
        parser.add_argument("--delimiter", default="|", help="as given to sacct --delimiter (default |)")
        parser.add_argument("--json", action="store_true", help="the files are JSON of sacct --json or slurmrestd")

    def records(self, text: TextFile, options: dict[str, Any]) -> tuple[str, Iterable[Draft | Refusal]]:
        """The records of one file; the cluster is declared once the file is known to be sacct's."""
        cluster = options["cluster"]
        found = self._json(text, cluster) if options["json"] else self._text(text, options)
        declare_cluster(cluster, actor=self.command_name)
        self.doubt = Doubt()
        return f"sacct:{cluster}", self.doubt.watch(found)

    def _text(self, text: TextFile, options: dict[str, Any]) -> Iterable[Draft | Refusal]:
        first, lines = first_line(text)
        zone, delimiter = _zone(options["timezone"]), _delimiter(options["delimiter"])
        try:
            reader = open_sacct(first, cluster=options["cluster"], zone=zone, delimiter=delimiter)
        except ValueError as error:
            raise CommandError(f"--cluster or --delimiter: {error}", returncode=2) from None
        return (record for number, line in lines if (record := reader.read(number, line)) is not None)

    def _json(self, text: TextFile, cluster: str) -> Iterable[Draft | Refusal]:
        self.unit = "job"
        if not cluster:
            raise CommandError("--cluster: empty; give the cluster's name", returncode=2)
        try:
            return read_jobs(text.blocks(), Jobs("sacct", cluster))
        except Bad as bad:
            raise CommandError(f"--cluster: {bad.text}", returncode=2) from None

    def after(self, name: str) -> None:
        """Warn when the file shows that it lacks records."""
        if resized := self.doubt.resized():
            self.stderr.write(
                f"{name}: {resized} jobs were submitted after they started and their earlier records are not here: "
                "sacct was run without -D (--duplicates), so what requeued and resized jobs used before is missing"
            )


class Doubt:
    """Looks for signs that sacct was run without -D: a resized job whose earlier record is not in the file."""

    def __init__(self) -> None:
        self._later: set[str] = set()
        self._earlier: set[str] = set()

    def watch(self, records: Iterable[Draft | Refusal]) -> Iterator[Draft | Refusal]:
        """Pass records on, looking at each."""
        for record in records:
            data = getattr(record, "data", None)
            if isinstance(data, JobReported) and data.start is not None:
                if data.state == "RESIZING":
                    self._earlier.add(data.job_id)
                elif data.submit is not None and data.submit > data.start:
                    self._later.add(data.job_id)
            yield record

    def resized(self) -> int:
        """How many jobs lack an earlier record."""
        return len(self._later - self._earlier)


def _zone(name: str | None) -> ZoneInfo:
    if name is None:
        raise CommandError("--timezone: sacct's text needs the zone of its times (such as Europe/Berlin)", returncode=2)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CommandError(
            f"--timezone {name}: not in the tz database (such as Europe/Berlin or UTC)", returncode=2
        ) from None


def _delimiter(text: str) -> str:
    """The delimiter itself; `\\x1f`, `\\037`, `\\t` and 0x1f are read as the shell's $'...' would give them."""
    try:
        if text.lower().startswith("0x"):
            return chr(int(text, 16))
        if len(text) > 1 and text.startswith("\\"):
            return text.encode("ascii").decode("unicode_escape")
    except ValueError:
        raise CommandError(f"--delimiter {text}: not a character", returncode=2) from None
    if not text:
        raise CommandError("--delimiter: empty; give the character that sacct was given", returncode=2)
    return text
