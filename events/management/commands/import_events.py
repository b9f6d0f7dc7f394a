"""`manage.py import_events FILE...`: lines of CloudEvents become events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from events.adapters import Draft, Refusal, cloudevents
from events.adapters.textfiles import TextFile, TooLong, Unreadable
from events.management.importing import ImportCommand, Lines, first_line
from events.validate import refusal


class Command(ImportCommand):
    """Import NDJSON CloudEvents, streamed."""

    help = "Import NDJSON CloudEvents (one JSON object a line): a line becomes an event, a duplicate or a Rejection."

    def records(self, text: TextFile, options: dict[str, Any]) -> tuple[str, Iterable[Draft | Refusal]]:
        """Each line as a structured CloudEvent; each names its own source."""
        del options  # nothing to choose
        first, lines = first_line(text)
        if not first.lstrip().startswith("{"):
            raise Unreadable(f"{text.name}: its first line is no JSON object; expected one CloudEvent a line (NDJSON)")
        return "import_events", _drafts(lines)


def _drafts(lines: Lines) -> Iterator[Draft | Refusal]:
    for number, line in lines:
        if isinstance(line, TooLong):
            yield refusal(number, "", "too_long", f"line of {line.size} characters; at most 1 MiB is read", line.head)
        elif line.strip():
            yield cloudevents.sole(line.encode(), number)
