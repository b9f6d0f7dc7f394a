"""What the import commands share: each file on its own, a progress bar, counts, and how an unreadable file ends."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from events.adapters import Draft, Refusal
from events.adapters.textfiles import TextFile, TooLong, Unreadable, open_text
from events.intake import Counts, Result, Voice, admit, now_us, sift
from events.management.ahead import Ahead

BATCH: Final = 5000
BATCH_CHARACTERS: Final = 8_000_000
"""Refused records are kept as they came: a batch ends early when they are long."""
SHOWN: Final = 5
"""Refused records of a file that are shown at once; all are kept."""
Lines = Iterator[tuple[int, str | TooLong]]


class ImportCommand(BaseCommand):
    """Base of the import commands. A subclass turns an opened file into records.

    unit: what the place of a record counts, for messages.
    """

    unit = "line"

    def add_arguments(self, parser: CommandParser) -> None:
        """Options of every import."""
        parser.add_argument("files", nargs="+", metavar="FILE", help="a file, also gzipped; - is standard input")
        parser.add_argument("--no-project", action="store_true", help="leave projecting to the worker")

    def records(self, text: TextFile, options: dict[str, Any]) -> tuple[str, Iterable[Draft | Refusal]]:
        """Source of the records and the records of one file. Raises Unreadable before anything is kept."""
        raise NotImplementedError

    def after(self, name: str) -> None:
        """Called when a file is done."""

    def handle(self, *_args: Any, **options: Any) -> None:
        """Import each file; unreadable ones are told at the end with exit 2, the others are kept."""
        unreadable: list[str] = []
        self._ahead = Ahead(wanted=not options["no_project"])
        for name in options["files"]:
            try:
                self._file(name, options)
            except Unreadable as error:
                unreadable.append(str(error) if str(error).startswith(name) else f"{name}: {error}")
        self._ahead.finish()
        if unreadable:
            raise CommandError("\n".join(unreadable), returncode=2)

    def _file(self, name: str, options: dict[str, Any]) -> None:
        counts = Counts()
        refused: list[Result] = []
        with open_text(name) as text:
            source, records = self.records(text, options)
            voice = Voice(source, self.command_name, name)
            with _bar(text) as bar:
                for batch in _batches(records):
                    results = [result for _, result in admit(*sift(batch, voice, now_us()))]
                    counts.add(results)
                    refused += [item for item in results if item.status == "rejected"][: SHOWN - len(refused)]
                    self._ahead.after(len(batch))
                    bar.update(text.bytes_read - bar.n)
        self._tell(name, counts, refused)
        self.after(name)

    @property
    def command_name(self) -> str:
        """Name of the command, which is the actor of its events."""
        return type(self).__module__.rpartition(".")[2]

    def _tell(self, name: str, counts: Counts, refused: list[Result]) -> None:
        reasons = ", ".join(f"{code} {count}" for code, count in sorted(counts.reasons.items()))
        self.stdout.write(
            f"{name}: {counts.accepted} accepted, {counts.duplicate} duplicate, {counts.rejected} rejected"
            + (f" ({reasons})" if reasons else "")
        )
        for item in refused:
            field = f", {item.pointer}" if item.pointer and not item.text.startswith(item.pointer) else ""
            self.stderr.write(f"  {self.unit} {item.index}{field}: {item.text}")
        if counts.rejected > len(refused):
            self.stderr.write(f"  and {counts.rejected - len(refused)} more")
        if refused:
            self.stderr.write("  all of them with what was sent: GET /api/v1/rejections")


def _batches(records: Iterable[Draft | Refusal]) -> Iterator[list[Draft | Refusal]]:
    """Records in batches, bounded by number and by the length of what is refused."""
    batch: list[Draft | Refusal] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.payload) if isinstance(record, Refusal) else 0
        if len(batch) == BATCH or size > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def first_line(text: TextFile) -> tuple[str, Lines]:
    """The first line that is not blank, and all lines from it on. Raises Unreadable when there is none."""
    lines = text.lines()
    for number, line in lines:
        if isinstance(line, TooLong):
            raise Unreadable(f"{text.name}: its first line is over 1 MiB, so it is no text of records")
        if line.strip():
            return line, chain([(number, line)], lines)
    raise Unreadable(f"{text.name}: no line in it")


def _bar(text: TextFile) -> Any:
    return tqdm(
        total=text.size, unit="B", unit_scale=True, desc=text.name, leave=False, disable=not sys.stderr.isatty()
    )
